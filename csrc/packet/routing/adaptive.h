// How an adaptive router chooses between a minimal route and one by a middle.
//
// A routing is a class with its number (Routing in state.h) and goes_around(); with_routing() lists them. A router
// knows the occupancy of the downstream buffers of its ports.
//
//   adaptive-local   the route by the middle if   occupied(minimal) > threshold * occupied(middle)
//                    or, comparing free space, if free(middle) > threshold * free(minimal)
//   UGAL             the route by the middle if   occupied(minimal) * hops(minimal) > occupied(middle) * hops(middle)
//
//   minimal: 30 flits taken, 3 hops; by the middle: 20 flits, 5 hops
//     adaptive-local, threshold 1: 30 > 20, by the middle     UGAL: 90 < 100, minimal
//
// Source: Singh, "Load-balanced routing in interconnection networks", Stanford 2005 (UGAL); Kim, Dally, Scott and Abts,
// "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, 4; tests/twins/packet_addresses.py.
#pragma once

#include "addresses.h"

namespace topoflow::BACKEND::packet {

// A route that a packet may take.
struct Candidate {
  int32_t step;
  int64_t occupied, free;  // flits of the downstream buffer; packets that wait for the port count as taken
};

struct AdaptiveLocal {
  static constexpr int32_t kNumber = kAdaptive;

  DEVICE static bool goes_around(const PacketBatch& batch, const Addresses&, int32_t, int32_t, const Candidate& direct,
                                 const Candidate& around) {
    return batch.model.by_free
               ? static_cast<double>(around.free) > batch.model.threshold * static_cast<double>(direct.free)
               : static_cast<double>(direct.occupied) > batch.model.threshold * static_cast<double>(around.occupied);
  }
};

struct Ugal {
  static constexpr int32_t kNumber = kUgal;

  DEVICE static bool goes_around(const PacketBatch&, const Addresses& addresses, int32_t router, int32_t endpoint,
                                 const Candidate& direct, const Candidate& around) {
    if (direct.occupied == 0) return false;  // hops need not be counted
    return direct.occupied * addresses.hops(router, endpoint, direct.step) >
           around.occupied * addresses.hops(router, endpoint, around.step);
  }
};

// Returns f(routing) of the adaptive routing with this number.
template <class F>
DEVICE auto with_routing(int32_t number, const F& f) {
  return number == Ugal::kNumber ? f(Ugal()) : f(AdaptiveLocal());
}

}  // namespace topoflow::BACKEND::packet
