// A world's links and paths before anything flows, without the links that can be left out.
//
// Source: what world.h, rates.h and covered.h ask for.
#pragma once

#include "covered.h"
#include "state.h"

namespace topoflow::BACKEND {

struct Layout {
  Rates& rates;
  const State& state;

  DEVICE void operator()(const Team auto& team) const {
    leave_out_neutral(team);
    const int32_t links = rates.links();
    const double min_capacity =
        team.min(links, [&](int32_t l) { return rates.bandwidth(l) > 0 ? rates.bandwidth(l) : kInfinity; });
    const double max_capacity = -team.min(links, [&](int32_t l) { return -rates.bandwidth(l); });
    team.set(&rates.unit, Unit::of(min_capacity, max_capacity));
    team.set(&rates.min_capacity, min_capacity);
    team.set(&rates.max_capacity, max_capacity);
    team.for_each(links, [&](int32_t l) {
      const Amount all = rates.capacity(l);
      rates.link[l] = {all, {}};
      rates.info[l] = {};
      rates.limited[l] = {};
      rates.watch[l] = LinkInfo::kAmple;
      rates.level[l] = kInfinity;
      rates.awake[l] = 0;
      rates.info[l].slack = static_cast<float>(all.units() * kSame);
    });
    team.for_each(rates.path_count, [&](int32_t p) {
      state.flows[p] = {0, -1, -1, 0};
      rates.rate[p] = Rates::kIdle;
      rates.counted_flows[p] = 0;
      rates.left[p] = -1;
    });
    lay_out(team);
    team.for_each(rates.path_count, [&](int32_t p) {
      rates.paths.for_each_hop(p, [&](int32_t l, double) { rates.enlist(team, p, l); });
    });
    Covered{rates, state.hops, state.weights, state.rows}(team);
    const bool weighted = rates.paths.weight;
    team.wait();  // until all have read it
    if (weighted) team.set(&rates.paths.weight, static_cast<const double*>(state.weights));
    team.set(&rates.paths.links, static_cast<const int32_t*>(state.hops));
    team.set(&rates.paths.rows, static_cast<const Row*>(state.rows));
    team.for_each(links, [&](int32_t l) { rates.info[l].touched = rates.info[l].num_members = 0; });
    lay_out(team);
  }

 private:
  // Weights of one and limits of none are as if there were no weights and limits.
  DEVICE void leave_out_neutral(const Team auto& team) const {
    Paths& paths = rates.paths;
    const int32_t count = rates.path_count;
    const double* const weights = paths.weight ? paths.weight + paths.offsets[0] : nullptr;
    const auto hops = static_cast<int32_t>(paths.offsets[count] - paths.offsets[0]);
    const bool weighted = weights && team.any(hops, [&](int32_t hop) { return weights[hop] != 1; });
    const bool limited = paths.limit && team.any(count, [&](int32_t p) { return paths.limit[p] < kInfinity; });
    team.wait();  // until all have read them
    if (!weighted) team.set(&paths.weight, nullptr);
    if (limited) return;
    team.set(&paths.limit, nullptr);
    team.set(&rates.queue.n, paths.world_links);
  }

  // Gives every link its row of `members`.
  DEVICE void lay_out(const Team auto& team) const {
    team.for_each(rates.path_count, [&](int32_t p) {
      rates.paths.for_each_hop(p, [&](int32_t l, double) { team.atomic_add(&rates.info[l].num_members, 1); });
    });
    team.for_each(1, [&](int32_t) {
      int32_t first = 0;
      for (int32_t l = 0; l < rates.links(); ++l) {
        rates.info[l].first = first;
        first += rates.info[l].num_members;
        rates.info[l].num_members = 0;
      }
    });
  }
};

}  // namespace topoflow::BACKEND
