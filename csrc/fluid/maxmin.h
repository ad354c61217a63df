// Max-min fair rates, kept up to date: no flow can get more without taking from a flow that has no more than it.
//   one link of 90 B/s, three flows              -> 30 30 30
//   same, but flow 0 also crosses a 10 B/s link  -> 10 40 40
//   then flow 2 ends                             -> 10 80: flow 0 and its link are not considered
//
// Every path is limited by one of its links, which is full and on which nobody has more. When flows come or go, rates
// are adjusted (adjust.h) or refilled (refill.h). To adjust costs about kAdjust times as much for each rate that
// changes as to refill for each path that it freezes, so where most rates change, as in an all-to-all, the rates are
// refilled. There is no proof that links which are adjusted again and again are done soon in every world, so refilling
// also takes over when patience ends: it fills each link once.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow, progressive filling).
#pragma once

#include "adjust.h"
#include "refill.h"

namespace topoflow::BACKEND {

class MaxMin {
 public:
  DEVICE explicit MaxMin(Rates& rates) : rates_(rates), refill_(rates), adjust_(rates) {}
  MaxMin(const MaxMin&) = delete;
  MaxMin& operator=(const MaxMin&) = delete;

  DEVICE void clear(const Team auto& team) const {
    rates_.touched.clear(team);
    rates_.queue.clear(team);
  }

  // The last event found all rates anew.
  DEVICE bool refilling() const { return refilling_; }

  // `changed` are paths, flows(path) is how many flows one has now, settle(path, old rate / new rate) is called for
  // each new rate, for some paths several times. Returns false if it does not end. (A call would put the world's state
  // into a GPU's local memory.)
  template <class Flows, class Settle>
  INLINED bool operator()(const Team auto& team, const List& changed, int32_t event, const Flows& flows,
                          const Settle& settle) {
    const int32_t n = changed.count(team);
    const bool was = refilling_;
    flowing_ += team.sum(n, [&](int32_t i) { return (flows(changed[i]) > 0) - (rates_.counted[changed[i]] > 0); });
    refilling_ = choose(n);
    if (was && !refilling_) refill_.hand_over(team);
    double level = refilling_ && was ? refill_.lowest_rate(team, changed) : 0;
    refill_.expect(n, flowing_);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = changed[i], now = flows(p);
      if (now == rates_.counted[p]) return;
      if (refilling_ && was)
        refill_.reopen(team, p, now, event);
      else
        adjust_.reopen(team, p, now, event);
    });
    const bool resumes = refilling_ && was;
    if (refilling_) {
      rates_.for_each_touched(team, event, [&](int32_t l) { rates_.info[l].touched = 0; });
      if (const double full = refill_.lowest_full(team, changed); full < level) level = full;
    } else {
      if (adjust_(team, event, settle, work_)) return true;
      refilling_ = true;
    }
    if (!resumes || level < 0) refill_.open_all(team);
    return refill_(team, level, flowing_, settle, work_);  // one call: a GPU's code holds a copy of it for each
  }

 private:
  static constexpr int64_t kAdjust = 3;  // what a rate costs that is adjusted, in paths that are refilled

  // Whether the next event, in which n paths have other flows, refills the rates. The algorithm is changed once the
  // other would have saved more than a change costs, so what an event costs still grows with the rates that it changes.
  DEVICE bool choose(int32_t n) {
    const int64_t adjusting = kAdjust * work_, links = rates_.links();
    const int64_t change = flowing_ + (rates_.path_count + links) / 4;
    // A link costs half a path, whichever of them changes; half of the paths are refilled, as far as one can know.
    loss_ += refilling_ ? refill_.refrozen() + links / 2 - adjusting : adjusting - (flowing_ + links) / 2;
    loss_ = loss_ > 0 ? loss_ : 0;
    // This event adds to the loss what adjusting n paths costs more than refilling half of all.
    const int64_t soon = loss_ + (refilling_ ? 0 : kAdjust * n - (flowing_ + links) / 2);
    if (soon <= change) return refilling_;
    loss_ = 0;
    return !refilling_;
  }

  Rates& rates_;
  Refill refill_;
  Adjust adjust_;
  // The same in all threads of the team:
  bool refilling_ = false;
  int32_t flowing_ = 0;  // paths that have flows
  int64_t work_ = 0;     // rates that the last event changed, or paths that it considered to change them
  int64_t loss_ = 0;     // what the other algorithm would have saved of late, in paths that are refilled
};

}  // namespace topoflow::BACKEND
