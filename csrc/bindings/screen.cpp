// The part of topoflow._C that is about placement strategies: check once, then launch step by step.
#include "arrays.hpp"
#include "screen/coflows.h"
#include "screen/strategies.h"

namespace topoflow {
namespace {

Strategies take_strategies(Arrays& arrays, int64_t servers) {
  Strategies s{};
  const int64_t layers = arrays.size("kind"), choices = arrays.size("row_offsets") - 1, rows = arrays.size("holder");
  const int64_t edges = arrays.size("source"), links = arrays.size("link_seconds"), pairs = servers * servers;
  const int64_t paths = arrays.size("path_offsets") - 1, hops = arrays.size("path_links");
  const int64_t costs = arrays.size("forward"), crossings = arrays.size("crossing_source");
  const int64_t lines = arrays.size("line_seconds"), rings = arrays.size("ring_link");
  s.servers = static_cast<int32_t>(servers);
  s.layers = static_cast<int32_t>(layers);
  s.choices = static_cast<int32_t>(choices);
  s.edges = static_cast<int32_t>(edges);
  s.links = static_cast<int32_t>(links);
  s.words = static_cast<int32_t>((servers + 63) / 64);
  s.edge_words = static_cast<int32_t>((edges + 63) / 64);
  s.rows = rows;
  s.row_offsets = arrays.take<int64_t>("row_offsets", choices + 1);
  s.holder = arrays.take<int32_t>("holder", rows);
  s.member = arrays.take<int64_t>("member", choices * s.words);
  s.set = arrays.take<int64_t>("set", rows * s.words);
  s.samples = arrays.take<int32_t>("samples", rows);
  s.row = arrays.take<int32_t>("row", choices * servers);
  s.host = arrays.take<int32_t>("host", choices * servers);
  s.kind = arrays.take<int32_t>("kind", layers);
  s.forward = arrays.take<double>("forward", costs);
  s.backward = arrays.take<double>("backward", costs);
  s.update = arrays.take<double>("update", costs);
  s.gradient = arrays.take<double>("gradient", layers);
  s.inside = arrays.take<int32_t>("inside", layers);
  s.input_offsets = arrays.take<int64_t>("input_offsets", layers + 1);
  s.source = arrays.take<int32_t>("source", edges);
  s.consumer = arrays.take<int32_t>("consumer", edges);
  s.output_offsets = arrays.take<int64_t>("output_offsets", layers + 1);
  s.output = arrays.take<int32_t>("output", edges);
  s.edge_bytes = arrays.take<double>("edge_bytes", edges);
  s.latency = arrays.take<double>("latency", pairs);
  s.slowness = arrays.take<double>("slowness", pairs);
  s.path = arrays.take<int32_t>("path", pairs);
  s.path_offsets = arrays.take<int64_t>("path_offsets", paths + 1);
  s.path_links = arrays.take<int32_t>("path_links", hops);
  s.path_weight = arrays.take_or_none<double>("path_weight", hops);
  s.link_seconds = arrays.take<double>("link_seconds", links);
  s.link_latency = arrays.take<double>("link_latency", links);
  s.crossing_offsets = arrays.take<int64_t>("crossing_offsets", links + 1);
  s.crossing_source = arrays.take<int32_t>("crossing_source", crossings);
  s.crossing_target = arrays.take<int32_t>("crossing_target", crossings);
  s.before = arrays.take<double>("before", choices);
  s.behind = arrays.take<double>("behind", choices);
  s.line_offsets = arrays.take<int64_t>("line_offsets", choices + 1);
  s.line_seconds = arrays.take<double>("line_seconds", lines);
  s.line_slope = arrays.take<double>("line_slope", lines);
  s.ring_offsets = arrays.take<int64_t>("ring_offsets", choices + 1);
  s.ring_link = arrays.take<int32_t>("ring_link", rings);
  s.ring_share = arrays.take<double>("ring_share", rings);
  s.ring_wait = arrays.take<double>("ring_wait", rings);
  return s;
}

Travels take_travels(Arrays& arrays, const Strategies& s, int64_t chains) {
  Travels travels{};
  const int64_t times = chains * s.edges * s.servers, sets = chains * s.servers * s.edge_words;
  travels.forth = arrays.take<double>("forth", times);
  travels.back = arrays.take<double>("back", times);
  travels.load = arrays.take<int64_t>("load", chains * s.links);
  travels.outgoing = arrays.take<int64_t>("outgoing", sets);
  travels.incoming = arrays.take<int64_t>("incoming", sets);
  travels.crossing = arrays.take<int64_t>("crossing", chains * s.edge_words);
  travels.cursor = arrays.take<int32_t>("cursor", chains * s.links);
  return travels;
}

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

  Steps(Arrays&& arrays, const Batch& batch, Kernel kernel)
      : arrays_(std::move(arrays)), batch_(batch), kernel_(kernel) {}

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

struct Settings {
  double first_bucket_bytes, bucket_bytes, unit;
  int64_t budget;
  int32_t threads;
};

void take_steps(Arrays& arrays, StepBatch& batch, int64_t servers, const Settings& settings) {
  batch.strategies = take_strategies(arrays, servers);
  batch.strategies.first_bucket_bytes = settings.first_bucket_bytes;
  batch.strategies.bucket_bytes = settings.bucket_bytes;
  batch.strategies.unit = settings.unit;
  batch.budget = settings.budget;
  batch.threads = settings.threads;
  const int64_t chains = arrays.size("makespan");
  batch.chains = static_cast<int32_t>(chains);
  batch.placement = arrays.take<int32_t>("placement", chains * batch.strategies.layers);
  batch.makespan = arrays.take<double>("makespan", chains);
  batch.layer = arrays.take<int32_t>("layer", chains);
  batch.choice = arrays.take<int32_t>("choice", chains);
  batch.limit = arrays.take<double>("limit", chains);
  batch.mask = arrays.take<int32_t>("mask", chains);
  batch.proposed = arrays.take<double>("proposed", chains);
  batch.device = arrays.first().device_id;
}

Steps<StrategyBatch> strategies(const py::dict& named, int64_t servers, double first_bucket_bytes, double bucket_bytes,
                                double unit, int64_t budget, int32_t threads) {
  Arrays arrays(named);
  StrategyBatch batch{};
  take_steps(arrays, batch, servers, {first_bucket_bytes, bucket_bytes, unit, budget, threads});
  batch.travels = take_travels(arrays, batch.strategies, batch.chains);
  Steps<StrategyBatch>::Kernel kernel = cpu::strategies;
  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) kernel = cuda::strategies;
#endif
  return {std::move(arrays), batch, kernel};
}

Ways take_ways(Arrays& arrays, const Strategies& s, int32_t most, int32_t coflows) {
  Ways ways{};
  const int64_t servers = s.servers, nodes = arrays.size("tree_link");
  ways.most = most;
  ways.coflows = coflows;
  ways.tree = arrays.take<int64_t>("tree", 2 * (servers + 1));
  ways.parent = arrays.take<int32_t>("tree_parent", nodes);
  ways.link = arrays.take<int32_t>("tree_link", nodes);
  ways.leaf = arrays.take<int32_t>("tree_leaf", 2 * servers * servers);
  ways.latency = arrays.take<double>("tree_latency", 2 * servers * servers);
  ways.ring_latency = arrays.take<double>("ring_latency", s.choices);
  ways.ring_slowness = arrays.take<double>("ring_slowness", s.choices);
  ways.ring_busy = arrays.take<double>("ring_busy", arrays.size("ring_link"));
  return ways;
}

Steps<ContentionBatch> contention(const py::dict& named, int64_t servers, double first_bucket_bytes,
                                  double bucket_bytes, double unit, int64_t budget, int32_t threads, int32_t most,
                                  int32_t coflows) {
  Arrays arrays(named);
  ContentionBatch batch{};
  take_steps(arrays, batch, servers, {first_bucket_bytes, bucket_bytes, unit, budget, threads});
  batch.ways = take_ways(arrays, batch.strategies, most, coflows);
  const int64_t chains = batch.chains, layers = batch.strategies.layers, links = batch.strategies.links;
  batch.load = arrays.take<int64_t>("load", chains * layers * 2 * links);
  Steps<ContentionBatch>::Kernel kernel = cpu::contention;
  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) kernel = cuda::contention;
#endif
  return {std::move(arrays), batch, kernel};
}

}  // namespace

void bind_strategies(py::module_& module) {
  py::class_<Steps<StrategyBatch>>(module, "StrategySteps")
      .def("run", &Steps<StrategyBatch>::run, py::arg("step"), py::arg("stream"));
  py::class_<Steps<ContentionBatch>>(module, "ContentionSteps")
      .def("run", &Steps<ContentionBatch>::run, py::arg("step"), py::arg("stream"));
  module.def("strategies", &strategies, py::arg("arrays"), py::arg("servers"), py::arg("first_bucket_bytes"),
             py::arg("bucket_bytes"), py::arg("unit"), py::arg("budget"), py::arg("threads"),
             "Placement strategies (csrc/screen/strategies.h names the arrays). The step \"build\" writes all that is "
             "kept of a placement and its makespan, \"propose\" what the makespan would be if one layer had another "
             "choice, as far as it is not above the limit, \"accept\" makes it so where the mask is not 0.");
  module.def("contention", &contention, py::arg("arrays"), py::arg("servers"), py::arg("first_bucket_bytes"),
             py::arg("bucket_bytes"), py::arg("unit"), py::arg("budget"), py::arg("threads"), py::arg("most"),
             py::arg("coflows"),
             "The same for the estimate that sees contention (csrc/screen/coflows.h names the arrays).");
}

}  // namespace topoflow
