// Tasks that wait, and the next end of a wait: few are near, many may be far (a file of flows with start times).
//   ends 1 2 3 .. 1000, near are those up to 64   -> an event looks at 64 numbers, not at 1000
//
// Source: the near and far piles of Davidson, Baxter, Garland and Owens, Work-efficient parallel GPU methods for
// single-source shortest paths, IPDPS 2014.
#pragma once

#include "../parallel.h"

namespace topoflow::BACKEND {

struct Waits {
  const double* end;      // in  [T] s, when a task's wait ends
  List near, still_near;  // tmp tasks whose wait ends at `until` or before
  List far, still_far;    // tmp the other tasks that wait
  double until = -kInfinity;

  DEVICE void clear(const Team& team) {
    until = -kInfinity;
    team.set(near.size, 0);
    team.set(far.size, 0);
  }

  DEVICE void append(int32_t task) const { (end[task] <= until ? near : far).append(task); }

  // The next end of a wait, infinity when nothing waits.
  DEVICE double earliest(const Team& team) {
    const int32_t nears = team.get(near.size), fars = team.get(far.size);
    if (nears == 0 && fars > 0) return draw_near(team, fars);
    return team.min(nears, [&](int32_t i) { return end[near[i]]; });
  }

  // Takes out the near tasks whose wait ends at the horizon or before; says whether begins_flow(task) was true for one.
  template <class BeginsFlow>
  DEVICE bool take(const Team& team, double horizon, const BeginsFlow& begins_flow) {
    const int32_t n = team.get(near.size);
    team.set(still_near.size, 0);
    const bool found = team.any(n, [&](int32_t i) {
      const int32_t task = near[i];
      if (end[task] <= horizon) return begins_flow(task);
      still_near.append(task);
      return false;
    });
    swap(near, still_near);
    return found;
  }

 private:
  // Moves the earliest of the far tasks, about 64 of them or more where there are very many, to the empty near list.
  DEVICE double draw_near(const Team& team, int32_t fars) {
    const double lowest = team.min(fars, [&](int32_t i) { return end[far[i]]; });
    until = -team.min(fars, [&](int32_t i) { return -end[far[i]]; });
    const int32_t enough = 64 + fars / 256;
    for (int step = 0; step < 64 && until > lowest; ++step) {
      if (team.count(fars, [&](int32_t i) { return end[far[i]] <= until; }) <= enough) break;
      until = lowest + (until - lowest) / 8;
    }
    team.set(still_far.size, 0);
    team.for_each(fars, [&](int32_t i) { (end[far[i]] <= until ? near : still_far).append(far[i]); });
    swap(far, still_far);
    return lowest;
  }
};

}  // namespace topoflow::BACKEND
