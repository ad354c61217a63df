// Which of n items has the lowest key: blocks of about sqrt(n) items play first, their winners play second.
//   16384 items, 100 of them get other keys   -> 100 blocks of 128 play again at most, then their 128 winners
//
// Source: tournament trees (Knuth, The Art of Computer Programming 3, 2nd ed., 5.2.3), cut to two rounds: in each a
// team reads memory in order, and nothing depends on the order in which its threads set keys.
#pragma once

#include "parallel/team.h"

namespace topoflow::BACKEND {

struct Tournament {
  Global<double> key;     // [n] infinity: does not take part
  Global<double> winner;  // [blocks] the lowest key of each
  Global<int32_t> stale;  // [blocks] 1: has to play again
  List again;             // blocks that have to
  int32_t n;
  int32_t log;  // of a block's items

  HD static int32_t log_block(int64_t n) {
    int32_t log = 4;
    while (int64_t{1} << 2 * log < n) ++log;
    return log;
  }
  HD static int64_t blocks(int64_t n) { return (n >> log_block(n)) + 1; }

  DEVICE int32_t blocks() const { return (n >> log) + 1; }

  DEVICE void clear(const Team auto& team) const {
    team.for_each(n, [&](int32_t item) { key[item] = kInfinity; });
    team.for_each(blocks(), [&](int32_t block) {
      winner[block] = kInfinity;
      stale[block] = 0;
    });
    again.clear(team);
  }

  // No two threads at once for one item.
  DEVICE void set(const Team auto& team, int32_t item, double value) const {
    key[item] = value;
    again.append_if(team, team.atomic_exchange(&stale[item >> log], 1) == 0, item >> log);
  }

  DEVICE void lower(const Team auto& team, int32_t item, double value) const {
    if (value < key[item]) set(team, item, value);
  }

  // Infinity when no item takes part. `all` blocks play again where keys have been written without set().
  DEVICE double lowest(const Team auto& team, bool all = false) const {
    const int32_t playing = all ? blocks() : again.count(team);
    if (playing > 0) {
      const auto block = [&](int32_t i) { return all ? i : again[i]; };
      team.min_of_each(
          playing, [&](int32_t i) { return Keys{key + (block(i) << log), size(block(i))}; },
          [&](int32_t i, double low) {
            winner[block(i)] = low;
            stale[block(i)] = 0;
          });
      again.forget(team);
    }
    return team.min_of(blocks(), winner);
  }

  // Takes out the item with the lowest key, of several the first; -1 when there is none.
  DEVICE int32_t pop(const Team auto& team, double& low) const {
    low = lowest(team);
    if (low == kInfinity) return -1;
    const int32_t block = team.first(blocks(), [&](int32_t i) { return winner[i] == low; });
    const int32_t item =
        (block << log) + team.first(size(block), [&](int32_t i) { return key[(block << log) + i] == low; });
    team.wait();  // until all have found it
    team.for_each(1, [&](int32_t) { set(team, item, kInfinity); });
    return item;
  }

  // Takes out all items with keys up to `most`, after lowest(), and calls f(item, key) for each, which may set it
  // again.
  template <class F>
  DEVICE void take(const Team auto& team, double most, const F& f) const {
    team.for_those(
        blocks(), [&](int32_t block) { return winner[block] <= most; },
        [&](int32_t block) {
          team.for_each(size(block), [&](int32_t i) {
            const int32_t item = (block << log) + i;
            const double value = key[item];
            if (value > most) return;
            set(team, item, kInfinity);
            f(item, value);
          });
        });
  }

  struct Keys {
    const double* first;
    int32_t size;
  };

  // Items of a block.
  DEVICE int32_t size(int32_t block) const { return n - (block << log) < 1 << log ? n - (block << log) : 1 << log; }
};

}  // namespace topoflow::BACKEND
