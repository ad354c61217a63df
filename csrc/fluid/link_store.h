// The remaining capacity of each link, and the weight of its open paths, while rates are refilled (refill.h).
//
// Refilling costs as much as it reads and writes of this. So where capacities allow it, links are packed: one 64-bit
// word says what is left of a link, one how many flows are open, and half as much memory is moved. Snapshots, each with
// more paths frozen than the one before, say where filling can be resumed.
//
// Source: link.h states the sums; a snapshot every so often is a checkpoint (Griewank, Achieving logarithmic growth of
// temporal and spatial complexity in reverse automatic differentiation, Optimization Methods and Software 1, 1992).
#pragma once

#include "rates.h"

namespace topoflow::BACKEND {

class LinkStore {
 public:
  DEVICE explicit LinkStore(Rates& rates) : rates_(rates) {}

  DEVICE bool packed() const { return per_unit_ > 0; }

  // Weight that a link may have.
  DEVICE int64_t room() const { return room_; }

  // Decides whether links are packed: all flows of a link must fit in 62 bits though each has the most that any link
  // has, and twice as many as there are now, and that must leave 2^44 units for the link that has least. Their number
  // in 1 B/s must be finite: of an infinite one, what is cast to integers differs between processors.
  DEVICE void choose(const Team auto& team) {
    snapshots_ = 0;
    per_unit_ = 0;
    room_ = int64_t{1} << 62;
    if (!rates_.paths.plain() || !(rates_.max_capacity > 0)) return;
    const double flows =
        2 - 2 * team.min(links(), [&](int32_t l) { return -static_cast<double>(rates_.info[l].total.high / kWhole); });
    const double fit = static_cast<double>(room_) / (rates_.max_capacity * flows);
    if (fit > Unit::kMaxPerUnit || !(fit * rates_.min_capacity >= static_cast<double>(int64_t{1} << 44))) return;
    per_unit_ = fit;
    room_ = kWhole * static_cast<int64_t>(flows);
  }

  // A path has `now` flows, as Rates::reopen() says.
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event) const {
    const int32_t then = rates_.counted_flows[p];
    if (!packed()) {
      const auto give = [&](int32_t l, const Amount& freed, const Amount& opened, const Amount& more) {
        atomic_add(team, &rates_.link[l].left, freed);
        atomic_add(team, &rates_.link[l].open, opened);
        for (int32_t i = 0; i < snapshots_; ++i) atomic_add(team, &snapshot(i)[l].open, more);
      };
      return rates_.reopen(team, p, now, event, give);
    }
    const int64_t freed = then > 0 ? then * units(rates_.rate[p]) : 0;
    rates_.reopen(team, p, now, event, [&](int32_t l, const Amount&, const Amount&, const Amount&) {
      packed_links().add(team, l, {freed, now});
      for (int32_t i = 0; i < snapshots_; ++i) packed_snapshot(i).add_second(team, l, now - then);
    });
  }

  // n paths of all that flow will change. To update the snapshots may cost more than they save.
  DEVICE void expect(int32_t n, int32_t flowing) {
    if (n > flowing / 64) snapshots_ = 0;
  }

  // Resets a link to its state without frozen paths. It is checked once it is nearly full.
  template <bool kPacked>
  DEVICE void reset(int32_t l) const {
    if constexpr (kPacked)
      packed_links().set(l, {units(rates_.bandwidth(l)), rates_.info[l].total.high / kWhole});
    else
      rates_.link[l] = {rates_.capacity(l), rates_.info[l].total};
  }
  template <bool kPacked>
  DEVICE int64_t capacity(int32_t l) const {
    return kPacked ? units(rates_.bandwidth(l)) : rates_.capacity(l).high;
  }

  template <bool kPacked>
  DEVICE bool has_open(int32_t l) const {
    return (kPacked ? packed_links()[l].second : rates_.link[l].open.high) > 0;
  }
  template <bool kPacked>
  DEVICE int64_t left_of(int32_t l) const {
    return kPacked ? packed_links()[l].first : rates_.link[l].left.high;
  }

  // B/s, if it has open paths.
  template <bool kPacked>
  DEVICE double level_of(int32_t l, bool& open) const {
    if constexpr (!kPacked) {
      const LinkState k = rates_.link[l];
      open = k.open.high > 0;
      return rates_.fair_share(k.left, k.open);
    }
    const Pair k = packed_links()[l];
    open = k.second > 0;
    return k.first > 0 ? static_cast<double>(k.first) / (static_cast<double>(k.second) * per_unit_) : 0;
  }

  template <bool kPacked>
  DEVICE bool overloaded(int32_t l) const {
    if constexpr (!kPacked) return rates_.overloaded(l);
    const int64_t left = packed_links()[l].first;
    return left < 0 && static_cast<double>(left) < -kSame * rates_.bandwidth(l) * per_unit_;
  }

  // The open ones of n paths are limited by this link, at this rate; they are listed. Returns how many they are.
  template <bool kPacked>
  DEVICE int32_t freeze(const Team auto& team, int32_t n, const int32_t* paths, int32_t l, double rate,
                        int32_t* list) const {
    const PackedMove move = packed_move();
    const int64_t flow_units = units(rate);
    const auto bottleneck = rates_.bottleneck;
    return team.pick(
        n, [=](int32_t i) { return paths[i]; }, list, [=](int32_t p) { return bottleneck[p] < 0; },
        [=, this](int32_t p) {
          bottleneck[p] = l;
          if constexpr (kPacked)
            move(team, p, flow_units, -1);
          else
            move_wide(team, p, rate, -1);
        });
  }

  // They get (sign -1), or give back, what their bottlenecks give them.
  template <bool kPacked>
  DEVICE void move_all(const Team auto& team, int32_t n, const int32_t* list, int32_t sign) const {
    const PackedMove move = packed_move();
    const double per_unit = per_unit_;
    const auto bottleneck = rates_.bottleneck;
    const double* const level = rates_.level;
    const auto level_of_path = [=](int32_t i) {
      const int32_t p = list[i], l = bottleneck[p];
      const bool changed = l == Rates::kNoLink || l == Rates::kNoFlows;  // it has other flows than before
      return PathLevel{p, changed ? -1 : level[l]};
    };
    if constexpr (kPacked) {
      team.for_each(n, level_of_path, [=](int32_t, const PathLevel& path) {
        if (path.level >= 0) move(team, path.path, static_cast<int64_t>(path.level * per_unit + 0.5), sign);
      });
    } else {  // not read ahead: a GPU's code would hold several copies of this
      team.for_each(n, [=, this](int32_t i) {
        const PathLevel path = level_of_path(i);
        if (path.level >= 0) move_wide(team, path.path, path.level, sign);
      });
    }
  }

  // Forgets snapshots with more than `frozen` paths. Returns how many the last one has, 0 if there is none.
  DEVICE int32_t forget(int32_t frozen) {
    while (snapshots_ > 0 && rates_.frozen_at[snapshots_ - 1] > frozen) --snapshots_;
    return last();
  }
  DEVICE int32_t last() const { return snapshots_ > 0 ? rates_.frozen_at[snapshots_ - 1] : 0; }
  DEVICE bool has_snapshot() const { return snapshots_ > 0; }

  // Keeps a snapshot for when this many paths are frozen.
  template <bool kPacked>
  DEVICE void save(const Team auto& team, int32_t frozen) {
    team.once([&] { rates_.frozen_at[snapshots_] = frozen; });
    if constexpr (kPacked)
      packed_links().copy(team, links(), packed_snapshot(snapshots_));
    else
      team.copy(links(), static_cast<const LinkState*>(rates_.link), snapshot(snapshots_));
    ++snapshots_;
  }

  // Returns to the last snapshot, or to where no path is frozen.
  template <bool kPacked>
  DEVICE void restore(const Team auto& team) const {
    if (snapshots_ == 0)
      team.for_each(links(), [&](int32_t l) { reset<kPacked>(l); });
    else if constexpr (kPacked)
      packed_snapshot(snapshots_ - 1).copy(team, links(), packed_links());
    else
      team.copy(links(), static_cast<const LinkState*>(snapshot(snapshots_ - 1)), static_cast<LinkState*>(rates_.link));
  }

  // Paths between two snapshots: as many as there is memory for, and one costs as much as an eighth of a path per link.
  template <bool kPacked>
  DEVICE int32_t snapshot_spacing(int32_t flowing) const {
    const int64_t fit = spare_bytes() / (bytes_of<kPacked>() * (links() + 1));
    const int32_t max_snapshots = fit < Rates::kSnapshots ? static_cast<int32_t>(fit) : Rates::kSnapshots;
    const int32_t spacing = flowing / (max_snapshots + 1);
    return spacing > links() / 8 ? spacing : links() / 8;
  }
  template <bool kPacked>
  DEVICE bool has_room() const {
    return snapshots_ < Rates::kSnapshots && (snapshots_ + 1) * bytes_of<kPacked>() * links() <= spare_bytes();
  }

 private:
  // Packed links: {remaining capacity, open flows}.
  DEVICE Pairs packed_links() const { return {rates_.hot.packed, links()}; }
  DEVICE int64_t units(double rate) const { return static_cast<int64_t>(rate * per_unit_ + 0.5); }

  // Snapshots lie in memory that only adjusting needs: from `limited` to the end of `before`.
  DEVICE std::byte* spare() const { return reinterpret_cast<std::byte*>(static_cast<Bottleneck*>(rates_.limited)); }
  DEVICE int64_t spare_bytes() const {
    return reinterpret_cast<std::byte*>(rates_.before + rates_.path_count) - spare();
  }
  template <bool kPacked>
  DEVICE static constexpr int64_t bytes_of() {  // of a link in a snapshot
    return kPacked ? sizeof(Pair) : sizeof(LinkState);
  }
  DEVICE LinkState* snapshot(int32_t i) const { return reinterpret_cast<LinkState*>(spare()) + int64_t{i} * links(); }
  DEVICE Pairs packed_snapshot(int32_t i) const { return {spare() + i * bytes_of<true>() * links(), links()}; }

  DEVICE int32_t links() const { return rates_.links(); }

  struct PathLevel {
    int32_t path;
    double level;  // B/s; -1: nothing
  };

  // Read once: as far as the compiler knows, a link's words may be these pointers.
  struct PackedMove {
    Pairs links;
    PathStates states;
    const Row* rows;
    const int32_t* hops;

    // The path's flows give back what they have of each link, `units` for each of them, or (sign -1) get it.
    DEVICE void operator()(const Team auto& team, int32_t p, int64_t units, int32_t sign) const {
      const int32_t flows = sign * states.counted_flows[p];
      const Pair use = flows == sign ? Pair{units * sign, sign} : Pair{units * flows, flows};
      states.for_each_two(
          rows, hops, p,
          [&](int32_t up, int32_t down) {  // a path mostly goes up as often as down
            links.add(team, up, use);
            links.add(team, down, use);
          },
          [&](int32_t last) { links.add(team, last, use); });
    }
  };
  DEVICE PackedMove packed_move() const {
    return {packed_links(), rates_.states, rates_.paths.rows, rates_.paths.links};
  }

  DEVICE void move_wide(const Team auto& team, int32_t p, double rate, int32_t sign) const {
    rates_.paths.for_each_hop(p, [&](int32_t l, double weight) {
      atomic_add(team, &rates_.link[l].left, rates_.used(p, weight, rate) * sign);
      atomic_add(team, &rates_.link[l].open, rates_.weigh(p, weight) * sign);
    });
  }

  Rates& rates_;
  // The same in all threads of the team:
  int32_t snapshots_ = 0;
  double per_unit_ = 0;  // units of a packed link in 1 B/s; 0: links are not packed
  int64_t room_ = 0;
};

}  // namespace topoflow::BACKEND
