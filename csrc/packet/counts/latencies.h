// A histogram of latencies, their sum and the largest.
//
// Source: bins as those of HdrHistogram (Tene), which have the leading bits of a number.
#pragma once

#include "packet/batch.h"
#include "parallel/bits.h"
#include "parallel/memory.h"

namespace topoflow::BACKEND::packet {

// The share of a world's state that a part owns: part `rank` of several that share the world.
struct Share {
  int32_t parts = 1, rank = 0;
  int64_t tasks_before = 0;  // how many tasks the parts before it follow
};

// Returns the bins that a part counts in. The first part counts in those of the world, the others have their own.
HD int64_t* latency_bins(Memory& memory, int64_t* of_world, const Share& share) {
  int64_t* const other_bins = memory.take<int64_t>((share.parts - 1) * kLatencyBins);
  return share.rank == 0 ? of_world : other_bins + (share.rank - 1) * kLatencyBins;
}

class Latencies {
 public:
  DEVICE explicit Latencies(int64_t* bins) : bins_(bins) {}

  DEVICE void begin() {
    for (int64_t i = 0; i < kLatencyBins; ++i) bins_[i] = 0;
    sum_ = max_ = 0;
  }

  // Counts a latency, ps.
  DEVICE void count(int64_t latency) {
    ++bins_[bin(latency)];
    sum_ += latency;
    if (latency > max_) max_ = latency;
  }

  // Adds these to what parts of lower rank have counted of a world. Those of rank 0 come first: their bins are the
  // world's.
  DEVICE void add(int64_t* bins, int64_t* sum, int64_t* max, int32_t world, int32_t rank) const {
    if (rank == 0) {
      sum[world] = sum_;
      max[world] = max_;
      return;
    }
    for (int64_t i = 0; i < kLatencyBins; ++i) bins[int64_t{world} * kLatencyBins + i] += bins_[i];
    sum[world] += sum_;
    if (max_ > max[world]) max[world] = max_;
  }

  // Remembers the counts so far in `earlier`: those of bins, then their sum.
  DEVICE void remember(int64_t* earlier) const {
    for (int64_t i = 0; i < kLatencyBins; ++i) earlier[i] = bins_[i];
    earlier[kLatencyBins] = sum_;
  }

  // Counts what was counted since then as often again.
  DEVICE void repeat(const int64_t* earlier, int64_t times) {
    for (int64_t i = 0; i < kLatencyBins; ++i) bins_[i] += times * (bins_[i] - earlier[i]);
    sum_ += times * (sum_ - earlier[kLatencyBins]);
  }

 private:
  // Returns the bin, by the four bits after the leading one: a bin is at most a 16th of its latencies wide.
  DEVICE static int32_t bin(int64_t latency) {
    if (latency < 16) return static_cast<int32_t>(latency);
    const int32_t shift = highest_bit(static_cast<uint64_t>(latency)) - 4;
    return shift * 16 + static_cast<int32_t>(latency >> shift);  // 16 * (shift + 1) + the four bits
  }

  int64_t* bins_;
  int64_t sum_ = 0, max_ = 0;
};

}  // namespace topoflow::BACKEND::packet
