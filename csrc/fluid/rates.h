// Rates of paths and state of links while a world runs: what both algorithms for the rates share.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow).
#pragma once

#include "arena.h"
#include "link.h"
#include "paths.h"

namespace topoflow::BACKEND {

struct Rates {
  Paths paths{};
  Unit unit{};
  double least = 0, most = 0;          // B/s, the capacities of links that have any
  const double* capacities = nullptr;  // [L] B/s, without the paths' limits
  int32_t path_count;                  // P
  LinkState* link;                     // [L] with the virtual links of the paths' limits
  LinkInfo* info;                      // [L]
  Bottleneck* limited;                 // [L]
  double* before;                      // [P] B/s, open paths: their rate before
  Tournament queue;                    // links by B/s: no more than the level at which they will be full
  List touched;                        // links
  double* rate;                        // [P] B/s of each flow, or kOpen: to be found, or kIdle: no flows
  int32_t* bottleneck;                 // [P] the link that limits the path, kNoLink: to be found, kNoFlows
  int32_t* counted;                    // [P] flows that the links know of
  int32_t* left;                       // [P] event at which the last flow left
  int32_t* members;                    // [H] the paths of every link that have flows, and some that had

  static constexpr double kOpen = kInfinity, kIdle = -1;
  static constexpr int32_t kNoLink = -1, kNoFlows = std::numeric_limits<int32_t>::max();

  HD Rates(Arena& arena, const Sizes& n)
      : path_count(static_cast<int32_t>(n.paths)),
        link(arena.take<LinkState>(n.links)),
        info(arena.take<LinkInfo>(n.links)),
        limited(arena.take<Bottleneck>(n.links)),
        before(arena.take<double>(n.paths)),
        queue(arena.tournament(n.links)),
        touched(arena.list(n.links)),
        rate(arena.take<double>(n.paths)),
        bottleneck(arena.take<int32_t>(n.paths)),
        counted(arena.take<int32_t>(n.paths)),
        left(arena.take<int32_t>(n.paths)),
        members(arena.take<int32_t>(n.hops)) {}

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

  // The link carries more than its capacity, by more than rounding does.
  DEVICE bool overloaded(int32_t l) const { return link[l].left.units() < -static_cast<double>(info[l].slack); }

  // What the path's flows use of a link that they cross.
  DEVICE Amount used(int32_t p, double weight, double of_rate) const {
    return weight == Paths::kPerFlow ? unit.amount(of_rate) : unit.amount(of_rate * weight) * counted[p];
  }

  DEVICE static Amount weigh(double weight, int32_t flows) {
    return weight == Paths::kPerFlow ? Amount{kWhole, 0} : Amount::of(weight * kWhole) * flows;
  }
  DEVICE Amount weigh(int32_t p, double weight) const { return weigh(weight, counted[p]); }

  // What each flow gets when this much is left for these weights.
  DEVICE double even(const Amount& left, const Amount& weight) const {
    const double units = left.units();
    return units > 0 ? units * unit.unit * kWhole / weight.units() : 0;
  }

  DEVICE void touch(const Team auto& team, int32_t l) const {
    touched.append_if(team, team.atomic_exchange(&info[l].touched, 1) == 0, l);
  }

  // A path has `now` flows: what it used is free, what it will use is open.
  // give(link, what the path used, the weight that opens, how much more that is than before).
  template <class Give>
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event, const Give& give) const {
    const int32_t then = counted[p];
    const double had = then > 0 ? rate[p] : 0;
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      const Amount comes = now > 0 ? weigh(weight, now) : Amount{}, goes = then > 0 ? weigh(weight, then) : Amount{};
      give(l, used(p, weight, had), comes, comes - goes);
      atomic_add(team, &info[l].total, comes - goes);
      if (then == 0) enlist(team, p, l);
      if (now == 0) team.atomic_add(&info[l].idle, 1);
      touch(team, l);
    });
    counted[p] = now;
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
      members[k.first + team.atomic_add(&k.listed, 1)] = p;
  }

  // Forgets paths without flows where they are more than a few.
  DEVICE void clean(int32_t l, int32_t event) const {
    LinkInfo& k = info[l];
    if (8 * k.idle <= k.listed) return;
    int32_t kept = 0;
    for (int32_t i = k.first; i < k.first + k.listed; ++i)
      if (counted[members[i]] > 0) members[k.first + kept++] = members[i];
    k.listed = kept;
    k.idle = 0;
    k.cleaned = event;
  }
};

}  // namespace topoflow::BACKEND
