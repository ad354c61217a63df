// Tabulates a function for 0, 1, 2, ... on the device.
#pragma once

#include "launch.h"

namespace topoflow::BACKEND {

template <class F, class T>
struct Tabulate {
  static constexpr int kThreads = 128;  // of a team on a GPU
  static constexpr int kTeams = 8;      // that a multiprocessor has registers for
#ifdef TOPOFLOW_ON_GPU
  static constexpr int32_t kValues = kThreads;  // that a team computes at a time
#else
  static constexpr int32_t kValues = 1 << 16;  // waking threads for fewer costs more than it gains
#endif

  F f;
  T* values;
  int32_t n;

  DEVICE void operator()(const Team auto& team, int32_t, int32_t part) const {
    const int32_t first = part * kValues, remaining = n - first;
    team.for_each(remaining < kValues ? remaining : kValues, [&](int32_t i) { values[first + i] = f(first + i); });
  }
};

// Writes f(i) into values[i] for every i < n. `threads` as for launch().
template <class F, class T>
void tabulate(int32_t n, const F& f, T* values, int32_t threads, Stream stream) {
  using Job = Tabulate<F, T>;
  const int32_t parts = n / Job::kValues + (n % Job::kValues > 0);
  for_each_team(parts, launch<Job>(parts, 0, 0, threads), Job{f, values, n}, stream);
}

}  // namespace topoflow::BACKEND
