// Random numbers that are counted, not drawn in turn: Philox4x64-10, as numpy has it. A number depends on its key and
// its counter alone, so that neither threads nor the place where a walk was stopped change it.
//   numpy.random.Philox(key=[7, 1], counter=[0, 0, 3, 0]): its numbers 4 to 7 are those of counter [2, 0, 3, 0]
//
// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3 and
// table 2 (constants).
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

struct Philox {
  uint64_t key[2];

  // Number `n`, from 0, in [0, 1), of what numpy draws with this key from the counter [0, 0, high, highest] on.
  HD double uniform(uint64_t n, uint64_t high, uint64_t highest) const {
    uint64_t counter[4] = {1 + n / 4, 0, high, highest}, key[2] = {this->key[0], this->key[1]};
    for (int round = 0; round < kRounds; ++round) {
      const Product one = product(0xD2E7470EE14C6C93u, counter[0]), other = product(0xCA5A826395121157u, counter[2]);
      counter[0] = other.high ^ counter[1] ^ key[0];
      counter[1] = other.low;
      counter[2] = one.high ^ counter[3] ^ key[1];
      counter[3] = one.low;
      key[0] += 0x9E3779B97F4A7C15u;
      key[1] += 0xBB67AE8584CAA73Bu;
    }
    const uint64_t even = n & 2 ? counter[2] : counter[0], odd = n & 2 ? counter[3] : counter[1];
    return static_cast<double>((n & 1 ? odd : even) >> 11) * 0x1p-53;
  }

 private:
  static constexpr int kRounds = 10;

  struct Product {
    uint64_t high, low;
  };
  HD static Product product(uint64_t a, uint64_t b) {
    const unsigned __int128 both = static_cast<unsigned __int128>(a) * b;
    return {static_cast<uint64_t>(both >> 64), static_cast<uint64_t>(both)};
  }
};

}  // namespace topoflow::BACKEND
