// The functions of CUDA's driver that order one stream after another and copy a few bytes to and from the GPU. A
// runtime's cudaStream_t is the driver's CUstream. Source: CUDA Driver API, "Stream Management", "Event Management",
// "Memory Management"; https://docs.nvidia.com/cuda/cuda-driver-api/
#pragma once

#include <stddef.h>

typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUctx_st* CUcontext;
typedef int CUresult;  // 0 is success
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

enum {
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CUDA_ERROR_NOT_READY = 600
};

// Name in our table, name in libcuda.so.1 (a few have a second version), parameters.
#define CUDA_FUNCTIONS(X)                                                                    \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice*, int))                                            \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))            \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                   \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                                    \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext*))                                     \
  X(cuStreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                 \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                       \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                   \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, int*))                            \
  X(cuStreamQuery, "cuStreamQuery", (CUstream))                                              \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                     \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream)) \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))       \
  X(cuEventCreate, "cuEventCreate", (CUevent*, unsigned))                                    \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                     \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))
