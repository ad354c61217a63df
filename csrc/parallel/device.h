// The place of arrays and kernels: the stream, the current device, memory on it.
#pragma once

#include <cstddef>
#include <new>

#include "backend.h"
#include "fault.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

using Stream = cudaStream_t;
inline Stream to_stream(int64_t stream) { return reinterpret_cast<Stream>(stream); }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw Fault(cudaGetErrorString(error));
}

// Memory of the current device and stream, from the allocator of whoever made the arrays (bindings/memory.cpp), which
// keeps what is given back. After the fault of a kernel every call of CUDA fails, but release() calls none.
void* allocate(int64_t bytes);
void release(void* memory) noexcept;

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

// The current device has these bytes of stack for each of its threads from now on, or more. (They are taken at once for
// all threads that it can run at a time.)
inline void reserve_stack(int64_t bytes) {
  size_t now = 0;
  check(cudaDeviceGetLimit(&now, cudaLimitStackSize));
  if (static_cast<int64_t>(now) < bytes) check(cudaDeviceSetLimit(cudaLimitStackSize, static_cast<size_t>(bytes)));
}

#else

struct Stream {};
inline Stream to_stream(int64_t) { return {}; }

constexpr std::align_val_t kLine{64};  // B of a cache line

inline void* allocate(int64_t bytes) { return ::operator new(bytes, kLine); }
inline void release(void* memory) noexcept { ::operator delete(memory, kLine); }

struct DeviceGuard {
  explicit DeviceGuard(int) {}
};

#endif

// n numbers on the device, uninitialized.
template <class T>
class Array {
 public:
  explicit Array(int64_t n) : data_(static_cast<T*>(allocate(n * static_cast<int64_t>(sizeof(T))))) {}
  ~Array() { release(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }

 private:
  T* data_;
};

}  // namespace topoflow::BACKEND
