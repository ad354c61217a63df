// Sets of small numbers as bits of words.
#pragma once

#include <cuda/std/bit>

#include "backend.h"

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
// Bit n of the word becomes bit 0; n counts modulo 64.
DEVICE uint64_t rotated(uint64_t word, int32_t n) { return word >> (n & 63) | word << (-n & 63); }
DEVICE int32_t highest_bit(uint64_t word) { return 63 - ::cuda::std::countl_zero(word); }  // word is not 0

}  // namespace topoflow::BACKEND
