// Where arrays and kernels live: the stream, the current device, memory on it.
#pragma once

#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/execution_policy.h>
#include <thrust/system_error.h>

#include "backend.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace topoflow::BACKEND {

#ifdef __CUDACC__

using Stream = cudaStream_t;
inline Stream to_stream(int64_t stream) { return reinterpret_cast<Stream>(stream); }
inline auto policy(Stream stream) { return thrust::cuda::par.on(stream); }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw thrust::system_error(error, thrust::cuda_category());
}

// Work goes to the GPU that holds the arrays, and back to the caller's afterwards.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&before_));
    check(cudaSetDevice(device));
  }
  ~DeviceGuard() { cudaSetDevice(before_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

struct ThreadsFor {
  explicit ThreadsFor(int64_t) {}
};

#else

struct Stream {};
inline Stream to_stream(int64_t) { return {}; }
inline auto policy(Stream) { return thrust::device; }

struct DeviceGuard {
  explicit DeviceGuard(int) {}
};

// Threads for Thrust's loops over n items, while this lives: waking them for a few costs more than it gains.
class ThreadsFor {
#ifdef _OPENMP
 public:
  explicit ThreadsFor(int64_t n) : before_(omp_get_max_threads()) {
    if (n < 1 << 16) omp_set_num_threads(1);
  }
  ~ThreadsFor() { omp_set_num_threads(before_); }
  ThreadsFor(const ThreadsFor&) = delete;
  ThreadsFor& operator=(const ThreadsFor&) = delete;

 private:
  int before_;
#else
 public:
  explicit ThreadsFor(int64_t) {}
#endif
};

#endif

// Memory on the device that nobody has written to yet.
class Memory {
 public:
  explicit Memory(int64_t bytes) : start_(thrust::device_malloc<std::byte>(bytes)) {}
  ~Memory() { thrust::device_free(start_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* start() const { return thrust::raw_pointer_cast(start_); }

 private:
  thrust::device_ptr<std::byte> start_;
};

}  // namespace topoflow::BACKEND
