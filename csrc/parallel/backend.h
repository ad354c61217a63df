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

#ifdef TOPOFLOW_ON_GPU
#define BACKEND cuda
#define HD __host__ __device__ inline
#define DEVICE __device__ inline
#else
#define BACKEND cpu
#define HD inline
#define DEVICE inline
#endif

namespace topoflow::BACKEND {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace topoflow::BACKEND
