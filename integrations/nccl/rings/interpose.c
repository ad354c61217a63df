// NCCL's functions as the program sees them when this library is preloaded. Large all-reduces are spread over ring
// orders; all else goes to NCCL as it came.
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "spread.h"

#define EXPORT  // nccl_abi.h declares these functions visible
// The call that was made, to the real NCCL. A function that this NCCL has not cannot have been called by a program that
// needs it.
#define PASS(name, ...) (nccl()->name ? nccl()->name(__VA_ARGS__) : ncclInvalidUsage)

typedef struct {
  Spread* spread;  // counted
  cudaStream_t stream;
} Queued;

// The group that this thread has open: what was spread in it, and which communicators are to get rings when it has
// ended.
static __thread struct {
  int depth;
  int queued, wanted;
  int room_queued, room_wanted;
  Queued* queue;
  Wanted* want;  // their spreads are counted
} group;

// Makes room for one more; false if there is no memory.
static bool grow(void** array, int used, int* room, size_t size) {
  if (used < *room) return true;
  void* grown = realloc(*array, (size_t)(*room + 16) * size);
  if (!grown) return false;
  *array = grown;
  *room += 16;
  return true;
}

static void clear_group(void) {
  for (int i = 0; i < group.queued; ++i) release_spread(group.queue[i].spread);
  for (int i = 0; i < group.wanted; ++i) release_spread(group.want[i].spread);
  free(group.queue);
  free(group.want);
  memset(&group, 0, sizeof group);
}

static bool want(Spread* spread, bool large) {
  for (int i = 0; i < group.wanted; ++i) {
    if (group.want[i].spread != spread) continue;
    group.want[i].large = group.want[i].large || large;
    return true;
  }
  if (!grow((void**)&group.want, group.wanted, &group.room_wanted, sizeof *group.want)) return false;
  group.want[group.wanted++] = (Wanted){keep_spread(spread), large};
  return true;
}

static int enter_queued(void) {
  int entered = 0;
  while (entered < group.queued && enter_rings(group.queue[entered].spread)) ++entered;
  return entered;
}

// NCCL starts what a group holds when it ends: before that the rings wait for the callers' streams, after it those for
// the rings. The rings have waited once before NCCL was called: it asks at the call whether their streams are captured
// into a graph (taskAppend in its enqueue.cc), which they are from then on.
static ncclResult_t end_group(void) {
  const int entered = enter_queued();  // fewer than queued if another thread has ended one of the communicators
  ncclResult_t result = entered < group.queued ? ncclInternalError : ncclSuccess, joined = ncclSuccess;
  for (int i = 0; i < entered && !result; ++i) result = fork_rings(group.queue[i].spread, group.queue[i].stream);
  const ncclResult_t ended = nccl()->ncclGroupEnd();
  for (int i = 0; i < entered && !joined; ++i) joined = join_rings(group.queue[i].spread, group.queue[i].stream);
  for (int i = 0; i < entered; ++i) leave_rings(group.queue[i].spread);
  return first_error(first_error(result, ended), joined);
}

// What was added to a group before an error is started too, and ordered after and before the stream like the whole.
static ncclResult_t spread_now(Spread* spread, const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, cudaStream_t stream) {
  const ncclResult_t opened = nccl()->ncclGroupStart();
  if (opened) return opened;
  const ncclResult_t forked = fork_rings(spread, stream);
  const ncclResult_t added = forked ? forked : reduce_on_rings(spread, send, receive, count, type, op, stream);
  const ncclResult_t ended = nccl()->ncclGroupEnd();
  const ncclResult_t joined = join_rings(spread, stream);
  return first_error(added, first_error(ended, joined));
}

static ncclResult_t spread_in_group(Spread* spread, const void* send, void* receive, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, cudaStream_t stream) {
  if (!grow((void**)&group.queue, group.queued, &group.room_queued, sizeof *group.queue)) return ncclSystemError;
  group.queue[group.queued++] = (Queued){keep_spread(spread), stream};
  const ncclResult_t forked = fork_rings(spread, stream);
  return forked ? forked : reduce_on_rings(spread, send, receive, count, type, op, stream);
}

// Communicators are not split while their stream is captured into a graph: a split allocates, and runs now.
static bool is_captured(cudaStream_t stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuda()->cuStreamIsCapturing(stream, &status) || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool is_large(size_t count, ncclDataType_t type, ncclRedOp_t op) {
  const size_t size = size_of_type(type);
  return size && count >= (settings()->threshold + size - 1) / size && count && op >= 0 && op < ncclNumOps;
}

// A rank takes part in the comparison of the settings even if its own ask for nothing: other ranks wait for it.
static bool can_compare(void) {
  const Nccl* real = nccl();
  return cuda() && real->ncclAllGather && real->ncclGroupStart && real->ncclGroupEnd && real->ncclCommCount &&
         real->ncclCommUserRank && real->ncclCommCuDevice && real->ncclCommGetAsyncError;
}

EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, cudaStream_t stream) {
  const bool large = rings_are_on() && is_large(count, type, op);
  Spread* spread = comm && can_compare() ? find_spread(comm) : NULL;
  ncclResult_t result = ncclSuccess;
  if (spread && wants_rings(spread, large) && !is_captured(stream)) {
    if (group.depth == 0)
      result = make_rings(&(Wanted){spread, large}, 1);
    else if (!want(spread, large))
      result = ncclSystemError;
  }
  if (!result && spread && large && enter_rings(spread)) {
    result = (group.depth ? spread_in_group : spread_now)(spread, send, receive, count, type, op, stream);
    leave_rings(spread);
  } else if (!result)
    result = PASS(ncclAllReduce, send, receive, count, type, op, comm, stream);
  if (spread) release_spread(spread);
  return result;
}

EXPORT ncclResult_t ncclGroupStart(void) {
  const ncclResult_t result = PASS(ncclGroupStart, );
  if (!result) ++group.depth;
  return result;
}

EXPORT ncclResult_t ncclGroupEnd(void) {
  if (group.depth > 1 || !(group.queued || group.wanted)) {
    if (group.depth) --group.depth;
    return PASS(ncclGroupEnd, );
  }
  ncclResult_t result = end_group();
  group.depth = 0;
  if (!result && group.wanted) result = make_rings(group.want, group.wanted);
  clear_group();
  return result;
}

EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group.depth && --group.depth == 0) clear_group();
  return PASS(ncclGroupSimulateEnd, info);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const ncclResult_t children = nccl()->ncclCommFinalize ? on_children(comm, nccl()->ncclCommFinalize) : ncclSuccess;
  return first_error(PASS(ncclCommFinalize, comm), children);
}

static ncclResult_t end_comm(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t)) {
  Spread* spread;
  if (!end) return ncclInvalidUsage;
  const ncclResult_t children = forget(comm, end, &spread);
  const ncclResult_t result = first_error(end(comm), children);
  if (spread) release_spread(spread);
  return result;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end_comm(comm, nccl()->ncclCommDestroy); }
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return end_comm(comm, nccl()->ncclCommAbort); }

EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const ncclResult_t children = nccl()->ncclCommRevoke ? revoke_children(comm, flags) : ncclSuccess;
  return first_error(PASS(ncclCommRevoke, comm, flags), children);
}

// Shrinking may end what the communicator has under way; its rings hold a part of that.
EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config,
                                   int flags) {
  const ncclResult_t children = flags & NCCL_SHRINK_ABORT ? end_rings(comm, nccl()->ncclCommAbort) : ncclSuccess;
  return first_error(PASS(ncclCommShrink, comm, excluded, count, made, config, flags), children);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  return PASS(ncclCommSplit, comm, color, key, made, config);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const ncclResult_t result = PASS(ncclCommGetAsyncError, comm, state);
  if (!result && state && *state == ncclSuccess) *state = state_of_children(comm);
  return result;
}
