#define _GNU_SOURCE
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "records.h"

enum { TEXT = 1 << 16, LINE = 1024, PERIOD = 100000000 /* ns between two looks at the buffers */ };
enum { PATIENCE = 5 };  // s that the end of the last communicator waits for a write that does not return

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of opening and closing
static pthread_mutex_t sleeping = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, moved = PTHREAD_COND_INITIALIZER;
static bool stopping, ended;  // guarded by `sleeping`
static uint64_t writes;       // guarded by `sleeping`; that have returned
static int communicators;     // guarded by `lock`
static pthread_t thread;
static pid_t owner;  // the process that opened the file: a fork has no writing thread
static atomic_bool writing;

static int file = -1;
static atomic_bool failed;  // the file could not be opened or written: nothing more is tried
static char text[TEXT];     // the writing thread's, as all below
static size_t used;
static uint64_t clock_offset;  // ns from the monotonic clock to the time of day

uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char* path, const char* why) {
  if (atomic_exchange(&failed, true)) return;
  fprintf(stderr, "topoflow: %s: %s; NCCL's events are not recorded\n", path, why);
}

static void count_write(void) {
  pthread_mutex_lock(&sleeping);
  ++writes;
  pthread_cond_signal(&moved);
  pthread_mutex_unlock(&sleeping);
}

static void write_text(void) {
  for (size_t done = 0; done < used && !failed;) {
    const ssize_t written = write(file, text + done, used - done);
    count_write();
    if (written > 0) done += (size_t)written;
    if (written == 0 || (written < 0 && errno != EINTR))
      fail("TOPOFLOW_NCCL_TRACE", written ? strerror(errno) : "the file takes nothing");
  }
  used = 0;
}

static void put(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char* format, ...) {
  if (TEXT - used < LINE) write_text();
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text + used, TEXT - used, format, arguments);
  va_end(arguments);
  if (length > 0) used += (size_t)length;
}

// A JSON string; bytes that are no ASCII are escaped one by one.
static void put_string(const char* name, const char* string) {
  put(",\"%s\":\"", name);
  for (const unsigned char* c = (const unsigned char*)string; *c; ++c) {
    if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\')
      put("\\u%04x", *c);
    else
      put("%c", *c);
  }
  put("\"");
}

static void put_number_of(const char* name, const char* variable) {
  const char* value = getenv(variable);
  char* end;
  const long number = value ? strtol(value, &end, 10) : -1;
  if (value && *value && !*end && number >= 0) put(",\"%s\":%ld", name, number);
}

static void put_call(const Record* r) {
  put(",\"sequence\":%" PRIu64 ",\"count\":%" PRIu64 ",\"%s\":%d,\"channels\":%d", r->call.sequence, r->call.count,
      r->kind == COLL ? "root" : "peer", r->call.other, r->call.channels);
  put_string("function", r->call.function);
  put_string("type", r->call.type);
  if (r->kind != COLL) return;
  put_string("algorithm", r->call.algorithm);
  put_string("protocol", r->call.protocol);
}

static void put_record(const Record* r) {
  static const char* const names[] = {"comm", "comm_end", "coll", "p2p", "queued", "proxy", "kernel"};
  put("{\"event\":\"%s\",\"id\":%" PRIu64 ",\"start\":%" PRIu64, names[r->kind], r->id, r->start + clock_offset);
  if (r->comm) put(",\"comm\":%d", r->comm);
  if (r->stop) put(",\"stop\":%" PRIu64, r->stop + clock_offset);
  if (r->parent) put(",\"parent\":%" PRIu64, r->parent);
  if (r->kind == COMM_OPENED) {
    put(",\"hash\":\"%016" PRIx64 "\",\"rank\":%d", r->opened.hash, r->opened.rank);
    if (r->opened.ranks) put(",\"nodes\":%d,\"ranks\":%d", r->opened.nodes, r->opened.ranks);
    put_string("name", r->opened.name);
  } else if (r->kind == COLL || r->kind == P2P) {
    put_call(r);
  } else if (r->kind == PROXY_OP) {
    put(",\"peer\":%d,\"send\":%s,\"channel\":%d,\"steps\":%d,\"chunk\":%d,\"bytes\":%" PRIu64, r->proxy.peer,
        r->proxy.is_send ? "true" : "false", r->proxy.channel, r->proxy.steps, r->proxy.chunk, r->proxy.bytes);
  } else if (r->kind == KERNEL) {
    put(",\"channel\":%d,\"gpu_start\":%" PRIu64 ",\"gpu_stop\":%" PRIu64, r->kernel.channel, r->kernel.timer_start,
        r->kernel.timer_stop);
  }
  put("}\n");
}

static void drain(void) {
  const uint64_t lost = take_records(put_record);
  if (lost) put("{\"event\":\"lost\",\"records\":%" PRIu64 "}\n", lost);
  write_text();
}

static struct timespec after(uint64_t nanoseconds) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  nanoseconds += (uint64_t)time.tv_nsec;
  time.tv_sec += (time_t)(nanoseconds / 1000000000u);
  time.tv_nsec = (long)(nanoseconds % 1000000000u);
  return time;
}

static void* write_records(void* argument) {
  bool last = false;
  while (!last) {
    const struct timespec until = after(PERIOD);
    pthread_mutex_lock(&sleeping);
    if (!stopping) pthread_cond_timedwait(&wake, &sleeping, &until);
    last = stopping;
    pthread_mutex_unlock(&sleeping);
    drain();
  }
  pthread_mutex_lock(&sleeping);
  ended = true;
  pthread_cond_signal(&moved);
  pthread_mutex_unlock(&sleeping);
  return argument;
}

// The rank of the process in its job, as launchers say it.
static const char* rank_of_job(void) {
  static const char* const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (int i = 0; i < 4; ++i)
    if (getenv(variables[i])) return variables[i];
  return "RANK";
}

// One file per process, never one that exists: a folder holds one run.
static bool open_file(void) {
  const char* folder = getenv("TOPOFLOW_NCCL_TRACE");
  const char* rank = getenv(rank_of_job());
  char path[4096], host[256] = "host";
  if (!folder || !*folder) return fail("TOPOFLOW_NCCL_TRACE", "must name a folder"), false;
  gethostname(host, sizeof host - 1);
  const bool has_rank = rank && *rank && strlen(rank) < 12 && strspn(rank, "0123456789") == strlen(rank);
  const int length = has_rank ? snprintf(path, sizeof path, "%s/nccl-rank-%s.jsonl", folder, rank)
                              : snprintf(path, sizeof path, "%s/nccl-%.200s-%d.jsonl", folder, host, (int)getpid());
  if (length >= (int)sizeof path) return fail("TOPOFLOW_NCCL_TRACE", strerror(ENAMETOOLONG)), false;
  owner = getpid();
  file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return fail(path, strerror(errno)), false;
  struct timespec day;
  clock_gettime(CLOCK_REALTIME, &day);
  const uint64_t today = (uint64_t)day.tv_sec * 1000000000u + (uint64_t)day.tv_nsec;
  clock_offset = today - now();
  put("{\"event\":\"start\",\"format\":\"topoflow-nccl\",\"version\":1,\"process\":%d,\"time\":%" PRIu64, (int)getpid(),
      today);
  put_number_of("rank", rank_of_job());
  put_number_of("ranks", "WORLD_SIZE");
  put_string("host", host);
  put("}\n");
  return true;
}

// Called with `lock` held. The thread takes no signal: none of the job's handlers runs on it, and a write beyond the
// limit of a file's size (SIGXFSZ) is an error of the write.
static bool start_thread(void) {
  sigset_t all, before;
  sigfillset(&all);
  stopping = ended = false;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, NULL, write_records, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) return fail("the writing thread", strerror(error)), false;
  atomic_store(&writing, true);
  return true;
}

// Waits until the thread has ended; false if a write does not return in time.
static bool wait_for_thread(void) {
  bool late = false;
  pthread_mutex_lock(&sleeping);
  stopping = true;
  pthread_cond_signal(&wake);
  while (!ended && !late) {
    const uint64_t before = writes;
    const struct timespec until = after((uint64_t)PATIENCE * 1000000000u);
    while (!ended && writes == before && !late) late = pthread_cond_timedwait(&moved, &sleeping, &until) == ETIMEDOUT;
  }
  late = !ended;
  pthread_mutex_unlock(&sleeping);
  return !late;
}

static void end_thread(void) {
  atomic_store(&writing, false);
  if (wait_for_thread()) {
    pthread_join(thread, NULL);
  } else {
    pthread_detach(thread);
    fail("TOPOFLOW_NCCL_TRACE", "a write has not returned for 5 s");
  }
}

bool open_writer(void) {
  pthread_mutex_lock(&lock);
  if (file >= 0 && owner != getpid()) {  // a fork has a file of its own
    close(file);
    file = -1;
    communicators = 0;
    used = 0;
  }
  bool open = !failed && (file >= 0 || open_file());
  if (open && !communicators) open = start_thread();
  if (open) ++communicators;
  pthread_mutex_unlock(&lock);
  return open;
}

void close_writer(void) {
  pthread_mutex_lock(&lock);
  if (communicators && --communicators == 0 && owner == getpid()) end_thread();
  pthread_mutex_unlock(&lock);
}

bool is_writing(void) { return atomic_load_explicit(&writing, memory_order_relaxed); }

// A process may exit without ending its communicators.
__attribute__((destructor)) static void finish(void) {
  if (atomic_load(&writing) && owner == getpid()) end_thread();
}
