// The laws of max-min fair rates, verified from nothing after every event: only in builds with -DTOPOFLOW_CHECKED.
//
//   capacity    no link carries more than its capacity
//   fairness    every path is limited by a link that it crosses, that is full, and on which no path has a higher rate
//   accounts    what adjusting knows of a link (adjust.h) is what its paths use of it, to the last bit
//
// The first two hold up to tolerance(); maxmin.h derives it. The third is exact, since sums in fixed point are
// (link.h). Costs O(links + hops) for each event.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (rates are max-min fair if and only if every flow has a
// bottleneck).
#pragma once

#include "rates.h"
#ifndef TOPOFLOW_ON_GPU
#include <cstdio>
#endif

namespace topoflow::BACKEND {

class Checked {
 public:
  DEVICE explicit Checked(const Rates& rates) : rates_(rates) {}

  // Returns whether all laws hold between two events. `adjusting`: adjust.h is going to use the sums of each link.
  DEVICE bool operator()(const Team auto& team, bool adjusting) const {
    team.wait();
    const bool broken = team.any(rates_.links(), [&](int32_t l) { return !link_holds(l, adjusting); }) |
                        team.any(rates_.path_count, [&](int32_t p) { return !path_holds(p); });
    team.wait();
    return !broken;
  }

 private:
  // Relative error of the load of a link; maxmin.h derives it. Three errors add up: levels within kSame are the same;
  // keys of n links drop the last log2(n) bits of a level; and the load of each flow is rounded to a unit, which is at
  // most 2^-44 of the capacity where links are packed (link_store.h), and to 2^-30 of a unit elsewhere (link.h).
  DEVICE double tolerance(int32_t l) const {
    if (!(rates_.bandwidth(l) > 0)) return 0;
    const double flows = rates_.info[l].total.units() / kWhole, all = rates_.capacity(l).units();
    return 4 * kSame + 4 * kUlp * rates_.links() + flows * (kPackedUnit + 1 / (Amount::kLow * all));
  }

  struct Sums {
    Amount used, open, weight, limited_use, above_weight,
        above;  // `limited_use` and `weight`: of the paths that the link limits
  };
  DEVICE Sums sums(int32_t l) const {
    const Rates& r = rates_;
    Sums s{};
    for (int32_t i = r.info[l].first; i < r.info[l].first + r.info[l].num_members; ++i) {
      const int32_t p = r.members[i];
      if (r.counted_flows[p] == 0) continue;
      const double weight = r.paths.weight_on(p, l);
      const Amount use = r.used(p, weight, r.rate[p]), weighs = r.weigh(p, weight);
      s.used = s.used + use;
      if (r.bottleneck[p] == l) {
        s.weight = s.weight + weighs;
        s.limited_use = s.limited_use + use;
      } else if (r.rate[p] > r.level[l] * (1 + kSame)) {
        s.above_weight = s.above_weight + weighs;
        s.above = s.above + use;
      }
    }
    return s;
  }

  DEVICE bool link_holds(int32_t l, bool adjusting) const {
    const Rates& r = rates_;
    const Sums s = sums(l);
    const double all = r.capacity(l).units(), used = s.used.units(), slack = all * tolerance(l);
    if (used > all + slack) return fail("capacity: it carries", l, used / all);
    if (!(s.weight == Amount{}) && used < all - slack)
      return fail("fairness: it limits paths and carries", l, used / all);
    if (!adjusting) return true;
    const Bottleneck& h = r.limited[l];
    if (!(r.capacity(l) - s.used == r.link[l].left)) return fail("accounts: left", l, r.link[l].left.units());
    if (!(r.link[l].open == Amount{})) return fail("accounts: open", l, r.link[l].open.units());
    if (!r.limits(l)) return s.weight == Amount{} || fail("accounts: it limits paths unwatched", l, s.weight.units());
    if (!(h.weight == s.weight)) return fail("accounts: weight", l, h.weight.units());
    if (!(h.used == s.limited_use)) return fail("accounts: held", l, h.used.units());
    if (!(h.above_weight == Amount{}) || !(h.above_used == Amount{}))
      return fail("accounts: a path above it is not dealt with", l, h.above_weight.units());
    return s.above_weight == Amount{} || fail("accounts: a path is above it", l, s.above_weight.units());
  }

  DEVICE bool path_holds(int32_t p) const {
    const Rates& r = rates_;
    if (r.counted_flows[p] == 0) return true;
    const int32_t to = r.bottleneck[p];
    if (to < 0 || to >= r.links()) return fail("fairness: a path without a bottleneck", p, r.rate[p]);
    bool crosses = false;
    r.paths.for_each_hop(p, [&](int32_t l, double) { crosses = crosses || l == to; });
    if (!crosses) return fail("fairness: a path does not cross its bottleneck", p, to);
    if (r.rate[p] != r.level[to]) return fail("accounts: a path's rate is not its bottleneck's", p, r.rate[p]);
    bool fair = true;
    for (int32_t i = r.info[to].first; i < r.info[to].first + r.info[to].num_members; ++i) {
      const int32_t other = r.members[i];
      fair = fair && (r.counted_flows[other] == 0 || r.rate[other] <= r.rate[p] * (1 + tolerance(to)));
    }
    return fair || fail("fairness: another path on its bottleneck has more", p, r.rate[p]);
  }

  DEVICE bool fail([[maybe_unused]] const char* message, [[maybe_unused]] int32_t index,
                   [[maybe_unused]] double value) const {
#ifndef TOPOFLOW_ON_GPU
    std::fprintf(stderr, "event %d: %s, link or path %d, %.17g\n", rates_.tally.events, message, index, value);
#endif
    return false;
  }

  static constexpr double kUlp = std::numeric_limits<double>::epsilon(), kPackedUnit = 1.0 / (int64_t{1} << 45);

  const Rates& rates_;
};

}  // namespace topoflow::BACKEND
