// Which backend a translation unit is compiled for. The backend is a namespace, so that both fit in one library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#if defined(__CUDACC__) || defined(TOPOFLOW_CUDA_EMULATION)
#define TOPOFLOW_ON_GPU  // device code, as opposed to that of the CPU backend
#endif

// A function that compilers would rather call is INLINED by nvcc, INLINED_ON_CPU by that of the host. One that they
// would rather inline is CALLED_ON_GPU or CALLED_ON_CPU: it is large and used in several places, or it is rarely needed
// and would take registers of its caller.
#ifdef TOPOFLOW_ON_GPU
#define BACKEND cuda
#define HD __host__ __device__ inline
#define DEVICE __device__ inline
#define INLINED __device__ __forceinline__
#define INLINED_ON_CPU __device__ inline
#define CALLED_ON_CPU __device__ inline
#define CALLED_ON_GPU __device__ __attribute__((noinline)) inline
#else
#define BACKEND cpu
#define HD inline
#define DEVICE inline
#define INLINED inline
#define INLINED_ON_CPU [[gnu::always_inline]] inline
#define CALLED_ON_CPU [[gnu::noinline]] inline
#define CALLED_ON_GPU inline
#endif

namespace topoflow::BACKEND {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

#ifdef TOPOFLOW_ON_GPU

// Points to a GPU's own memory, or to that of a multiprocessor: no instruction has to find out which of them it is.
template <class T, bool kIsShared>
class Pointer {
 public:
  Pointer() = default;
  HD Pointer(T* pointer) : pointer_(pointer) {}  // NOLINT(google-explicit-constructor): it is one

  HD operator T*() const {  // NOLINT(google-explicit-constructor)
#ifdef __CUDA_ARCH__
    __builtin_assume(kIsShared ? __isShared(pointer_) : __isGlobal(pointer_));
#endif
    return pointer_;
  }

 private:
  T* pointer_;
};

template <class T>
using Global = Pointer<T, false>;
template <class T>
using Shared = Pointer<T, true>;

#else

template <class T>
using Global = T*;

#endif

}  // namespace topoflow::BACKEND
