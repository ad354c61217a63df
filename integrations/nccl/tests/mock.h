// What the mock NCCL and the mock CUDA driver offer to tests beyond the interfaces that they imitate.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "../abi/cuda_abi.h"
#include "../abi/nccl_abi.h"

#define MOCK __attribute__((visibility("default")))

enum { MOCK_MAX_RANKS = 64 };

// ---- CUDA
// -----------------------------------------------------------------------------------------------------------------
typedef enum {
  MOCK_STREAM_CREATE,
  MOCK_EVENT_CREATE,
  MOCK_EVENT_RECORD,
  MOCK_STREAM_WAIT,
  MOCK_CONTEXT,
  MOCK_ALLOCATE,
  MOCK_COPY,
  MOCK_CUDA_CALLS
} MockCudaCall;
typedef void* MockGraph;

MOCK CUresult cuStreamCreate(CUstream* stream, unsigned flags);
MOCK CUresult cuStreamDestroy_v2(CUstream stream);
MOCK CUresult cuStreamIsCapturing(CUstream stream, int* status);
MOCK void mock_queue(CUstream stream, void (*run)(void*), void* argument);
MOCK void mock_synchronize(CUstream stream);
MOCK void mock_begin_capture(CUstream stream);
MOCK MockGraph mock_end_capture(CUstream stream);  // aborts if a stream that joined the capture has not left it
MOCK void mock_launch(MockGraph graph, CUstream stream);
MOCK void mock_free_graph(MockGraph graph);
MOCK void mock_fail_cuda(MockCudaCall call,
                         int nth);      // the nth of these calls from now on fails, counted over all threads
MOCK extern atomic_int mock_cuda_live;  // streams, events, contexts and allocations

// ---- NCCL
// -----------------------------------------------------------------------------------------------------------------
typedef enum {
  MOCK_SPLIT,
  MOCK_COUNT,
  MOCK_USER_RANK,
  MOCK_CU_DEVICE,
  MOCK_GROUP_START,
  MOCK_GROUP_END,
  MOCK_ALL_REDUCE,
  MOCK_DESTROY,
  MOCK_ALL_GATHER,
  MOCK_NCCL_CALLS
} MockNcclCall;

// A communicator of `ranks` ranks, made once per rank; `id` names the job. Does not block if `blocking` is false.
MOCK ncclResult_t mock_comm(ncclComm_t* comm, int id, int ranks, int rank, bool blocking);
MOCK void mock_hold(ncclComm_t comm);  // keeps its memory after it was ended, until dropped
MOCK void mock_drop(ncclComm_t comm);
// The nth such call of the rank (of the job) from now on returns `error`; before the call has any effect, or after all
// of it.
MOCK void mock_fail(MockNcclCall call, int rank, int nth, ncclResult_t error, bool after);
MOCK void mock_set_error(ncclComm_t comm, ncclResult_t error);  // what ncclCommGetAsyncError answers
MOCK long mock_sent(int rank, int peer);            // B of all-reduces that a rank of the job sent to a peer
MOCK int mock_calls(MockNcclCall call, int rank);   // how often it was called
MOCK int mock_ring(ncclComm_t comm, int position);  // the rank of the job at a position of the communicator
MOCK extern atomic_int mock_comms_live;
MOCK extern atomic_int mock_revoked, mock_finalized, mock_aborted;
MOCK extern atomic_int mock_split_delay;  // microseconds that a split takes
