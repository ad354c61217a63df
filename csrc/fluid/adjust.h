// Max-min fair rates by adjusting what changes: links whose level changes are filled again, the lowest level first.
//   links of 10 and 90 B/s, path 0 on both, paths 1 and 2 on the second   -> 10 40 40
//   then path 2 ends: the second link has 80 for path 1                   -> 10 80, and path 0 is not considered
//
// Filling a link changes the rates of the paths that it limits, and so the level of other links, which are queued.
// Paths with new flows are *open*: they rise with the links that they cross, until the first of them is filled.
//
// Source: Charny, Clark and Jain, Congestion Control with Explicit Rate Indication, ICC 1995 (each link's level from
// the levels of the others; that this ends).
#pragma once

#include "rates.h"

namespace topoflow::BACKEND {

class Adjust {
 public:
  DEVICE explicit Adjust(Rates& rates) : rates_(rates) {}

  // The path has `now` flows.
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event) const {
    if (rates_.counted_flows[p] > 0) release(team, p);
    rates_.before[p] = rates_.rate[p];
    rates_.reopen(team, p, now, event, [&](int32_t l, const Amount& freed, const Amount& opened, const Amount&) {
      atomic_add(team, &rates_.link[l].left, freed);
      atomic_add(team, &rates_.link[l].open, opened);
    });
    if (now > 0) rates_.rate[p] = Rates::kOpen;
  }

  // Fills links until no level changes; `work` becomes the paths that it considered. Returns false when it has filled
  // too many links.
  template <class Settle>
  DEVICE bool operator()(const Team auto& team, int32_t event, const Settle& settle, int64_t& work) const {
    work = 0;
    requeue(team, event, true);
    const int64_t patience = kPatience * (int64_t{rates_.links()} + 1);
    double key;
    int32_t l;
    for (int64_t fillings = 1; (l = rates_.queue.pop(team, key)) >= 0; ++fillings) {
      work += fill(team, l, key, event, settle);
      if (fillings == patience) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kPatience = 64;  // fillings per link and event

  // The capacity that the flows of a path use of its links, at an old rate and at a new one.
  struct Use {
    Amount old_use, new_use, freed;

    DEVICE Use(const Amount& old_use, const Amount& new_use)
        : old_use(old_use), new_use(new_use), freed(old_use - new_use) {}
  };
  struct Uses {
    const Rates& rates;
    int32_t p;
    double old_rate, new_rate;
    Use all;  // where all of a flow crosses

    DEVICE Use on(double weight) const {
      return weight == 1 ? all : Use(rates.used(p, weight, old_rate), rates.used(p, weight, new_rate));
    }
    DEVICE Amount freed(double weight) const { return weight == 1 ? all.freed : on(weight).freed; }
  };
  DEVICE Uses uses(int32_t p, double old_rate, double new_rate) const {
    return {rates_, p, old_rate, new_rate, {rates_.used(p, 1, old_rate), rates_.used(p, 1, new_rate)}};
  }

  DEVICE double fair_share(int32_t l) const {
    const Bottleneck& h = rates_.limited[l];
    return rates_.fair_share(rates_.link[l].left + h.used + h.above_used,
                             h.weight + h.above_weight + rates_.link[l].open);
  }

  // Its bottleneck no longer limits this path.
  DEVICE void release(const Team auto& team, int32_t p) const {
    const int32_t l = rates_.bottleneck[p];
    const double weight = rates_.paths.weight_on(p, l);
    atomic_add(team, &rates_.limited[l].used, Amount{} - rates_.used(p, weight, rates_.rate[p]));
    atomic_add(team, &rates_.limited[l].weight, Amount{} - rates_.weigh(p, weight));
  }

  // Queues the touched links whose level is another. `opened`: paths have been opened on them.
  DEVICE void requeue(const Team auto& team, int32_t event, bool opened) const {
    rates_.for_each_touched(team, event, [&](int32_t l) {
      Bottleneck& h = rates_.limited[l];
      rates_.info[l].touched = 0;
      // It had less than ample left only between two paths, so whether it was touched depends on which came first.
      if (!opened && !rates_.limits(l) && rates_.link[l].left.high >= LinkInfo::kAmple) return;
      if (h.weight + rates_.link[l].open == Amount{}) {
        rates_.level[l] = kInfinity;
        h.above_weight = h.above_used = {};
        rates_.watch[l] = LinkInfo::kAmple;
        if (rates_.overloaded(l)) rates_.queue.lower(team, l, 0);
        return;
      }
      const double level = fair_share(l);
      if (!(rates_.link[l].open + h.above_weight == Amount{}) || !Rates::same(level, rates_.level[l]))
        rates_.queue.lower(team, l, level);
    });
  }

  // `key` is what the queue had as the link's level, which may have risen since.
  template <class Settle>
  DEVICE int32_t fill(const Team auto& team, int32_t l, double key, int32_t event, const Settle& settle) const {
    Bottleneck& h = rates_.limited[l];
    const bool none = h.weight + h.above_weight + rates_.link[l].open == Amount{};
    if (none && !rates_.overloaded(l)) return 0;
    const double old = rates_.level[l];
    double level = none ? 0 : fair_share(l);
    const bool known = h.above_weight == Amount{} && level >= old * (1 - kSame);  // nobody else has more
    if (known && rates_.link[l].open == Amount{} && Rates::same(level, old)) return 0;
    if (comes_later(team, l, level, key)) return 0;
    const int32_t n = gather(team, l, level, known);
    if (!known && comes_later(team, l, level, key)) return 0;
    if (Rates::same(level, old)) level = old;
    team.for_each(1, [&](int32_t) { rates_.watch[l] = LinkInfo::kAmple; });
    const Amount old_amount = rates_.unit.amount(old < kInfinity ? old : 0), new_amount = rates_.unit.amount(level);
    const double time_scale = old / level;
    team.for_each(n, [&](int32_t i) {
      const int32_t p = rates_.order[i];
      if (rates_.rate[p] < Rates::kOpen && rates_.bottleneck[p] == l) {
        if (level != old)
          keep(team, p, l, level,
               {rates_, p, old, level, {old_amount * rates_.counted_flows[p], new_amount * rates_.counted_flows[p]}},
               time_scale, settle);
      } else if (rates_.rate[p] > level * (1 + kSame)) {
        take(team, p, l, level, settle);
      }
    });
    team.for_each(1, [&](int32_t) {
      rates_.level[l] = level;
      h.above_weight = h.above_used = {};
      rates_.watch[l] = LinkInfo::kAlways;
    });
    requeue(team, event, false);
    return n;
  }

  // Another link comes before this one: then this goes back into the queue.
  DEVICE bool comes_later(const Team auto& team, int32_t l, double level, double key) const {
    if (level <= key * (1 + kSame) || level <= rates_.queue.lowest(team) * (1 + kSame)) return false;
    team.wait();  // until all have looked into the queue
    team.for_each(1, [&](int32_t) { rates_.queue.lower(team, l, level); });
    return true;
  }

  // Lists the paths that the link may change, and raises `level` to the link's. Returns how many paths they are.
  DEVICE int32_t gather(const Team auto& team, int32_t l, double& level, bool known) const {
    const LinkInfo& k = rates_.info[l];
    const Bottleneck& h = rates_.limited[l];
    const double raised_level = level * (1 + kSame), current_level = rates_.level[l] * (1 - kSame);
    const double threshold = raised_level < current_level ? raised_level : current_level;
    const int32_t *const row = rates_.members + k.first, *const order = rates_.order.items;
    const int32_t candidates = team.pick(
        k.num_members, [=](int32_t i) { return row[i]; }, rates_.order.items,
        [&](int32_t p) { return rates_.rate[p] >= threshold; }, [](int32_t) {});
    if (known) return candidates;
    const int32_t n = team.pick(
        candidates, [=](int32_t i) { return order[i]; }, rates_.limited_elsewhere.items,
        [&](int32_t p) {
          return (rates_.rate[p] > raised_level) & (rates_.rate[p] < Rates::kOpen) & (rates_.bottleneck[p] != l);
        },
        [](int32_t) {});
    // Newton's method on a sum that bends where a path stops rising: from below, and fewer paths rise in each step.
    Amount rising = h.above_weight;
    for (bool begun = false;; begun = true) {
      const Load above = team.sum(n, [&](int32_t i) { return above_level(rates_.limited_elsewhere[i], l, level); });
      if (above.weight == rising || (begun && !(above.weight.units() < rising.units()))) return candidates;
      if (h.weight + rates_.link[l].open + above.weight == Amount{}) return candidates;
      rising = above.weight;
      level =
          rates_.fair_share(rates_.link[l].left + h.used + above.used, h.weight + rates_.link[l].open + above.weight);
    }
  }

  struct Load {
    Amount used, weight;
    DEVICE Load operator+(const Load& b) const { return {used + b.used, weight + b.weight}; }
  };

  DEVICE Load above_level(int32_t p, int32_t l, double level) const {
    if (!(rates_.rate[p] > level * (1 + kSame))) return {};
    const double weight = rates_.paths.weight_on(p, l);
    return {rates_.used(p, weight, rates_.rate[p]), rates_.weigh(p, weight)};
  }

  // A path that this link limits gets another rate.
  template <class Settle>
  DEVICE void keep(const Team auto& team, int32_t p, int32_t to, double level, const Uses& use, double time_scale,
                   const Settle& settle) const {
    rates_.paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (atomic_add(team, &rates_.link[l].left, use.freed(weight)) < rates_.watch[l]) look_at(team, p, l, weight, use);
    });
    atomic_add(team, &rates_.limited[to].used, Amount{} - use.freed(rates_.paths.weight_on(p, to)));
    rates_.rate[p] = level;
    settle(p, time_scale);
  }

  // A path that is open, or that another link limits, is limited by this one from now on.
  template <class Settle>
  DEVICE void take(const Team auto& team, int32_t p, int32_t to, double level, const Settle& settle) const {
    const bool open = rates_.rate[p] == Rates::kOpen;
    if (!open) release(team, p);
    const Uses use = uses(p, open ? 0 : rates_.rate[p], level);
    rates_.paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (open) atomic_add(team, &rates_.link[l].open, Amount{} - rates_.weigh(p, weight));
      if (atomic_add(team, &rates_.link[l].left, use.freed(weight)) < rates_.watch[l]) look_at(team, p, l, weight, use);
    });
    const double weight = rates_.paths.weight_on(p, to);
    atomic_add(team, &rates_.limited[to].used, use.on(weight).new_use);
    atomic_add(team, &rates_.limited[to].weight, rates_.weigh(p, weight));
    const double before_it = open ? rates_.before[p] : rates_.rate[p];
    rates_.rate[p] = level;
    rates_.bottleneck[p] = to;
    settle(p, before_it / level);
  }

  // The rate of a path on this link has changed: updates the sums if it is above the link's level, before or after.
  DEVICE void look_at(const Team auto& team, int32_t p, int32_t l, double weight, const Uses& use) const {
    rates_.touch(team, l);
    if (!rates_.limits(l)) return;
    Bottleneck& h = rates_.limited[l];
    const double limit = rates_.level[l] * (1 + kSame);
    const bool was_above = use.old_rate > limit, is_above = use.new_rate > limit;
    if (!was_above && !is_above) return;
    const Use on = use.on(weight);
    atomic_add(team, &h.above_used, (is_above ? on.new_use : Amount{}) - (was_above ? on.old_use : Amount{}));
    if (was_above != is_above) atomic_add(team, &h.above_weight, rates_.weigh(p, weight) * (is_above ? 1 : -1));
  }

  Rates& rates_;
};

}  // namespace topoflow::BACKEND
