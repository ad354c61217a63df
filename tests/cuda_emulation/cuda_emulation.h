// CUDA for a plain C++ compiler, which includes this file first: the language's words, what device code calls, and the
// runtime. It declares what this project uses; add here what a kernel needs.
//
// Source: NVIDIA, CUDA C++ Programming Guide 13.0, "C++ Language Extensions"; CUDA Runtime API 13.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define TOPOFLOW_CUDA_EMULATION
#define __CUDA_ARCH_LIST__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH_LIST__ 900
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace emulation {

dim3 thread_index();
dim3 block_index();
dim3 block_size();
dim3 grid_dimensions();
std::byte* shared();

enum class Exchange { kShuffle, kUp, kDown, kXor, kMatch };
uint64_t exchange(Exchange what, unsigned mask, uint64_t value, int argument, const void* site);
void* atomic(void* address, size_t bytes, const void* site);  // checks and returns it

}  // namespace emulation

#define threadIdx (::emulation::thread_index())
#define blockIdx (::emulation::block_index())
#define blockDim (::emulation::block_size())
#define gridDim (::emulation::grid_dimensions())
constexpr int warpSize = 32;

// Never inlined: the return address says where the source waits.
#define EMULATED __attribute__((noinline, no_sanitize("thread")))

void __syncthreads();
int __syncthreads_or(int predicate);
int __syncthreads_and(int predicate);
int __syncthreads_count(int predicate);
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned __ballot_sync(unsigned mask, int predicate);
int __any_sync(unsigned mask, int predicate);
int __all_sync(unsigned mask, int predicate);
unsigned __reduce_add_sync(unsigned mask, unsigned value);
unsigned __reduce_min_sync(unsigned mask, unsigned value);
unsigned __reduce_max_sync(unsigned mask, unsigned value);
int __reduce_add_sync(unsigned mask, int value);
int __reduce_min_sync(unsigned mask, int value);
int __reduce_max_sync(unsigned mask, int value);
unsigned __reduce_and_sync(unsigned mask, unsigned value);
unsigned __reduce_or_sync(unsigned mask, unsigned value);
unsigned __reduce_xor_sync(unsigned mask, unsigned value);
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {}

namespace emulation {
template <class T>
EMULATED uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
EMULATED T of_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace emulation

#define SHUFFLE(name, what)                                                                                       \
  template <class T, class Argument>                                                                              \
  EMULATED T name(unsigned mask, T value, Argument argument) {                                                    \
    return ::emulation::of_bits<T>(::emulation::exchange(::emulation::Exchange::what, mask,                       \
                                                         ::emulation::to_bits(value), static_cast<int>(argument), \
                                                         __builtin_return_address(0)));                           \
  }
SHUFFLE(__shfl_sync, kShuffle)
SHUFFLE(__shfl_up_sync, kUp)
SHUFFLE(__shfl_down_sync, kDown)
SHUFFLE(__shfl_xor_sync, kXor)
#undef SHUFFLE
template <class T>
EMULATED unsigned __match_any_sync(unsigned mask, T value) {
  return static_cast<unsigned>(::emulation::exchange(::emulation::Exchange::kMatch, mask, ::emulation::to_bits(value),
                                                     0, __builtin_return_address(0)));
}

// The types that CUDA has for each of them, and no others.
#define ATOMIC(T, name, result)                                                                   \
  EMULATED inline T name(T* to, T value) {                                                        \
    T& place = *static_cast<T*>(::emulation::atomic(to, sizeof(T), __builtin_return_address(0))); \
    const T before = place;                                                                       \
    place = static_cast<T>(result);                                                               \
    return before;                                                                                \
  }
#define ATOMIC_INTEGERS(T)                                                                        \
  ATOMIC(T, atomicExch, value)                                                                    \
  ATOMIC(T, atomicMin, value < before ? value : before)                                           \
  ATOMIC(T, atomicMax, value > before ? value : before)                                           \
  ATOMIC(T, atomicAnd, before& value)                                                             \
  ATOMIC(T, atomicOr, before | value)                                                             \
  ATOMIC(T, atomicXor, before ^ value)                                                            \
  EMULATED inline T atomicCAS(T* to, T expected, T value) {                                       \
    T& place = *static_cast<T*>(::emulation::atomic(to, sizeof(T), __builtin_return_address(0))); \
    const T before = place;                                                                       \
    if (before == expected) place = value;                                                        \
    return before;                                                                                \
  }
ATOMIC_INTEGERS(int)
ATOMIC_INTEGERS(unsigned)
ATOMIC_INTEGERS(unsigned long long)
ATOMIC(int, atomicAdd, static_cast<unsigned>(before) + static_cast<unsigned>(value))
ATOMIC(unsigned, atomicAdd, before + value)
ATOMIC(unsigned long long, atomicAdd, before + value)
ATOMIC(float, atomicAdd, before + value)
ATOMIC(double, atomicAdd, before + value)
ATOMIC(int, atomicSub, static_cast<unsigned>(before) - static_cast<unsigned>(value))
ATOMIC(unsigned, atomicSub, before - value)
ATOMIC(long long, atomicMin, value < before ? value : before)
ATOMIC(long long, atomicMax, value > before ? value : before)
ATOMIC(float, atomicExch, value)
#undef ATOMIC_INTEGERS
#undef ATOMIC

inline long long __double_as_longlong(double value) { return static_cast<long long>(emulation::to_bits(value)); }
inline double __longlong_as_double(long long bits) { return emulation::of_bits<double>(static_cast<uint64_t>(bits)); }
inline int __double2hiint(double value) { return static_cast<int>(emulation::to_bits(value) >> 32); }
inline int __double2loint(double value) { return static_cast<int>(emulation::to_bits(value)); }
inline double __hiloint2double(int high, int low) {
  return emulation::of_bits<double>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                                    static_cast<uint32_t>(low));
}
inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
inline int __ffs(int word) { return __builtin_ffs(word); }
inline int __ffsll(long long word) { return __builtin_ffsll(word); }
inline int __clz(int word) { return word ? __builtin_clz(static_cast<unsigned>(word)) : 32; }
inline int __clzll(long long word) { return word ? __builtin_clzll(static_cast<unsigned long long>(word)) : 64; }
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline unsigned __isGlobal(const void*) { return 1; }
inline unsigned __isShared(const void*) { return 1; }
#define __builtin_assume(condition) static_cast<void>(0)

// The runtime.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719
};
enum cudaLimit { cudaLimitStackSize };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrReservedSharedMemoryPerBlock,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaFuncAttributes {
  size_t sharedSizeBytes, localSizeBytes;
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
namespace emulation {
constexpr size_t kFirstStack = 1'700;  // B, of every kernel
struct Stream;
struct Event;
}  // namespace emulation
using cudaStream_t = emulation::Stream*;
using cudaEvent_t = emulation::Event*;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0;

extern "C" {
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetLimit(size_t* bytes, cudaLimit limit);
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t bytes);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaFree(void* memory);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(size_t* left, size_t* total);
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset(void* to, int byte, size_t bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
}
namespace emulation {
cudaError_t allocate_device(void** memory, size_t bytes);
cudaError_t allocate_host(void** memory, size_t bytes);
int blocks_per_processor(int threads, size_t shared);
// Queues a kernel on a stream; its arguments are copied.
void launch(const char* name, int blocks, int threads, size_t shared, cudaStream_t stream, void (*body)(const void*),
            const void* arguments, size_t bytes);
void finish(cudaStream_t stream);
cudaError_t find_kernels();  // of the current device's architecture
}  // namespace emulation
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return emulation::allocate_device(reinterpret_cast<void**>(memory), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** memory, size_t bytes, cudaStream_t) {
  return emulation::allocate_device(reinterpret_cast<void**>(memory), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** memory, size_t bytes) {
  return emulation::allocate_host(reinterpret_cast<void**>(memory), bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** memory, size_t bytes, unsigned) {
  return emulation::allocate_host(reinterpret_cast<void**>(memory), bytes);
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F*) {
  attributes->sharedSizeBytes = 0;
  attributes->localSizeBytes = emulation::kFirstStack;
  return emulation::find_kernels();
}
template <class F>
cudaError_t cudaFuncSetAttribute(F*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F*, int threads, size_t shared) {
  *blocks = emulation::blocks_per_processor(threads, shared);
  return cudaSuccess;
}
