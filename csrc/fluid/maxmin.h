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
  double* rate;         // [P] B/s of each flow, or kOpen, or kIdle
  double* before;       // [P] B/s, open paths: their rate before
  int32_t* bottleneck;  // [P] the link that holds the path back
  int32_t* counted;     // [P] flows that the links know of
  int32_t* left;        // [P] event at which the last flow left
  Link* link;           // [L]
  Share* share;         // [L]
  int32_t* members;     // [H] the paths of every link that have flows, and some that had
  List touched;         // links
  List candidates;      // paths that the filling of a link may change
  Tournament queue;     // links by B/s

  static constexpr double kOpen = kInfinity, kIdle = -1;
  static constexpr int64_t kPatience = 64;  // fillings per link and event; 3 at most were seen

  // `changed` are paths, `flows` tells how many flows each has now, settle(path, old rate, new rate) is called for
  // each new rate, for some paths several times.
  template <class Flows, class Settle>
  DEVICE void operator()(const Team& team, const List& changed, int32_t event, const Flows& flows,
                         const Settle& settle) const {
    team.for_each(team.get(changed.size), [&](int32_t i) { reopen(changed[i], flows(changed[i]), event); });
    requeue(team, event);
    int64_t patience = kPatience * (int64_t{queue.n} + 1);
    for (int32_t l; (l = queue.pop(team)) >= 0; --patience) {
      fill(team, l, event, settle);
      if (patience == 0) start_over(team, event);
    }
  }

 private:
  DEVICE static bool same(double a, double b) { return a >= b * (1 - kSame) && a <= b * (1 + kSame); }

  // What the path's flows use of a link that they cross.
  DEVICE Amount used(int32_t p, double weight, double of_rate) const {
    return unit.amount(of_rate * weight) * counted[p];
  }

  DEVICE Amount weigh(int32_t p, double weight) const { return Amount::of(weight * kWhole) * counted[p]; }

  // What each flow gets when so much is left for these weights.
  DEVICE double even(const Amount& left, const Amount& weight) const {
    const double units = left.units();
    return units > 0 ? units * unit.unit * kWhole / weight.units() : 0;
  }
  DEVICE double even(int32_t l) const {
    const Share& k = share[l];
    return even(link[l].left + k.held_used + k.above_used, k.held + k.above + k.open);
  }

  DEVICE void touch(int32_t l) const { touched.append_if(set_if(true, &link[l].touched), l); }

  // What a path with other flows than before had is free, what it will get is open.
  DEVICE void reopen(int32_t p, int32_t now, int32_t event) const {
    const int32_t then = counted[p];
    if (then == now) return;
    if (then > 0) release(p);
    for_each_use(p, then > 0 ? rate[p] : 0, 0, [&](int32_t l, double weight, const Amount& freed) {
      atomic_add(&link[l].left, freed);
      if (now > 0) atomic_add(&share[l].open, Amount::of(weight * kWhole) * now);
      if (then == 0) enlist(p, l);
      if (now == 0) atomic_add(&share[l].idle, 1);
      touch(l);
    });
    counted[p] = now;
    before[p] = rate[p];
    rate[p] = now > 0 ? kOpen : kIdle;
    if (now == 0) left[p] = event;
  }

  // Calls f(link, weight, amount) for every hop: what its flows use more at the rate `more` than at the rate `less`.
  template <class F>
  DEVICE void for_each_use(int32_t p, double more, double less, const F& f) const {
    if (paths.weight) {
      paths.for_each_hop(
          p, [&](int32_t l, double weight) { f(l, weight, used(p, weight, more) - used(p, weight, less)); });
    } else {
      const Amount amount = used(p, 1, more) - used(p, 1, less);
      paths.for_each_hop(p, [&](int32_t l, double) { f(l, 1, amount); });
    }
  }

  // Opens all paths: progressive filling from nothing, which fills each link once. Nobody has proved that links filled
  // again and again, as above, are done soon in every world.
  DEVICE void start_over(const Team& team, int32_t event) const {
    team.for_each(queue.n, [&](int32_t l) {
      for (int32_t i = share[l].first; i < share[l].first + share[l].listed; ++i) {
        const int32_t p = members[i];
        if (counted[p] == 0 || rate[p] == kOpen || bottleneck[p] != l) continue;
        release(p);
        for_each_use(p, rate[p], 0, [&](int32_t each, double weight, const Amount& freed) {
          atomic_add(&link[each].left, freed);
          atomic_add(&share[each].open, weigh(p, weight));
          touch(each);
        });
        before[p] = rate[p];
        rate[p] = kOpen;
      }
    });
    team.for_each(queue.n, [&](int32_t l) {
      link[l].holds = 0;
      share[l].level = kInfinity;
      share[l].above = share[l].above_used = {};
    });
    requeue(team, event);
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

  DEVICE void requeue(const Team& team, int32_t event) const {
    team.for_each(team.get(touched.size), [&](int32_t i) {
      const int32_t l = touched[i];
      Share& k = share[l];
      link[l].touched = 0;
      if (2 * k.idle > k.listed) clean(k, event);
      if (k.held + k.open == Amount{}) {
        k.level = kInfinity;
        k.above = k.above_used = {};
        link[l].holds = 0;
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

  template <class Settle>
  DEVICE void fill(const Team& team, int32_t l, int32_t event, const Settle& settle) const {
    Share& k = share[l];
    const bool none = k.held + k.above + k.open == Amount{};
    if (none && !link[l].over()) return;
    const double next = queue.lowest(team) * (1 + kSame), old = k.level;
    double level = none ? 0 : even(l);
    const bool known = k.above == Amount{} && level >= old * (1 - kSame);  // nobody else has more
    if (level <= next) {
      if (known && k.open == Amount{} && same(level, old)) return;
      level = gather(team, l, level, known);
    }
    if (level > next) return team.for_each(1, [&](int32_t) { queue.lower(l, level); });
    if (same(level, old)) level = old;
    team.for_each(1, [&](int32_t) { link[l].holds = 0; });
    team.for_each(team.get(candidates.size), [&](int32_t i) {
      const int32_t p = candidates[i];
      if (rate[p] > level * (1 + kSame) || (bottleneck[p] == l && level != old)) move(p, l, level, settle);
    });
    team.for_each(1, [&](int32_t) {
      k.level = level;
      k.above = k.above_used = {};
      link[l].holds = 1;
    });
    requeue(team, event);
  }

  // Lists the paths that the link may change, and returns its level, which is `level` or more.
  DEVICE double gather(const Team& team, int32_t l, double level, bool known) const {
    const Share& k = share[l];
    const double risen = level * (1 + kSame), held = k.level * (1 - kSame);
    const double least = risen < held ? risen : held;
    team.filter(k.listed, members + k.first, candidates, [&](int32_t p) { return rate[p] >= least; });
    if (known) return level;
    const int32_t n = team.get(candidates.size);
    for (Amount before = k.above;;) {
      const Load above = team.sum(n, [&](int32_t i) { return above_level(candidates[i], l, level); });
      if (above.weight == before || k.held + k.open + above.weight == Amount{}) return level;
      before = above.weight;
      level = even(link[l].left + k.held_used + above.used, k.held + k.open + above.weight);
    }
  }

  struct Load {
    Amount used, weight;
    DEVICE Load operator+(const Load& b) const { return {used + b.used, weight + b.weight}; }
  };

  DEVICE Load above_level(int32_t p, int32_t l, double level) const {
    if (!(rate[p] > level * (1 + kSame)) || rate[p] == kOpen || bottleneck[p] == l) return {};
    const double weight = paths.weight_on(p, l);
    return {used(p, weight, rate[p]), weigh(p, weight)};
  }

  // A path on a link that holds others back gets `level` instead of `had`: has it now more than those?
  DEVICE void raise_above(int32_t p, int32_t l, double weight, double had, double level) const {
    Share& k = share[l];
    const double most = k.level * (1 + kSame);
    if (had <= most && level <= most) return;
    atomic_add(&k.above_used, used(p, weight, level > most ? level : 0) - used(p, weight, had > most ? had : 0));
    if ((had > most) != (level > most)) atomic_add(&k.above, weigh(p, weight) * (level > most ? 1 : -1));
  }

  // From now on link `to` holds the path back.
  template <class Settle>
  DEVICE void move(int32_t p, int32_t to, double level, const Settle& settle) const {
    const bool open = rate[p] == kOpen, stays = !open && bottleneck[p] == to;
    const double had = open ? 0 : rate[p];
    if (!open && !stays) release(p);
    for_each_use(p, had, level, [&](int32_t l, double weight, const Amount& freed) {
      Link& k = link[l];
      atomic_add(&k.left, freed);
      if (open) atomic_add(&share[l].open, Amount{} - weigh(p, weight));
      if (k.holds) {
        raise_above(p, l, weight, had, level);
        touch(l);
      } else if (level > had)
        touch(l);
    });
    const double weight = paths.weight_on(p, to);
    atomic_add(&share[to].held_used, used(p, weight, level) - used(p, weight, stays ? had : 0));
    if (!stays) atomic_add(&share[to].held, weigh(p, weight));
    settle(p, open ? before[p] : had, level);
    rate[p] = level;
    bottleneck[p] = to;
  }
};

}  // namespace topoflow::BACKEND
