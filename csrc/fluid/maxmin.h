// Max-min fair rates, kept up to date: no flow can get more without taking from a flow that has no more than it.
//   one link of 90 B/s, three flows              -> 30 30 30
//   same, but flow 0 also crosses a 10 B/s link  -> 10 40 40
//   then flow 2 ends                             -> 10 80: flow 0 and its link are not looked at
//
// Every path is held back by one of its links, which is full and on which nobody has more. When flows come or go, the
// links whose level that changes are filled again, the lowest level first; filling changes the rates of the paths that
// the link holds back, and so the level of other links. When no link is left, all is as the first sentence says, and
// rates that may stay were never looked at. Paths with new flows are *open*: they rise with the links
// that they cross, until the first of them is filled.
//
// That costs about kAdjust times as much for each rate that changes as refill.h takes for each path that it freezes,
// so where most rates change, as in an all-to-all, the rates are refilled. Nobody has proved that links filled again
// and again are done soon in every world, so refilling also takes over when patience ends: it fills each link once.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow, progressive filling);
// Charny, Clark and Jain, Congestion Control with Explicit Rate Indication, ICC 1995 (each link's level from the
// levels of the others; that this ends).
#pragma once

#include "refill.h"

namespace topoflow::BACKEND {

struct MaxMin : Refill {
  List candidates;  // paths that the filling of a link may change; has the memory of `order`
  List others;      // of these, what other links hold back
  // The same in all threads of the team:
  bool refilling = false;  // the last event found all rates anew
  int64_t work = 0;        // rates that the last event changed, or paths that it looked at to change them
  int64_t loss = 0;        // what the other way would have saved of late, in paths that are refilled

  static constexpr int64_t kAdjust = 3;     // what a rate costs that is adjusted, in paths that are refilled
  static constexpr int64_t kPatience = 64;  // fillings per link and event

  // `changed` are paths, `flows` tells how many flows each has now, settle(path, old rate / new rate) is
  // called for each new rate, for some paths several times.
  // Returns false if it does not end.
  template <class Flows, class Settle>
  DEVICE bool operator()(const Team auto& team, const List& changed, int32_t event, const Flows& flows,
                         const Settle& settle) {
    const int32_t n = team.get(changed.size);
    const bool was = refilling;
    flowing += static_cast<int32_t>(
        team.sum(n, [&](int32_t i) { return int64_t{flows(changed[i]) > 0} - int64_t{counted[changed[i]] > 0}; }));
    refilling = choose(n);
    if (was && !refilling) hand_over(team);
    double level = refilling && was ? lowest_rate(team, changed) : 0;
    expect(n, flowing);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = changed[i];
      if (flows(p) == counted[p]) return;
      if (refilling && was) return Refill::reopen(team, p, flows(p), event);
      if (counted[p] > 0) release(team, p);
      before[p] = rate[p];
      Rates::reopen(team, p, flows(p), event, [&](int32_t l, const Amount& had, const Amount& opened, const Amount&) {
        atomic_add(team, &link[l].left, had);
        atomic_add(team, &link[l].open, opened);
      });
      if (counted[p] > 0) rate[p] = kOpen;
    });
    if (refilling) {
      team.for_each(team.get(touched.size), [&](int32_t i) {
        share[touched[i]].touched = 0;
        clean(touched[i], event);
      });
      team.set(touched.size, 0);
      if (const double full = lowest_full(team, changed); full < level) level = full;
      if (!was || level < 0) open_all(team);
      return refill(team, level, settle, work);
    }
    work = 0;
    requeue(team, event, true);
    const int64_t patience = kPatience * (int64_t{queue.n} + 1);
    double key;
    int32_t l;
    for (int64_t fillings = 1; (l = queue.pop(team, key)) >= 0; ++fillings) {
      work += fill(team, l, key, event, settle);
      if (fillings == patience) {
        refilling = true;
        open_all(team);
        return refill(team, 0, settle, work);
      }
    }
    return true;
  }

 private:
  // Whether the next event, in which n paths have other flows, refills the rates. The way is changed once the other
  // would have saved more than a change costs, so what an event costs still grows with the rates that it changes.
  DEVICE bool choose(int32_t n) {
    const int64_t adjusting = kAdjust * work;
    const int64_t change = flowing + (path_count + queue.n) / 4;
    // A link costs half a path, whichever of them changes; half of the paths are refilled, as far as one can know.
    loss += refilling ? frozen - fresh + queue.n / 2 - adjusting : adjusting - (flowing + queue.n) / 2;
    loss = loss > 0 ? loss : 0;
    // This event adds to the loss what adjusting n paths costs more than refilling half of all.
    const int64_t soon = loss + (refilling ? 0 : kAdjust * n - (flowing + queue.n) / 2);
    if (soon <= change) return refilling;
    loss = 0;
    return !refilling;
  }

  // What the flows of a path use of the links that they cross, at one rate and at another.
  struct Use {
    Amount had, gets, freed;

    DEVICE Use(const Amount& had, const Amount& gets) : had(had), gets(gets), freed(had - gets) {}
  };
  struct Uses {
    const MaxMin& rates;
    int32_t p;
    double had, gets;
    Use all;  // where all of a flow crosses

    DEVICE Use on(double weight) const {
      return weight == 1 ? all : Use(rates.used(p, weight, had), rates.used(p, weight, gets));
    }
    DEVICE Amount freed(double weight) const { return weight == 1 ? all.freed : on(weight).freed; }
  };
  DEVICE Uses uses(int32_t p, double had, double gets) const {
    return {*this, p, had, gets, {used(p, 1, had), used(p, 1, gets)}};
  }

  DEVICE double even(int32_t l) const {
    const Held& h = held[l];
    return Rates::even(link[l].left + h.held_used + h.above_used, h.held + h.above + link[l].open);
  }

  // Its bottleneck does not hold this path back any more.
  DEVICE void release(const Team auto& team, int32_t p) const {
    const int32_t l = bottleneck[p];
    const double weight = paths.weight_on(p, l);
    atomic_add(team, &held[l].held_used, Amount{} - used(p, weight, rate[p]));
    atomic_add(team, &held[l].held, Amount{} - weigh(p, weight));
  }

  // Queues the touched links whose level is another. `opened`: paths have been opened on them.
  DEVICE void requeue(const Team auto& team, int32_t event, bool opened) const {
    team.for_each(team.get(touched.size), [&](int32_t i) {
      const int32_t l = touched[i];
      Share& k = share[l];
      Held& h = held[l];
      k.touched = 0;
      // It had less than ample left only between two paths, so whether it was touched depends on which came first.
      if (!opened && !k.holds() && link[l].left.high >= Share::kAmple) return;
      clean(l, event);
      if (h.held + link[l].open == Amount{}) {
        k.level = kInfinity;
        h.above = h.above_used = {};
        k.watch = Share::kAmple;
        if (over(l)) queue.lower(team, l, 0);
        return;
      }
      const double level = even(l);
      if (!(link[l].open + h.above == Amount{}) || !same(level, k.level)) queue.lower(team, l, level);
    });
    team.set(touched.size, 0);
  }

  // `key` is what the queue knew of the link's level, which may have risen since.
  template <class Settle>
  DEVICE int32_t fill(const Team auto& team, int32_t l, double key, int32_t event, const Settle& settle) const {
    Share& k = share[l];
    Held& h = held[l];
    const bool none = h.held + h.above + link[l].open == Amount{};
    if (none && !over(l)) return 0;
    const double old = k.level;
    double level = none ? 0 : even(l);
    const bool known = h.above == Amount{} && level >= old * (1 - kSame);  // nobody else has more
    if (known && link[l].open == Amount{} && same(level, old)) return 0;
    if (comes_later(team, l, level, key)) return 0;
    level = gather(team, l, level, known);
    if (!known && comes_later(team, l, level, key)) return 0;
    if (same(level, old)) level = old;
    team.for_each(1, [&](int32_t) { k.watch = Share::kAmple; });
    const Amount had = unit.amount(old < kInfinity ? old : 0), gets = unit.amount(level);
    const double longer = old / level;
    const int32_t n = team.get(candidates.size);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = candidates[i];
      if (rate[p] < kOpen && bottleneck[p] == l) {
        if (level != old)
          keep(team, p, l, level, {*this, p, old, level, {had * counted[p], gets * counted[p]}}, longer, settle);
      } else if (rate[p] > level * (1 + kSame)) {
        take(team, p, l, level, settle);
      }
    });
    team.for_each(1, [&](int32_t) {
      k.level = level;
      h.above = h.above_used = {};
      k.watch = Share::kAlways;
    });
    requeue(team, event, false);
    return n;
  }

  // Another link comes before this one: then this goes back into the queue.
  DEVICE bool comes_later(const Team auto& team, int32_t l, double level, double key) const {
    if (level <= key * (1 + kSame) || level <= queue.lowest(team) * (1 + kSame)) return false;
    team.for_each(1, [&](int32_t) { queue.lower(team, l, level); });
    return true;
  }

  // Lists the paths that the link may change, and returns its level, which is `level` or more.
  DEVICE double gather(const Team auto& team, int32_t l, double level, bool known) const {
    const Share& k = share[l];
    const Held& h = held[l];
    const double risen = level * (1 + kSame), held = k.level * (1 - kSame);
    const double least = risen < held ? risen : held;
    team.filter(k.listed, members + k.first, candidates, [&](int32_t p) { return rate[p] >= least; });
    if (known) return level;
    team.filter(team.get(candidates.size), candidates.items, others,
                [&](int32_t p) { return (rate[p] > risen) & (rate[p] < kOpen) & (bottleneck[p] != l); });
    const int32_t n = team.get(others.size);
    // Newton's method on a sum that bends where a path stops rising: from below, and fewer paths rise in each step.
    Amount rising = h.above;
    for (bool begun = false;; begun = true) {
      const Load above = team.sum(n, [&](int32_t i) { return above_level(others[i], l, level); });
      if (above.weight == rising || (begun && !(above.weight.units() < rising.units()))) return level;
      if (h.held + link[l].open + above.weight == Amount{}) return level;
      rising = above.weight;
      level = Rates::even(link[l].left + h.held_used + above.used, h.held + link[l].open + above.weight);
    }
  }

  struct Load {
    Amount used, weight;
    DEVICE Load operator+(const Load& b) const { return {used + b.used, weight + b.weight}; }
  };

  DEVICE Load above_level(int32_t p, int32_t l, double level) const {
    if (!(rate[p] > level * (1 + kSame))) return {};
    const double weight = paths.weight_on(p, l);
    return {used(p, weight, rate[p]), weigh(p, weight)};
  }

  // A path that this link holds back gets another rate.
  template <class Settle>
  DEVICE void keep(const Team auto& team, int32_t p, int32_t to, double level, const Uses& use, double longer,
                   const Settle& settle) const {
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (atomic_add(team, &link[l].left, use.freed(weight)) < share[l].watch) look_at(team, p, l, weight, use);
    });
    atomic_add(team, &held[to].held_used, Amount{} - use.freed(paths.weight_on(p, to)));
    rate[p] = level;
    settle(p, longer);
  }

  // A path that is open, or that another link holds back, is held back by this one from now on.
  template <class Settle>
  DEVICE void take(const Team auto& team, int32_t p, int32_t to, double level, const Settle& settle) const {
    const bool open = rate[p] == kOpen;
    if (!open) release(team, p);
    const Uses use = uses(p, open ? 0 : rate[p], level);
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (open) atomic_add(team, &link[l].open, Amount{} - weigh(p, weight));
      if (atomic_add(team, &link[l].left, use.freed(weight)) < share[l].watch) look_at(team, p, l, weight, use);
    });
    const double weight = paths.weight_on(p, to);
    atomic_add(team, &held[to].held_used, use.on(weight).gets);
    atomic_add(team, &held[to].held, weigh(p, weight));
    const double before_it = open ? before[p] : rate[p];
    rate[p] = level;
    bottleneck[p] = to;
    settle(p, before_it / level);
  }

  // The rate of a path on this link is another. Has it more now than those that the link holds back?
  DEVICE void look_at(const Team auto& team, int32_t p, int32_t l, double weight, const Uses& use) const {
    touch(team, l);
    if (!share[l].holds()) return;
    const Share& k = share[l];
    Held& h = held[l];
    const double most = k.level * (1 + kSame);
    const bool had = use.had > most, has = use.gets > most;
    if (!had && !has) return;
    const Use on = use.on(weight);
    atomic_add(team, &h.above_used, (has ? on.gets : Amount{}) - (had ? on.had : Amount{}));
    if (had != has) atomic_add(team, &h.above, weigh(p, weight) * (has ? 1 : -1));
  }
};

}  // namespace topoflow::BACKEND
