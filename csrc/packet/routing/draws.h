// Random numbers of packets.
//
// Source: Philox (parallel/random.h), with the seed as its key; topoflow/engine/packet/draws.py says which numbers are
// drawn where.
#pragma once

#include "packet/state.h"
#include "parallel/random.h"

namespace topoflow::BACKEND::packet {

constexpr uint32_t kPurpose = 0x50415448;  // "PATH": another purpose with the same seed draws other numbers
constexpr uint32_t kMarks = 0x4d41524b;    // "MARK"
constexpr uint32_t kEntropy = 0x45565354;  // "EVST"
constexpr uint32_t kAtNic = ~uint32_t{0}, kAtSource = ~uint32_t{1}, kAtMiddle = ~uint32_t{2};  // branches (draws.py)

class Draws {
 public:
  DEVICE Draws(const PacketBatch& batch, int32_t world)
      : seed_(static_cast<uint64_t>(batch.run.seed[world])), mask_(static_cast<uint32_t>(batch.model.entropies) - 1) {}

  // Returns what a packet draws at a branch. `task` is the Tasks::number, which differs between rounds.
  INLINED_ON_CPU Words of(int64_t task, int64_t number, uint32_t branch) const {
    // The test is for GCC 12, which needs 0.9 % fewer instructions for hashed paths with it (callgrind).
    return of(kPurpose, task, static_cast<uint32_t>(mask_ == 0 ? 0 : number) & mask_, branch);
  }

  INLINED_ON_CPU Words of(uint32_t purpose, int64_t task, uint32_t number, uint32_t place) const {
    return philox(Words{{purpose, static_cast<uint32_t>(task), number, place}}, static_cast<uint32_t>(seed_),
                  static_cast<uint32_t>(seed_ >> 32));
  }

 private:
  uint64_t seed_;
  uint32_t mask_;
};

}  // namespace topoflow::BACKEND::packet
