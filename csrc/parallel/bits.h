// Sets of small numbers as bits of words.
#pragma once

#include <cuda/std/bit>

#include "backend.h"

namespace topoflow::BACKEND {

DEVICE int32_t lowest_bit(uint64_t word) { return ::cuda::std::countr_zero(word); }  // word is not 0
DEVICE int32_t bits(uint64_t word) { return ::cuda::std::popcount(word); }
DEVICE uint64_t rotated(uint64_t word, int32_t n) { return ::cuda::std::rotr(word, n); }   // bit n becomes bit 0
DEVICE int32_t highest_bit(uint64_t word) { return 63 - ::cuda::std::countl_zero(word); }  // word is not 0

}  // namespace topoflow::BACKEND
