// How many latencies of each size there were, their sum and the most of them.
//
// Source: bins as those of HdrHistogram (Tene), which have the leading bits of a number.
#pragma once

#include "batch.h"
#include "parallel/bits.h"

namespace topoflow::BACKEND::packet {

class Latencies {
 public:
  DEVICE explicit Latencies(int64_t* bins) : bins_(bins) {}

  DEVICE void begin() {
    for (int64_t i = 0; i < kLatencyBins; ++i) bins_[i] = 0;
    sum_ = most_ = 0;
  }

  // In ps.
  DEVICE void count(int64_t latency) {
    ++bins_[bin(latency)];
    sum_ += latency;
    if (latency > most_) most_ = latency;
  }

  // Writes the sum and the most, the bins being there already.
  DEVICE void write(int64_t& sum, int64_t& most) const {
    sum = sum_;
    most = most_;
  }

  // Adds these to what another one has written.
  DEVICE void add(int64_t* bins, int64_t& sum, int64_t& most) const {
    for (int64_t i = 0; i < kLatencyBins; ++i) bins[i] += bins_[i];
    sum += sum_;
    if (most_ > most) most = most_;
  }

 private:
  // By the four leading bits after the first: a bin is at most a 16th of its latencies wide.
  DEVICE static int32_t bin(int64_t latency) {
    if (latency < 16) return static_cast<int32_t>(latency);
    const int32_t shift = highest_bit(static_cast<uint64_t>(latency)) - 4;
    return shift * 16 + static_cast<int32_t>(latency >> shift);  // 16 * (shift + 1) + the four bits
  }

  int64_t* bins_;
  int64_t sum_ = 0, most_ = 0;
};

}  // namespace topoflow::BACKEND::packet
