// Random numbers by position: the same key and counter give the same number everywhere.
//
// Source: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

// The first of the four words.
DEVICE uint32_t philox(uint64_t key, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t one = uint64_t{0xD2511F53} * a, other = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(other >> 32) ^ b ^ low;
    c = static_cast<uint32_t>(one >> 32) ^ d ^ high;
    b = static_cast<uint32_t>(other);
    d = static_cast<uint32_t>(one);
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return a;
}

}  // namespace topoflow::BACKEND
