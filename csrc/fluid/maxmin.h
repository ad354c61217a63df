// Max-min fair rates, kept up to date: no flow can get more without taking from a flow that has no more than it.
//   one link of 90 B/s, three flows              -> 30 30 30
//   same, but flow 0 also crosses a 10 B/s link  -> 10 40 40
//   then flow 2 ends                             -> 10 80: flow 0 and its link are not considered
//
// Every path is limited by one of its links, its bottleneck, which is full and on which no path has a higher rate. When
// flows come or go, rates are adjusted (adjust.h) or refilled (refill.h). To adjust costs about kAdjust times as much
// for each rate that changes as to refill for each path that it freezes, so where most rates change, as in an
// all-to-all, the rates are refilled. There is no proof that links which are adjusted again and again are done soon in
// every world, so refilling also takes over when patience ends: it fills each link once.
//
// Why no link carries more than (1 + e) of its capacity, however many links tie; e is Checked::tolerance():
//   - Sums over the paths of a link are in fixed point, so they are exact (link.h). Only rates are rounded.
//   - Refilling freezes every open path of a link at the link's level, and levels never fall from one link to the next.
//     A link that is filled d below the level before it, because levels were compared without their last bits or were
//     snapped to former ones, is overrun by d of its capacity at most: its other paths have no more than that level.
//   - So when adjusting takes over, no path has more than the level of a filled link that it crosses: paths that were
//     frozen before this link have lower levels, and no other path of it was open afterwards.
//   - Adjusting keeps this: the rate of a path is the level of its bottleneck, to the last bit, and a path that crosses
//     the level of another link on its way up or down is counted there (look_at). A link that limits paths is filled
//     again unless its level is within kSame of what its sums say, and any other link once it is overrun by kSame.
// If levels could fall, a path could be above the level of a link without being counted: when its rate rose further,
// the link would not be filled again, and would stay overrun. -DTOPOFLOW_CHECKED verifies all of this (checked.h).
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow, progressive filling).
#pragma once

#include "adjust.h"
#include "refill.h"
#ifdef TOPOFLOW_CHECKED
#include "checked.h"
#endif

namespace topoflow::BACKEND {

class MaxMin {
 public:
  DEVICE explicit MaxMin(Rates& rates) : rates_(rates), refill_(rates), adjust_(rates) {}
  MaxMin(const MaxMin&) = delete;
  MaxMin& operator=(const MaxMin&) = delete;

  // Before anything flows; the world has been laid out.
  DEVICE void begin(const Team auto& team) const {
    rates_.touched.clear(team);
    rates_.queue.clear(team);
  }

  // The last event found all rates anew.
  DEVICE bool refilling() const { return refilling_; }

  // The next event: `changed` are paths, flows(path) is how many flows one has now, settle(path, old rate / new rate)
  // is called for each new rate, for some paths several times. Returns false if it does not end. (A call would put the
  // world's state into a GPU's local memory.)
  template <class Flows, class Settle>
  INLINED bool operator()(const Team auto& team, const List& changed, const Flows& flows, const Settle& settle) {
    const int32_t n = changed.count(team);
    const bool was_refilling = refilling_;
    const int32_t more =
        team.sum(n, [&](int32_t i) { return (flows(changed[i]) > 0) - (rates_.counted_flows[changed[i]] > 0); });
    const int32_t flowing = rates_.tally.flowing + more;
    refilling_ = choose(team, n, flowing);
    if (was_refilling && !refilling_) refill_.hand_over(team);
    double level =
        refilling_ && was_refilling ? refill_.lowest_rate(team, changed) : -1;  // less than 0: all begins anew
    refill_.expect(n, flowing);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = changed[i], now = flows(p);
      if (now == rates_.counted_flows[p]) return;
      if (refilling_ && was_refilling)
        refill_.reopen(team, p, now, event());
      else
        adjust_.reopen(team, p, now, event());
    });
    int64_t work = 0;
    if (refilling_) {
      rates_.for_each_touched(team, event(), [&](int32_t l) { rates_.info[l].touched = 0; });
      if (const double full = refill_.lowest_full(team, changed); full < level) level = full;
    } else if (adjust_(team, event(), settle, work)) {
      return end(team, work);
    } else {
      refilling_ = true;
    }
    if (level < 0) refill_.open_all(team);
    // one call: a GPU's code holds a copy of it for each
    return refill_(team, level, rates_.tally.flowing, settle, work) && end(team, work);
  }

 private:
  static constexpr int64_t kAdjust = 3;  // what a rate costs that is adjusted, in paths that are refilled

  // Whether this event, in which n paths have other flows, refills the rates; `flowing` paths have flows after it. The
  // algorithm is changed once the other would have saved more than a change costs, so what an event costs still grows
  // with the rates that it changes.
  DEVICE bool choose(const Team auto& team, int32_t n, int32_t flowing) const {
    const int64_t adjusting = kAdjust * rates_.tally.work, links = rates_.links();
    const int64_t change = flowing + (rates_.path_count + links) / 4;
    // A link costs half a path, whichever of them changes; half of the paths are refilled, as far as one can know.
    const int64_t lost = refilling_ ? refill_.refrozen() + links / 2 - adjusting : adjusting - (flowing + links) / 2;
    int64_t loss = rates_.tally.loss + lost;
    loss = loss > 0 ? loss : 0;
    // This event adds to the loss what adjusting n paths costs more than refilling half of all.
    const int64_t projected_loss = loss + (refilling_ ? 0 : kAdjust * n - (flowing + links) / 2);
    bool changes = projected_loss > change;
#ifdef TOPOFLOW_CHECKED
    if (rates_.path_count % 2) changes = event() * 0x9E3779B1u >> 31;  // half of the worlds change at random
#endif
    team.wait();  // until all have read it
    team.once([&] {
      rates_.tally.flowing = flowing;
      rates_.tally.loss = changes ? 0 : loss;
    });
    return changes ? !refilling_ : refilling_;
  }

  // The number of this event.
  DEVICE int32_t event() const { return rates_.tally.events + 1; }

  DEVICE bool end(const Team auto& team, int64_t work) const {
    team.once([&] {
      ++rates_.tally.events;
      rates_.tally.work = work;
    });
#ifdef TOPOFLOW_CHECKED
    return Checked(rates_)(team, !refilling_);
#else
    return true;
#endif
  }

  Rates& rates_;
  Refill refill_;
  Adjust adjust_;
  bool refilling_ = false;  // the same in all threads of the team
};

}  // namespace topoflow::BACKEND
