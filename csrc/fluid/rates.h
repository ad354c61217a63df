// Rates of paths and state of links while a world runs: what both algorithms for the rates share.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow).
#pragma once

#include "arena.h"
#include "link.h"
#include "parallel/pairs.h"
#include "path_states.h"

namespace topoflow::BACKEND {

// The arrays that filling uses most: in the team's fast memory if that has room for them.
struct Hot {
  void* packed;    // Pairs [L]
  double* key;     // [L]
  int32_t* awake;  // [L] links that take part in the filling

  HD static int64_t bytes(int64_t links) {
    return links * (Pairs::kBytes + static_cast<int64_t>(sizeof(double) + sizeof(int32_t)));
  }
};

// Counters that live from one event to the next. They lie in the team's memory: a GPU's registers are too few.
struct Tally {
  int32_t events, flowing;  // events that have ended; paths that have flows
  int64_t work;             // rates that the last event changed, or paths that it considered to change them
  int64_t loss;             // what the other algorithm would have saved of late, in paths that are refilled (maxmin.h)
};

struct Rates {
  Paths paths{};
  Unit unit{};
  double min_capacity = 0, max_capacity = 0;    // B/s, the capacities of links that have any
  Global<const double> capacities{};            // [L] B/s, without the paths' limits
  int32_t path_count;                           // P
  Global<LinkState> link;                       // [L] with the virtual links of the paths' limits
  Global<LinkInfo> info;                        // [L]
  Global<int64_t> watch;                        // [L] it is checked when less than this is left of it, of `high`
  Global<double> level;                         // [L] B/s of the paths that it limits; infinity: there are none
  Global<int32_t> awake;                        // [L] 1: it takes part in the filling
  Global<Bottleneck> limited;                   // [L]
  Global<double> before;                        // [P] B/s, open paths: their rate before
  Tournament queue;                             // links by B/s: no more than the level at which they will be full
  List touched;                                 // links
  PathStates states;                            // [P]
  decltype(PathStates::rate) rate;              // [P] B/s of each flow, or kOpen: to be found, or kIdle: no flows
  decltype(PathStates::bottleneck) bottleneck;  // [P] the link that limits the path, kNoLink: to be found, kNoFlows
  decltype(PathStates::counted_flows) counted_flows;  // [P] flows that the links know of
  Global<int32_t> left;                               // [P] event at which the last flow left
  Global<int32_t> members;                            // [H] the paths of every link that have flows, and some that had
  List order;                    // paths as refilling froze them; adjusting lists here those that may change
  Global<int32_t> filled_links;  // [L] links as refilling filled them, their levels ascending
  Global<int32_t> first_frozen;  // [L] where the paths of each of these begin in `order`
  List limited_elsewhere;        // paths that others than the link that is adjusted limit
  Hot hot;

  Tally tally{};

  static constexpr int32_t kSnapshots = 16;
  int32_t frozen_at[kSnapshots] = {};  // paths that were frozen at each snapshot of refilling, ascending

  static constexpr double kOpen = kInfinity, kIdle = -1;
  static constexpr int32_t kNoLink = -1, kNoFlows = std::numeric_limits<int32_t>::max();

  // `fast`: Hot::bytes(links) of the team's fast memory, or null.
  HD Rates(Arena& arena, const Sizes& n, std::byte* fast)
      : path_count(static_cast<int32_t>(n.paths)),
        link(arena.take<LinkState>(n.links)),
        info(arena.take<LinkInfo>(n.links)),
        watch(arena.take<int64_t>(n.links)),
        level(arena.take<double>(n.links)),
        awake(arena.take<int32_t>(n.links)),
        limited(arena.take<Bottleneck>(n.links)),
        before(arena.take<double>(n.paths)),
        queue(arena.tournament(n.links)),
        touched(arena.list(n.links)),
        states(arena, n.paths),
        rate(states.rate),
        bottleneck(states.bottleneck),
        counted_flows(states.counted_flows),
        left(arena.take<int32_t>(n.paths)),
        members(arena.take<int32_t>(n.hops)),
        order(arena.list(n.paths)),
        filled_links(arena.take<int32_t>(n.links)),
        first_frozen(arena.take<int32_t>(n.links)),
        limited_elsewhere(arena.list(n.paths)) {
    double* const keys = reinterpret_cast<double*>(fast);
    std::byte* const pairs = fast + n.links * static_cast<int64_t>(sizeof(double));
    if (fast)
      hot = {pairs, keys, reinterpret_cast<int32_t*>(pairs + n.links * Pairs::kBytes)};
    else
      hot = {link, queue.key, touched.items};
  }

  DEVICE static bool same(double a, double b) { return a >= b * (1 - kSame) && a <= b * (1 + kSame); }

  // Links, with those of the paths' limits.
  DEVICE int32_t links() const { return queue.n; }

  // B/s, 0 for a link that no flow crosses since its path has no limit.
  DEVICE double bandwidth(int32_t l) const {
    if (l < paths.world_links) return capacities[l];
    const double limit = paths.limit[l - paths.world_links];
    return limit < kInfinity ? limit : 0;
  }
  DEVICE Amount capacity(int32_t l) const { return unit.amount(bandwidth(l)); }

  DEVICE bool limits(int32_t l) const { return watch[l] == LinkInfo::kAlways; }

  // The link carries more than its capacity, by more than rounding does.
  DEVICE bool overloaded(int32_t l) const { return link[l].left.units() < -static_cast<double>(info[l].slack); }

  // Returns the capacity that the path's flows use of a link that they cross.
  DEVICE Amount used(int32_t p, double weight, double of_rate) const {
    return weight == Paths::kPerFlow ? unit.amount(of_rate) : unit.amount(of_rate * weight) * counted_flows[p];
  }

  DEVICE static Amount weigh(double weight, int32_t flows) {
    return weight == Paths::kPerFlow ? Amount{kWhole, 0} : Amount::of(weight * kWhole) * flows;
  }
  DEVICE Amount weigh(int32_t p, double weight) const { return weigh(weight, counted_flows[p]); }

  // Returns the rate of each flow when these weights share this remaining capacity.
  DEVICE double fair_share(const Amount& left, const Amount& weight) const {
    const double units = left.units();
    return units > 0 ? units * unit.unit * kWhole / weight.units() : 0;
  }

  DEVICE void touch(const Team auto& team, int32_t l) const {
    touched.append_if(team, team.atomic_exchange(&info[l].touched, 1) == 0, l);
  }

  // A path has `now` flows: what it used is free, what it will use is open.
  // give(link, what the path used, the weight that opens, how much more that is than before).
  template <class Give>
  INLINED_ON_CPU void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event, const Give& give) const {
    const int32_t then = counted_flows[p];
    const double rate_before = then > 0 ? rate[p] : 0;
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      const Amount opened = now > 0 ? weigh(weight, now) : Amount{}, closed = then > 0 ? weigh(weight, then) : Amount{};
      give(l, used(p, weight, rate_before), opened, opened - closed);
      atomic_add(team, &info[l].total, opened - closed);
      if (then == 0) enlist(team, p, l);
      if (now == 0) team.atomic_add(&info[l].idle, 1);
      touch(team, l);
    });
    counted_flows[p] = now;
    bottleneck[p] = now > 0 ? kNoLink : kNoFlows;
    if (now > 0) return;
    rate[p] = kIdle;
    left[p] = event;
  }

  DEVICE void enlist(const Team auto& team, int32_t p, int32_t l) const {
    LinkInfo& k = info[l];
    if (left[p] > k.cleaned)
      team.atomic_add(&k.idle, -1);  // it is still listed
    else
      members[k.first + team.atomic_add(&k.num_members, 1)] = p;
  }

  // Calls f(link) for every touched link, and forgets its paths without flows where they are more than a few.
  template <class F>
  DEVICE void for_each_touched(const Team auto& team, int32_t event, const F& f) const {
    const int32_t n = touched.count(team);
    team.team_for_each_if(
        n, [&](int32_t i) { return 8 * info[touched[i]].idle > info[touched[i]].num_members; },
        [&](int32_t i) { clean(team, touched[i], event); });
    team.for_each(n, [&](int32_t i) { f(touched[i]); });
    touched.forget(team);
  }

  DEVICE void clean(const Team auto& team, int32_t l, int32_t event) const {
    LinkInfo& k = info[l];
    const int32_t remaining =
        team.retain(k.num_members, members + k.first, [&](int32_t p) { return counted_flows[p] > 0; });
    team.once([&] {
      k.num_members = remaining;
      k.idle = 0;
      k.cleaned = event;
    });
  }
};

}  // namespace topoflow::BACKEND
