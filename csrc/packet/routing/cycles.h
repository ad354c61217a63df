// Paths that the packets of a message take in turn: at a branch they take each of the equal-cost next hops (edges)
// once, in a shuffled order, and then each once more, in another order.
//
//   packet        0 1 2 3 | 4 5 6 7 | 8 ...     at a branch of four edges whose stride is 1
//   edge          2 0 3 1 | 1 3 2 0 | 3 ...     each block is a permutation of its own
//
// The stride of a branch is the number of paths that lead to it. A branch goes to its next edge after as many packets,
// so that paths are taken in turn as well: if each edge of a branch of four leads to another branch of four, these have
// stride 4, and 16 packets take 16 paths.
//
// Source: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance",
// SIGCOMM 2017, 3.1.1; the shuffle: Fisher and Yates as in Durstenfeld, "Algorithm 235", CACM 7(7), 1964.
#pragma once

#include "draws.h"

namespace topoflow::BACKEND::packet {

constexpr uint32_t kCycle = 0x4359434c;  // "CYCL"

// Returns which of a branch's `edges` packet `number` takes: position `place` of the shuffled list, without the list.
// Element i was exchanged with one of those from i on, so exchanges are followed backwards.
CALLED_ON_CPU int32_t edge_in_turn(const Draws& draws, int64_t task, uint32_t number, int32_t stride, int32_t edges,
                                   uint32_t branch) {
  const uint32_t turn = number / static_cast<uint32_t>(stride), cycle = turn / static_cast<uint32_t>(edges);
  const auto place = static_cast<int32_t>(turn % static_cast<uint32_t>(edges));
  Words words{};
  int32_t edge = 0;
  for (int32_t i = place, block = -1; i >= 0; --i) {
    if (i / 4 != block) {
      block = i / 4;
      words = draws.of(kCycle + static_cast<uint32_t>(block), task, cycle, branch);
    }
    const int32_t other = i + below(words.word[i % 4], edges - i);
    if (i == place)
      edge = other;
    else if (other == edge)
      edge = i;
  }
  return edge;
}

}  // namespace topoflow::BACKEND::packet
