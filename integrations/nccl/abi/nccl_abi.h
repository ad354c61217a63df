// The part of NCCL's C interface that is interposed, and what it calls, of NCCL 2.27 to 2.32 (nccl.h). It is stated
// here because nccl.h includes CUDA's headers, and the library must build without them; tests/abi_check.c compares it
// with a real nccl.h. Source: NCCL user guide, "NCCL API";
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
#pragma once

// Every constant with its value.
#define NCCL_CONSTANTS(X)      \
  X(ncclSuccess, 0)            \
  X(ncclUnhandledCudaError, 1) \
  X(ncclSystemError, 2)        \
  X(ncclInternalError, 3)      \
  X(ncclInvalidArgument, 4)    \
  X(ncclInvalidUsage, 5)       \
  X(ncclRemoteError, 6)        \
  X(ncclInProgress, 7)         \
  X(ncclSum, 0)                \
  X(ncclMax, 2)                \
  X(ncclAvg, 4)                \
  X(ncclInt8, 0)               \
  X(ncclUint8, 1)              \
  X(ncclInt32, 2)              \
  X(ncclUint32, 3)             \
  X(ncclInt64, 4)              \
  X(ncclUint64, 5)             \
  X(ncclFloat16, 6)            \
  X(ncclFloat32, 7)            \
  X(ncclFloat64, 8)            \
  X(ncclBfloat16, 9)           \
  X(ncclFloat8e4m3, 10)        \
  X(ncclFloat8e5m2, 11)        \
  X(NCCL_SPLIT_NOCOLOR, -1)    \
  X(NCCL_SHRINK_ABORT, 1)

// Every function by name, with its parameters: the table of NCCL's own functions, and the declarations of ours.
#define NCCL_FUNCTIONS(X)                                                                               \
  X(ncclAllReduce, (const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
  X(ncclAllGather, (const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))              \
  X(ncclGroupStart, (void))                                                                             \
  X(ncclGroupEnd, (void))                                                                               \
  X(ncclGroupSimulateEnd, (ncclSimInfo_t*))                                                             \
  X(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*))                                  \
  X(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int))                           \
  X(ncclCommFinalize, (ncclComm_t))                                                                     \
  X(ncclCommDestroy, (ncclComm_t))                                                                      \
  X(ncclCommAbort, (ncclComm_t))                                                                        \
  X(ncclCommRevoke, (ncclComm_t, int))                                                                  \
  X(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t*))                                                 \
  X(ncclCommCount, (ncclComm_t, int*))                                                                  \
  X(ncclCommUserRank, (ncclComm_t, int*))                                                               \
  X(ncclCommCuDevice, (ncclComm_t, int*))

#ifndef NCCL_H_
#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm* ncclComm_t;
typedef struct CUstream_st* cudaStream_t;
typedef int ncclResult_t;  // an enum in nccl.h, of the size of an int, as are the next two
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef void ncclConfig_t;  // configurations are passed on and never read
typedef void ncclSimInfo_t;

#define NCCL_ENUMERATE(name, value) name = value,
enum { NCCL_CONSTANTS(NCCL_ENUMERATE) };
#undef NCCL_ENUMERATE
enum { ncclNumOps = 5, ncclNumTypes = 12 };  // above: made at run time for one communicator; unknown

#define NCCL_DECLARE(name, parameters) __attribute__((visibility("default"))) ncclResult_t name parameters;
NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE
#endif
