// topoflow._C: check, launch, return.
#include <pybind11/pybind11.h>

#include "arrays.hpp"
#include "bound/batch.h"
#include "bound/levels.h"
#include "circuits/choose.h"
#include "circuits/job.h"
#include "fluid/batch.h"

namespace py = pybind11;

namespace topoflow {

void bind_strategies(py::module_& module);  // screen.cpp

namespace {

Graphs take_graphs(Arrays& arrays) {
  Graphs graphs{};
  const int64_t count = arrays.size("graph_task_offsets") - 1;
  graphs.tasks = arrays.size("delay");
  graphs.dependencies = arrays.size("after");
  graphs.task_offsets = arrays.take<int64_t>("graph_task_offsets", count + 1);
  graphs.path_base = arrays.take<int64_t>("path_base", count + 1);
  graphs.delay = arrays.take<double>("delay", graphs.tasks);
  graphs.bytes = arrays.take<double>("bytes", graphs.tasks);
  graphs.release = arrays.take<double>("release", graphs.tasks);
  graphs.path = arrays.take<int32_t>("path", graphs.tasks);
  graphs.after_offsets = arrays.take<int64_t>("after_offsets", graphs.tasks + 1);
  graphs.after = arrays.take<int32_t>("after", graphs.dependencies);
  const int64_t paths = arrays.size("path_offsets") - 1, hops = arrays.size("path_links");
  graphs.path_offsets = arrays.take<int64_t>("path_offsets", paths + 1);
  graphs.path_links = arrays.take<int32_t>("path_links", hops);
  graphs.path_weight = arrays.take_or_none<double>("path_weight", hops);
  graphs.path_limit = arrays.take_or_none<double>("path_limit", paths);
  return graphs;
}

int64_t simulate(const py::dict& named, int64_t budget, int64_t stream, double merge, int32_t threads) {
  Arrays arrays(named);
  Batch batch{};
  batch.graphs = take_graphs(arrays);
  const int64_t worlds = arrays.size("graph"), tasks = arrays.size("start"), links = arrays.size("capacity");
  batch.worlds = static_cast<int32_t>(worlds);
  batch.order = arrays.take<int32_t>("order", worlds);
  batch.graph = arrays.take<int32_t>("graph", worlds);
  batch.task_offsets = arrays.take<int64_t>("task_offsets", worlds + 1);
  batch.link_offsets = arrays.take<int64_t>("link_offsets", worlds + 1);
  batch.capacity = arrays.take<double>("capacity", links);
  batch.latency = arrays.take<double>("latency", links);
  batch.until = arrays.take_or_none<double>("until", worlds);
  batch.cancel = arrays.take_flag("cancel");
  batch.start = arrays.take<double>("start", tasks);
  batch.finish = arrays.take<double>("finish", tasks);
  batch.left = batch.until ? arrays.take<double>("left", tasks) : nullptr;
  batch.status = arrays.take<int32_t>("status", worlds);
  batch.budget = budget;
  batch.device = arrays.first().device_id;
  batch.stream = stream;
  batch.merge = merge;
  batch.threads = threads;

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::simulate(batch);
#endif
  return cpu::simulate(batch);
}

Outline take_outline(Arrays& arrays) {
  Outline outline{};
  const int64_t paths = arrays.size("path_offsets") - 1, hops = arrays.size("path_links");
  const int64_t costs = arrays.size("cost_path"), blocks = arrays.size("steps"), nodes = arrays.size("node_cost");
  const int64_t users = arrays.size("user"), links = arrays.size("link_bytes");
  outline.links = static_cast<int32_t>(links);
  outline.paths = static_cast<int32_t>(paths);
  outline.nodes = static_cast<int32_t>(nodes);
  outline.blocks = static_cast<int32_t>(blocks);
  outline.levels = static_cast<int32_t>(arrays.size("level_offsets") - 1);
  outline.sinks = static_cast<int32_t>(arrays.size("sink"));
  outline.path_offsets = arrays.take<int64_t>("path_offsets", paths + 1);
  outline.path_links = arrays.take<int32_t>("path_links", hops);
  outline.path_weight = arrays.take_or_none<double>("path_weight", hops);
  outline.path_limit = arrays.take_or_none<double>("path_limit", paths);
  outline.cost_path = arrays.take<int32_t>("cost_path", costs);
  outline.cost_bytes = arrays.take<double>("cost_bytes", costs);
  outline.cost_delay = arrays.take<double>("cost_delay", costs);
  outline.member_offsets = arrays.take<int64_t>("member_offsets", blocks + 1);
  outline.member = arrays.take<int32_t>("member", arrays.size("member"));
  outline.steps = arrays.take<double>("steps", blocks);
  outline.level_offsets = arrays.take<int64_t>("level_offsets", outline.levels + 1);
  outline.node_cost = arrays.take<int32_t>("node_cost", nodes);
  outline.release = arrays.take<double>("release", nodes);
  outline.after_offsets = arrays.take<int64_t>("after_offsets", nodes + 1);
  outline.after = arrays.take<int32_t>("after", arrays.size("after"));
  outline.user_offsets = arrays.take<int64_t>("user_offsets", paths + 1);
  outline.user = arrays.take<int32_t>("user", users);
  outline.user_delay = arrays.take<double>("user_delay", users);
  outline.crossing_offsets = arrays.take<int64_t>("crossing_offsets", links + 1);
  outline.crossing = arrays.take<int32_t>("crossing", arrays.size("crossing"));
  outline.link_bytes = arrays.take<double>("link_bytes", links);
  outline.sink = arrays.take<int32_t>("sink", outline.sinks);
  return outline;
}

void bound(const py::dict& named, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  BoundBatch batch{};
  batch.outline = take_outline(arrays);
  const int64_t worlds = arrays.size("makespan"), nodes = batch.outline.nodes, links = batch.outline.links;
  batch.worlds = static_cast<int32_t>(worlds);
  batch.capacity = arrays.take<double>("capacity", worlds * links);
  batch.latency = arrays.take_or_none<double>("latency", worlds * links);
  batch.cancel = arrays.take_flag("cancel");
  batch.start = arrays.take_or_none<double>("start", worlds * nodes);
  batch.finish = arrays.take_or_none<double>("finish", worlds * nodes);
  batch.makespan = arrays.take<double>("makespan", worlds);
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

// How many tasks are live, and how many have moved.
py::tuple go_on(const py::dict& named, int64_t lives, double now, double until, double latency, double merge) {
  Arrays arrays(named);
  Job job{};
  job.graph.tasks = arrays.size("delay");
  const int64_t tasks = job.graph.tasks, hops = arrays.size("path_links"), dependencies = arrays.size("after");
  job.graph.dependencies = dependencies;
  job.paths = arrays.size("wait");
  job.links = arrays.size("capacity");
  job.graph.delay = arrays.take<double>("delay", tasks);
  job.graph.release = arrays.take<double>("release", tasks);
  job.graph.path = arrays.take<int32_t>("path", tasks);
  job.graph.after_offsets = arrays.take<int64_t>("after_offsets", tasks + 1);
  job.graph.after = arrays.take<int32_t>("after", dependencies);
  job.graph.follower_offsets = arrays.take<int64_t>("follower_offsets", tasks + 1);
  job.graph.followers = arrays.take<int32_t>("followers", dependencies);
  job.graph.path_offsets = arrays.take<int64_t>("path_offsets", job.paths + 1);
  job.graph.path_links = arrays.take<int32_t>("path_links", hops);
  job.graph.path_weight = arrays.take_or_none<double>("path_weight", hops);
  job.graph.path_limit = arrays.take_or_none<double>("path_limit", job.paths);
  job.wait = arrays.take<double>("wait", job.paths);
  job.capacity = arrays.take<double>("capacity", job.links);
  job.latency = latency;
  job.merge = merge;
  job.cancel = arrays.take_flag("cancel");
  job.start = arrays.take<double>("start", tasks);
  job.finish = arrays.take<double>("finish", tasks);
  job.waited = arrays.take<double>("waited", tasks);
  job.left = arrays.take<double>("left", tasks);
  job.pending = arrays.take<int32_t>("pending", tasks);
  job.users = arrays.take<int32_t>("users", job.paths);
  job.live = arrays.take<int32_t>("live", tasks);
  job.lives = lives;
  job.moved = arrays.take<int32_t>("moved", tasks);
  job.sent = arrays.take<double>("sent", tasks);
  job.end = arrays.take<double>("end", tasks);
  job.number = arrays.take<int32_t>("number", tasks);
  job.seen = arrays.take<int32_t>("seen", tasks);
  job.path_number = arrays.take<int32_t>("path_number", job.paths);
  job.link_number = arrays.take<int32_t>("link_number", job.links + 1);
  if (!arrays.on_cpu()) throw py::value_error("device: must be CPU");
  Status status;
  {
    const py::gil_scoped_release release;
    status = cpu::go_on(job, now, until);
  }
  return py::make_tuple(static_cast<int>(status), job.lives, job.moving);
}

void choose_circuits(const py::dict& named, int32_t degree, double discount) {
  Arrays arrays(named);
  const int64_t n = arrays.size("most");
  const Circuits circuits{static_cast<int32_t>(n),
                          degree,
                          discount,
                          arrays.take<double>("demand", n * n),
                          arrays.take<int64_t>("sends", n),
                          arrays.take<int64_t>("receives", n),
                          arrays.take<int32_t>("most", n),
                          arrays.take<int64_t>("count", n * n)};
  const py::gil_scoped_release release;
  circuits();
}

void levels(const py::dict& named) {
  Arrays arrays(named);
  const int64_t tasks = arrays.size("level");
  const Levels levels{tasks, arrays.take<int64_t>("after_offsets", tasks + 1),
                      arrays.take<int32_t>("after", arrays.size("after")), arrays.take<int32_t>("level", tasks)};
  const py::gil_scoped_release release;
  levels();
}

}  // namespace
}  // namespace topoflow

PYBIND11_MODULE(_C, module) {
  namespace tf = topoflow;
  module.doc() = "Kernels of topoflow; topoflow.engine wraps them.";
#ifdef TOPOFLOW_CUDA
  module.attr("has_cuda") = true;
#else
  module.attr("has_cuda") = false;
#endif
  module.attr("DONE") = static_cast<int>(tf::kDone);
  module.attr("STARVED") = static_cast<int>(tf::kStarved);
  module.attr("DEADLOCK") = static_cast<int>(tf::kDeadlock);
  module.attr("NOT_CONVERGED") = static_cast<int>(tf::kNotConverged);
  module.attr("PAUSED") = static_cast<int>(tf::kPaused);
  module.attr("CANCELLED") = static_cast<int>(tf::kCancelled);
  module.def(
      "simulate", &tf::simulate, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("merge"),
      py::arg("threads"),
      "Run every world of a batch (csrc/fluid/batch.h names the arrays); writes start, finish and status. Returns "
      "the bytes of state that one team needs.");
  module.def("bound", &tf::bound, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("threads"),
             "The least time of every world of one graph (csrc/bound/batch.h names the arrays); writes makespan, and "
             "start and finish where they are not empty.");
  tf::bind_strategies(module);
  module.def(
      "go_on", &tf::go_on, py::arg("arrays"), py::arg("lives"), py::arg("now"), py::arg("until"), py::arg("latency"),
      py::arg("merge"),
      "Run a job from one pause to the next (csrc/circuits/job.h names the arrays), on the CPU. Returns its status, "
      "how many of its tasks are live, and how many have moved.");
  module.def("choose_circuits", &tf::choose_circuits, py::arg("arrays"), py::arg("degree"), py::arg("discount"),
             "The circuits that serve a demand best (csrc/circuits/choose.h names the arrays), on the CPU.");
  module.def("levels", &tf::levels, py::arg("arrays"), "The level of every task (csrc/bound/levels.h), on the CPU.");
}
