// Max-min fair rates: no flow can get more without taking from a flow that has no more than it.
//   one link of 90 B/s, three flows              -> 30 30 30
//   same, but flow 0 also crosses a 10 B/s link  -> 10 40 40
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (progressive filling: raise all rates together, freeze
// the flows of a link that is full). Ros-Giralt and Tsai, A Lexicographic Optimization Framework to the Flow Control
// Problem, IEEE Trans. Information Theory 56(6), 2010: a link may be frozen as soon as it is the tightest one
// of all its flows, so bottlenecks far from each other are found in one round instead of one after the other.
//
// Only the flows that can feel a change take part: those that share a link with a flow that came or went, those that
// share a link with them, and so on. What frozen flows use of a link is summed in integers (2^-60 of its capacity),
// so that the order of the flows, and so the number of threads, does not change a bit of the result. Where several
// threads set one flag they all set it to 1.
#pragma once

#include "../parallel.h"

namespace topoflow::BACKEND {

constexpr double kSame = 1e-12;              // two shares or two instants closer than this, relatively, are one
constexpr int64_t kFull = int64_t{1} << 60;  // all of a link

struct MaxMin {
  const int64_t* path_offsets;  // in  [P+1]   hops of every path
  const int32_t* path_links;    // in  [hops]  their links
  const int32_t* path;          // in  [T]     path of every flow
  const double* capacity;       // in  [L]     B/s
  int32_t* dirty;               // i/o [L]     1: a flow came or went since the last filling
  double* level;                // tmp [T]     B/s; kIdle between two fillings
  int32_t* count;               // tmp [L]     hops of flows that are not frozen; 0 between two fillings
  int64_t* used;                // tmp [L]     what frozen flows take, kFull is all
  double* share;                // tmp [L]     B/s for each hop that is not frozen
  int32_t* blocked;             // tmp [L]     1: a flow on it is held back elsewhere
  List links;                   // tmp         links that take part
  List open, still_open;        // tmp         flows that are not frozen

  static constexpr double kIdle = -1.0;

  DEVICE int64_t hops(int32_t flow) const { return path_offsets[path[flow] + 1] - path_offsets[path[flow]]; }

  template <class F>
  DEVICE void for_each_link(int32_t flow, F f) const {
    const int64_t end = path_offsets[path[flow] + 1];
    for (int64_t hop = path_offsets[path[flow]]; hop < end; ++hop) f(path_links[hop]);
  }

  DEVICE void touch(int32_t flow) const {
    for_each_link(flow, [&](int32_t link) { dirty[link] = 1; });
  }

  // Calls settle(flow, rate) once for each flow among `flows` whose rate may have changed.
  template <class Settle>
  DEVICE void operator()(const Team& team, const List& flows, const Settle& settle) {
    gather(team, flows);
    while (const int32_t n = team.get(open.size)) {
      measure(team, n);
      team.set(still_open.size, 0);
      team.for_each(n, [&](int32_t i) { freeze(open[i], settle); });
      swap(open, still_open);
    }
  }

 private:
  DEVICE void gather(const Team& team, const List& flows) const {
    team.set(open.size, 0);
    team.set(links.size, 0);
    const int32_t n = team.get(flows.size);
    while (team.any(n, [&](int32_t i) { return reach(flows[i]); }) && team.get(open.size) < n) {
    }
    team.for_each(team.get(open.size), [&](int32_t i) {
      for_each_link(open[i], [&](int32_t link) {
        if (atomic_add(&count[link], 1) != 0) return;
        used[link] = 0;
        links.append(link);
      });
    });
  }

  // Takes a flow in when one of its links is dirty; then all of them are.
  DEVICE bool reach(int32_t flow) const {
    if (level[flow] != kIdle) return false;
    bool reached = false;
    for_each_link(flow, [&](int32_t link) { reached |= dirty[link] != 0; });
    if (!reached) return false;
    level[flow] = 0;
    open.append(flow);
    touch(flow);
    return true;
  }

  // An even share for each link, the least share on its path for each flow.
  DEVICE void measure(const Team& team, int32_t n) const {
    team.for_each(team.get(links.size), [&](int32_t i) {
      const int32_t link = links[i];
      const double left = kFull > used[link] ? static_cast<double>(kFull - used[link]) / kFull : 0;
      share[link] = capacity[link] * left / count[link];
      blocked[link] = 0;
      dirty[link] = 0;
    });
    team.for_each(n, [&](int32_t i) {
      double lowest = kInfinity;
      for_each_link(open[i], [&](int32_t link) { lowest = share[link] < lowest ? share[link] : lowest; });
      for_each_link(open[i], [&](int32_t link) {
        if (share[link] > lowest * (1 + kSame)) blocked[link] = 1;
      });
      level[open[i]] = lowest;
    });
  }

  template <class Settle>
  DEVICE void freeze(int32_t flow, const Settle& settle) const {
    bool frozen = false;
    for_each_link(flow, [&](int32_t link) { frozen |= blocked[link] == 0; });
    if (!frozen) return still_open.append(flow);
    const double rate = level[flow];
    for_each_link(flow, [&](int32_t link) {
      const double part = rate < capacity[link] ? rate / capacity[link] : 1;
      atomic_add(&used[link], static_cast<int64_t>(part * kFull));
      atomic_add(&count[link], -1);
    });
    level[flow] = kIdle;
    settle(flow, rate);
  }
};

}  // namespace topoflow::BACKEND
