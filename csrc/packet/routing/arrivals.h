// Packets on their way to routers that choose a port for each when it arrives.
//
// They are in no order until the window in which they arrive begins. Then they are moved to the end of the array,
// router by router, and sorted by their times, so that the data of the next two dozen can be fetched before a router
// reads it. A packet that has arrived leaves its place to one that is sent, so there are never more of both than slots.
//
//   under way, in any order | free | arrive by the end of the window: router 0 | router 1 | ...
//
// Source: a counting sort in place, McIlroy, Bostic and McIlroy, "Engineering radix sort", Computing Systems 6(1),
// 1993; those of a router are sorted by Shell's sort with the gaps of Gonnet and Baeza-Yates, Handbook of Algorithms
// and Data Structures, 1991, 4.1.4.
#pragma once

#include "packet/state.h"

namespace topoflow::BACKEND::packet {

class Arrivals {
 public:
  // Arrivals at routers `first` to `end`.
  DEVICE Arrivals(const State& state, int32_t first, int32_t end)
      : all_(state.arrivals),
        begin_(state.arriving),
        next_(state.arriving_next),
        slots_(state.slots),
        first_(first),
        end_(end) {}

  DEVICE void add(const Arrival& added) {
    all_[under_way_++] = added;
    if (added.ready < soonest_) soonest_ = added.ready;
  }

  // Returns when the first of them arrives, ps.
  DEVICE int64_t time() const { return soonest_; }

  // Collects those that arrive before `end`. All must be popped before the next call, router by router.
  DEVICE void collect(int64_t end) {
    for (int32_t r = first_; r <= end_; ++r) next_[r] = 0;
    const int64_t from = count(end), shift = slots_ - under_way_;
    int64_t at = slots_ - (under_way_ - from);
    at_ = at;
    for (int32_t r = first_; r < end_; ++r) {
      begin_[r] = at;
      at += next_[r];
      next_[r] = begin_[r] - shift;
    }
    begin_[end_] = at;
    group(shift);
    for (int64_t i = under_way_; i-- > from;) all_[i + shift] = all_[i];
    under_way_ = from;
    for (int32_t r = first_; r < end_; ++r) sort(all_ + begin_[r], begin_[r + 1] - begin_[r]);
  }

  // Return whether there are more for a router, and the next one.
  DEVICE bool has(int32_t router) const { return at_ < begin_[router + 1]; }
  DEVICE Arrival pop() { return all_[at_++]; }

  // Returns the arrival that comes `later` places after the next one, at any router; nullptr if the window has none.
  DEVICE const Arrival* ahead(int64_t later) const { return at_ + later < slots_ ? all_ + at_ + later : nullptr; }
  // Returns the number of the next one.
  DEVICE int64_t number() const { return at_; }

 private:
  // Moves arrivals before `end` to the back of the list and counts them in `next_`; returns the first one's position.
  DEVICE int64_t count(int64_t end) {
    soonest_ = kNever;
    int64_t remaining = 0;
    for (int64_t from = under_way_; remaining < from;) {
      const Arrival one = all_[remaining];
      if (one.ready < end) {
        ++next_[one.router];
        swap(all_[remaining], all_[--from]);
      } else {
        soonest_ = one.ready < soonest_ ? one.ready : soonest_;
        ++remaining;
      }
    }
    return remaining;
  }

  // Brings those to each router together, `shift` before where they are going to be.
  DEVICE void group(int64_t shift) {
    for (int32_t r = first_; r < end_; ++r) {
      while (next_[r] < begin_[r + 1] - shift) {
        const int32_t router = all_[next_[r]].router;
        if (router == r)
          ++next_[r];
        else
          swap(all_[next_[r]], all_[next_[router]++]);
      }
    }
  }

  DEVICE static void sort(Arrival* all, int64_t n) {
    for (int64_t gap = n; gap > 1;) {
      gap = gap < 5 ? 1 : (5 * gap - 1) / 11;
      for (int64_t i = gap; i < n; ++i) {
        const Arrival one = all[i];
        int64_t at = i;
        for (; at >= gap && one < all[at - gap]; at -= gap) all[at] = all[at - gap];
        all[at] = one;
      }
    }
  }

  DEVICE static void swap(Arrival& one, Arrival& other) {
    const Arrival copy = one;
    one = other;
    other = copy;
  }

  Arrival* all_;
  int64_t *begin_, *next_;  // of each router, among those that come
  int64_t slots_;
  int32_t first_, end_;  // routers
  int64_t under_way_ = 0, at_ = 0, soonest_ = kNever;
};

}  // namespace topoflow::BACKEND::packet
