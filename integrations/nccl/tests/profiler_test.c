// Drives the profiler plugin as NCCL does: profiler_test PLUGIN VERSION LAW. What it wrote is judged by who started
// this.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../abi/profiler_abi.h"

static int version;
static const Profiler4* four;
static const Profiler5* five;

static void* open_comm(const char* name, uint64_t hash, int ranks, int rank, int* mask) {
  void* context = NULL;
  const int failed = version == 4 ? four->init(&context, mask, name, hash, ranks, ranks, rank, NULL)
                                  : five->init(&context, hash, mask, name, ranks, ranks, rank, NULL);
  if (failed) fprintf(stderr, "init returned %d\n", failed), exit(1);
  return context;
}

static void* start(void* context, const ProfiledEvent5* event) {
  void* handle = NULL;
  if (version == 5) return five->start_event(context, &handle, (ProfiledEvent5*)event), handle;
  ProfiledEvent4 old = {.type = (uint8_t)event->type, .parent = event->parent, .rank = event->rank};
  memcpy(&old.coll, &event->coll, sizeof old.coll);
  four->start_event(context, &handle, &old);
  return handle;
}

static void stop(void* handle) { version == 4 ? four->stop_event(handle) : five->stop_event(handle); }
static void state(void* handle, int what, size_t value) {
  ProfiledState arguments = {.step_bytes = value};
  version == 4 ? four->record_state(handle, what, &arguments) : five->record_state(handle, what, &arguments);
}
static void finalize(void* context) { version == 4 ? four->finalize(context) : five->finalize(context); }

static void* start_coll(void* context, size_t count, uint64_t sequence) {
  ProfiledEvent5 event = {.type = PROFILE_COLL, .rank = 1};
  event.coll = (ProfiledColl){.sequence = sequence,
                              .function = "AllReduce",
                              .count = count,
                              .datatype = "ncclFloat32",
                              .channels = 2,
                              .warps = 17,
                              .algorithm = "RING",
                              .protocol = "SIMPLE"};
  return start(context, &event);
}

static void* start_proxy(void* context, void* parent, int peer, pid_t process) {
  ProfiledEvent5 event = {.type = PROFILE_PROXY_OP, .parent = parent, .rank = 1};
  event.proxy_op =
      (ProfiledProxyOp){.process = process, .channel = 1, .peer = peer, .steps = 2, .chunk_size = 4096, .is_send = 1};
  return start(context, &event);
}

static void* start_step(void* context, void* parent, int number) {
  ProfiledEvent5 event = {.type = PROFILE_PROXY_STEP, .parent = parent, .rank = 1};
  event.proxy_step.step = number;
  return start(context, &event);
}

static void run_steps(void* context, void* operation, size_t bytes) {
  for (int i = 0; i < 2; ++i) {
    void* step = start_step(context, operation, i);
    state(step, 8, 999);  // waits for the GPU: no bytes yet
    state(step, STATE_SEND_WAIT, bytes);
    stop(step);
  }
}

// A collective with two operations and a kernel, a message, and what a plugin must survive.
static void events(void) {
  int mask;
  void* context = open_comm("data \"parallel\"\n", 0xabcdef0123456789u, 8, 1, &mask);
  printf("mask %d\n", mask);
  void* coll = start_coll(context, 1000, 7);
  stop(coll);  // only says that it was queued
  void* operation = start_proxy(context, coll, 4, getpid());
  void* foreign = start_proxy(context, coll, 5, getpid() + 1);  // of another process: its parent is not ours
  ProfiledEvent5 kernel = {.type = PROFILE_KERNEL_CHANNEL, .parent = coll, .rank = 1};
  kernel.kernel_channel = (ProfiledKernelChannel){.channel = 1, .timer = 100};
  void* ran = start(context, &kernel);
  run_steps(context, operation, 500);
  run_steps(context, foreign, 0);
  void* late = start_step(context, operation, 3);
  state(ran, STATE_KERNEL_STOP, 300);
  stop(ran);
  stop(operation);
  stop(foreign);
  state(late, STATE_SEND_WAIT, 7);  // the operation has ended
  stop(late);
  stop(operation);  // twice
  stop(NULL);
  state(NULL, STATE_SEND_WAIT, 1);
  ProfiledEvent5 message = {.type = PROFILE_P2P, .rank = 1};
  message.p2p = (ProfiledP2p){.function = "Send", .datatype = "ncclFloat8e4m3", .count = 64, .peer = 3, .channels = 1};
  stop(start(context, &message));
  ProfiledEvent5 unknown = {.type = 1 << 5, .rank = 1};
  stop(start(context, &unknown));
  void* open = start_proxy(context, coll, 4, getpid());
  finalize(context);
  stop(open);
  stop(start_coll(context, 1, 8));  // after the end
  context = open_comm(NULL, 1, 2, 0, &mask);
  stop(start_coll(context, 2, 0));
  finalize(context);
}

enum { THREADS = 8, EACH = 1500 };
static void* shared;

static void* produce(void* argument) {
  for (int i = 0; i < EACH; ++i) {
    void* coll = start_coll(shared, 1000, (uint64_t)i);
    void* operation = start_proxy(shared, coll, 4, getpid());
    run_steps(shared, operation, 10);
    stop(operation);
    stop(coll);
  }
  return argument;
}

static void threads(void) {
  int mask;
  shared = open_comm("threads", 5, 8, 1, &mask);
  pthread_t thread[THREADS];
  for (int round = 0; round < 2; ++round) {  // the second uses the buffers of the first
    for (int i = 0; i < THREADS; ++i) pthread_create(&thread[i], NULL, produce, NULL);
    for (int i = 0; i < THREADS; ++i) pthread_join(thread[i], NULL);
  }
  finalize(shared);
}

static void full_disk(void) {
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
  threads();
}

// Ends without telling the plugin.
static void sudden_exit(void) {
  int mask;
  void* context = open_comm("exit", 6, 8, 1, &mask);
  stop(start_coll(context, 1000, 1));
}

// A rank of a job of two: two steps of an all-reduce and a message around the ring, for the example in examples/traces.
static void example(void) {
  const int rank = atoi(getenv("RANK"));
  int mask;
  void* context = open_comm("data parallel", 0xfeed, 2, rank, &mask);
  for (int step = 0; step < 2; ++step) {
    void* coll = start_coll(context, 1000, (uint64_t)step);
    stop(coll);
    void* operation = start_proxy(context, coll, 1 - rank, getpid());
    run_steps(context, operation, 2000);
    stop(operation);
    ProfiledEvent5 message = {.type = PROFILE_P2P, .rank = rank};
    message.p2p = (ProfiledP2p){.datatype = "ncclBfloat16", .count = 64, .peer = 1 - rank, .channels = 1};
    message.p2p.function = rank == 0 ? "Send" : "Recv";
    stop(start(context, &message));
  }
  finalize(context);
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    void (*law)(void);
  } laws[] = {{"events", events},
              {"threads", threads},
              {"full_disk", full_disk},
              {"sudden_exit", sudden_exit},
              {"example", example}};
  void* plugin = count == 4 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 2;
  version = atoi(arguments[2]);
  four = dlsym(plugin, "ncclProfiler_v4");
  five = dlsym(plugin, "ncclProfiler_v5");
  for (size_t i = 0; i < sizeof laws / sizeof *laws; ++i)
    if (!strcmp(arguments[3], laws[i].name)) laws[i].law();
  dlclose(plugin);
  return 0;
}
