// Entropies: the values of a header that switches hash, where the sender chooses one for each packet.
//
// Packets of one entropy take the same path (paths.h).
//
//   recycled   REPS: the entropy of a packet that was acknowledged without a mark is taken again, once; while there is
//              none, a drawn one. Once a packet has timed out, a message only takes what it has of the last entropies
//              that were good, one after the other, and those that still are (freezing); after `kFreeze` it forgets
//              them and draws `kExplored` new ones
//   flowlets   the next entropy once the message has sent nothing for `gap`
//
//   recycled, four packets with the entropies 5 9 2 7, of which that of 9 is marked     5 2 7, then a random one
//
// Source: Bonato et al., "REPS: Recycled entropy packet spraying for adaptive load balancing and failure mitigation",
// arXiv 2407.21625; the constants are those of the consortium's simulator (github.com/ultraethernet/uet-htsim at
// 40ccb05, htsim/sim/uec_mp.cpp, UecMpReps, and buffer_reps.cpp). Flowlets: Sinha, Kandula and Katabi, "Harnessing
// TCP's burstiness with flowlet switching", HotNets-III 2004; ours: the sender chooses, as switches have no state here.
#pragma once

#include "parallel/backend.h"

namespace topoflow::BACKEND::packet {

// The entropies that a message remembers.
struct Recycled {
  static constexpr int32_t kMaxRecent = 8, kExplored = 16;
  static constexpr int64_t kFreeze = 10'000'000'000;  // ps

  int64_t thaws;               // ps, when it stops to freeze; 0: it does not
  int32_t recent[kMaxRecent];  // entropies of packets that were acknowledged without a mark
  int32_t head, count;         // where the next one goes; how many there are
  int32_t fresh;               // of these, the last ones, that were not taken
  int32_t place;               // of the one that is taken next while it freezes
  int32_t explored;            // packets that still draw theirs, after it has frozen

  // Returns the entropy of the next packet; `random_entropy` is one that it may draw.
  DEVICE int32_t next(int32_t random_entropy) {
    if (explored > 0) {
      --explored;
      return random_entropy;
    }
    if (thaws != 0 && count > 0) {
      const int32_t entropy = recent[place];
      place = (place + 1) % count;
      return entropy;
    }
    if (thaws != 0 || fresh == 0) return random_entropy;
    return recent[(head + kMaxRecent - fresh--) % kMaxRecent];
  }

  DEVICE void on_timeout(int64_t now) {
    if (thaws == 0 && explored == 0) thaws = now + kFreeze;
    thaw(now);
  }

  // A packet with this entropy was acknowledged.
  DEVICE void on_ack(int32_t entropy, bool is_marked, int64_t now) {
    thaw(now);
    if (is_marked) return;
    recent[head] = entropy;
    head = (head + 1) % kMaxRecent;
    if (count < kMaxRecent) ++count;
    if (fresh < kMaxRecent) ++fresh;
  }

 private:
  DEVICE void thaw(int64_t now) {
    if (thaws == 0 || now <= thaws) return;
    *this = {};
    explored = kExplored;
  }
};

struct Flowlets {
  int64_t last;    // ps, when a packet left
  int32_t number;  // of the flowlet

  DEVICE int32_t next(int64_t gap, int64_t now) {
    number += now - last >= gap;
    last = now;
    return number;
  }
};

union Entropies {  // by the choice of paths
  Recycled recycled;
  Flowlets flowlets;
};

}  // namespace topoflow::BACKEND::packet
