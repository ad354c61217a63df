// The part of NCCL's C interface that is interposed, and what it calls, of NCCL 2.27 to 2.32 (nccl.h). It is stated here because
// nccl.h includes CUDA's headers, and the library must build without them; tests/abi_check.c compares it with a real nccl.h.
// Source: NCCL user guide, "NCCL API"; https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm* ncclComm_t;
typedef struct CUstream_st* cudaStream_t;

enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
typedef int ncclResult_t;   // an enum in nccl.h, of the size of an int
typedef int ncclDataType_t;
typedef int ncclRedOp_t;

enum { NCCL_SPLIT_NOCOLOR = -1, NCCL_SHRINK_ABORT = 1 };
enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 };  // above: made per communicator
enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
};

// Configurations are passed on and never read.
typedef void ncclConfig_t;
typedef void ncclSimInfo_t;

// Every function by name, with its parameters: the table of NCCL's own functions, and the declarations of ours.
#define NCCL_FUNCTIONS(X)                                                                                                   \
  X(ncclAllReduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))                      \
  X(ncclGroupStart, (void))                                                                                                \
  X(ncclGroupEnd, (void))                                                                                                  \
  X(ncclGroupSimulateEnd, (ncclSimInfo_t*))                                                                                \
  X(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*))                                                      \
  X(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int))                                               \
  X(ncclCommFinalize, (ncclComm_t))                                                                                        \
  X(ncclCommDestroy, (ncclComm_t))                                                                                         \
  X(ncclCommAbort, (ncclComm_t))                                                                                           \
  X(ncclCommRevoke, (ncclComm_t, int))                                                                                     \
  X(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t*))                                                                     \
  X(ncclCommCount, (ncclComm_t, int*))                                                                                     \
  X(ncclCommUserRank, (ncclComm_t, int*))                                                                                  \
  X(ncclCommCuDevice, (ncclComm_t, int*))

#define NCCL_DECLARE(name, parameters) __attribute__((visibility("default"))) ncclResult_t name parameters;
NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE
