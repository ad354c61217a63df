// What a world's links and paths are before anything flows, and which links need not be looked at.
//
// Source: what world.h, maxmin.h and covered.h ask for.
#pragma once

#include "state.h"

namespace topoflow::BACKEND {

struct Layout {
  MaxMin& rates;
  const State& state;

  DEVICE void operator()(const Team auto& team) const {
    leave_out_neutral(team);
    const int32_t links = rates.queue.n;
    const double least =
        team.min(links, [&](int32_t l) { return rates.bandwidth(l) > 0 ? rates.bandwidth(l) : kInfinity; });
    const double most = -team.min(links, [&](int32_t l) { return -rates.bandwidth(l); });
    rates.unit = Unit::of(least, most);
    rates.least = least;
    rates.most = most;
    team.for_each(links, [&](int32_t l) {
      const Amount all = rates.capacity(l);
      state.link[l] = {all, {}};
      state.share[l] = {};
      state.held[l] = {};
      state.share[l].watch = Share::kAmple;
      state.share[l].level = kInfinity;
      state.share[l].slack = static_cast<float>(all.units() * kSame);
    });
    team.for_each(rates.path_count, [&](int32_t p) {
      state.flows[p] = {0, -1, -1, 0};
      state.rate[p] = MaxMin::kIdle;
      state.counted[p] = 0;
      state.left[p] = -1;
    });
    lay_out(team);
    if (!rates.paths.plain()) return;
    team.for_each(rates.path_count, [&](int32_t p) {
      rates.paths.for_each_hop(p, [&](int32_t l, double) { rates.enlist(team, p, l); });
    });
    Covered{rates, state.hops, state.rows}(team, links);
    rates.paths.links = state.hops;
    rates.paths.rows = state.rows;
    team.for_each(links, [&](int32_t l) { state.share[l].touched = state.share[l].listed = 0; });
    lay_out(team);
  }

 private:
  // Weights of one and limits of none are as if there were no weights and limits.
  DEVICE void leave_out_neutral(const Team auto& team) const {
    Paths& paths = rates.paths;
    const int32_t count = rates.path_count;
    const double* const weights = paths.weight ? paths.weight + paths.offsets[0] : nullptr;
    const auto hops = static_cast<int32_t>(paths.offsets[count] - paths.offsets[0]);
    if (weights && team.any(hops, [&](int32_t hop) { return weights[hop] != 1; })) return;
    if (paths.limit && team.any(count, [&](int32_t p) { return paths.limit[p] < kInfinity; })) return;
    paths.weight = paths.limit = nullptr;
    rates.queue.n = paths.world_links;
  }

  // Gives every link its row of `members`.
  DEVICE void lay_out(const Team auto& team) const {
    team.for_each(rates.path_count, [&](int32_t p) {
      rates.paths.for_each_hop(p, [&](int32_t l, double) { team.atomic_add(&state.share[l].listed, 1); });
    });
    team.for_each(1, [&](int32_t) {
      int32_t first = 0;
      for (int32_t l = 0; l < rates.queue.n; ++l) {
        state.share[l].first = first;
        first += state.share[l].listed;
        state.share[l].listed = 0;
      }
    });
  }
};

}  // namespace topoflow::BACKEND
