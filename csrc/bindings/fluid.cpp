// The part of topoflow._C that simulates flows.
#include "arrays.hpp"
#include "fluid/batch.h"
#include "fluid/progressive_filling.h"
#include "gradient/batch.h"

namespace topoflow {
namespace {

struct Settings {
  int64_t budget, stream;
  double merge;
  int32_t threads;
};

void take_batch(Arrays& arrays, Batch& batch, const Settings& settings) {
  arrays.take(batch.graphs, kGraphFields);
  arrays.take(batch, kBatchFields);
  if (batch.until && !batch.left) throw py::value_error("left: must be there with `until`, got none");
  batch.budget = settings.budget;
  batch.device = arrays.first().device_id;
  batch.stream = settings.stream;
  batch.merge = settings.merge;
  batch.threads = settings.threads;
}

int64_t simulate(const py::dict& named, int64_t budget, int64_t stream, double merge, int32_t threads) {
  Arrays arrays(named);
  Batch batch{};
  take_batch(arrays, batch, {budget, stream, merge, threads});

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::simulate(batch);
#endif
  return cpu::simulate(batch);
}

void gradient(const py::dict& named, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  GradientBatch batch{};
  take_batch(arrays, batch, {budget, stream, 0, threads});
  arrays.take(batch, kGradientFields);

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::gradient(batch);
#endif
  cpu::gradient(batch);
}

void progressive_filling(const py::dict& named) {
  Arrays arrays(named);
  ProgressiveFilling filling{};
  arrays.take(filling, kProgressiveFillingFields);
  const py::gil_scoped_release release;
  filling();
}

}  // namespace

void bind_fluid(py::module_& module, py::dict& fields) {
  module.attr("PENDING") = static_cast<int>(kPending);
  module.attr("RUNNING") = static_cast<int>(kRunning);
  module.attr("DONE") = static_cast<int>(kDone);
  module.attr("STARVED") = static_cast<int>(kStarved);
  module.attr("DEADLOCK") = static_cast<int>(kDeadlock);
  module.attr("NOT_CONVERGED") = static_cast<int>(kNotConverged);
  module.attr("PAUSED") = static_cast<int>(kPaused);
  module.attr("CANCELLED") = static_cast<int>(kCancelled);
  module.def("simulate", &simulate, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("merge"),
             py::arg("threads"),
             "Run every world of a batch; writes start, finish and status. Returns the bytes of state that one team "
             "needs.");
  module.def("gradient", &gradient, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("threads"),
             "How a loss changes with the links' numbers of worlds that simulate() has run; writes of_capacity and "
             "of_latency.");
  module.def("progressive_filling", &progressive_filling, py::arg("arrays"),
             "Max-min fair rates from nothing, on the CPU: the oracle of simulate's.");
  fields["progressive_filling"] = documented(kProgressiveFillingFields);
  fields["simulate"] = documented(kGraphFields, kBatchFields);
  fields["gradient"] = documented(kGraphFields, kBatchFields, kGradientFields);
}

}  // namespace topoflow
