// Placements and ladders: one team estimates a placement, one team runs the steps of a ladder.
//
// Source: topoflow/engine/screen/contention.py and ladders.py ask for them.
#pragma once

#include "ladder.h"
#include "numbers.h"
#include "parallel/launch.h"

namespace topoflow::BACKEND {

struct RunPlacements {
  static constexpr int kThreads = 128;  // of a team on a GPU: most of its steps have a server for an item
  static constexpr int kTeams = 8;      // that a multiprocessor has registers for

  PlacementBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  HD static int64_t team_bytes(const ContentionModel& model) {
    return (CoflowLoads::numbers(model.strategies) + Contention::numbers(model)) *
           static_cast<int64_t>(sizeof(int64_t));
  }

  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    const Strategies& strategies = batch.model.strategies;
    auto* const load = reinterpret_cast<int64_t*>(memory + team_index * bytes);
    const CoflowLoads loads(strategies, batch.placement + int64_t{i} * strategies.layers, load);
    loads.build(team);
    auto* const scratch = reinterpret_cast<double*>(load + CoflowLoads::numbers(strategies));
    const double makespan = Contention(batch.model, loads, scratch).makespan(team, kInfinity);
    team.for_each(1, [&](int32_t) { batch.makespan[i] = makespan; });
  }
};

struct RunLadders {
  static constexpr int kThreads = 128;
  static constexpr int kTeams = 8;  // 5, 6, 10 and 12 of them were slower on an H100

  WalkBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    Ladder(batch, i, Memory(memory + team_index * bytes)).walk(team, batch.step, batch.end, false);
  }
};

// Prepares ladders before the first step of a launch.
struct BeginLadders : RunLadders {
  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    const Ladder ladder(batch, i, Memory(memory + team_index * bytes));
    if (batch.part == WalkPart::kResume) return ladder.resume(team);
    ladder.begin(team);
    ladder.walk(team, 0, 0, true);
  }
};

// Runs Job{batch, memory, bytes} for every i < jobs.
template <class Job, class Batch>
void run_teams(const Batch& batch, int32_t jobs, int64_t bytes) {
  const DeviceGuard guard(batch.where.device);
  const Launch config = launch<Job>(jobs, bytes, batch.where.budget, batch.where.threads);
  const Array<std::byte> memory(config.teams * bytes);
  for_each_team(jobs, config, Job{batch, memory.data(), bytes}, to_stream(batch.where.stream));
}

struct RunNumbers {
  static constexpr int kThreads = 32;
  static constexpr int kTeams = 8;

  NumbersBatch batch;
  std::byte* memory;
  int64_t bytes;

  DEVICE void operator()(const Team auto& team, int32_t, int32_t) const {
    const Philox random{{static_cast<uint64_t>(batch.key[0]), static_cast<uint64_t>(batch.key[1])}};
    team.for_each(batch.numbers, [&](int32_t i) {
      batch.uniform[i] = random.uniform(static_cast<uint64_t>(i), static_cast<uint64_t>(batch.high),
                                        static_cast<uint64_t>(batch.highest));
      batch.log[i] = natural_log(batch.log_of[i]);
      batch.exp[i] = exponential(batch.exp_of[i]);
    });
  }
};

void numbers(const NumbersBatch& batch) { run_teams<RunNumbers>(batch, 1, 0); }

void contention(const PlacementBatch& batch) {
  run_teams<RunPlacements>(batch, batch.placements, RunPlacements::team_bytes(batch.model));
}

void walk(const WalkBatch& batch) {
  const int64_t bytes = Ladder(batch, 0, Memory(nullptr)).bytes;
  if (batch.part == WalkPart::kSteps)
    run_teams<RunLadders>(batch, batch.ladders, bytes);
  else
    run_teams<BeginLadders>(batch, batch.ladders, bytes);
}

}  // namespace topoflow::BACKEND
