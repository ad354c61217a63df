// Where Thrust runs. A header of its own: Thrust is several times what all other headers of a kernel are together.
#pragma once

#include <thrust/execution_policy.h>

#include "device.h"

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

// Memory for Thrust, whose own frees and throws where a destructor calls it.
struct Temporary {
  using value_type = char;

  char* allocate(std::ptrdiff_t bytes) { return static_cast<char*>(cuda::allocate(bytes)); }
  void deallocate(char* memory, size_t) noexcept { release(memory); }
};

inline auto policy(Stream stream) {
  static Temporary temporary;  // it has no state; a policy keeps a reference to it
  return thrust::cuda::par(temporary).on(stream);
}

#else

inline auto policy(Stream) { return thrust::device; }

#endif

}  // namespace topoflow::BACKEND
