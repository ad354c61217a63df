// Groups of worlds, one for each team. Source: bound.h has the physics.
#pragma once

#include "bound.h"
#include "parallel/launch.h"

namespace topoflow::BACKEND {

struct RunBound {
  static constexpr int kThreads = 256;  // of a team on a GPU
  static constexpr int kTeams = 4;      // that a multiprocessor has registers for

  BoundBatch batch;
  double* memory;
  int64_t numbers;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t group) const {
    if (!team.poll(batch.cancel)) Bound(batch, group, memory + team_index * numbers).run(team);
  }
};

void bound(const BoundBatch& batch) {
  constexpr int64_t line = 64;  // B of a cache line: a row that begins with one touches no second
  const DeviceGuard guard(batch.device);
  const int32_t groups = (batch.worlds + kLanes - 1) / kLanes;
  const int64_t numbers = Bound::numbers(batch.graph), bytes = numbers * static_cast<int64_t>(sizeof(double));
  const Launch config = launch<RunBound>(groups, bytes, batch.budget, batch.threads);
  const Array<std::byte> memory(config.teams * bytes + line);
  const auto start = (reinterpret_cast<uintptr_t>(memory.data()) + line - 1) / line * line;
  for_each_team(groups, config, RunBound{batch, reinterpret_cast<double*>(start), numbers}, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
