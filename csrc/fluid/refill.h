// Max-min fair rates by progressive filling, taken up where it changes: all paths rise together, and whenever a link is
// full the paths on it stay as they are.
//   links of 10 and 90 B/s, path 0 on both, paths 1 and 2 on the second   -> 10 at level 10, then 40 40 at level 40
//   then path 2 ends: it had 40, so what was filled below 40 stays        -> the second link again: 80
//
// A path that ends with rate r has no part in what is filled below r, and one that begins has none before the first of
// its links would be full with it. So the links are kept in the order in which they were filled, the paths in the order
// in which they were frozen, and what comes at or after the lowest level that changes is done again. Links that were
// far from full are asleep: nobody looks at their level. Should one end up with more than it has, it wakes, and the
// filling is taken up again where it would have been full.
//
// This is the way where most rates change with each event: it moves every path that it freezes once, in a
// plain loop. maxmin.h has the other way, and says when which is taken.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (progressive filling, and that rates are max-min fair
// if each path crosses a full link on which nobody has more, whatever the links asleep may be).
#pragma once

#include "tournament.h"
#include "words.h"

namespace topoflow::BACKEND {

struct Refill : Words {
  List order;        // paths as they were frozen
  int32_t* fills;    // [L] links as they were filled, their levels ascending
  Tournament queue;  // links by B/s: no more than the level at which they will be full
  // The same in all threads of the team:
  int32_t filled = 0;   // links in `fills`
  int32_t frozen = 0;   // paths in `order`
  int32_t flowing = 0;  // paths that have flows
  int32_t fresh = 0;    // paths in `order` that this event has left as they were

  // Finds all rates anew from `level` on, which may be less than the lowest that changes. Returns false if there is a
  // path that no link holds back.
  template <class Settle>
  DEVICE bool refill(const Team auto& team, double level, const Settle& settle, int64_t& changes) {
    return light() ? refill<true>(team, level, settle, changes) : refill<false>(team, level, settle, changes);
  }

  // The lowest rate of these paths, before they have other flows. What is filled below it stays.
  DEVICE double lowest_rate(const Team auto& team, const List& changed) const {
    return team.min(team.get(changed.size),
                    [&](int32_t i) { return counted[changed[i]] > 0 ? rate[changed[i]] : kInfinity; });
  }

  // The level below which none of their links is full, once they have other flows. Less than 0: all has to begin anew.
  DEVICE double lowest_full(const Team auto& team, const List& changed) const {
    return team.min(team.get(changed.size), [&](int32_t i) {
      double lowest = kInfinity;
      if (counted[changed[i]] > 0)
        paths.for_each_hop(changed[i], [&](int32_t l, double) {
          const double level = share[l].total.high > room ? -1 : even(capacity(l), share[l].total);
          lowest = level < lowest ? level : lowest;
        });
      return lowest;
    });
  }

  // Opens all paths and wakes all links, whatever the other way left behind.
  DEVICE void open_all(const Team auto& team) {
    team.wait();  // a thread may still read what made this one come here
    links = queue.n;
    choose_words(team);
    queue.clear(team);
    team.for_each(path_count, [&](int32_t p) {
      if (counted[p] == 0) return;
      if (rate[p] == kOpen) rate[p] = before[p];
      bottleneck[p] = kNoLink;
    });
    team.for_each(queue.n, [&](int32_t l) {
      if (light())
        reset<true>(l);
      else
        reset<false>(l);
      share[l].watch = (light() ? word(bandwidth(l)) : capacity(l).high) >> kNear;
      share[l].touched = 0;
      share[l].awake = 1;
    });
    team.set(touched.size, 0);
    filled = frozen = copies = 0;
  }

  // Leaves what the other way wants to know.
  DEVICE void hand_over(const Team auto& team) {
    queue.clear(team);
    team.for_each(queue.n, [&](int32_t l) {
      link[l] = {capacity(l), {}};
      held[l] = {};
      share[l].watch = Share::kAmple;
      share[l].awake = 0;
    });
    team.for_each(filled, [&](int32_t i) { share[fills[i]].watch = Share::kAlways; });
    team.for_each(queue.n, [&](int32_t l) {
      if (!share[l].holds()) share[l].level = kInfinity;
    });
    team.for_each(frozen, [&](int32_t i) {
      const int32_t p = order[i], to = bottleneck[p];
      paths.for_each_hop(p, [&](int32_t l, double weight) {
        const Amount use = used(p, weight, rate[p]);
        atomic_add(team, &link[l].left, Amount{} - use);
        if (l != to) return;
        atomic_add(team, &held[l].held, weigh(p, weight));
        atomic_add(team, &held[l].held_used, use);
      });
    });
    filled = frozen = 0;
  }

 private:
  static constexpr int kNear = 6;  // a link sleeps with more left than 2^-6 of its capacity

  template <bool kLight, class Settle>
  DEVICE bool refill(const Team auto& team, double level, const Settle& settle, int64_t& changes) {
    fresh = frozen;
    while (level < kInfinity) {
      restart<kLight>(team, level);
      level = fill<kLight>(team) ? wake_overrun<kLight>(team) : wake_all<kLight>(team);
      if (level < 0) return false;
    }
    changes = team.sum(frozen - fresh, [&](int32_t i) {
      const int32_t p = order[fresh + i];
      const double had = rate[p], gets = found(p);
      if (had == gets) return int64_t{0};
      rate[p] = gets;
      settle(p, had / gets);
      return int64_t{1};
    });
    team.for_each(queue.n, [&](int32_t l) { share[l].awake = left_of<kLight>(l) <= share[l].watch; });
    return true;
  }

  // B/s, of a path that is frozen. `rate` is what it had before the event until all are.
  DEVICE double found(int32_t p) const { return share[bottleneck[p]].level; }

  // Opens the paths that were frozen at `level` or later: either those are moved or the others, whichever are fewer.
  template <bool kLight>
  DEVICE void restart(const Team auto& team, double level) {
    const double least = level * (1 - kSame);
    const int32_t kept = team.first(filled, [&](int32_t i) { return share[fills[i]].level >= least; });
    const int32_t from = kept < filled ? share[fills[kept]].from : frozen;
    while (copies > 0 && copied[copies - 1] > from) --copies;
    const int32_t near = copies > 0 ? copied[copies - 1] : 0;
    if (from - near < frozen - from) {
      go_back<kLight>(team);
      move_all<kLight>(team, from - near, order.items + near, -1);
    } else {
      move_all<kLight>(team, frozen - from, order.items + from, 1);
    }
    team.for_each(frozen - from, [&](int32_t i) {
      const int32_t p = order[from + i];
      const int32_t l = bottleneck[p];
      if (l == kNoLink || l == kNoFlows) return;  // it has other flows than before
      bottleneck[p] = kNoLink;
    });
    fresh = from < fresh ? from : fresh;
    filled = kept;
    frozen = from;
  }

  // Fills the links that are awake, the lowest level first. Returns false if that leaves paths open.
  template <bool kLight>
  DEVICE bool fill(const Team auto& team) {
    double* const keys = queue.key;
    double* const winner = queue.winner;
    uint64_t mask = 0;
    while (mask + 1 < static_cast<uint64_t>(queue.n)) mask = 2 * mask + 1;
    team.select(queue.n, touched, [&](int32_t l) { return (share[l].awake != 0) & has_open<kLight>(l); });
    const int32_t n = team.get(touched.size);
    int32_t log = 2;
    while (int64_t{1} << 2 * log < n || n >> log >= queue.blocks()) ++log;
    const int32_t blocks = (n >> log) + 1;
    const auto size = [=](int32_t block) { return n - (block << log) < 1 << log ? n - (block << log) : 1 << log; };
    team.for_each(n, [&](int32_t i) {
      const int32_t l = touched[i];
      share[l].from = i;
      keys[i] = key(l, level_of<kLight>(l), mask);
    });
    team.for_each(blocks, [&](int32_t block) { winner[block] = lowest_of(size(block), keys + (block << log)); });
    team.set(touched.size, 0);
    double low = team.min(blocks, [=](int32_t i) { return winner[i]; });
    const int32_t apart = this->apart<kLight>(flowing);
    int32_t next = copies > 0 ? copied[copies - 1] + apart : frozen > 0 ? apart : 0;
    while (frozen < flowing) {
      if (frozen >= next && has_room<kLight>()) {
        keep<kLight>(team, frozen);
        next = frozen + apart;
      }
      if (low == kInfinity) return false;
      const auto l = static_cast<int32_t>(bits(low) & mask);
      const int32_t place = share[l].from, block = place >> log;
      const bool open = has_open<kLight>(l);
      const double level = level_of<kLight>(l);
      const double later = open ? key(l, level, mask) : kInfinity;
      const double rest = team.min_above(size(block), keys + (block << log), low);
      const double others = team.min_above(blocks, winner, low);
      low = rest < others ? rest : others;
      if (later <= low && open) {
        team.for_each(1, [&](int32_t) {
          keys[place] = kInfinity;
          winner[block] = rest;
        });
        freeze<kLight>(team, l, level);
        continue;
      }
      team.for_each(1, [&](int32_t) {
        keys[place] = later;
        winner[block] = later < rest ? later : rest;
      });
    }
    return true;
  }

  // A level with the link as its last bits, so that no two keys are equal.
  DEVICE static double key(int32_t l, double level, uint64_t mask) {
    const uint64_t word = (bits(level) & ~mask) | static_cast<uint64_t>(l);
    double key;
    memcpy(&key, &word, sizeof(key));
    return key;
  }
  DEVICE static uint64_t bits(double key) {
    uint64_t word;
    memcpy(&word, &key, sizeof(word));
    return word;
  }

  // The open paths on this link get its level.
  template <bool kLight>
  DEVICE void freeze(const Team auto& team, int32_t l, double level) {
    Share& k = share[l];
    if (same(level, k.level)) level = k.level;
    const List group{order.items + frozen, order.size};
    team.filter(k.listed, members + k.first, group, [&](int32_t p) { return bottleneck[p] < 0; });
    const int32_t n = team.get(group.size);
    hold<kLight>(team, n, group.items, l, level);
    team.for_each(1, [&](int32_t) {
      k.level = level;
      k.from = frozen;
      fills[filled] = l;
    });
    ++filled;
    frozen += n;
  }

  // Wakes the links that ended up with more than they have. Returns the lowest level at which one of them is full.
  template <bool kLight>
  DEVICE double wake_overrun(const Team auto& team) const {
    constexpr int64_t most = kLight ? 0 : Share::kAmple;
    if (!team.any(queue.n, [&](int32_t l) { return (left_of<kLight>(l) < most) & !share[l].awake; })) return kInfinity;
    return team.min(queue.n, [&](int32_t l) {
      if (share[l].awake || !overrun<kLight>(l)) return kInfinity;
      share[l].awake = 1;
      return full_at(l);
    });
  }

  // Wakes the links that open paths cross. Returns a level below which none of them is full, -1 if there are none.
  template <bool kLight>
  DEVICE double wake_all(const Team auto& team) const {
    const double level = team.min(queue.n, [&](int32_t l) {
      if (share[l].awake || !has_open<kLight>(l)) return kInfinity;
      share[l].awake = 1;
      return even(capacity(l), share[l].total);
    });
    return level < kInfinity ? level : -1;
  }

  // Where the link is full if each of its paths rises to the rate that it has: Newton's method on a sum that bends
  // where a path stops rising, from below. Each step is a lower bound, and few get close.
  DEVICE double full_at(int32_t l) const {
    const Share& k = share[l];
    const Amount all = capacity(l);
    double level = even(all, k.total);
    for (int32_t step = 0; step < 4; ++step) {
      Amount left = all, rising = k.total;
      for (int32_t i = k.first; i < k.first + k.listed; ++i) {
        const int32_t p = members[i];
        if (counted[p] == 0 || found(p) > level) continue;
        const double weight = paths.weight_on(p, l);
        left = left - used(p, weight, found(p));
        rising = rising - weigh(p, weight);
      }
      if (rising == Amount{}) return level;
      level = even(left, rising);
    }
    return level;
  }
};

}  // namespace topoflow::BACKEND
