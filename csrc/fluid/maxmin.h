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
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow, progressive filling);
// Charny, Clark and Jain, Congestion Control with Explicit Rate Indication, ICC 1995 (each link's level from the
// levels of the others; that this ends).
#pragma once

#include "link.h"
#include "paths.h"
#include "tournament.h"

namespace topoflow::BACKEND {

struct MaxMin {
  Paths paths;
  Unit unit;
  double* rate;         // [P] B/s of each flow, or kOpen: to be found, or kIdle: no flows
  double* before;       // [P] B/s, open paths: their rate before
  int32_t* bottleneck;  // [P] the link that holds the path back
  int32_t* counted;     // [P] flows that the links know of
  int32_t* left;        // [P] event at which the last flow left
  Link* link;           // [L] with those of the paths' limits
  Share* share;         // [L]
  int32_t* members;     // [H] the paths of every link that have flows, and some that had
  List touched;         // links
  List candidates;      // paths that the filling of a link may change
  List others;          // of these, what other links hold back
  Tournament queue;     // links by B/s

  static constexpr double kOpen = kInfinity, kIdle = -1;
  static constexpr int64_t kPatience =
      64;  // fillings per link and event; 3 in the first event of case B of benchmarks/

  // `changed` are paths, `flows` tells how many flows each has now, settle(path, old rate / new rate) is
  // called for each new rate, for some paths several times.
  // Returns false if it does not end.
  template <class Flows, class Settle>
  DEVICE bool operator()(const Team& team, const List& changed, int32_t event, const Flows& flows,
                         const Settle& settle) const {
    team.for_each(team.get(changed.size), [&](int32_t i) { reopen(changed[i], flows(changed[i]), event); });
    requeue(team, event, true);
    const int64_t patience = kPatience * (int64_t{queue.n} + 1);
    double key;
    int32_t l;
    for (int64_t fillings = 1; (l = queue.pop(team, key)) >= 0; ++fillings) {
      fill(team, l, key, event, settle);
      if (fillings == patience) start_over(team, event);
      if (fillings == 2 * patience) return false;
    }
    return true;
  }

 private:
  DEVICE static bool same(double a, double b) { return a >= b * (1 - kSame) && a <= b * (1 + kSame); }

  // What the path's flows use of a link that they cross.
  DEVICE Amount used(int32_t p, double weight, double of_rate) const {
    return weight == Paths::kOfOne ? unit.amount(of_rate) : unit.amount(of_rate * weight) * counted[p];
  }

  DEVICE static Amount weigh(double weight, int32_t flows) {
    return weight == Paths::kOfOne ? Amount{kWhole, 0} : Amount::of(weight * kWhole) * flows;
  }
  DEVICE Amount weigh(int32_t p, double weight) const { return weigh(weight, counted[p]); }

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

  // What each flow gets when so much is left for these weights.
  DEVICE double even(const Amount& left, const Amount& weight) const {
    const double units = left.units();
    return units > 0 ? units * unit.unit * kWhole / weight.units() : 0;
  }
  DEVICE double even(int32_t l) const {
    const Share& k = share[l];
    return even(link[l].left + k.held_used + k.above_used, k.held + k.above + k.open);
  }

  DEVICE void touch(int32_t l) const { touched.append_if(atomic_exchange(&link[l].touched, 1) == 0, l); }

  // What a path with other flows than before had is free, what it will get is open.
  DEVICE void reopen(int32_t p, int32_t now, int32_t event) const {
    const int32_t then = counted[p];
    if (then == now) return;
    if (then > 0) release(p);
    const Uses use = uses(p, then > 0 ? rate[p] : 0, 0);
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      atomic_add(&link[l].left, use.on(weight).had);
      if (now > 0) atomic_add(&share[l].open, weigh(weight, now));
      if (then == 0) enlist(p, l);
      if (now == 0) atomic_add(&share[l].idle, 1);
      touch(l);
    });
    counted[p] = now;
    before[p] = rate[p];
    rate[p] = now > 0 ? kOpen : kIdle;
    if (now == 0) left[p] = event;
  }

  // Opens all paths: progressive filling from nothing, which fills each link once. Nobody has proved that links filled
  // again and again, as above, are done soon in every world.
  DEVICE void start_over(const Team& team, int32_t event) const {
    team.wait();  // a thread may still read what let this one leave fill() early
    team.for_each(queue.n, [&](int32_t l) {
      for (int32_t i = share[l].first; i < share[l].first + share[l].listed; ++i) {
        const int32_t p = members[i];
        if (bottleneck[p] != l || counted[p] == 0 || rate[p] == kOpen) continue;  // first whose it is: one thread's
        release(p);
        const Uses use = uses(p, rate[p], 0);
        paths.for_each_hop(p, [&](int32_t each, double weight) {
          atomic_add(&link[each].left, use.on(weight).had);
          atomic_add(&share[each].open, weigh(p, weight));
          touch(each);
        });
        before[p] = rate[p];
        rate[p] = kOpen;
      }
    });
    team.for_each(queue.n, [&](int32_t l) {
      link[l].watch = Link::kAmple;
      share[l].level = kInfinity;
      share[l].above = share[l].above_used = {};
    });
    requeue(team, event, true);
  }

  DEVICE void enlist(int32_t p, int32_t l) const {
    Share& k = share[l];
    if (left[p] > k.cleaned)
      atomic_add(&k.idle, -1);  // it is still listed
    else
      members[k.first + atomic_add(&k.listed, 1)] = p;
  }

  // Its bottleneck does not hold this path back any more.
  DEVICE void release(int32_t p) const {
    const int32_t l = bottleneck[p];
    const double weight = paths.weight_on(p, l);
    atomic_add(&share[l].held_used, Amount{} - used(p, weight, rate[p]));
    atomic_add(&share[l].held, Amount{} - weigh(p, weight));
  }

  // Queues the touched links whose level is another. `opened`: paths have been opened on them.
  DEVICE void requeue(const Team& team, int32_t event, bool opened) const {
    team.for_each(team.get(touched.size), [&](int32_t i) {
      const int32_t l = touched[i];
      Share& k = share[l];
      link[l].touched = 0;
      // It had less than ample left only between two paths, so whether it was touched depends on which came first.
      if (!opened && !link[l].holds() && link[l].left.high >= Link::kAmple) return;
      if (2 * k.idle > k.listed) clean(k, event);
      if (k.held + k.open == Amount{}) {
        k.level = kInfinity;
        k.above = k.above_used = {};
        link[l].watch = Link::kAmple;
        if (link[l].over()) queue.lower(l, 0);
        return;
      }
      const double level = even(l);
      if (!(k.open + k.above == Amount{}) || !same(level, k.level)) queue.lower(l, level);
    });
    team.set(touched.size, 0);
  }

  DEVICE void clean(Share& k, int32_t event) const {
    int32_t kept = 0;
    for (int32_t i = k.first; i < k.first + k.listed; ++i)
      if (counted[members[i]] > 0) members[k.first + kept++] = members[i];
    k.listed = kept;
    k.idle = 0;
    k.cleaned = event;
  }

  // `key` is what the queue knew of the link's level, which may have risen since.
  template <class Settle>
  DEVICE void fill(const Team& team, int32_t l, double key, int32_t event, const Settle& settle) const {
    Share& k = share[l];
    const bool none = k.held + k.above + k.open == Amount{};
    if (none && !link[l].over()) return;
    const double old = k.level;
    double level = none ? 0 : even(l);
    const bool known = k.above == Amount{} && level >= old * (1 - kSame);  // nobody else has more
    if (known && k.open == Amount{} && same(level, old)) return;
    if (comes_later(team, l, level, key)) return;
    level = gather(team, l, level, known);
    if (!known && comes_later(team, l, level, key)) return;
    if (same(level, old)) level = old;
    team.for_each(1, [&](int32_t) { link[l].watch = Link::kAmple; });
    const Amount had = unit.amount(old < kInfinity ? old : 0), gets = unit.amount(level);
    const double longer = old / level;
    team.for_each(team.get(candidates.size), [&](int32_t i) {
      const int32_t p = candidates[i];
      if (rate[p] < kOpen && bottleneck[p] == l) {
        if (level != old)
          keep(p, l, level, {*this, p, old, level, {had * counted[p], gets * counted[p]}}, longer, settle);
      } else if (rate[p] > level * (1 + kSame)) {
        take(p, l, level, settle);
      }
    });
    team.for_each(1, [&](int32_t) {
      k.level = level;
      k.above = k.above_used = {};
      link[l].watch = Link::kAlways;
    });
    requeue(team, event, false);
  }

  // Another link comes before this one: then this goes back into the queue.
  DEVICE bool comes_later(const Team& team, int32_t l, double level, double key) const {
    if (level <= key * (1 + kSame) || level <= queue.lowest(team) * (1 + kSame)) return false;
    team.for_each(1, [&](int32_t) { queue.lower(l, level); });
    return true;
  }

  // Lists the paths that the link may change, and returns its level, which is `level` or more.
  DEVICE double gather(const Team& team, int32_t l, double level, bool known) const {
    const Share& k = share[l];
    const double risen = level * (1 + kSame), held = k.level * (1 - kSame);
    const double least = risen < held ? risen : held;
    team.filter(k.listed, members + k.first, candidates, [&](int32_t p) { return rate[p] >= least; });
    if (known) return level;
    team.filter(team.get(candidates.size), candidates.items, others,
                [&](int32_t p) { return (rate[p] > risen) & (rate[p] < kOpen) & (bottleneck[p] != l); });
    const int32_t n = team.get(others.size);
    // Newton's method on a sum that bends where a path stops rising: from below, and fewer paths rise in each step.
    Amount rising = k.above;
    for (bool begun = false;; begun = true) {
      const Load above = team.sum(n, [&](int32_t i) { return above_level(others[i], l, level); });
      if (above.weight == rising || (begun && !(above.weight.units() < rising.units()))) return level;
      if (k.held + k.open + above.weight == Amount{}) return level;
      rising = above.weight;
      level = even(link[l].left + k.held_used + above.used, k.held + k.open + above.weight);
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
  DEVICE void keep(int32_t p, int32_t to, double level, const Uses& use, double longer, const Settle& settle) const {
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (atomic_add(&link[l].left, use.freed(weight)) < link[l].watch) look_at(p, l, weight, use);
    });
    atomic_add(&share[to].held_used, Amount{} - use.freed(paths.weight_on(p, to)));
    rate[p] = level;
    settle(p, longer);
  }

  // A path that is open, or that another link holds back, is held back by this one from now on.
  template <class Settle>
  DEVICE void take(int32_t p, int32_t to, double level, const Settle& settle) const {
    const bool open = rate[p] == kOpen;
    if (!open) release(p);
    const Uses use = uses(p, open ? 0 : rate[p], level);
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      if (open) atomic_add(&share[l].open, Amount{} - weigh(p, weight));
      if (atomic_add(&link[l].left, use.freed(weight)) < link[l].watch) look_at(p, l, weight, use);
    });
    const double weight = paths.weight_on(p, to);
    atomic_add(&share[to].held_used, use.on(weight).gets);
    atomic_add(&share[to].held, weigh(p, weight));
    const double before_it = open ? before[p] : rate[p];
    rate[p] = level;
    bottleneck[p] = to;
    settle(p, before_it / level);
  }

  // The rate of a path on this link is another. Has it more now than those that the link holds back?
  DEVICE void look_at(int32_t p, int32_t l, double weight, const Uses& use) const {
    touch(l);
    if (!link[l].holds()) return;
    Share& k = share[l];
    const double most = k.level * (1 + kSame);
    const bool had = use.had > most, has = use.gets > most;
    if (!had && !has) return;
    const Use on = use.on(weight);
    atomic_add(&k.above_used, (has ? on.gets : Amount{}) - (had ? on.had : Amount{}));
    if (had != has) atomic_add(&k.above, weigh(p, weight) * (has ? 1 : -1));
  }
};

}  // namespace topoflow::BACKEND
