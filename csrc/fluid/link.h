// The state of a link while a world runs.
//
// Source: fixed-point sums are exact, so neither their order nor what was added and taken away again leaves a trace
// (Demmel and Nguyen, Fast Reproducible Floating-Point Summation, ARITH 2013, sum into bins for the same reason).
#pragma once

#include "parallel/team.h"

namespace topoflow::BACKEND {

constexpr double kSame = 1e-12;      // two rates or two instants closer than this, relatively, are the same
constexpr int64_t kWhole = 1 << 30;  // units of weight of one flow

// An amount of units in fixed point, high + low * 2^-30. Two words, because what flows want of a link before it has
// been filled may be a million times what it has.
struct Amount {
  int64_t high, low;

  static constexpr double kLow = 1 << 30;

  DEVICE static Amount of(double units) {
    const auto high = static_cast<int64_t>(units);
    return {high, static_cast<int64_t>((units - static_cast<double>(high)) * kLow)};
  }
  DEVICE Amount operator+(const Amount& b) const { return {high + b.high, low + b.low}; }
  DEVICE Amount operator-(const Amount& b) const { return {high - b.high, low - b.low}; }
  DEVICE Amount operator*(int64_t n) const { return {high * n, low * n}; }
  DEVICE bool operator==(const Amount& b) const { return high == b.high && low == b.low; }
  DEVICE double units() const { return static_cast<double>(high) + static_cast<double>(low) / kLow; }
};

// Returns what `high` is now.
DEVICE int64_t atomic_add(const Team auto& team, Amount* to, const Amount& value) {
  team.atomic_add(&to->low, value.low);
  return team.atomic_add(&to->high, value.high) + value.high;
}

// One for all links of a world: 2^-30 of the least capacity, or more where the greatest would not fit.
//   links of 1 GB/s and 400 GB/s   -> 1e9 / 2^30 = 0.93 B/s
//   links of 1 B/s and 1 EB/s      -> 1e18 / 2^55 = 28 B/s, and `low` still counts 2^-30 of that
struct Unit {
  static constexpr double kMaxPerUnit = 1e300;  // what a link has must stay a number

  double per_unit, unit;  // units in 1 B/s, B/s of a unit

  DEVICE static Unit of(double min_capacity, double max_capacity) {
    const double fine = (1 << 30) / min_capacity, coarse = static_cast<double>(int64_t{1} << 55) / max_capacity;
    const double max_per_unit = fine < coarse ? fine : coarse;
    const double per_unit =
        max_per_unit > 0 ? (max_per_unit < kMaxPerUnit ? max_per_unit : kMaxPerUnit) : 1;  // 0: no link has any
    return {per_unit, 1 / per_unit};
  }
  DEVICE Amount amount(double rate) const { return Amount::of(rate * per_unit); }
};

// Hot: read and written on every hop.
struct LinkState {
  Amount left;  // capacity less what all paths use that are not open
  Amount open;  // weight of the open paths, kWhole for each flow
};

// The rest of a link's state, without what loops over all links read (rates.h).
struct LinkInfo {
  Amount total;         // weight of all paths
  float slack;          // units by which rounding may overrun it, kSame of its capacity
  int32_t touched;      // 1: it has to be checked
  int32_t first;        // where its row of `members` begins
  int32_t num_members;  // paths there
  int32_t idle;         // of these, without flows
  int32_t cleaned;      // event at which idle ones were last taken out

  static constexpr int64_t kAlways = int64_t{1} << 62;  // of `watch`: it limits paths
  static constexpr int64_t kAmple = 1 << 24;  // likewise: with more left it is not overloaded, whatever `low` says
};

// Weight and use of the paths that this link limits, and of those that have more.
struct Bottleneck {
  Amount weight, used;              // of the paths that it limits
  Amount above_weight, above_used;  // of those that have more, limited elsewhere
};

}  // namespace topoflow::BACKEND
