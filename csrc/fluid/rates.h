// What is known of the paths and links of a world while it runs, for both ways to find the rates.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow).
#pragma once

#include "link.h"
#include "paths.h"

namespace topoflow::BACKEND {

struct Rates {
  Paths paths;
  Unit unit;
  const double* capacities;  // [L] B/s, without those of the paths' limits
  int32_t path_count;        // P
  double* rate;              // [P] B/s of each flow, or kOpen: to be found, or kIdle: no flows
  double* before;            // [P] B/s, open paths: their rate before
  int32_t* bottleneck;       // [P] the link that holds the path back, kNoLink: to be found, kNoFlows
  int32_t* counted;          // [P] flows that the links know of
  int32_t* left;             // [P] event at which the last flow left
  Link* link;                // [L] with those of the paths' limits
  Share* share;              // [L]
  Held* held;                // [L]
  int32_t* members;          // [H] the paths of every link that have flows, and some that had
  List touched;              // links

  static constexpr double kOpen = kInfinity, kIdle = -1;
  static constexpr int32_t kNoLink = -1, kNoFlows = std::numeric_limits<int32_t>::max();

  DEVICE static bool same(double a, double b) { return a >= b * (1 - kSame) && a <= b * (1 + kSame); }

  // B/s, 0 for a link that no flow crosses since its path has no limit.
  DEVICE double bandwidth(int32_t l) const {
    if (l < paths.world_links) return capacities[l];
    const double limit = paths.limit[l - paths.world_links];
    return limit < kInfinity ? limit : 0;
  }
  DEVICE Amount capacity(int32_t l) const { return unit.amount(bandwidth(l)); }

  // The link carries more than it may, by more than rounding does.
  DEVICE bool over(int32_t l) const { return link[l].left.units() < -static_cast<double>(share[l].slack); }

  // What the path's flows use of a link that they cross.
  DEVICE Amount used(int32_t p, double weight, double of_rate) const {
    return weight == Paths::kOfOne ? unit.amount(of_rate) : unit.amount(of_rate * weight) * counted[p];
  }

  DEVICE static Amount weigh(double weight, int32_t flows) {
    return weight == Paths::kOfOne ? Amount{kWhole, 0} : Amount::of(weight * kWhole) * flows;
  }
  DEVICE Amount weigh(int32_t p, double weight) const { return weigh(weight, counted[p]); }

  // What each flow gets when so much is left for these weights.
  DEVICE double even(const Amount& left, const Amount& weight) const {
    const double units = left.units();
    return units > 0 ? units * unit.unit * kWhole / weight.units() : 0;
  }

  DEVICE void touch(const Team auto& team, int32_t l) const {
    touched.append_if(team, team.atomic_exchange(&share[l].touched, 1) == 0, l);
  }

  // What a path with other flows than before had is free, what it will get is open.
  // give(link, what the path had, the weight that opens, how much more that is than before).
  template <class Give>
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event, const Give& give) const {
    const int32_t then = counted[p];
    const double had = then > 0 ? rate[p] : 0;
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      const Amount comes = now > 0 ? weigh(weight, now) : Amount{}, goes = then > 0 ? weigh(weight, then) : Amount{};
      give(l, used(p, weight, had), comes, comes - goes);
      atomic_add(team, &share[l].total, comes - goes);
      if (then == 0) enlist(team, p, l);
      if (now == 0) team.atomic_add(&share[l].idle, 1);
      touch(team, l);
    });
    counted[p] = now;
    bottleneck[p] = now > 0 ? kNoLink : kNoFlows;
    if (now > 0) return;
    rate[p] = kIdle;
    left[p] = event;
  }

  DEVICE void enlist(const Team auto& team, int32_t p, int32_t l) const {
    Share& k = share[l];
    if (left[p] > k.cleaned)
      team.atomic_add(&k.idle, -1);  // it is still listed
    else
      members[k.first + team.atomic_add(&k.listed, 1)] = p;
  }

  // Forgets paths without flows where they are more than a few.
  DEVICE void clean(int32_t l, int32_t event) const {
    Share& k = share[l];
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
