// Sets of small numbers as bits of words.
#pragma once

#include <cuda/std/bit>

#include "backend.h"

#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
#include <emmintrin.h>
#endif

namespace topoflow::BACKEND {

DEVICE int32_t lowest_bit(uint64_t word) { return ::cuda::std::countr_zero(word); }  // word is not 0
DEVICE int32_t bits(uint64_t word) {
#if defined(TOPOFLOW_ON_GPU) || defined(__POPCNT__)
  return ::cuda::std::popcount(word);
#else  // where processors need not have an instruction for it a compiler calls a function
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  return static_cast<int32_t>(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
#endif
}
// The number of bits set among the lowest six.
DEVICE int32_t few_bits(uint32_t six) {
#if defined(TOPOFLOW_ON_GPU) || defined(__POPCNT__)
  return ::cuda::std::popcount(six);
#else
  static constexpr uint8_t kCount[64] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 1, 2, 2, 3, 2, 3,
                                         3, 4, 2, 3, 3, 4, 3, 4, 4, 5, 1, 2, 2, 3, 2, 3, 3, 4, 2, 3, 3, 4,
                                         3, 4, 4, 5, 2, 3, 3, 4, 3, 4, 4, 5, 3, 4, 4, 5, 4, 5, 5, 6};
  return kCount[six];
#endif
}
// Bit i: number i of six is at most `limit`.
DEVICE uint32_t six_at_most(const int32_t* six, int32_t limit) {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)  // compilers compare one at a time
  const auto above = [=](const int32_t* four) {
    const __m128i greater =
        _mm_cmpgt_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(four)), _mm_set1_epi32(limit));
    return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(greater)));
  };
  return ~(above(six) | above(six + 2) << 2) & 0x3f;
#else
  uint32_t mask = 0;
  for (int32_t i = 0; i < 6; ++i) mask |= uint32_t{six[i] <= limit} << i;
  return mask;
#endif
}
// Bit i: number i of four is equal to `value`.
DEVICE uint32_t four_equal(const int32_t* four, int32_t value) {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(four));
  return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(all, _mm_set1_epi32(value)))));
#else
  uint32_t mask = 0;
  for (int32_t i = 0; i < 4; ++i) mask |= uint32_t{four[i] == value} << i;
  return mask;
#endif
}
constexpr int32_t kLargest = 0x7fffffff;
// Sets those of four numbers to kLargest that are at most `limit`; bit i: number i was. None may be negative.
DEVICE uint32_t take_four(int32_t* four, int32_t limit) {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
  auto* const place = reinterpret_cast<__m128i*>(four);
  const __m128i all = _mm_loadu_si128(place), above = _mm_cmpgt_epi32(all, _mm_set1_epi32(limit));
  _mm_storeu_si128(place, _mm_or_si128(all, _mm_andnot_si128(above, _mm_set1_epi32(kLargest))));
  return ~static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(above))) & 0xf;
#else
  uint32_t mask = 0;
  for (int32_t i = 0; i < 4; ++i) {
    const bool is_within = four[i] <= limit;
    mask |= uint32_t{is_within} << i;
    if (is_within) four[i] = kLargest;
  }
  return mask;
#endif
}
// Bit n of the word becomes bit 0; n counts modulo 64.
DEVICE uint64_t rotated(uint64_t word, int32_t n) { return word >> (n & 63) | word << (-n & 63); }
DEVICE int32_t highest_bit(uint64_t word) { return 63 - ::cuda::std::countl_zero(word); }  // word is not 0

}  // namespace topoflow::BACKEND
