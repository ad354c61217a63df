// Groups of worlds, one for each team. Source: bound.h has the physics.
#pragma once

#include <algorithm>

#include "bound.h"

namespace topoflow::BACKEND {

struct RunBound {
  BoundBatch batch;
  double* memory;
  int64_t numbers;  // of one team

  DEVICE void operator()(const Team& team, int32_t place, int32_t group) const {
    if (team.get(batch.cancel) == 0) Bound(batch, group, memory + place * numbers).run(team);
  }
};

void bound(const BoundBatch& batch) {
  constexpr int64_t line = 64;  // B of a cache line: a row that begins with one touches no second
  const DeviceGuard guard(batch.device);
  const int32_t groups = (batch.worlds + kLanes - 1) / kLanes;
  const int32_t most_teams = std::min(groups, batch.threads > 0 ? batch.threads : max_teams<RunBound>());
  const int64_t numbers = Bound::numbers(batch.outline), bytes = numbers * static_cast<int64_t>(sizeof(double));
  const int64_t fitting = std::max<int64_t>(1, batch.budget / bytes);
  const auto teams = static_cast<int32_t>(std::min<int64_t>(fitting, most_teams));
  const Memory memory(teams * bytes + line);
  const auto start = (reinterpret_cast<uintptr_t>(memory.start()) + line - 1) / line * line;
  for_each_team(groups, teams, RunBound{batch, reinterpret_cast<double*>(start), numbers}, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
