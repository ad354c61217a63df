// Drives the profiler plugin as NCCL does: profiler_test PLUGIN VERSION LAW. What it wrote is judged by who started
// this.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/profiler_abi.h"

static int version;
static void* table;  // a Profiler1 to Profiler6
// Of the communicator that was opened last: up to version 3 they come with each call.
static const char* comm_name;
static uint64_t comm_hash;
static int comm_rank;

// Calls a function of the table that all versions have at the same place.
#define CALL(member, ...) (((Profiler6*)table)->member(__VA_ARGS__))

static void* open_comm(const char* name, uint64_t hash, int ranks, int rank, int* mask) {
  void* context = NULL;
  int failed;
  comm_name = name, comm_hash = hash, comm_rank = rank;
  if (version <= 3)
    failed = ((Profiler1*)table)->init(&context, mask);
  else if (version == 4)
    failed = ((Profiler4*)table)->init(&context, mask, name, hash, ranks, ranks, rank, NULL);
  else
    failed = CALL(init, &context, hash, mask, name, ranks, ranks, rank, NULL);
  if (failed) fprintf(stderr, "init returned %d\n", failed), exit(1);
  return context;
}

static uint8_t number_of(const char* const* names, const char* name) {
  uint8_t number = 0;
  while (names[number] && (!name || strcmp(names[number], name))) ++number;
  return number;
}

static void* start1(void* context, const ProfiledEvent6* event) {
  static const char* const functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv",
                                          "Send",      "Recv",   NULL};
  static const char* const types[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",   "ncclUint32",
                                      "ncclInt64",   "ncclUint64",   "ncclFloat16", "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16", NULL};
  static const char* const algorithms[] = {"TREE", "RING", NULL};
  static const char* const protocols[] = {"LL", "LL128", "SIMPLE", NULL};
  ProfiledEvent1 old = {.type = (uint8_t)event->type, .parent = event->parent, .rank = event->rank};
  void* handle = NULL;
  const ProfiledColl* c = &event->coll;
  const ProfiledP2p* p = &event->p2p;
  if (event->type == PROFILE_COLL)
    old.coll = (ProfiledColl1){.name = comm_name,
                               .hash = comm_hash,
                               .sequence = c->sequence,
                               .function = number_of(functions, c->function),
                               .count = c->count,
                               .root = c->root,
                               .datatype = number_of(types, c->datatype),
                               .traffic = 1,
                               .channels = c->channels,
                               .warps = c->warps,
                               .algorithm = number_of(algorithms, c->algorithm),
                               .protocol = number_of(protocols, c->protocol)};
  else if (event->type == PROFILE_P2P)
    old.p2p = (ProfiledP2p1){
        comm_name, comm_hash, number_of(functions, p->function), p->buffer, number_of(types, p->datatype),
        p->count,  p->peer};
  else
    memcpy(&old.proxy_op, &event->proxy_op, sizeof old.proxy_op);
  ((Profiler1*)table)->start_event(context, &handle, &old);
  return handle;
}

#define DEFINE_START(version, ...)                                                                                    \
  static void* start##version(void* context, const ProfiledEvent6* event) {                                           \
    ProfiledEvent##version old = {.type = (uint8_t)event->type, .parent = event->parent, .rank = event->rank};        \
    void* handle = NULL;                                                                                              \
    const ProfiledColl* c = &event->coll;                                                                             \
    const ProfiledP2p* p = &event->p2p;                                                                               \
    if (event->type == PROFILE_COLL)                                                                                  \
      old.coll = (ProfiledColl##version){comm_name,  comm_hash,    c->sequence, c->function, c->send,                 \
                                         c->receive, c->count,     c->root,     c->datatype, __VA_ARGS__ c->channels, \
                                         c->warps,   c->algorithm, c->protocol};                                      \
    else if (event->type == PROFILE_P2P)                                                                              \
      old.p2p = (ProfiledP2p2){comm_name, comm_hash, p->function, p->buffer, p->datatype, p->count, p->peer};         \
    else                                                                                                              \
      memcpy(&old.proxy_op, &event->proxy_op, sizeof old.proxy_op);                                                   \
    ((Profiler##version*)table)->start_event(context, &handle, &old);                                                 \
    return handle;                                                                                                    \
  }
DEFINE_START(2, 1, )
DEFINE_START(3, )

static void* start4(void* context, const ProfiledEvent6* event) {
  ProfiledEvent4 old = {.type = (uint8_t)event->type, .parent = event->parent, .rank = event->rank};
  void* handle = NULL;
  memcpy(&old.coll, &event->coll, sizeof old.coll);
  ((Profiler4*)table)->start_event(context, &handle, &old);
  return handle;
}

static void* start5(void* context, const ProfiledEvent6* event) {
  void* handle = NULL;
  CALL(start_event, context, &handle, (ProfiledEvent6*)event);
  return handle;
}

static void* start(void* context, const ProfiledEvent6* event) {
  static void* (*const starts[])(void*, const ProfiledEvent6*) = {start1, start2, start3, start4, start5, start5};
  return starts[version - 1](context, event);
}

static void stop(void* handle) { CALL(stop_event, handle); }
static void finalize(void* context) { CALL(finalize, context); }

static void state(void* handle, int what, size_t value) {
  ProfiledState arguments = {.step_bytes = value};
  CALL(record_state, handle, what, &arguments);
}

// A state of an operation, up to version 3.
static void state_of_operation(void* handle, int what, size_t bytes, int steps) {
  ProfiledState1 arguments = {.proxy_op = {bytes, steps}};
  ((Profiler1*)table)->record_state(handle, what, &arguments);
}

static void* start_coll(void* context, size_t count, uint64_t sequence) {
  ProfiledEvent6 event = {.type = PROFILE_COLL, .rank = comm_rank};
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
  ProfiledEvent6 event = {.type = PROFILE_PROXY_OP, .parent = parent, .rank = comm_rank};
  event.proxy_op =
      (ProfiledProxyOp){.process = process, .channel = 1, .peer = peer, .steps = 2, .chunk_size = 4096, .is_send = 1};
  return start(context, &event);
}

static void* start_step(void* context, void* parent, int number) {
  ProfiledEvent6 event = {.type = PROFILE_PROXY_STEP, .parent = parent, .rank = comm_rank};
  event.proxy_step.step = number;
  return start(context, &event);
}

// Two steps of an operation. Up to version 3 the bytes are those of the operation so far, and a step has none.
static void run_steps(void* context, void* operation, size_t bytes) {
  for (int i = 0; i < 2; ++i) {
    void* step = start_step(context, operation, i);
    if (version <= 3) {
      CALL(record_state, step, STATE_SEND_WAIT, NULL);
      state_of_operation(operation, 2, bytes * (size_t)i, i);
      state_of_operation(operation, 3, bytes * (size_t)(i + 1), i + 1);
    } else {
      state(step, 8, 999);  // waits for the GPU: no bytes yet
      state(step, STATE_SEND_WAIT, bytes);
    }
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
  ProfiledEvent6 kernel = {.type = PROFILE_KERNEL_CHANNEL, .parent = coll, .rank = 1};
  kernel.kernel_channel = (ProfiledKernelChannel){.channel = 1, .timer = 100};
  void* ran = version >= 3 ? start(context, &kernel) : NULL;
  run_steps(context, operation, 500);
  run_steps(context, foreign, 0);
  void* late = start_step(context, operation, 3);
  if (version >= 4) state(ran, STATE_KERNEL_STOP, 300);
  stop(ran);
  stop(operation);
  stop(foreign);
  state(late, STATE_SEND_WAIT, 7);  // the operation has ended
  stop(late);
  stop(operation);  // twice
  stop(NULL);
  state(NULL, STATE_SEND_WAIT, 1);
  ProfiledEvent6 message = {.type = PROFILE_P2P, .rank = 1};
  message.p2p = (ProfiledP2p){.function = "Send", .datatype = "ncclBfloat16", .count = 64, .peer = 3, .channels = 1};
  stop(start(context, &message));
  ProfiledEvent6 unknown = {.type = 1 << 5, .rank = 1};
  stop(start(context, &unknown));
  ProfiledEvent6 copy = {.type = PROFILE_COPY_ENGINE_COLL, .rank = 1};
  copy.copy_engine_coll = (ProfiledCopyEngineColl){.function = "AllGather", .datatype = "ncclInt8", .count = 500};
  if (version >= 6) stop(start(context, &copy));
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

// More operations at once than there are slots.
static void slots(void) {
  enum { OPERATIONS = 10000 };
  static void* handle[OPERATIONS];
  int mask;
  void* context = open_comm("slots", 7, 8, 1, &mask);
  for (int i = 0; i < OPERATIONS; ++i) handle[i] = start_proxy(context, NULL, 4, getpid());
  for (int i = 0; i < OPERATIONS; ++i) stop(handle[i]);
  finalize(context);
}

// A file whose system does not answer, or takes nothing.
static atomic_bool hangs, takes_nothing;
__attribute__((visibility("default"))) ssize_t write(int file, const void* data, size_t size) {
  while (hangs && file > 2) pause();
  return takes_nothing && file > 2 ? 0 : syscall(SYS_write, file, data, size);
}

static void empty_write(void) {
  takes_nothing = true;
  threads();
}

static void hanging_write(void) {
  int mask;
  hangs = true;
  void* context = open_comm("hangs", 8, 8, 1, &mask);
  stop(start_coll(context, 1000, 1));
  finalize(context);
  context = open_comm("later", 9, 8, 1, &mask);
  printf("mask %d\n", mask);
  finalize(context);
}

// The job's threads block a signal that is sent to the process: the plugin's thread must not take it.
static void blocked_signal(void) {
  int mask;
  sigset_t one, pending;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  sigprocmask(SIG_BLOCK, &one, NULL);
  void* context = open_comm("signal", 10, 8, 1, &mask);
  kill(getpid(), SIGUSR1);
  finalize(context);
  sigpending(&pending);
  printf("pending %d\n", sigismember(&pending, SIGUSR1));
}

// Parent and child, one after the other.
static void forked(void) {
  int mask;
  finalize(open_comm("parent", 11, 8, 1, &mask));
  const pid_t child = fork();
  if (child) waitpid(child, NULL, 0);
  void* context = open_comm(child ? "parent" : "child", 12, 8, 1, &mask);
  stop(start_coll(context, 1000, 1));
  finalize(context);
}

static void file_limit(void) {
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
  threads();
}

// Ends without telling the plugin.
static void sudden_exit(void) {
  int mask;
  void* context = open_comm("exit", 6, 8, 1, &mask);
  stop(start_coll(context, 1000, 1));
}

// A rank of a job of two: steps of an all-reduce and a message.
static void run_job(int steps) {
  const int rank = atoi(getenv("RANK"));
  int mask;
  void* context = open_comm("data parallel", 0xfeed, 2, rank, &mask);
  for (int step = 0; step < steps; ++step) {
    void* coll = start_coll(context, 1000, (uint64_t)step);
    stop(coll);
    void* operation = start_proxy(context, coll, 1 - rank, getpid());
    run_steps(context, operation, 2000);
    stop(operation);
    ProfiledEvent6 message = {.type = PROFILE_P2P, .rank = rank};
    message.p2p = (ProfiledP2p){.datatype = "ncclBfloat16", .count = 64, .peer = 1 - rank, .channels = 1};
    message.p2p.function = rank == 0 ? "Send" : "Recv";
    stop(start(context, &message));
    if (steps > 2) usleep(200);
  }
  finalize(context);
}

static void example(void) { run_job(2); }        // that of examples/traces
static void endless(void) { run_job(1 << 30); }  // to be killed

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    void (*law)(void);
  } laws[] = {{"events", events},
              {"threads", threads},
              {"slots", slots},
              {"file_limit", file_limit},
              {"hanging_write", hanging_write},
              {"empty_write", empty_write},
              {"forked", forked},
              {"blocked_signal", blocked_signal},
              {"sudden_exit", sudden_exit},
              {"example", example},
              {"endless", endless}};
  void* plugin = count == 4 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 2;
  version = atoi(arguments[2]);
  char symbol[32];
  snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
  table = dlsym(plugin, symbol);
  if (!table) return fprintf(stderr, "%s\n", dlerror()), 2;
  for (size_t i = 0; i < sizeof laws / sizeof *laws; ++i)
    if (!strcmp(arguments[3], laws[i].name)) laws[i].law();
  dlclose(plugin);
  return 0;
}
