#define _GNU_SOURCE
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "records.h"

enum { TEXT = 1 << 16, LINE = 1024, PERIOD = 100000000 /* ns between two looks at the buffers */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of opening and closing
static pthread_mutex_t sleeping = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool stopping;      // guarded by `sleeping`
static int communicators;  // guarded by `lock`
static pthread_t thread;
static pid_t owner;  // the process that opened the file: a fork has no writing thread
static atomic_bool writing;

static int file = -1;
static bool failed;      // the file could not be opened or written: nothing more is tried
static char text[TEXT];  // the writing thread's, as all below
static size_t used;
static uint64_t clock_offset;  // ns from the monotonic clock to the time of day

uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char* path) {
  failed = true;
  used = 0;
  fprintf(stderr, "topoflow: %s: %s; NCCL's events are not recorded\n", path, strerror(errno));
}

static void write_text(void) {
  for (size_t done = 0; done < used && !failed;) {
    const ssize_t written = write(file, text + done, used - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail("TOPOFLOW_NCCL_TRACE");
    else
      done += (size_t)written;
  }
  used = 0;
}

static void put(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char* format, ...) {
  if (failed) return;
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
    put(",\"hash\":\"%016" PRIx64 "\",\"nodes\":%d,\"ranks\":%d,\"rank\":%d", r->opened.hash, r->opened.nodes,
        r->opened.ranks, r->opened.rank);
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

static void* write_records(void* argument) {
  bool last = false;
  while (!last) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PERIOD;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&sleeping);
    if (!stopping) pthread_cond_timedwait(&wake, &sleeping, &until);
    last = stopping;
    pthread_mutex_unlock(&sleeping);
    drain();
  }
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
  if (!folder || !*folder) {
    failed = true;
    fprintf(stderr, "topoflow: TOPOFLOW_NCCL_TRACE: must name a folder; NCCL's events are not recorded\n");
    return false;
  }
  gethostname(host, sizeof host - 1);
  if (rank && strlen(rank) < 12 && strspn(rank, "0123456789") == strlen(rank))
    snprintf(path, sizeof path, "%s/nccl-rank-%s.jsonl", folder, rank);
  else
    snprintf(path, sizeof path, "%s/nccl-%.200s-%d.jsonl", folder, host, (int)getpid());
  file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return fail(path), false;
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

// Both are called with `lock` held.
static bool start_thread(void) {
  stopping = false;
  owner = getpid();
  if (pthread_create(&thread, NULL, write_records, NULL)) return fail("a writing thread"), false;
  atomic_store(&writing, true);
  return true;
}

static void end_thread(void) {
  atomic_store(&writing, false);
  pthread_mutex_lock(&sleeping);
  stopping = true;
  pthread_cond_signal(&wake);
  pthread_mutex_unlock(&sleeping);
  pthread_join(thread, NULL);
}

bool open_writer(void) {
  pthread_mutex_lock(&lock);
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
