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

  // The next event: `changed` are paths, flows(path) is how many flows one has now, settle(path, old rate / new rate)
  // is called for each new rate, for some paths several times. Returns false if it does not end. (A call would put the
  // world's state into a GPU's local memory.)
  template <class Flows, class Settle>
  INLINED bool operator()(const Team auto& team, const List& changed, const Flows& flows, const Settle& settle) {
    const int32_t n = changed.count(team);
    const bool was = refilling_;
    const int32_t more =
        team.sum(n, [&](int32_t i) { return (flows(changed[i]) > 0) - (rates_.counted[changed[i]] > 0); });
    const int32_t flowing = rates_.tally.flowing + more;
    refilling_ = choose(team, n, flowing);
    if (was && !refilling_) refill_.hand_over(team);
    double level = refilling_ && was ? refill_.lowest_rate(team, changed) : -1;  // less than 0: all begins anew
    refill_.expect(n, flowing);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = changed[i], now = flows(p);
      if (now == rates_.counted[p]) return;
      if (refilling_ && was)
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
    const int64_t soon = loss + (refilling_ ? 0 : kAdjust * n - (flowing + links) / 2);
    const bool changes = soon > change;
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
    return true;
  }

  Rates& rates_;
  Refill refill_;
  Adjust adjust_;
  bool refilling_ = false;  // the same in all threads of the team
};

}  // namespace topoflow::BACKEND
