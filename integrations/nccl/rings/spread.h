// Communicators whose all-reduces are spread: for each of them, one child communicator per ring order, and the streams
// that let the children run at the same time.
#pragma once

#include <stdbool.h>

#include "settings.h"
#include "symbols.h"

typedef struct Spread Spread;

// The spread of a communicator. What `find_spread` and `keep_spread` return is counted and must be released.
Spread* find_spread(ncclComm_t comm);  // made if there is none; NULL only if there is no memory
Spread* keep_spread(Spread* spread);
void release_spread(Spread* spread);

// Whether there is something to do for make_rings: the ranks have not compared their settings, or they have agreed on
// rings and the first large all-reduce is here.
bool wants_rings(Spread* spread, bool large);

typedef struct {
  Spread* spread;
  bool large;  // false: only compare the settings
} Wanted;

// Compares the settings of all ranks at the first all-reduce of a communicator, and makes its rings at the first large
// one, if all ranks have the same settings. Collective: every rank of the communicators must call it at the same place.
// Communicators of one thread must come in one call. Afterwards a spread either has rings on all ranks or on none; an
// error says that ranks may disagree, and must be returned to the caller. The thread must be in no group.
ncclResult_t make_rings(const Wanted* wanted, int count);

// Every use of the rings lies between these two: children are not ended by another thread in between, unless the use
// lasts longer than 10 s, as one that is stuck does. `enter_rings` is false if there are no rings (any more).
bool enter_rings(Spread* spread);
void leave_rings(Spread* spread);

// Adds an all-reduce of the spread to the group that is open. `join_rings` may follow only after the group has ended.
ncclResult_t reduce_on_rings(Spread* spread, const void* send, void* receive, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, cudaStream_t stream);
ncclResult_t fork_rings(Spread* spread, cudaStream_t stream);  // the rings' streams wait for `stream`
ncclResult_t join_rings(Spread* spread, cudaStream_t stream);  // `stream` waits for the rings' streams

// Bytes of an element, 0 if unknown.
size_t size_of_type(ncclDataType_t type);

// Calls `f` on every child communicator. The first error is returned, after all were called.
ncclResult_t on_children(ncclComm_t comm, ncclResult_t (*f)(ncclComm_t));
ncclResult_t revoke_children(ncclComm_t comm, int flags);
// The first state of a child that is not ncclSuccess.
ncclResult_t state_of_children(ncclComm_t comm);
// Ends the children, each with `end` (destroy or abort); the communicator keeps its own ring from then on.
ncclResult_t end_rings(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t));
// The same, for a communicator that is about to end. Its spread, if it has one, must be released when it has ended.
ncclResult_t forget(ncclComm_t comm, ncclResult_t (*end)(ncclComm_t), Spread** forgotten);
