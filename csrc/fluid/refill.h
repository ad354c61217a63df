// Max-min fair rates by progressive filling, resumed where it changes: all paths rise together, and whenever a link is
// full the paths on it stay as they are.
//   links of 10 and 90 B/s, path 0 on both, paths 1 and 2 on the second   -> 10 at level 10, then 40 40 at level 40
//   then path 2 ends: it had 40, so what was filled below 40 stays        -> the second link again: 80
//
// A path that ends with rate r has no part in what is filled below r, and one that begins has none before the first of
// its links would be full with it. So the links are kept in the order in which they were filled, the paths in the order
// in which they were frozen, and what comes at or after the lowest level that changes is done again. Links that were
// far from full are asleep: their level is not computed. Should one end up overloaded, it wakes, and the filling is
// resumed where it would have been full.
//
// This is for events that change most rates: it moves every path that it freezes once, in a plain loop. adjust.h is for
// the others, and maxmin.h decides.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (progressive filling, and that rates are max-min fair
// if each path crosses a full link on which nobody has more, whatever links are asleep).
#pragma once

#include "link_store.h"

namespace topoflow::BACKEND {

class Refill {
 public:
  DEVICE explicit Refill(Rates& rates) : rates_(rates), store_(rates) {}

  // Paths that this event has frozen again.
  DEVICE int32_t refrozen() const { return frozen_ - unchanged_; }

  // n paths of all that flow will change.
  DEVICE void expect(int32_t n, int32_t flowing) { store_.expect(n, flowing); }

  // The path has a new number of flows.
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event) const {
    store_.reopen(team, p, now, event);
  }

  // Finds all rates anew from `level` on, which may be less than the lowest that changes. Returns false if there is a
  // path that no link limits.
  template <class Settle>
  DEVICE bool operator()(const Team auto& team, double level, int32_t flowing, const Settle& settle, int64_t& changes) {
    return store_.packed() ? run<true>(team, level, flowing, settle, changes)
                           : run<false>(team, level, flowing, settle, changes);
  }

  // The lowest rate of these paths, before they have other flows. What is filled below it stays.
  DEVICE double lowest_rate(const Team auto& team, const List& changed) const {
    const Rates& r = rates_;
    return team.min(changed.count(team),
                    [&](int32_t i) { return r.counted_flows[changed[i]] > 0 ? r.rate[changed[i]] : kInfinity; });
  }

  // The level below which none of their links is full, once they have other flows. Less than 0: all has to begin anew.
  DEVICE double lowest_full(const Team auto& team, const List& changed) const {
    const Rates& r = rates_;
    return team.min(changed.count(team), [&](int32_t i) {
      double lowest = kInfinity;
      if (r.counted_flows[changed[i]] > 0)
        r.paths.for_each_hop(changed[i], [&](int32_t l, double) {
          const double level = r.info[l].total.high > store_.room() ? -1 : r.fair_share(r.capacity(l), r.info[l].total);
          lowest = level < lowest ? level : lowest;
        });
      return lowest;
    });
  }

  // Opens all paths and wakes all links, whatever adjusting left.
  DEVICE void open_all(const Team auto& team) {
    Rates& r = rates_;
    team.wait();  // a thread may still read what made this one come here
    store_.choose(team);
    r.queue.clear(team);
    team.for_each(r.path_count, [&](int32_t p) {
      if (r.counted_flows[p] == 0) return;
      if (r.rate[p] == Rates::kOpen) r.rate[p] = r.before[p];
      r.bottleneck[p] = Rates::kNoLink;
    });
    team.for_each(r.links(), [&](int32_t l) {
      if (store_.packed())
        wake<true>(l);
      else
        wake<false>(l);
    });
    r.touched.clear(team);
    filled_ = frozen_ = 0;
  }

  // Leaves what adjusting needs.
  DEVICE void hand_over(const Team auto& team) {
    Rates& r = rates_;
    r.queue.clear(team);
    team.for_each(r.links(), [&](int32_t l) {
      r.link[l] = {r.capacity(l), {}};
      r.limited[l] = {};
      r.watch[l] = LinkInfo::kAmple;
      r.awake[l] = 0;
    });
    team.for_each(filled_, [&](int32_t i) { r.watch[r.filled_links[i]] = LinkInfo::kAlways; });
    team.for_each(r.links(), [&](int32_t l) {
      if (!r.limits(l)) r.level[l] = kInfinity;
    });
    team.for_each(frozen_, [&](int32_t i) {
      const int32_t p = r.order[i], to = r.bottleneck[p];
      r.paths.for_each_hop(p, [&](int32_t l, double weight) {
        const Amount use = r.used(p, weight, r.rate[p]);
        atomic_add(team, &r.link[l].left, Amount{} - use);
        if (l != to) return;
        atomic_add(team, &r.limited[l].weight, r.weigh(p, weight));
        atomic_add(team, &r.limited[l].used, use);
      });
    });
    filled_ = frozen_ = 0;
  }

 private:
  struct Change {
    int32_t path;
    double old_rate, new_rate;  // B/s
  };
  static constexpr int kNear = 6;  // a link sleeps with more left than 2^-6 of its capacity

  template <bool kPacked>
  DEVICE void wake(int32_t l) const {
    store_.reset<kPacked>(l);
    rates_.watch[l] = store_.capacity<kPacked>(l) >> kNear;
    rates_.info[l].touched = 0;
    rates_.awake[l] = 1;
  }

  template <bool kPacked, class Settle>
  DEVICE bool run(const Team auto& team, double level, int32_t flowing, const Settle& settle, int64_t& changes) {
    const Rates& r = rates_;
    unchanged_ = frozen_;
    while (level < kInfinity) {
      restart<kPacked>(team, level);
      level = fill<kPacked>(team, flowing) ? wake_overloaded<kPacked>(team) : wake_open<kPacked>(team);
      if (level < kInfinity) team.wait();  // until all have read what is left of the links
      if (level < 0) return false;
    }
    const int32_t* const frozen = r.order.items + unchanged_;
    changes = team.sum(
        frozen_ - unchanged_,
        [&](int32_t i) {
          const int32_t p = frozen[i];
          return Change{p, r.rate[p], frozen_rate(p)};
        },
        [&](int32_t, const Change& change) {
          if (change.old_rate == change.new_rate) return 0;
          r.rate[change.path] = change.new_rate;
          settle(change.path, change.old_rate / change.new_rate);
          return 1;
        });
    team.for_each(r.links(), [&](int32_t l) { r.awake[l] = store_.left_of<kPacked>(l) <= r.watch[l]; });
    return true;
  }

  // B/s, of a path that is frozen. `rate` is what it had before the event until all are.
  DEVICE double frozen_rate(int32_t p) const { return rates_.level[rates_.bottleneck[p]]; }

  // Opens the paths that were frozen at `level` or later: either those are moved or the others, whichever are fewer.
  template <bool kPacked>
  DEVICE void restart(const Team auto& team, double level) {
    const double* const levels = rates_.level;
    const auto bottleneck = rates_.bottleneck;
    const int32_t *const order = rates_.order.items, *const filled_links = rates_.filled_links;
    const double threshold = level * (1 - kSame);
    const int32_t still_filled = team.first(filled_, [&](int32_t i) { return levels[filled_links[i]] >= threshold; });
    const int32_t from = still_filled < filled_ ? rates_.first_frozen[still_filled] : frozen_;
    const int32_t last_snapshot = store_.forget(from);
    const bool restores = from - last_snapshot < frozen_ - from;
    if (restores) store_.restore<kPacked>(team);
    store_.move_all<kPacked>(team, restores ? from - last_snapshot : frozen_ - from,
                             order + (restores ? last_snapshot : from),
                             restores ? -1 : 1);  // one call: a GPU's code holds a copy of it for each
    team.for_each(
        frozen_ - from, [&](int32_t i) { return order[from + i]; },
        [&](int32_t, int32_t p) {
          if (bottleneck[p] != Rates::kNoFlows) bottleneck[p] = Rates::kNoLink;
        });
    unchanged_ = from < unchanged_ ? from : unchanged_;
    filled_ = still_filled;
    frozen_ = from;
  }

  // Fills the links that are awake, the lowest level first. Returns false if that leaves paths open.
  template <bool kPacked, Team T>
  DEVICE bool fill(const T& team, int32_t flowing) {
    const bool all = fill_in_order<kPacked>(team, flowing);
    team.wait();  // the last level is seen by all
    return all;
  }

  template <bool kPacked, Team T>
  DEVICE bool fill_in_order(const T& team, int32_t flowing) {
    const Tournament& queue = rates_.queue;
    const LinkInfo* const info = rates_.info;
    const int32_t* const wakes = rates_.awake;
    int32_t* const awake = rates_.hot.awake;
    uint64_t mask = 0;
    while (mask + 1 < static_cast<uint64_t>(queue.n)) mask = 2 * mask + 1;
    const int32_t n = team.pick(
        queue.n, [](int32_t l) { return l; }, awake,
        [&](int32_t l) { return (wakes[l] != 0) & store_.has_open<kPacked>(l); }, [](int32_t) {});
    typename T::Keys keys(team, n, rates_.hot.key, queue.winner, queue.blocks(), [&](int32_t i) {
      bool open;
      return key(i, store_.level_of<kPacked>(awake[i], open), mask);
    });
    double low = keys.lowest();
    const int32_t snapshot_spacing = store_.snapshot_spacing<kPacked>(flowing);
    double last =
        filled_ > 0 ? rates_.level[rates_.filled_links[filled_ - 1]] : 0;  // the level of the link filled last
    int32_t next = store_.has_snapshot() ? store_.last() + snapshot_spacing : frozen_ > 0 ? snapshot_spacing : 0;
    while (frozen_ < flowing) {
      if (frozen_ >= next && store_.has_room<kPacked>()) {
        store_.save<kPacked>(team, frozen_);
        next = frozen_ + snapshot_spacing;
      }
      if (low == kInfinity) return false;
      const auto place = static_cast<int32_t>(bits(low) & mask);
      const int32_t l = awake[place];
      bool open;
      const Row row{info[l].first, info[l].num_members};  // memory answers while keys are compared
      const double before = rates_.level[l], level = store_.level_of<kPacked>(l, open);
      const double later = open ? key(place, level, mask) : kInfinity;
      low = keys.others(place, low);
      if (later <= low && open) {
        keys.replace(place, kInfinity);
        const double snapped = Rates::same(level, before) ? before : level;
        last = snapped > last ? snapped : last;  // levels never fall, which adjusting relies on (maxmin.h)
        freeze<kPacked>(team, l, row, last);
      } else {
        keys.replace(place, later);
      }
    }
    return true;
  }

  // A level with the link's place as its last bits, so that no two keys are equal.
  DEVICE static double key(int32_t place, double level, uint64_t mask) {
    const uint64_t word = (bits(level) & ~mask) | static_cast<uint64_t>(place);
    double key;
    memcpy(&key, &word, sizeof(key));
    return key;
  }
  DEVICE static uint64_t bits(double key) {
    uint64_t word;
    memcpy(&word, &key, sizeof(word));
    return word;
  }

  // The open paths on this link, those of the row of `members`, get its level.
  template <bool kPacked>
  DEVICE void freeze(const Team auto& team, int32_t l, const Row& row, double level) {
    const int32_t n =
        store_.freeze<kPacked>(team, row.hops, rates_.members + row.first, l, level, rates_.order.items + frozen_);
    team.once([&] {
      rates_.level[l] = level;
      rates_.first_frozen[filled_] = frozen_;
      rates_.filled_links[filled_] = l;
    });
    ++filled_;
    frozen_ += n;
  }

  // Wakes the links that ended up overloaded. Returns the lowest level at which one of them is full.
  template <bool kPacked>
  DEVICE double wake_overloaded(const Team auto& team) const {
    constexpr int64_t limit = kPacked ? 0 : LinkInfo::kAmple;
    int32_t* const awake = rates_.awake;
    if (!team.any(rates_.links(), [&](int32_t l) { return (store_.left_of<kPacked>(l) < limit) & !awake[l]; }))
      return kInfinity;
    return team.min(rates_.links(), [&](int32_t l) {
      if (awake[l] || !store_.overloaded<kPacked>(l)) return kInfinity;
      awake[l] = 1;
      return full_at(l);
    });
  }

  // Wakes the links that open paths cross. Returns a level below which none of them is full, -1 if there are none.
  template <bool kPacked>
  DEVICE double wake_open(const Team auto& team) const {
    int32_t* const awake = rates_.awake;
    const double level = team.min(rates_.links(), [&](int32_t l) {
      if (awake[l] || !store_.has_open<kPacked>(l)) return kInfinity;
      awake[l] = 1;
      return rates_.fair_share(rates_.capacity(l), rates_.info[l].total);
    });
    return level < kInfinity ? level : -1;
  }

  // Returns the level at which the link is full if each of its paths rises to its present rate: Newton's method on a
  // sum that bends where a path stops rising, from below. Each step is a lower bound, and few get close.
  DEVICE double full_at(int32_t l) const {
    const Rates& r = rates_;
    const LinkInfo& k = r.info[l];
    const Amount all = r.capacity(l);
    double level = r.fair_share(all, k.total);
    for (int32_t step = 0; step < 4; ++step) {
      Amount left = all, rising = k.total;
      for (int32_t i = k.first; i < k.first + k.num_members; ++i) {
        const int32_t p = r.members[i];
        if (r.counted_flows[p] == 0 || frozen_rate(p) > level) continue;
        const double weight = r.paths.weight_on(p, l);
        left = left - r.used(p, weight, frozen_rate(p));
        rising = rising - r.weigh(p, weight);
      }
      if (rising == Amount{}) return level;
      level = r.fair_share(left, rising);
    }
    return level;
  }

  Rates& rates_;
  LinkStore store_;
  // The same in all threads of the team:
  int32_t filled_ = 0;     // links in `filled_links`
  int32_t frozen_ = 0;     // paths in `order`
  int32_t unchanged_ = 0;  // paths in `order` that this event has left as they were
};

}  // namespace topoflow::BACKEND
