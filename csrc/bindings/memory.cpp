// Memory of a GPU comes from torch's caching allocator: what one launch gives back the next one gets without a call
// that synchronizes, what torch keeps unused can be had, and torch.OutOfMemoryError says who has how much.
#ifdef TOPOFLOW_CUDA

#include <pybind11/pybind11.h>

#include <cstdint>

namespace topoflow::cuda {

namespace py = pybind11;

void* allocate(int64_t bytes) {
  const py::gil_scoped_acquire acquire;
  return reinterpret_cast<void*>(
      py::module_::import("torch.cuda").attr("caching_allocator_alloc")(bytes).cast<uintptr_t>());
}

void release(void* memory) noexcept {
  const py::gil_scoped_acquire acquire;
  try {
    py::module_::import("torch.cuda").attr("caching_allocator_delete")(reinterpret_cast<uintptr_t>(memory));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("topoflow::cuda::release");
  }
}

}  // namespace topoflow::cuda

#endif
