#include "spread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agree.h"

// UNTRIED -> BUSY -> AGREED or OFF when the ranks compare their settings; AGREED -> BUSY -> READY or OFF when they make
// the rings. Any of them becomes OFF when the communicator is revoked or ended. BUSY: a thread is at one of the two.
typedef enum { UNTRIED, AGREED, BUSY, READY, OFF } State;

typedef struct {
  ncclComm_t comm;  // the child, or the communicator itself where the ring has its own order
  CUstream stream;  // NULL where the ring runs on the caller's stream
  CUevent done;
} Child;

struct Spread {
  ncclComm_t comm;
  State state;             // guarded by `lock`
  bool ended;              // guarded by `lock`: nobody may use or end the children any more but who set it
  int users;               // guarded by `lock`
  int inside;              // guarded by `lock`: threads that use the rings at the moment
  int rings;               // how many of `child` exist
  Child child[MAX_RINGS];  // [rings]
  CUevent start;
  Exchange exchange;
  Spread* next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nobody_inside = PTHREAD_COND_INITIALIZER;
static Spread* spreads_of_process;  // guarded by `lock`; those of communicators that live

static Spread** place_of(ncclComm_t comm) {
  Spread** at = &spreads_of_process;
  while (*at && (*at)->comm != comm) at = &(*at)->next;
  return at;
}

Spread* find_spread(ncclComm_t comm) {
  pthread_mutex_lock(&lock);
  Spread** at = place_of(comm);
  if (!*at && (*at = calloc(1, sizeof **at)))
    **at = (Spread){.comm = comm, .exchange.comm = comm, .users = 1};  // one use is that of the list
  Spread* spread = *at;
  if (spread) ++spread->users;
  pthread_mutex_unlock(&lock);
  return spread;
}

Spread* keep_spread(Spread* spread) {
  pthread_mutex_lock(&lock);
  ++spread->users;
  pthread_mutex_unlock(&lock);
  return spread;
}

// Streams and events outlive what was queued on them: the driver frees them when they have drained.
static void free_streams(Spread* spread) {
  const Cuda* driver = cuda();
  if (!driver) return;
  for (int r = 0; r < spread->rings; ++r) {
    if (spread->child[r].stream) driver->cuStreamDestroy(spread->child[r].stream);
    if (spread->child[r].done) driver->cuEventDestroy(spread->child[r].done);
  }
  if (spread->start) driver->cuEventDestroy(spread->start);
}

void release_spread(Spread* spread) {
  pthread_mutex_lock(&lock);
  const bool last = --spread->users == 0;
  pthread_mutex_unlock(&lock);
  if (!last) return;
  free_streams(spread);
  close_exchange(&spread->exchange);
  free(spread);
}

bool wants_rings(Spread* spread, bool large) {
  pthread_mutex_lock(&lock);
  const bool wants = spread->state == UNTRIED || (large && spread->state == AGREED);
  pthread_mutex_unlock(&lock);
  return wants;
}

bool enter_rings(Spread* spread) {
  pthread_mutex_lock(&lock);
  const bool ready = spread->state == READY;
  spread->inside += ready;
  pthread_mutex_unlock(&lock);
  return ready;
}

void leave_rings(Spread* spread) {
  pthread_mutex_lock(&lock);
  if (--spread->inside == 0) pthread_cond_broadcast(&nobody_inside);
  pthread_mutex_unlock(&lock);
}

// Called with `lock` held.
static void wait_until_left(Spread* spread) {
  enum { PATIENCE = 10 };  // s; longer than any host call that is not stuck, shorter than any framework's timeout
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  while (spread->inside && pthread_cond_timedwait(&nobody_inside, &lock, &until) == 0) continue;
}

// ---- making rings
// ---------------------------------------------------------------------------------------------------------

typedef struct {
  bool alone;           // the last child had fewer ranks: another rank has left
  ncclResult_t result;  // of the last split on this rank
} Making;

enum { VOTE = -1 };  // the split after the last ring's: nobody left before it

// The key by which ncclCommSplit sorts: ranks of one node stay together, nodes come in the ring's order.
static int key_of(const Ring* ring, const Exchange* of) {
  const int local = settings()->ranks_per_node;
  return ring_position(ring, of->ranks / local, of->rank / local) * local + of->rank % local;
}

static bool fits(const Ring* ring, int ranks) {
  const int local = settings()->ranks_per_node;
  return ranks % local == 0 && ring_position(ring, ranks / local, 0) >= 0;
}

// Whether the communicator is one whose all-reduces the settings mean. The same on every rank.
static bool is_meant(int ranks) {
  static int said;
  bool permuted = false;
  if (ranks / settings()->ranks_per_node < 3) return false;  // two nodes have one ring
  for (int r = 0; r < settings()->rings; ++r) {
    permuted = permuted || !is_natural(&settings()->ring[r]);
    if (fits(&settings()->ring[r], ranks)) continue;
    say_once(
        &said,
        "TOPOFLOW_NCCL_RINGS: ring %d is no ring of the %d nodes of a communicator of %d ranks, which stays as it is",
        r, ranks / settings()->ranks_per_node, ranks);
    return false;
  }
  return permuted;
}

static bool make_streams(Spread* spread) {
  const Cuda* driver = cuda();
  if (driver->cuCtxPushCurrent(spread->exchange.context)) return false;
  bool made = !driver->cuEventCreate(&spread->start, CU_EVENT_DISABLE_TIMING);
  for (int r = 0; r < settings()->rings; ++r) {
    Child* child = &spread->child[r];
    spread->rings = r + 1;
    if (is_natural(&settings()->ring[r])) continue;
    made = made && !driver->cuStreamCreate(&child->stream, CU_STREAM_NON_BLOCKING);
    made = made && !driver->cuEventCreate(&child->done, CU_EVENT_DISABLE_TIMING);
  }
  CUcontext popped;
  driver->cuCtxPopCurrent(&popped);
  return made;
}

// What a split has made of a spread: the ring's child, which must have all ranks; that of the vote is not kept.
static void keep_child(Spread* spread, Making* making, int ring, ncclComm_t child) {
  int ranks = 0;
  if (!making->result && child) making->result = nccl()->ncclCommCount(child, &ranks);
  making->alone = ranks != spread->exchange.ranks;
  if (child && ring != VOTE) spread->child[ring].comm = child;
  if (child && ring == VOTE) settled(spread->comm, nccl()->ncclCommDestroy(child));
}

// One split of every spread; those of one thread must be in one group. A rank that `leaves` takes part without a color,
// so that the others see a child with fewer ranks.
static void split(Spread** spreads, Making* making, int count, int ring, bool leaves) {
  const bool grouped = count > 1;
  ncclComm_t child[count];
  ncclResult_t opened = grouped ? nccl()->ncclGroupStart() : ncclSuccess;
  for (int i = 0; i < count; ++i) {
    Making* one = &making[i];
    Exchange* of = &spreads[i]->exchange;
    child[i] = NULL;
    one->result = opened;
    if (opened) continue;
    const int key = ring == VOTE ? of->rank : key_of(&settings()->ring[ring], of);
    one->result = nccl()->ncclCommSplit(spreads[i]->comm, leaves ? NCCL_SPLIT_NOCOLOR : 0, key, &child[i], NULL);
    if (one->result == ncclInProgress) of->blocking = false;
    if (!grouped) one->result = settled(spreads[i]->comm, one->result);
  }
  const ncclResult_t closed = !opened && grouped ? nccl()->ncclGroupEnd() : ncclSuccess;
  for (int i = 0; i < count; ++i) {
    if (closed == ncclInProgress) spreads[i]->exchange.blocking = false;
    const ncclResult_t ended = grouped ? settled(spreads[i]->comm, closed) : ncclSuccess;
    making[i].result = first_error(making[i].result, ended);
    keep_child(spreads[i], &making[i], ring, making[i].result ? NULL : child[i]);
  }
}

static ncclResult_t end_children(Spread* spread, ncclResult_t (*end)(ncclComm_t)) {
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < spread->rings; ++r) {
    const ncclComm_t child = spread->child[r].comm;
    if (child && child != spread->comm) result = first_error(end(child), result);
  }
  return result;
}

static void finish(Spread* spread, bool made) {
  pthread_mutex_lock(&lock);
  const bool ended = spread->ended;  // by another thread, while this one made the rings
  const bool useful = made && !ended;
  spread->state = useful ? READY : OFF;
  spread->ended = !useful;
  pthread_mutex_unlock(&lock);
  if (!useful) end_children(spread, ended ? nccl()->ncclCommAbort : nccl()->ncclCommDestroy);
}

static ncclResult_t last_error(const Making* making, int count) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count; ++i) result = first_error(result, making[i].result);
  return result;
}

static bool is_alone(const Making* making, int count) {
  bool alone = false;
  for (int i = 0; i < count; ++i) alone = alone || making[i].alone;
  return alone;
}

// A communicator that another thread has ended must not be used any more.
static bool is_ended(Spread** spreads, int count) {
  bool ended = false;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < count; ++i) ended = ended || spreads[i]->ended;
  pthread_mutex_unlock(&lock);
  return ended;
}

static bool all_block(Spread** spreads, int count) {
  static int said;
  bool block = true;
  for (int i = 0; i < count; ++i) block = block && spreads[i]->exchange.blocking;
  if (!block) say_once(&said, "a communicator that does not block keeps its own ring");
  return block;
}

// Splits ring by ring, then once more as a vote. A rank on which something fails takes part in one more split, without
// a color, and stops; a rank whose child lacks another rank stops at once. So all ranks stop at the same split, whether
// the failed call had reached the others or not. Only a failure of the vote itself cannot be reported to the others,
// and is returned.
//
// Several communicators of one thread are split in one group; a communicator never twice in a group, because its splits
// would exchange their messages over the same connections.
static ncclResult_t split_all(Spread** spreads, Making* making, int count, bool leaves, bool* made) {
  for (int next = 0;;) {
    while (next < settings()->rings && is_natural(&settings()->ring[next])) {
      for (int i = 0; i < count; ++i) spreads[i]->child[next].comm = spreads[i]->comm;
      ++next;
    }
    const int ring = next < settings()->rings ? next++ : VOTE;
    split(spreads, making, count, ring, leaves);
    const ncclResult_t error = last_error(making, count);
    if (is_ended(spreads, count)) return ncclInternalError;
    if (error && (leaves || ring == VOTE)) return error;
    if (leaves || (!error && is_alone(making, count))) return ncclSuccess;
    *made = !error && ring == VOTE && all_block(spreads, count);
    if (!error && ring == VOTE) return ncclSuccess;
    leaves = error || !all_block(spreads, count);
  }
}

static ncclResult_t make_all(Spread** spreads, int count) {
  static int said;
  bool ready = all_block(spreads, count), made = false;
  Making making[count];
  memset(making, 0, sizeof making);
  for (int i = 0; i < count; ++i) ready = make_streams(spreads[i]) && ready;
  const ncclResult_t result = split_all(spreads, making, count, !ready, &made);
  if (!made && all_block(spreads, count))
    say_once(&said, "not all ranks could make the rings; all-reduces stay as they are");
  for (int i = 0; i < count; ++i) finish(spreads[i], made);
  return result;
}

// ---- agreeing on them
// --------------------------------------------------------------------------------------------------------

static void set_state(Spread* spread, State state) {
  pthread_mutex_lock(&lock);
  spread->state = spread->ended ? OFF : state;
  pthread_mutex_unlock(&lock);
}

// A thread that claims a spread is the only one that works on it.
static bool claim(Spread* spread, State from) {
  pthread_mutex_lock(&lock);
  const bool claimed = spread->state == from;
  if (claimed) spread->state = BUSY;
  pthread_mutex_unlock(&lock);
  return claimed;
}

static ncclResult_t open_all(Spread** spreads, int count, Exchange** exchanges, int* opened) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count && !result; ++i) {
    Exchange* one = &spreads[i]->exchange;
    result = open_exchange(one);
    if (!result && one->ranks >= FEWEST_RANKS) exchanges[(*opened)++] = one;
  }
  return result;
}

static ncclResult_t agree_all(Spread** spreads, int count) {
  Exchange* exchanges[count];
  int opened = 0;
  ncclResult_t result = open_all(spreads, count, exchanges, &opened);
  if (!result && opened) result = exchange_settings(exchanges, opened);
  if (!result && is_ended(spreads, count)) result = ncclInternalError;
  for (int i = 0; i < count; ++i) {
    const Exchange* one = &spreads[i]->exchange;
    const bool compared = !result && one->ranks >= FEWEST_RANKS;
    const bool agreed = compared && settings_agree(one);
    if (compared && !agreed) report_difference(one);
    set_state(spreads[i], agreed && rings_are_on() ? AGREED : OFF);
  }
  return result;
}

ncclResult_t make_rings(const Wanted* wanted, int count) {
  Spread* claimed[count];
  int claims = 0;
  for (int i = 0; i < count; ++i)
    if (claim(wanted[i].spread, UNTRIED)) claimed[claims++] = wanted[i].spread;
  const ncclResult_t result = claims ? agree_all(claimed, claims) : ncclSuccess;
  if (result) return result;
  claims = 0;
  for (int i = 0; i < count; ++i) {
    Spread* spread = wanted[i].spread;
    if (!wanted[i].large || !claim(spread, AGREED)) continue;
    if (is_meant(spread->exchange.ranks))
      claimed[claims++] = spread;
    else
      set_state(spread, OFF);
  }
  return claims ? make_all(claimed, claims) : ncclSuccess;
}

// ---- using rings
// ----------------------------------------------------------------------------------------------------------

size_t size_of_type(ncclDataType_t type) {
  static const size_t sizes[ncclNumTypes] = {[ncclInt8] = 1,     [ncclUint8] = 1,      [ncclInt32] = 4,
                                             [ncclUint32] = 4,   [ncclInt64] = 8,      [ncclUint64] = 8,
                                             [ncclFloat16] = 2,  [ncclFloat32] = 4,    [ncclFloat64] = 8,
                                             [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1};
  return type >= 0 && type < ncclNumTypes ? sizes[type] : 0;
}

// The first element of a share: at a multiple of 128 B from the start of the buffer, as wide loads and stores want it.
static size_t boundary(size_t count, double before, size_t size) {
  const size_t step = 128 / size;
  const size_t element = (size_t)((double)count * before) / step * step;
  return element < count ? element : count;
}

ncclResult_t reduce_on_rings(Spread* spread, const void* send, void* receive, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, cudaStream_t stream) {
  const size_t size = size_of_type(type);
  double before = 0;
  size_t first = 0;
  for (int r = 0; r < spread->rings; ++r) {
    before += settings()->weight[r];
    const size_t end = r + 1 == spread->rings ? count : boundary(count, before, size);
    if (end > first) {
      const Child* child = &spread->child[r];
      const ncclResult_t result =
          nccl()->ncclAllReduce((const char*)send + first * size, (char*)receive + first * size, end - first, type, op,
                                child->comm, child->stream ? child->stream : stream);
      if (result != ncclSuccess) return result;
    }
    first = end > first ? end : first;
  }
  return ncclSuccess;
}

ncclResult_t fork_rings(Spread* spread, cudaStream_t stream) {
  const Cuda* driver = cuda();
  CUcontext popped;
  if (driver->cuCtxPushCurrent(spread->exchange.context)) return ncclUnhandledCudaError;
  CUresult failed = driver->cuEventRecord(spread->start, stream);
  for (int r = 0; !failed && r < spread->rings; ++r)
    if (spread->child[r].stream) failed = driver->cuStreamWaitEvent(spread->child[r].stream, spread->start, 0);
  driver->cuCtxPopCurrent(&popped);
  return failed ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t join_rings(Spread* spread, cudaStream_t stream) {
  const Cuda* driver = cuda();
  CUcontext popped;
  if (driver->cuCtxPushCurrent(spread->exchange.context)) return ncclUnhandledCudaError;
  CUresult failed = 0;
  for (int r = 0; r < spread->rings; ++r) {
    if (!spread->child[r].stream) continue;
    if (!failed) failed = driver->cuEventRecord(spread->child[r].done, spread->child[r].stream);
    if (!failed) failed = driver->cuStreamWaitEvent(stream, spread->child[r].done, 0);
  }
  driver->cuCtxPopCurrent(&popped);
  return failed ? ncclUnhandledCudaError : ncclSuccess;
}

// ---- ending them
// ----------------------------------------------------------------------------------------------------------

// The spread of a communicator if its children exist, counted; else NULL.
static Spread* find_ready(ncclComm_t comm) {
  pthread_mutex_lock(&lock);
  Spread* spread = *place_of(comm);
  if (spread && spread->state != READY) spread = NULL;
  if (spread) ++spread->users;
  pthread_mutex_unlock(&lock);
  return spread;
}

ncclResult_t on_children(ncclComm_t comm, ncclResult_t (*f)(ncclComm_t)) {
  ncclResult_t result = ncclSuccess;
  Spread* spread = find_ready(comm);
  if (!spread) return result;
  for (int r = 0; r < spread->rings; ++r)
    if (spread->child[r].comm != comm) result = first_error(result, f(spread->child[r].comm));
  release_spread(spread);
  return result;
}

static __thread int revoke_flags;
static ncclResult_t revoke(ncclComm_t comm) { return nccl()->ncclCommRevoke(comm, revoke_flags); }

// Revoked children carry no more all-reduces, but must still be ended.
ncclResult_t revoke_children(ncclComm_t comm, int flags) {
  revoke_flags = flags;
  const ncclResult_t result = on_children(comm, revoke);
  pthread_mutex_lock(&lock);
  Spread* spread = *place_of(comm);
  if (spread && spread->state != BUSY) spread->state = OFF;
  pthread_mutex_unlock(&lock);
  return result;
}

static ncclResult_t state_of_comm(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = nccl()->ncclCommGetAsyncError(comm, &state);
  return first_error(result, state);
}

ncclResult_t state_of_children(ncclComm_t comm) { return on_children(comm, state_of_comm); }

// A spread that another thread works on is only marked: that thread ends its children.
ncclResult_t end_rings(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t)) {
  pthread_mutex_lock(&lock);
  Spread* spread = *place_of(comm);
  const bool mine = spread && spread->state != BUSY && !spread->ended;
  if (mine) spread->state = OFF;
  if (spread) spread->ended = true, ++spread->users;
  if (mine) wait_until_left(spread);
  pthread_mutex_unlock(&lock);
  const ncclResult_t result = mine ? end_children(spread, end) : ncclSuccess;
  if (spread) release_spread(spread);
  return result;
}

ncclResult_t forget(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t), Spread** forgotten) {
  const ncclResult_t result = end_rings(comm, end);
  pthread_mutex_lock(&lock);
  Spread** at = place_of(comm);
  *forgotten = *at;
  if (*at) *at = (*at)->next;
  pthread_mutex_unlock(&lock);
  return result;
}
