// Paths that the packets of a message take in turn: a switch gives them every way once, in a shuffled order, and then
// shuffles again. No way is taken twice before all were taken.
//
//   packet        0 1 2 3 | 4 5 6 7 | 8 ...     at a branch of four ways whose stride is 1
//   place         2 0 3 1 | 1 3 2 0 | 3 ...     each block is a permutation of its own
//
// The stride of a branch is the number of ways that lead to it, so that those packets of a message which come to it are
// spread as well: over two branches of four ways, 16 packets take 16 paths.
//
// Source: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance",
// SIGCOMM 2017, 3.1.1; the shuffle: Fisher and Yates as in Durstenfeld, "Algorithm 235", CACM 7(7), 1964.
#pragma once

#include "draws.h"

namespace topoflow::BACKEND::packet {

constexpr uint32_t kCycle = 0x4359434c;  // "CYCL"

// The way of `ways` that packet `number` takes at a branch. Position `place` of the shuffled list, without the list:
// element i was exchanged with one of those from i on, so exchanges are followed backwards.
CALLED_ON_CPU int32_t way_in_turn(const Draws& draws, int64_t task, uint32_t number, int32_t stride, int32_t ways,
                                  uint32_t branch) {
  const uint32_t turn = number / static_cast<uint32_t>(stride), cycle = turn / static_cast<uint32_t>(ways);
  const auto place = static_cast<int32_t>(turn % static_cast<uint32_t>(ways));
  Words words{};
  int32_t found = 0;
  for (int32_t i = place, block = -1; i >= 0; --i) {
    if (i / 4 != block) {
      block = i / 4;
      words = draws.of(kCycle + static_cast<uint32_t>(block), task, cycle, branch);
    }
    const int32_t other = i + below(words.word[i % 4], ways - i);
    if (i == place)
      found = other;
    else if (other == found)
      found = i;
  }
  return found;
}

}  // namespace topoflow::BACKEND::packet
