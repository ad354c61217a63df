// A libnccl.so.2 for tests: the ranks of a job are threads of one process, memory is the host's, and an all-reduce is a
// ring that really passes messages from rank to rank. It says who sent how much to whom.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mock.h"

typedef struct Message {
  long op;
  int step;
  size_t bytes;
  struct Message* next;
  char data[];
} Message;

// What the ranks of a communicator share.
typedef struct World {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int ranks, users, joined;
  atomic_bool aborted;
  int member[MOCK_MAX_RANKS];  // rank of the job
  Message* inbox[MOCK_MAX_RANKS];
  // The split under way: the last rank that arrives makes the children.
  long round;
  int arrived;
  int color[MOCK_MAX_RANKS], key[MOCK_MAX_RANKS];
  struct World* child[MOCK_MAX_RANKS];
  int child_rank[MOCK_MAX_RANKS];
} World;

struct ncclComm {
  World* world;
  int rank, job_rank;
  bool blocking, splitting;
  long ops;
  struct Reduction* captured;
  atomic_int users;
  atomic_int state;
  pthread_mutex_t lock;  // of `pending`
  int pending;           // splits under way of a communicator that does not block
};

typedef struct Reduction {
  ncclComm_t comm;
  long op;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  CUstream stream;
  bool captured;  // was its stream when it was called, as NCCL asks it
  bool gathers;   // an all-gather: the sum of buffers that have one rank's part each
  struct Reduction* next;
} Reduction;

typedef struct {
  ncclComm_t comm;
  int color, key;
  ncclComm_t* made;
  long round;
} Split;

enum { MAX_IN_GROUP = 256 };
static __thread struct {
  int depth, reductions, splits;
  Reduction* reduction[MAX_IN_GROUP];
  Split split[MAX_IN_GROUP];
} group;
static __thread int thread_rank;

atomic_int mock_comms_live, mock_revoked, mock_finalized, mock_aborted, mock_split_delay;
static atomic_long sent[MOCK_MAX_RANKS][MOCK_MAX_RANKS];
static atomic_int calls[MOCK_NCCL_CALLS][MOCK_MAX_RANKS];
static struct {
  int nth;
  ncclResult_t error;
  bool after;
} faults[MOCK_NCCL_CALLS][MOCK_MAX_RANKS];

long mock_sent(int rank, int peer) { return sent[rank][peer]; }
int mock_calls(MockNcclCall call, int rank) { return calls[call][rank]; }
int mock_ring(ncclComm_t comm, int position) { return comm->world->member[position]; }
void mock_set_error(ncclComm_t comm, ncclResult_t error) { comm->state = error; }

// Each rank's faults are set by the thread of the rank, or before threads start.
void mock_fail(MockNcclCall call, int rank, int nth, ncclResult_t error, bool after) {
  faults[call][rank].nth = calls[call][rank] + nth;
  faults[call][rank].error = error;
  faults[call][rank].after = after;
}

static ncclResult_t fault(MockNcclCall call, int rank, bool after) {
  if (!after) ++calls[call][rank];
  return faults[call][rank].nth && calls[call][rank] == faults[call][rank].nth && faults[call][rank].after == after
             ? faults[call][rank].error
             : ncclSuccess;
}

static World* new_world(int ranks) {
  World* world = calloc(1, sizeof *world);
  pthread_mutex_init(&world->lock, NULL);
  pthread_cond_init(&world->changed, NULL);
  world->ranks = world->users = ranks;
  return world;
}

static void leave_world(World* world) {
  pthread_mutex_lock(&world->lock);
  const bool last = --world->users == 0;
  pthread_mutex_unlock(&world->lock);
  if (!last) return;
  for (int r = 0; r < world->ranks; ++r)
    for (Message *m = world->inbox[r], *next; m; m = next) next = m->next, free(m);
  pthread_mutex_destroy(&world->lock);
  pthread_cond_destroy(&world->changed);
  free(world);
}

static ncclComm_t new_comm(World* world, int rank, bool blocking) {
  ncclComm_t comm = calloc(1, sizeof *comm);
  *comm = (struct ncclComm){
      .world = world, .rank = rank, .job_rank = world->member[rank], .blocking = blocking, .users = 1};
  pthread_mutex_init(&comm->lock, NULL);
  ++mock_comms_live;
  return comm;
}

static void leave(ncclComm_t comm) {
  if (--comm->users) return;
  leave_world(comm->world);
  for (Reduction *r = comm->captured, *next; r; r = next) next = r->next, free(r);
  pthread_mutex_destroy(&comm->lock);
  free(comm);
  --mock_comms_live;
}

void mock_hold(ncclComm_t comm) { ++comm->users; }
void mock_drop(ncclComm_t comm) { leave(comm); }

ncclResult_t mock_comm(ncclComm_t* comm, int id, int ranks, int rank, bool blocking) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static World* jobs[16];
  pthread_mutex_lock(&lock);
  if (!jobs[id]) {
    jobs[id] = new_world(ranks);
    for (int r = 0; r < ranks; ++r) jobs[id]->member[r] = r;
  }
  World* world = jobs[id];
  if (++world->joined == ranks) jobs[id] = NULL;
  pthread_mutex_unlock(&lock);
  thread_rank = rank;
  *comm = new_comm(world, rank, blocking);
  return ncclSuccess;
}

// ---- splits
// ---------------------------------------------------------------------------------------------------------------

// Called by the last rank that arrives: ranks of a color, sorted by key, are a child.
static void make_children(World* world) {
  for (int r = 0; r < world->ranks; ++r) world->child[r] = NULL;
  for (int r = 0; r < world->ranks; ++r) {
    if (world->color[r] < 0 || world->child[r]) continue;
    int ranks = 0;
    for (int q = 0; q < world->ranks; ++q) ranks += world->color[q] == world->color[r];
    World* child = new_world(ranks);
    for (int q = 0; q < world->ranks; ++q) {
      if (world->color[q] != world->color[r]) continue;
      int place = 0;
      for (int p = 0; p < world->ranks; ++p)
        place += world->color[p] == world->color[r] &&
                 (world->key[p] < world->key[q] || (world->key[p] == world->key[q] && p < q));
      world->child[q] = child;
      world->child_rank[q] = place;
      child->member[place] = world->member[q];
    }
  }
  world->arrived = 0;
  ++world->round;
  pthread_cond_broadcast(&world->changed);
}

static void arrive(Split* split) {
  World* world = split->comm->world;
  pthread_mutex_lock(&world->lock);
  if (split->comm->splitting) fprintf(stderr, "mock: a communicator is split twice at a time\n"), abort();
  split->comm->splitting = true;
  world->color[split->comm->rank] = split->color;
  world->key[split->comm->rank] = split->key;
  split->round = world->round;
  if (++world->arrived == world->ranks) make_children(world);
  pthread_mutex_unlock(&world->lock);
}

static ncclResult_t finish(Split* split) {
  ncclComm_t comm = split->comm;
  World* world = comm->world;
  usleep(mock_split_delay);
  pthread_mutex_lock(&world->lock);
  while (world->round == split->round && !world->aborted) pthread_cond_wait(&world->changed, &world->lock);
  const bool made = world->round != split->round;
  World* child = made ? world->child[comm->rank] : NULL;
  const int rank = world->child_rank[comm->rank];
  comm->splitting = false;
  pthread_mutex_unlock(&world->lock);
  ncclComm_t result = child ? new_comm(child, rank, comm->blocking) : NULL;
  const ncclResult_t failed = made ? fault(MOCK_SPLIT, comm->job_rank, true) : ncclRemoteError;
  if (failed && result) leave(result), result = NULL;
  pthread_mutex_lock(&comm->lock);
  *split->made = result;
  pthread_mutex_unlock(&comm->lock);
  return failed;
}

static void* split_later(void* argument) {
  Split* split = argument;
  ncclComm_t comm = split->comm;
  finish(split);
  pthread_mutex_lock(&comm->lock);
  --comm->pending;
  pthread_mutex_unlock(&comm->lock);
  leave(comm);
  free(split);
  return NULL;
}

static ncclResult_t finish_later(const Split* split) {
  Split* copy = malloc(sizeof *copy);
  *copy = *split;
  pthread_mutex_lock(&split->comm->lock);
  ++split->comm->pending;
  pthread_mutex_unlock(&split->comm->lock);
  ++split->comm->users;
  pthread_t thread;
  pthread_create(&thread, NULL, split_later, copy);
  pthread_detach(thread);
  return ncclInProgress;
}

#ifndef MOCK_WITHOUT_SPLIT
MOCK ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  (void)config;
  const ncclResult_t failed = fault(MOCK_SPLIT, comm->job_rank, false);
  if (failed) return failed;
  Split split = {comm, color, key, made, 0};
  if (comm->world->aborted) return ncclRemoteError;
  if (group.depth) return group.split[group.splits++] = split, ncclSuccess;
  ++comm->users;
  arrive(&split);
  const ncclResult_t result = comm->blocking ? finish(&split) : finish_later(&split);
  leave(comm);
  return result;
}
#endif

// ---- all-reduce
// -----------------------------------------------------------------------------------------------------------

static double value(const void* at, ncclDataType_t type, size_t i) {
  if (type == ncclFloat32) return ((const float*)at)[i];
  if (type == ncclFloat64) return ((const double*)at)[i];
  if (type == ncclInt32) return ((const int32_t*)at)[i];
  return ((const uint8_t*)at)[i];
}

static void store(void* at, ncclDataType_t type, size_t i, double v) {
  if (type == ncclFloat32)
    ((float*)at)[i] = (float)v;
  else if (type == ncclFloat64)
    ((double*)at)[i] = v;
  else if (type == ncclInt32)
    ((int32_t*)at)[i] = (int32_t)v;
  else
    ((uint8_t*)at)[i] = (uint8_t)v;
}

static size_t width(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclFloat32 || type == ncclInt32 ? 4 : 1;
}

static void send_next(const Reduction* r, int step, const void* data, size_t bytes) {
  World* world = r->comm->world;
  const int peer = (r->comm->rank + 1) % world->ranks;
  Message* message = malloc(sizeof *message + bytes);
  *message = (Message){.op = r->op, .step = step, .bytes = bytes};
  memcpy(message->data, data, bytes);
  if (!r->gathers) sent[r->comm->job_rank][world->member[peer]] += (long)bytes;
  pthread_mutex_lock(&world->lock);
  message->next = world->inbox[peer];
  world->inbox[peer] = message;
  pthread_cond_broadcast(&world->changed);
  pthread_mutex_unlock(&world->lock);
}

static Message* take(World* world, int rank, long op, int step) {
  for (Message** at = &world->inbox[rank]; *at; at = &(*at)->next) {
    if ((*at)->op != op || (*at)->step != step) continue;
    Message* found = *at;
    *at = found->next;
    return found;
  }
  return NULL;
}

static Message* receive(const Reduction* r, int step) {
  World* world = r->comm->world;
  Message* message = NULL;
  pthread_mutex_lock(&world->lock);
  while (!world->aborted && !(message = take(world, r->comm->rank, r->op, step)))
    pthread_cond_wait(&world->changed, &world->lock);
  pthread_mutex_unlock(&world->lock);
  return message;
}

static void combine(const Reduction* r, size_t first, const Message* message, bool reduce) {
  const size_t size = width(r->type);
  for (size_t i = 0; i < message->bytes / size; ++i) {
    double v = value(message->data, r->type, i);
    if (reduce) {
      const double mine = value(r->receive, r->type, first + i);
      v = r->reduction == ncclMax ? (v > mine ? v : mine) : v + mine;
    }
    store(r->receive, r->type, first + i, v);
  }
}

// A ring: n - 1 steps that reduce, n - 1 that gather.
static void reduce(const Reduction* r) {
  const int n = r->comm->world->ranks, me = r->comm->rank;
  const size_t size = width(r->type);
  if (r->gathers) {
    const size_t part = r->count / (size_t)n * size;
    memset(r->receive, 0, r->count * size);
    memcpy((char*)r->receive + part * (size_t)me, r->send, part);
  } else if (r->receive != r->send) {
    memcpy(r->receive, r->send, r->count * size);
  }
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const int out = ((me - step) % n + 2 * n) % n, in = (out + n - 1) % n;
    const size_t first = r->count * (size_t)out / (size_t)n, end = r->count * (size_t)(out + 1) / (size_t)n;
    send_next(r, step, (char*)r->receive + first * size, (end - first) * size);
    Message* message = receive(r, step);
    if (!message) return;
    combine(r, r->count * (size_t)in / (size_t)n, message, step < n - 1);
    free(message);
  }
  for (size_t i = 0; r->reduction == ncclAvg && i < r->count; ++i)
    store(r->receive, r->type, i, value(r->receive, r->type, i) / n);
}

static void run_captured(void* argument) {
  Reduction* r = argument;
  reduce(r);
  r->op += 1L << 40;  // of the next launch
}

static void run_once(void* argument) {
  Reduction* r = argument;
  reduce(r);
  leave(r->comm);
  free(r);
}

static bool is_captured(CUstream stream) {
  int captured;
  cuStreamIsCapturing(stream, &captured);
  return captured;
}

// Reductions of a captured graph run again at every launch; they are freed with the communicator.
static void launch(Reduction* r) {
  if (is_captured(r->stream) != r->captured) fprintf(stderr, "mock: captured between call and launch\n"), abort();
  r->op = r->comm->ops++;
  if (r->captured) {
    r->next = r->comm->captured;
    r->comm->captured = r;
  } else {
    ++r->comm->users;
  }
  mock_queue(r->stream, r->captured ? run_captured : run_once, r);
}

static void add(Reduction reduction) {
  Reduction* r = malloc(sizeof *r);
  *r = reduction;
  r->captured = is_captured(r->stream);
  if (group.depth)
    group.reduction[group.reductions++] = r;
  else
    launch(r);
}

MOCK ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t failed = fault(MOCK_ALL_REDUCE, comm->job_rank, false);
  if (failed) return failed;
  add((Reduction){
      .comm = comm, .send = send, .receive = receive, .count = count, .type = type, .reduction = op, .stream = stream});
  return fault(MOCK_ALL_REDUCE, comm->job_rank, true);
}

MOCK ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream) {
  const ncclResult_t failed = fault(MOCK_ALL_GATHER, comm->job_rank, false);
  if (failed) return failed;
  add((Reduction){.comm = comm,
                  .send = send,
                  .receive = receive,
                  .count = count * (size_t)comm->world->ranks,
                  .type = type,
                  .stream = stream,
                  .gathers = true});
  return fault(MOCK_ALL_GATHER, comm->job_rank, true);
}

// ---- groups
// ---------------------------------------------------------------------------------------------------------------

MOCK ncclResult_t ncclGroupStart(void) {
  const ncclResult_t failed = fault(MOCK_GROUP_START, thread_rank, false);
  if (!failed) ++group.depth;
  return failed;
}

MOCK ncclResult_t ncclGroupEnd(void) {
  ncclResult_t result = fault(MOCK_GROUP_END, thread_rank, false);
  if (--group.depth) return result;
  for (int i = 0; i < group.splits; ++i) arrive(&group.split[i]);
  for (int i = 0; i < group.splits; ++i) {
    const Split* split = &group.split[i];
    const ncclResult_t one = split->comm->blocking ? finish(&group.split[i]) : finish_later(split);
    if (!result) result = one;
  }
  for (int i = 0; i < group.reductions; ++i) {
    if (result && result != ncclInProgress)
      free(group.reduction[i]);
    else
      launch(group.reduction[i]);
  }
  group.splits = group.reductions = 0;
  return result;
}

MOCK ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  (void)info;
  if (--group.depth) return ncclSuccess;
  for (int i = 0; i < group.reductions; ++i) free(group.reduction[i]);
  group.splits = group.reductions = 0;
  return ncclSuccess;
}

// ---- communicators
// --------------------------------------------------------------------------------------------------------

static void abort_world(World* world) {
  pthread_mutex_lock(&world->lock);
  world->aborted = true;
  pthread_cond_broadcast(&world->changed);
  pthread_mutex_unlock(&world->lock);
}

MOCK ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  (void)comm;
  ++mock_finalized;
  return ncclSuccess;
}
MOCK ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const ncclResult_t failed = fault(MOCK_DESTROY, comm->job_rank, false);
  leave(comm);
  return failed;
}
MOCK ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++mock_aborted;
  abort_world(comm->world);
  leave(comm);
  return ncclSuccess;
}
MOCK ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  (void)flags;
  ++mock_revoked;
  abort_world(comm->world);
  return ncclSuccess;
}
MOCK ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config,
                                 int flags) {
  (void)excluded, (void)count, (void)config;
  if (flags & NCCL_SHRINK_ABORT) abort_world(comm->world);
  return *made = NULL, ncclSuccess;
}
MOCK ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  pthread_mutex_lock(&comm->lock);
  *state = comm->pending ? ncclInProgress : comm->world->aborted ? ncclRemoteError : comm->state;
  pthread_mutex_unlock(&comm->lock);
  return ncclSuccess;
}
MOCK ncclResult_t ncclCommCount(ncclComm_t comm, int* ranks) {
  return *ranks = comm->world->ranks, fault(MOCK_COUNT, comm->job_rank, false);
}
MOCK ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return *rank = comm->rank, fault(MOCK_USER_RANK, comm->job_rank, false);
}
MOCK ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return *device = 0, fault(MOCK_CU_DEVICE, comm->job_rank, false);
}
