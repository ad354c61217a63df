// Gradients of worlds that have run, one for each team, after the events of each have been sorted.
//
// Source: gradient.h has the mathematics.
#pragma once

#include "gradient.h"
#include "parallel/worlds.h"

namespace topoflow::BACKEND {

// When a flow begins (event 2s of task s) or any task ends (2s + 1); infinity: it does not count.
struct EventTime {
  GradientBatch batch;
  const int32_t* world;  // [2S]

  DEVICE double operator()(int32_t event) const {
    const int32_t w = world[event], task = event / 2;
    if (batch.status[w] != kDone) return kInfinity;
    const Graphs& graphs = batch.graphs;
    const int64_t of_graph = graphs.task_offsets[batch.graph[w]] + task - batch.task_offsets[w];
    const Paths paths = WorldData::paths_of(batch, w);
    if (!WorldData::sends(graphs, paths, of_graph)) return event % 2 ? batch.finish[task] : kInfinity;
    const double* const latency = batch.latency + batch.link_offsets[w];
    const double begin = batch.start[task] + WorldData::wait(graphs, paths, latency, of_graph);
    return event % 2 && batch.finish[task] > begin ? batch.finish[task] : begin;
  }
};

// The events of the worlds before.
struct EventOffset {
  const int64_t* task_offsets;
  DEVICE int64_t operator()(int32_t world) const { return 2 * task_offsets[world]; }
};

// Events world by world, in each of them in the order of time; of those at one time, in the order of tasks.
class Events {
 public:
  Events(const GradientBatch& batch, int32_t events, Stream stream) : time_(events), event_(events) {
    const Array<int64_t> offsets(batch.worlds + 1);
    const Array<int32_t> world(events);
    tabulate(batch.worlds + 1, EventOffset{batch.task_offsets}, offsets.data(), batch.threads, stream);
    rows_of(offsets.data(), batch.worlds, events, world.data(), stream);
    tabulate(events, EventTime{batch, world.data()}, time_.data(), batch.threads, stream);
    sort_rows(world.data(), events, time_.data(), event_.data(), stream);
  }

  const double* time() const { return time_.data(); }
  const int32_t* event() const { return event_.data(); }

 private:
  Array<double> time_;
  Array<int32_t> event_;
};

struct GradientBytes {
  GradientBatch batch;
  DEVICE int64_t operator()(int32_t world) const { return GradientData::bytes(WorldData::sizes_of(batch, world)); }
};

struct RunGradient {
  static constexpr int kThreads = 32;  // of a team on a GPU
  static constexpr int kTeams = 16;    // that a multiprocessor has registers for: with fewer it would take 164 of them
  static constexpr int64_t kShared = sizeof(GradientData);

  GradientBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    if (team.poll(batch.cancel)) return;
    const int32_t world = batch.order[i];
    auto&& data = team.template emplace_shared<GradientData>(batch, world, Arena(memory + team_index * bytes));
    if (Gradient(data).run(team)) return;
    const int64_t first = batch.link_offsets[world];
    team.for_each(static_cast<int32_t>(batch.link_offsets[world + 1] - first),
                  [&](int32_t l) { batch.of_capacity[first + l] = batch.of_latency[first + l] = kUnknown; });
  }
};

void gradient(const GradientBatch& input) {
  const DeviceGuard guard(input.device);
  const Stream stream = to_stream(input.stream);
  const Events events(input, static_cast<int32_t>(2 * input.all_tasks), stream);
  GradientBatch batch = input;
  batch.time = events.time();
  batch.event = events.event();
  run_worlds<RunGradient, GradientBytes>(batch);
}

}  // namespace topoflow::BACKEND
