// A queue of n items by their keys, the lowest first: the items of a block play for its winner, and where there are
// 2^14 items or more, the winners of a group of blocks play for the winner of the group.
//   16,000 items, 100 of them get other keys     -> 100 blocks of 128 play again at most, then their 125 winners
//   2,000,000 items, 100 of them get other keys  -> 100 blocks of 128, 100 groups of 128 blocks, then 123 winners
//
// Source: tournament trees (Knuth, The Art of Computer Programming 3, 2nd ed., 5.2.3), cut to two or three rounds: in
// each a team reads memory in order, and nothing depends on the order in which its threads set keys.
#pragma once

#include "parallel/team.h"

namespace topoflow::BACKEND {

struct Tournament {
  Global<double> key;     // [n] infinity: does not take part
  Global<double> winner;  // [blocks + groups] the lowest key of each
  Global<int32_t> stale;  // [blocks + groups] 1: has to play again
  List stale_blocks;      // stale blocks
  int32_t n;
  int32_t log;     // of a block's items, and of a group's blocks
  int32_t groups;  // 0: the blocks are few

  HD static int32_t log_block(int64_t n) {
    int32_t log = grouped(n) ? kLog : 4;
    while (int64_t{1} << (grouped(n) ? 3 : 2) * log < n) ++log;
    return log;
  }
  HD static int64_t count_blocks(int64_t n) { return (n >> log_block(n)) + 1; }
  HD static int64_t count_groups(int64_t n) { return grouped(n) ? (n >> 2 * log_block(n)) + 1 : 0; }

  DEVICE int32_t blocks() const { return (n >> log) + 1; }

  DEVICE void clear(const Team auto& team) const {
    team.for_each(n, [&](int32_t item) { key[item] = kInfinity; });
    team.for_each(blocks() + groups, [&](int32_t row) {
      winner[row] = kInfinity;
      stale[row] = 0;
    });
    stale_blocks.clear(team);
  }

  // No two threads at once for one item.
  DEVICE void set(const Team auto& team, int32_t item, double value) const {
    key[item] = value;
    stale_blocks.append_if(team, team.atomic_exchange(&stale[item >> log], 1) == 0, item >> log);
  }

  DEVICE void lower(const Team auto& team, int32_t item, double value) const {
    if (value < key[item]) set(team, item, value);
  }

  // Infinity when no item takes part. `all` blocks play again where keys have been written without set().
  DEVICE double lowest(const Team auto& team, bool all = false) const {
    const int32_t playing = all ? blocks() : stale_blocks.count(team);
    if (playing > 0) {
      const auto block = [&](int32_t i) { return all ? i : stale_blocks[i]; };
      team.min_of_rows(
          playing, [&](int32_t i) { return Keys{key + (block(i) << log), size(block(i))}; },
          [&](int32_t i, double low) {
            winner[block(i)] = low;
            stale[block(i)] = 0;
          });
      if (grouped()) play_groups(team, playing, block);
      stale_blocks.forget(team);
    }
    return team.min_of(grouped() ? groups : blocks(), winner + (grouped() ? blocks() : 0));
  }

  // Takes out the item with the lowest key, of several the first; -1 when there is none.
  DEVICE int32_t pop(const Team auto& team, double& low) const {
    low = lowest(team);
    if (low == kInfinity) return -1;
    const int32_t first = grouped() ? team.first_up_to(groups, winner + blocks(), low) << log : 0;
    const int32_t block = first + team.first_up_to(blocks() - first, winner + first, low);
    const int32_t item = (block << log) + team.first_up_to(size(block), key + (block << log), low);
    team.wait();  // until all have found it
    team.for_each(1, [&](int32_t) { set(team, item, kInfinity); });
    return item;
  }

  // Takes out all items with keys up to `limit`, after lowest(), and calls f(item, key) for each, which may set it
  // again.
  template <class F>
  DEVICE void take(const Team auto& team, double limit, const F& f) const {
    if (!grouped()) return take_of(team, 0, blocks(), limit, f);
    team.team_for_each_up_to(groups, winner + blocks(), limit,
                             [&](int32_t group) { take_of(team, group << log, blocks_of(group), limit, f); });
  }

  struct Keys {
    const double* first;
    int32_t size;
  };

 private:
#ifdef TOPOFLOW_ON_GPU  // a warp reads 32 keys at once, and has no registers for groups
  static constexpr bool kGrouped = false;
#else
  static constexpr bool kGrouped = true;
#endif
  static constexpr int32_t kLog = 7;  // of the items of a block where blocks are grouped, at least

  HD static bool grouped(int64_t n) { return kGrouped && n >> 2 * kLog > 0; }
  DEVICE bool grouped() const { return kGrouped && groups > 0; }

  // The groups of blocks that have played.
  template <class Block>
  CALLED_ON_CPU void play_groups(const Team auto& team, int32_t played, const Block& block) const {
    team.for_each(played, [&](int32_t i) { team.atomic_exchange(&stale[blocks() + (block(i) >> log)], 1); });
    team.team_for_each_if(
        groups, [&](int32_t group) { return stale[blocks() + group] != 0; },
        [&](int32_t group) {
          const double low = team.min_of(blocks_of(group), winner + (group << log));
          team.once([&] {
            winner[blocks() + group] = low;
            stale[blocks() + group] = 0;
          });
        });
    team.wait();
  }

  // The items of `count` blocks.
  template <class F>
  DEVICE void take_of(const Team auto& team, int32_t first, int32_t count, double limit, const F& f) const {
    team.team_for_each_up_to(count, winner + first, limit, [&](int32_t i) {
      const int32_t item = (first + i) << log;
      team.for_each_up_to(size(first + i), key + item, limit, [&](int32_t place) {
        const double value = key[item + place];
        set(team, item + place, kInfinity);
        f(item + place, value);
      });
    });
  }

  // Items of a block, and blocks of a group.
  DEVICE int32_t size(int32_t block) const { return row(n - (block << log)); }
  DEVICE int32_t blocks_of(int32_t group) const { return row(blocks() - (group << log)); }
  DEVICE int32_t row(int32_t remaining) const { return remaining < 1 << log ? remaining : 1 << log; }
};

}  // namespace topoflow::BACKEND
