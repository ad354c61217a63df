// Random numbers that depend on what they are for, not on the order in which they are drawn: Philox4x32-10, and
// Philox4x64-10 as numpy has it.
//   numpy.random.Philox(key=[7, 1], counter=[0, 0, 3, 0]): its numbers 4 to 7 are those of counter [2, 0, 3, 0]
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3, table 2.
// topoflow/engine/random.py and topoflow/search/tempering_reference.py say how counters and keys are used.
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

struct Words {
  uint32_t word[4];
};

// The words of N counters, whose first words follow each other: a compiler draws them side by side.
template <int N>
DEVICE void philox(const Words& first, uint32_t one, uint32_t two, Words* words) {
  uint32_t a[N], b[N], c[N], d[N];
  for (int i = 0; i < N; ++i)
    a[i] = first.word[0] + i, b[i] = first.word[1], c[i] = first.word[2], d[i] = first.word[3];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < N; ++i) {
      const uint64_t left = uint64_t{0xD2511F53} * a[i], right = uint64_t{0xCD9E8D57} * c[i];
      a[i] = static_cast<uint32_t>(right >> 32) ^ b[i] ^ one;
      b[i] = static_cast<uint32_t>(right);
      c[i] = static_cast<uint32_t>(left >> 32) ^ d[i] ^ two;
      d[i] = static_cast<uint32_t>(left);
    }
    one += 0x9E3779B9;
    two += 0xBB67AE85;
  }
  for (int i = 0; i < N; ++i) words[i] = {{a[i], b[i], c[i], d[i]}};
}

DEVICE Words philox(const Words& counter, uint32_t one, uint32_t two) {
  Words words;
  philox<1>(counter, one, two, &words);
  return words;
}

// A number below n from a random word, each equally likely to n / 2^32.
DEVICE int32_t below(uint32_t word, int32_t n) {
  return static_cast<int32_t>(static_cast<uint64_t>(word) * static_cast<uint32_t>(n) >> 32);
}

// With 64-bit words.
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
