// A kernel's launch and its shared memory: the only two places that need a CUDA compiler's own syntax.
#pragma once

#include "device.h"

namespace topoflow::cuda {

// Runs kernel(arguments...) in `blocks` blocks of `threads` threads, each block with `shared` bytes of memory of its
// own.
template <class Kernel, class... Arguments>
void start(Kernel kernel, int blocks, int threads, int64_t shared, Stream stream, const Arguments&... arguments) {
  kernel<<<blocks, threads, shared, stream>>>(arguments...);
  check(cudaGetLastError());
}

// Returns the start of those bytes.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte memory[];
  return memory;
}

}  // namespace topoflow::cuda
