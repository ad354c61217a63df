// The part of topoflow._C that is about placement strategies: check once, then launch step by step.
#include "arrays.hpp"
#include "screen/coflows.h"
#include "screen/strategies.h"

namespace topoflow {
namespace {

Step to_step(const std::string& step) {
  if (step != "build" && step != "propose" && step != "accept")
    throw py::value_error("step: must be build, propose or accept, got " + step);
  return step == "build" ? Step::kBuild : step == "propose" ? Step::kPropose : Step::kAccept;
}

// Chains whose arrays are checked once; a step only launches.
class Steps {
 public:
  Steps(Arrays&& arrays, const ContentionBatch& batch) : arrays_(std::move(arrays)), batch_(batch) {}

  void run(const std::string& step, int64_t stream) {
    batch_.step = to_step(step);
    batch_.stream = stream;
    const py::gil_scoped_release release;
    kernel_(batch_);
  }

 private:
  using Kernel = void (*)(const ContentionBatch&);

  static Kernel kernel(bool on_cpu) {
#ifdef TOPOFLOW_CUDA
    if (!on_cpu) return cuda::contention;
#endif
    return cpu::contention;
  }

  Arrays arrays_;
  ContentionBatch batch_;
  Kernel kernel_ = kernel(arrays_.on_cpu());
};

Steps contention(const py::dict& named, int64_t servers, double first_bucket_bytes, double bucket_bytes, double unit,
                 int64_t budget, int32_t threads, int32_t largest_tree, int32_t coflows) {
  Arrays arrays(named);
  ContentionBatch batch{};
  Strategies& strategies = batch.strategies;
  arrays.of['N'] = servers;
  arrays.take(strategies, kStrategiesFields);
  arrays.take(static_cast<StepBatch&>(batch), kStepFields);
  arrays.take(batch.trees, kPathTreesFields);
  arrays.take(batch, kContentionFields);
  strategies.first_bucket_bytes = first_bucket_bytes;
  strategies.bucket_bytes = bucket_bytes;
  strategies.unit = unit;
  batch.trees.largest = largest_tree;
  batch.coflows = coflows;
  batch.budget = budget;
  batch.threads = threads;
  batch.device = arrays.first().device_id;
  return {std::move(arrays), batch};
}

}  // namespace

void bind_screen(py::module_& module, py::dict& fields) {
  py::class_<Steps>(module, "ContentionSteps").def("run", &Steps::run, py::arg("step"), py::arg("stream"));
  module.def("contention", &contention, py::arg("arrays"), py::arg("servers"), py::arg("first_bucket_bytes"),
             py::arg("bucket_bytes"), py::arg("unit"), py::arg("budget"), py::arg("threads"), py::arg("largest_tree"),
             py::arg("coflows"),
             "Placement strategies. The step \"build\" writes all that is kept of a placement and its estimate, "
             "\"propose\" what the estimate would be with another placement, as far as it is not above the limit, "
             "\"accept\" makes it so where the mask is not 0.");
  fields["contention"] = documented(kStrategiesFields, kStepFields, kPathTreesFields, kContentionFields);
}

}  // namespace topoflow
