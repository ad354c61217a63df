// Random numbers that depend on what they are for, not on the order in which they are drawn: Philox4x32-10, and
// Philox4x64-10 as numpy has it.
//   numpy.random.Philox(key=[7, 1], counter=[0, 0, 3, 0]): its numbers 4 to 7 are those of counter [2, 0, 3, 0]
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3, table 2.
// topoflow/engine/random.py and tests/twins/tempering.py say how counters and keys are used.
#pragma once

#include "backend.h"

#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
#define TOPOFLOW_SSE2
#include <emmintrin.h>
#endif

namespace topoflow::BACKEND {

struct Words {
  uint32_t word[4];
};

// The words of N counters, whose first words follow each other.
template <int N>
DEVICE void philox(const Words& first, uint32_t key0, uint32_t key1, Words* words) {
  uint32_t a[N], b[N], c[N], d[N];
  for (int i = 0; i < N; ++i)
    a[i] = first.word[0] + i, b[i] = first.word[1], c[i] = first.word[2], d[i] = first.word[3];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < N; ++i) {
      const uint64_t product_a = uint64_t{0xD2511F53} * a[i], product_c = uint64_t{0xCD9E8D57} * c[i];
      a[i] = static_cast<uint32_t>(product_c >> 32) ^ b[i] ^ key0;
      b[i] = static_cast<uint32_t>(product_c);
      c[i] = static_cast<uint32_t>(product_a >> 32) ^ d[i] ^ key1;
      d[i] = static_cast<uint32_t>(product_a);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int i = 0; i < N; ++i) words[i] = {{a[i], b[i], c[i], d[i]}};
}

#ifdef TOPOFLOW_SSE2

// The same of 2 N counters, side by side: each register has one word of two of them, in lanes of 64 bits whose upper
// halves mean nothing, as products are of lower halves.
template <int N>
void philox_in_pairs(const Words& first, uint32_t key0, uint32_t key1, Words* words) {
  const __m128i multiplier_a = _mm_set1_epi64x(0xD2511F53), multiplier_c = _mm_set1_epi64x(0xCD9E8D57);
  __m128i a[N], b[N], c[N], d[N];
  for (int i = 0; i < N; ++i) {
    a[i] = _mm_set_epi64x(first.word[0] + 2 * i + 1, first.word[0] + 2 * i);
    b[i] = _mm_set1_epi64x(first.word[1]);
    c[i] = _mm_set1_epi64x(first.word[2]);
    d[i] = _mm_set1_epi64x(first.word[3]);
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const __m128i first_key = _mm_set1_epi64x(key0), second_key = _mm_set1_epi64x(key1);
    for (int i = 0; i < N; ++i) {
      const __m128i product_a = _mm_mul_epu32(a[i], multiplier_a), product_c = _mm_mul_epu32(c[i], multiplier_c);
      a[i] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product_c, 32), b[i]), first_key);
      b[i] = product_c;
      c[i] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product_a, 32), d[i]), second_key);
      d[i] = product_a;
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int i = 0; i < N; ++i) {
    const __m128i ab = _mm_unpacklo_epi32(a[i], b[i]), cd = _mm_unpacklo_epi32(c[i], d[i]);
    const __m128i next_ab = _mm_unpackhi_epi32(a[i], b[i]), next_cd = _mm_unpackhi_epi32(c[i], d[i]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words[2 * i].word), _mm_unpacklo_epi64(ab, cd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words[2 * i + 1].word), _mm_unpacklo_epi64(next_ab, next_cd));
  }
}

template <>
inline void philox<4>(const Words& first, uint32_t key0, uint32_t key1, Words* words) {
  philox_in_pairs<2>(first, key0, key1, words);
}

#endif

DEVICE Words philox(const Words& counter, uint32_t key0, uint32_t key1) {
  Words words;
  philox<1>(counter, key0, key1, &words);
  return words;
}

// A number below n from a random word, each equally likely to n / 2^32.
DEVICE int32_t below(uint32_t word, int32_t n) {
  return static_cast<int32_t>(static_cast<uint64_t>(word) * static_cast<uint32_t>(n) >> 32);
}

// Two numbers from one word, below `n` and below `m`: the whole part of word n / 2^32, and of m times what is left of
// it. Each pair is equally likely to n m / 2^32.
struct IntPair {
  int32_t first, second;
};
DEVICE IntPair below(uint32_t word, int32_t n, int32_t m) {
  const uint64_t product = static_cast<uint64_t>(word) * static_cast<uint32_t>(n);
  return {static_cast<int32_t>(product >> 32), below(static_cast<uint32_t>(product), m)};
}

// With 64-bit words.
struct Philox {
  uint64_t key[2];

  // Number `n`, from 0, in [0, 1), of what numpy draws with this key from the counter [0, 0, high, highest] on.
  HD double uniform(uint64_t n, uint64_t high, uint64_t highest) const {
    uint64_t counter[4] = {1 + n / 4, 0, high, highest}, key[2] = {this->key[0], this->key[1]};
    for (int round = 0; round < kRounds; ++round) {
      const Product product0 = product(0xD2E7470EE14C6C93u, counter[0]),
                    product2 = product(0xCA5A826395121157u, counter[2]);
      counter[0] = product2.high ^ counter[1] ^ key[0];
      counter[1] = product2.low;
      counter[2] = product0.high ^ counter[3] ^ key[1];
      counter[3] = product0.low;
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
