// The part of topoflow._C that is about placement strategies: their estimate, and chains that walk by it.
#include <pybind11/stl.h>

#include <algorithm>

#include "arrays.hpp"
#include "screen/coflows.h"
#include "screen/numbers.h"
#include "screen/walk.h"

namespace topoflow {
namespace {

// The numbers of the estimate that are no arrays.
struct Sizes {
  int64_t servers;
  double first_bucket_bytes, bucket_bytes, unit;
  int32_t largest_tree, coflows;
};

struct WalkSettings {
  int32_t ladders, chains, first;
  int64_t seed, round, patience;
  double trades, stays, joins;
  int64_t memory;
  bool binds;
};

void take_model(Arrays& arrays, ContentionModel& model, const Sizes& sizes) {
  arrays.of['N'] = sizes.servers;
  arrays.take(model.strategies, kStrategiesFields);
  arrays.take(model.trees, kPathTreesFields);
  arrays.take(model, kContentionFields);
  model.strategies.first_bucket_bytes = sizes.first_bucket_bytes;
  model.strategies.bucket_bytes = sizes.bucket_bytes;
  model.strategies.unit = sizes.unit;
  model.trees.largest = sizes.largest_tree;
  model.coflows = sizes.coflows;
}

WalkPart to_part(const std::string& part) {
  if (part != "begin" && part != "resume" && part != "steps")
    throw py::value_error("part: must be begin, resume or steps, got " + part);
  return part == "begin" ? WalkPart::kBegin : part == "resume" ? WalkPart::kResume : WalkPart::kSteps;
}

void contention(const py::dict& named, const Sizes& sizes, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  PlacementBatch batch{};
  take_model(arrays, batch.model, sizes);
  arrays.take(batch, kPlacementFields);
  batch.where = {budget, threads, arrays.first().device_id, stream};
  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::contention(batch);
#endif
  return cpu::contention(batch);
}

void walk(const py::dict& named, const Sizes& sizes, const WalkSettings& settings, const std::string& part,
          int64_t step, int64_t end, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  WalkBatch batch{};
  take_model(arrays, batch.model, sizes);
  arrays.take(batch.moves, kMovesFields);
  arrays.take(batch.budget, kMemoryBudgetFields);
  arrays.of['A'] = settings.ladders;
  arrays.of['C'] = settings.chains;
  arrays.take(batch, kWalkFields);
  batch.first = settings.first;
  batch.moves.trades = settings.trades;
  batch.moves.stays = settings.stays;
  batch.moves.joins = settings.joins;
  batch.budget.memory = settings.memory;
  batch.budget.binds = settings.binds;
  batch.seed = settings.seed;
  batch.round = settings.round;
  batch.patience = settings.patience;
  batch.part = to_part(part);
  batch.step = step;
  batch.end = end;
  if (end - step > batch.slice)
    throw py::value_error("end: must be at most " + std::to_string(batch.slice) + " steps further, got " +
                          std::to_string(end - step));
  batch.where = {budget, threads, arrays.first().device_id, stream};
  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::walk(batch);
#endif
  return cpu::walk(batch);
}

void numbers(const py::dict& named, const std::array<int64_t, 2>& key, const std::array<int64_t, 2>& counter,
             int64_t stream) {
  Arrays arrays(named);
  NumbersBatch batch{};
  arrays.take(batch, kNumbersFields);
  std::copy(key.begin(), key.end(), batch.key);
  batch.high = counter[0];
  batch.highest = counter[1];
  batch.where = {0, 1, arrays.first().device_id, stream};
  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::numbers(batch);
#endif
  return cpu::numbers(batch);
}

}  // namespace

void bind_screen(py::module_& module, py::dict& fields) {
  py::class_<Sizes>(module, "ContentionSizes", "What the estimate needs that is no array: B, and sizes of arrays.")
      .def(py::init([](int64_t servers, double first_bucket_bytes, double bucket_bytes, double unit,
                       int32_t largest_tree, int32_t coflows) {
             return Sizes{servers, first_bucket_bytes, bucket_bytes, unit, largest_tree, coflows};
           }),
           py::kw_only(), py::arg("servers"), py::arg("first_bucket_bytes"), py::arg("bucket_bytes"), py::arg("unit"),
           py::arg("largest_tree"), py::arg("coflows"));
  py::class_<WalkSettings>(module, "WalkSettings", "How chains walk: probabilities of moves, B that a GPU has.")
      .def(py::init([](int32_t ladders, int32_t chains, int32_t first, int64_t seed, int64_t round, int64_t patience,
                       double trades, double stays, double joins, int64_t memory, bool binds) {
             return WalkSettings{ladders, chains, first, seed, round, patience, trades, stays, joins, memory, binds};
           }),
           py::kw_only(), py::arg("ladders"), py::arg("chains"), py::arg("first"), py::arg("seed"), py::arg("round"),
           py::arg("patience"), py::arg("trades"), py::arg("stays"), py::arg("joins"), py::arg("memory"),
           py::arg("binds"));
  module.def("contention", &contention, py::arg("arrays"), py::arg("sizes"), py::arg("budget"), py::arg("stream"),
             py::arg("threads"), "The estimate of every placement.");
  module.def("walk", &walk, py::arg("arrays"), py::arg("sizes"), py::arg("settings"), py::arg("part"), py::arg("step"),
             py::arg("end"), py::arg("budget"), py::arg("stream"), py::arg("threads"),
             "Chains over placements: \"begin\" makes their state of their placements, \"resume\" what follows from "
             "the state, and \"steps\" walks from `step` to `end`.");
  module.def("numbers", &numbers, py::arg("arrays"), py::arg("key"), py::arg("counter"), py::arg("stream"),
             "What chains draw and compute with: numpy's Philox from [0, 0, *counter] on, log and exp.");
  fields["numbers"] = documented(kNumbersFields);
  fields["contention"] = documented(kStrategiesFields, kPathTreesFields, kContentionFields, kPlacementFields);
  fields["walk"] = documented(kStrategiesFields, kPathTreesFields, kContentionFields, kMovesFields, kMemoryBudgetFields,
                              kWalkFields);
}

}  // namespace topoflow
