// Max-min fair rates by rounds, for a block of a GPU's threads: in each round all links are filled on which no flow has
// less elsewhere, instead of one link after the other.
//   links of 10 and 90 B/s, path 0 on both, paths 1 and 2 on the second  -> round 1: the first (10), round 2: 40 40
//   two such pairs of links                                              -> the same two rounds
//
// Let the fair share of a link be its residual capacity over its flows whose rate is still open. A link is filled when
// each of its open flows has its lowest share there: it is a local bottleneck. Filling other links only raises its
// share, so it would be filled with the same rates if links were filled in the order of their shares (refill.h). In an
// event, rates below the lowest that leaves, and below the lowest at which a link of a new flow can be full, stay as
// they are.
//
// Where an all-to-all fills 72 links per event, there are 15 rounds, whose 330 open flows keep a block busy. What
// changes in a round lies in its shared memory, so only worlds that fit there are run so, and only those without
// weights and limits (rounds_world.h decides). A path's rate is its bottleneck's share, to the last bit, whatever the
// order of the threads.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2 (the bottleneck of every flow); a link that is the
// lowest of all its flows is a local bottleneck (Ros-Giralt and others, On the Bottleneck Structure of
// Congestion-Controlled Networks, SIGMETRICS 2019, level the graph of such links in the same way).
#pragma once

#include "fluid/rates.h"
#include "fluid/state.h"

namespace topoflow::BACKEND {

class Rounds {
 public:
  static constexpr int64_t kMaxCount = 0x7FF0;  // paths, and links, whose numbers fit in 15 bits
  // The least of a link's bandwidth over the most that one has: 2^44 units are left for the least (link_store.h).
  static constexpr double kSpread = 1.0 / (1 << 17);
  static constexpr double kMinBandwidth = 1e-200;  // B/s, of the most that a link has: units in it must be a number

  // B of the block's fast memory for a world.
  HD static int64_t bytes(int64_t paths, int64_t links) {
    return (links + 1) * (8 + Pairs::kBytes + 4) + kCounts * 4 + paths * 6;
  }

  // When the first flow of each path ends. Only paths that flow, or did of late, are looked at.
  struct Ends {
    Global<double> key;             // [P] s; infinity: nothing flows
    Global<const int32_t> flowing;  // [P]
    const int32_t* count;           // [1] of these
    int32_t paths;

    DEVICE void clear(const Team auto& team) const {
      team.for_each(paths, [&](int32_t p) { key[p] = kInfinity; });
    }
    DEVICE void set(const Team auto&, int32_t p, double end) const { key[p] = end; }
    DEVICE double lowest(const Team auto& team, bool) const {
      return team.min(*count, [&](int32_t i) { return key[flowing[i]]; });
    }
    // Like Tournament::take().
    template <class F>
    DEVICE void take(const Team auto& team, double limit, const F& f) const {
      team.for_each(*count, [&](int32_t i) {
        const int32_t p = flowing[i];
        const double end = key[p];
        if (end > limit) return;
        key[p] = kInfinity;
        f(p, end);
      });
    }
  };

  // `end` [P]; `fast`: bytes(paths, links) of shared memory.
  DEVICE Rounds(Rates& rates, double* end, Shared<std::byte> fast)
      : rates_(rates),
        paths_(rates.path_count),
        links_(rates.paths.world_links),
        end_(end),
        flowing_(rates.order.items),
        share_(reinterpret_cast<double*>(static_cast<std::byte*>(fast))),
        residual_(share_ + links_ + 1, links_ + 1),
        elsewhere_(reinterpret_cast<int32_t*>(reinterpret_cast<std::byte*>(share_ + links_ + 1) +
                                              (links_ + 1) * Pairs::kBytes)),
        counts_(elsewhere_ + links_ + 1),
        bottleneck_(reinterpret_cast<uint16_t*>(counts_ + kCounts)),
        open_(bottleneck_ + paths_) {}

  DEVICE Ends ends() const { return {end_, flowing_, counts_ + kFlowing, paths_}; }
  DEVICE static constexpr bool refilling() { return true; }

  // Before anything flows; rates.h has been laid out.
  DEVICE void begin(const Team auto& team) {
    per_unit_ = rates_.max_capacity > 0 ? kUnits / rates_.max_capacity : 1;
    unit_ = 1 / per_unit_;
    team.for_each(links_ + 1, [&](int32_t l) {
      residual_.set(l, {l < links_ ? units(rates_.bandwidth(l)) : 0, 0});
      share_[l] = kInfinity;
      elsewhere_[l] = 0;
      if (l < links_) rates_.info[l].total = {};
    });
    team.for_each(paths_, [&](int32_t p) {
      bottleneck_[p] = kIdle;
      rates_.states.end_links(p, links_);
    });
    team.for_each(kCounts, [&](int32_t i) { counts_[i] = 0; });
    hops_ = -static_cast<int32_t>(
        team.min(paths_, [&](int32_t p) { return -static_cast<double>(rates_.states.links(p).count(links_)); }));
  }

  // Like MaxMin's.
  template <class Flows, class Settle>
  INLINED bool operator()(const Team auto& team, const List& changed, const Flows& flows, const Settle& settle) {
    const int32_t n = changed.count(team);
    const double leaves = team.min(n, [&](int32_t i) { return change(team, changed[i], flows(changed[i])); });
    const double joins = team.min(n, [&](int32_t i) { return lowest_full(changed[i]); });
    team.once([&] { ++rates_.tally.events; });
    const double low = leaves < joins ? leaves : joins;
    if (low == kInfinity) return true;
    forget_drained(team);
    open(team, low * (1 - kSame));
    bool first = true;
    for (int32_t from = 0, opened = counts_[0]; opened > 0; from = 1 - from) {
      find_shares(team, from, first);
      if (hops_ <= 4)
        find_bottlenecks<4>(team, opened, from);
      else if (hops_ <= 6)
        find_bottlenecks<6>(team, opened, from);
      else
        find_bottlenecks<PathState::kLinks>(team, opened, from);
      partition(team, opened, from);
      const int32_t frozen = freeze(team, from, settle);
      if (frozen == 0) return false;
      opened -= frozen;
      first = false;
    }
    team.for_each(links_, [&](int32_t l) { residual_.set_second(l, 0); });
    return true;
  }

 private:
  // Entries of `counts_`: open paths in each of two lists (0 and 1), paths that the round froze, paths listed as
  // flowing, paths of that list whose flows have all ended, and 1 once a path has several flows at a time.
  enum Count : int32_t { kFrozen = 2, kFlowing, kEnded, kMany, kCounts };
  static constexpr double kUnits = static_cast<double>(int64_t{1} << 61);  // of the most that a link has
  // Values of `bottleneck_` beside links, and beside `links_` of an open path. kIdle: the path has no flows; kDrained:
  // it has none either, but is still in the list `flowing_`.
  static constexpr uint16_t kIdle = 0xFFFF, kDrained = 0xFFFE;
  static constexpr uint16_t kTie = 0x8000;  // of an open path: other links have the same share as this one

  DEVICE int64_t units(double rate) const { return static_cast<int64_t>(rate * per_unit_); }

  template <class F>
  DEVICE void for_each_link(const PathState::Links& links, int32_t p, const F& f) const {
    if (links.many()) {
      const Row row = rates_.paths.rows[p];
      for (int32_t i = 0; i < row.hops; ++i) f(rates_.paths.links[row.first + i]);
      return;
    }
#pragma unroll
    for (int32_t k = 0; k < PathState::kLinks; ++k)
      if (k < hops_ && links.link[k] != links_) f(static_cast<int32_t>(links.link[k]));
  }

  // The path has `now` flows. Returns what each of them had, infinity where it had none or nothing changes.
  DEVICE double change(const Team auto& team, int32_t p, int32_t now) const {
    const int32_t then = rates_.counted_flows[p];
    if (now == then) return kInfinity;
    const uint16_t from = bottleneck_[p];
    const double rate = then > 0 ? rates_.rate[p] : kInfinity;
    const int64_t use = then > 0 ? then * units(rate) : 0;
    for_each_link(rates_.states.links(p), p, [&](int32_t l) {
      if (use > 0 && l != from) residual_.add_first(l, use);
      team.atomic_add(&rates_.info[l].total.high, now - then);
    });
    if (from == kIdle) flowing_[team.atomic_add(counts_ + kFlowing, 1)] = p;
    if (now == 0 || from == kDrained) team.atomic_add(counts_ + kEnded, now == 0 ? 1 : -1);
    if (now > 1) team.atomic_exchange(counts_ + kMany, 1);
    bottleneck_[p] = static_cast<uint16_t>(now > 0 ? links_ : kDrained);
    rates_.counted_flows[p] = now;
    if (now == 0) rates_.rate[p] = Rates::kIdle;
    return rate;
  }

  // Returns the lowest rate at which a link of an open path can be full.
  DEVICE double lowest_full(int32_t p) const {
    double lowest = kInfinity;
    if (bottleneck_[p] != links_) return lowest;
    for_each_link(rates_.states.links(p), p, [&](int32_t l) {
      const double full = rates_.bandwidth(l) / static_cast<double>(rates_.info[l].total.high);
      lowest = full < lowest ? full : lowest;
    });
    return lowest;
  }

  // Removes paths without flows from `flowing_`, once a sixteenth of it has none.
  DEVICE void forget_drained(const Team auto& team) const {
    const int32_t num_flowing = counts_[kFlowing], ended = counts_[kEnded];
    if (ended < 64 || ended * 16 < num_flowing) return;
    team.wait();  // until all have read it
    team.once([&] { counts_[kFlowing] = counts_[kEnded] = 0; });
    team.for_each(num_flowing, [&](int32_t i) { open_[i] = static_cast<uint16_t>(flowing_[i]); });
    team.for_each_by_warp(num_flowing, [&](int32_t i, bool in_range) {
      const uint16_t p = in_range ? open_[i] : 0;
      const bool flows = in_range && bottleneck_[p] != kDrained;
      if (in_range && !flows) bottleneck_[p] = kIdle;
      const int32_t place = team.claim(flows, counts_ + kFlowing);
      if (flows) flowing_[place] = p;
    });
  }

  // Opens the paths that have at least `low`: their links get back what they have.
  DEVICE void open(const Team auto& team, double low) const {
    team.set(counts_, 0);
    team.for_each_by_warp(counts_[kFlowing], [&](int32_t i, bool in_range) {
      const int32_t p = in_range ? flowing_[i] : 0;
      const int32_t b = in_range ? bottleneck_[p] : kDrained;
      const bool opens = b != kDrained && share_[b] >= low;
      if (opens) {
        const int32_t flows = rates_.counted_flows[p];
        const int64_t use = b == links_ ? 0 : flows * units(rates_.rate[p]);
        for_each_link(rates_.states.links(p), p, [&](int32_t l) {
          if (use > 0 && l != b) residual_.add_first(l, use);
          residual_.add_second(team, l, flows);
        });
      }
      const int32_t place = team.claim(opens, counts_);
      if (opens) open_[place] = static_cast<uint16_t>(p);
    });
  }

  // Computes the shares of links that have open paths. Those that the previous round filled have none any more.
  DEVICE void find_shares(const Team auto& team, int32_t from, bool first) const {
    team.once([&] { counts_[1 - from] = counts_[kFrozen] = 0; });
    team.for_each(links_, [&](int32_t l) {
      const Pair k = residual_[l];
      const auto flows = static_cast<int32_t>(first || elsewhere_[l] != 0 ? k.second : 0);
      if (flows != k.second) residual_.set_second(l, 0);
      elsewhere_[l] = -flows;
      if (flows == 0) return;
      share_[l] = k.first > 0 ? static_cast<double>(k.first) * unit_ / flows : 0;
    });
  }

  // Counts each open path at the link that has its lowest share, or at all of these.
  template <int32_t kHops>
  DEVICE void find_bottlenecks(const Team auto& team, int32_t opened, int32_t from) const {
    const bool many = counts_[kMany] != 0;
    team.for_each(opened, [&](int32_t i) {
      const uint16_t p = open_[from * paths_ + i];
      const PathState::Links links = rates_.states.links(p);
      double lowest = kInfinity;
      int32_t at = links_;
      bool tie = false;
      const auto compare = [&](int32_t l) {
        const double share = share_[l];
        tie = (tie | (share == lowest)) & !(share < lowest);
        at = share < lowest ? l : at;
        lowest = share < lowest ? share : lowest;
      };
      if (links.many()) {
        for_each_link(links, p, compare);
      } else {
#pragma unroll
        for (int32_t k = 0; k < kHops; ++k) compare(links.link[k]);
      }
      const auto count = [&](int32_t l) {
        if (many)
          team.atomic_add(elsewhere_ + l, rates_.counted_flows[p]);
        else
          team.atomic_add(elsewhere_ + l, 1);
      };
      count(at);
      if (tie)
        for_each_link(links, p, [&](int32_t l) {
          if (l != at && share_[l] == lowest) count(l);
        });
      bottleneck_[p] = static_cast<uint16_t>(tie ? at | kTie : at);
    });
  }

  // Divides the open paths into those that cross a local bottleneck, which is filled now, and others.
  DEVICE void partition(const Team auto& team, int32_t opened, int32_t from) const {
    uint16_t* const other_list = open_ + (1 - from) * paths_;
    team.for_each_by_warp(opened, [&](int32_t i, bool in_range) {
      const uint16_t p = in_range ? open_[from * paths_ + i] : 0;
      bool fills = false;
      if (in_range) {
        const uint16_t marked = bottleneck_[p];
        const int32_t bottleneck = marked & ~kTie;
        fills = elsewhere_[bottleneck] == 0;
        if (marked & kTie) {
          int32_t chosen = bottleneck;
          if (!fills)
            for_each_link(rates_.states.links(p), p, [&](int32_t l) {
              if (elsewhere_[l] == 0 && share_[l] == share_[bottleneck]) chosen = l;
            });
          fills = fills || chosen != bottleneck;
          if (fills) bottleneck_[p] = static_cast<uint16_t>(chosen);
        }
      }
      const int32_t stays = team.claim(in_range && !fills, counts_ + 1 - from);
      const int32_t frozen = team.claim(fills, counts_ + kFrozen);
      if (in_range) other_list[fills ? paths_ - 1 - frozen : stays] = p;
    });
  }

  // Gives the flows of paths that cross a local bottleneck its share. Returns how many paths they are. A thread has
  // one link of a path, as the paths of a round would keep few threads busy.
  DEVICE int32_t freeze(const Team auto& team, int32_t from, const auto& settle) const {
    const uint16_t* const last = open_ + (1 - from) * paths_ + paths_ - 1;
    const int32_t frozen = counts_[kFrozen];
    team.for_each(frozen * PathState::kLinks, [&](int32_t i) {
      const int32_t p = last[-(i / PathState::kLinks)], k = i % PathState::kLinks;
      const int32_t to = bottleneck_[p], flows = rates_.counted_flows[p];
      const double rate = share_[to];
      const int64_t use = -flows * units(rate);
      const auto take = [&](int32_t l) {
        if (l == to) return;
        if (use < 0) residual_.add_first(l, use);
        residual_.add_second(team, l, -flows);
      };
      const uint16_t link = rates_.states.link(p, k);
      if (link == PathState::kMany) {
        if (k == 0) for_each_link(rates_.states.links(p), p, take);
      } else if (link != links_) {
        take(link);
      }
      if (k != 0) return;
      const double old_rate = rates_.rate[p];
      if (rate == old_rate) return;
      rates_.rate[p] = rate;
      settle(p, old_rate / rate);
    });
    return frozen;
  }

  Rates& rates_;
  int32_t paths_, links_;
  int32_t hops_ = 0;  // of a path at most
  double per_unit_ = 1, unit_ = 1;
  double* end_;           // [P] s, when the first flow ends
  int32_t* flowing_;      // [P] paths that have flows, and drained ones
  double* share_;         // [L + 1] shared, as all that follows: B/s, the fair share, of a filled link its level
  Pairs residual_;        // [L + 1] capacity without what flows use that other links limit, in units; open flows
  int32_t* elsewhere_;    // [L + 1] minus the open flows that have a lower share elsewhere; 0: a local bottleneck
  int32_t* counts_;       // [kCounts]
  uint16_t* bottleneck_;  // [P]
  uint16_t* open_;        // [2][P] open paths from the front; paths that a round froze are at the end of the other list
};

}  // namespace topoflow::BACKEND
