// Random numbers that depend on what they are for, not on the order in which they are drawn: Philox4x32-10.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// topoflow/engine/slotted/random.py says how counters and keys are used.
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

struct Words {
  uint32_t word[4];
};

DEVICE Words philox(Words counter, uint32_t one, uint32_t two) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * counter.word[0], right = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(right >> 32) ^ counter.word[1] ^ one, static_cast<uint32_t>(right),
                static_cast<uint32_t>(left >> 32) ^ counter.word[3] ^ two, static_cast<uint32_t>(left)}};
    one += 0x9E3779B9;
    two += 0xBB67AE85;
  }
  return counter;
}

// A number below n from a random word, each equally likely to n / 2^32.
DEVICE int32_t below(uint32_t word, int32_t n) {
  return static_cast<int32_t>(static_cast<uint64_t>(word) * static_cast<uint32_t>(n) >> 32);
}

}  // namespace topoflow::BACKEND
