// A kernel's launch and its shared memory, in place of csrc/parallel/kernel.h, which needs a CUDA compiler.
#pragma once

#include <tuple>

#include "parallel/device.h"

namespace topoflow::cuda {

template <class Kernel, class... Arguments>
void start(Kernel kernel, int blocks, int threads, int64_t shared, Stream stream, const Arguments&... arguments) {
  using Call = std::tuple<Kernel, Arguments...>;
  const Call call(kernel, arguments...);
  const auto body = [](const void* copied) {
    std::apply([](const Kernel& called, const Arguments&... values) { called(values...); },
               *static_cast<const Call*>(copied));
  };
  ::emulation::launch(__PRETTY_FUNCTION__, blocks, threads, static_cast<size_t>(shared), stream, body, &call,
                      sizeof(call));
  check(cudaGetLastError());
}

inline std::byte* shared_memory() { return ::emulation::shared(); }

}  // namespace topoflow::cuda
