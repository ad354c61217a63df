// The part of topoflow._C that finds lower bounds.
#include "arrays.hpp"
#include "bound/batch.h"
#include "bound/levels.h"

namespace topoflow {
namespace {

void bound(const py::dict& named, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  BoundBatch batch{};
  arrays.take(batch.graph, kCondensedGraphFields);
  arrays.take(batch, kBoundFields);
  batch.budget = budget;
  batch.threads = threads;
  batch.device = arrays.first().device_id;
  batch.stream = stream;

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::bound(batch);
#endif
  return cpu::bound(batch);
}

void levels(const py::dict& named) {
  Arrays arrays(named);
  Levels levels{};
  arrays.take(levels, kLevelsFields);
  const py::gil_scoped_release release;
  levels();
}

}  // namespace

void bind_bound(py::module_& module, py::dict& fields) {
  module.def("bound", &bound, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("threads"),
             "The least time of every world of one graph; writes makespan, and start and finish where they are not "
             "empty.");
  module.def("levels", &levels, py::arg("arrays"), "The level of every task, on the CPU.");
  fields["bound"] = documented(kCondensedGraphFields, kBoundFields);
  fields["levels"] = documented(kLevelsFields);
}

}  // namespace topoflow
