// Thrust's backend for CUDA is its sequential one, after what the stream still has to do.
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/system_error.h>

#include "cuda_emulation.h"
namespace thrust {
struct EmulatedPolicy {
  template <class Allocator>
  const EmulatedPolicy& operator()(Allocator&) const {
    return *this;
  }
  auto on(cudaStream_t stream) const {
    ::emulation::finish(stream);
    return thrust::seq;
  }
};
namespace cuda {
constexpr EmulatedPolicy par, par_nosync;
}
inline const error_category& cuda_category() { return generic_category(); }
}  // namespace thrust
