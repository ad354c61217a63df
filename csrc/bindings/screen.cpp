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
template <class Batch>
class Steps {
 public:
  using Kernel = void (*)(const Batch&);

  Steps(Arrays&& arrays, const Batch& batch, Kernel on_cpu, [[maybe_unused]] Kernel on_cuda)
      : arrays_(std::move(arrays)), batch_(batch), kernel_(arrays_.on_cpu() ? on_cpu : on_cuda) {}

  void run(const std::string& step, int64_t stream) {
    batch_.step = to_step(step);
    batch_.stream = stream;
    const py::gil_scoped_release release;
    kernel_(batch_);
  }

 private:
  Arrays arrays_;
  Batch batch_;
  Kernel kernel_;
};

#ifdef TOPOFLOW_CUDA
constexpr auto kStrategiesOnCuda = cuda::strategies;
constexpr auto kContentionOnCuda = cuda::contention;
#else
constexpr Steps<StrategyBatch>::Kernel kStrategiesOnCuda = nullptr;
constexpr Steps<ContentionBatch>::Kernel kContentionOnCuda = nullptr;
#endif

struct Settings {
  double first_bucket_bytes, bucket_bytes, unit;
  int64_t budget;
  int32_t threads;
};

void take_steps(Arrays& arrays, StepBatch& batch, int64_t servers, const Settings& settings) {
  Strategies& strategies = batch.strategies;
  arrays.of['N'] = servers;
  arrays.of['W'] = (servers + 63) / 64;
  arrays.take(strategies, kStrategiesFields);
  arrays.take(batch, kStepFields);
  strategies.edge_words = (strategies.edges + 63) / 64;
  arrays.of['V'] = strategies.edge_words;
  strategies.first_bucket_bytes = settings.first_bucket_bytes;
  strategies.bucket_bytes = settings.bucket_bytes;
  strategies.unit = settings.unit;
  batch.budget = settings.budget;
  batch.threads = settings.threads;
  batch.device = arrays.first().device_id;
}

Steps<StrategyBatch> strategies(const py::dict& named, int64_t servers, double first_bucket_bytes, double bucket_bytes,
                                double unit, int64_t budget, int32_t threads) {
  Arrays arrays(named);
  StrategyBatch batch{};
  take_steps(arrays, batch, servers, {first_bucket_bytes, bucket_bytes, unit, budget, threads});
  arrays.take(batch.transfers, kTransferStateFields);
  return {std::move(arrays), batch, cpu::strategies, kStrategiesOnCuda};
}

Steps<ContentionBatch> contention(const py::dict& named, int64_t servers, double first_bucket_bytes,
                                  double bucket_bytes, double unit, int64_t budget, int32_t threads,
                                  int32_t largest_tree, int32_t coflows) {
  Arrays arrays(named);
  ContentionBatch batch{};
  take_steps(arrays, batch, servers, {first_bucket_bytes, bucket_bytes, unit, budget, threads});
  arrays.take(batch.trees, kPathTreesFields);
  arrays.take(batch, kContentionFields);
  batch.trees.largest = largest_tree;
  batch.coflows = coflows;
  return {std::move(arrays), batch, cpu::contention, kContentionOnCuda};
}

}  // namespace

void bind_screen(py::module_& module, py::dict& fields) {
  py::class_<Steps<StrategyBatch>>(module, "StrategySteps")
      .def("run", &Steps<StrategyBatch>::run, py::arg("step"), py::arg("stream"));
  py::class_<Steps<ContentionBatch>>(module, "ContentionSteps")
      .def("run", &Steps<ContentionBatch>::run, py::arg("step"), py::arg("stream"));
  module.def("strategies", &strategies, py::arg("arrays"), py::arg("servers"), py::arg("first_bucket_bytes"),
             py::arg("bucket_bytes"), py::arg("unit"), py::arg("budget"), py::arg("threads"),
             "Placement strategies. The step \"build\" writes all that is kept of a placement and its makespan, "
             "\"propose\" what the makespan would be with another placement, as far as it is not above the "
             "limit, \"accept\" makes it so where the mask is not 0.");
  module.def("contention", &contention, py::arg("arrays"), py::arg("servers"), py::arg("first_bucket_bytes"),
             py::arg("bucket_bytes"), py::arg("unit"), py::arg("budget"), py::arg("threads"), py::arg("largest_tree"),
             py::arg("coflows"), "The same for the estimate that sees contention.");
  fields["strategies"] = documented(kStrategiesFields, kStepFields, kTransferStateFields);
  fields["contention"] = documented(kStrategiesFields, kStepFields, kPathTreesFields, kContentionFields);
}

}  // namespace topoflow
