// Sirius' congestion control: requests are answered an epoch later, and what is granted is sent in the one after that.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 4.3 and Figure 15.
#pragma once

#include "requests.h"

namespace topoflow::BACKEND::slotted {

struct RequestGrant : Scheduled {
  static constexpr int32_t kNumber = kRequestGrant;

  template <Team T>
  DEVICE static void advance(World<T>& world) {
    world.inject();
    receive_grants(world);
    compute_grants(world);
    compute_requests(world);
    world.send();
  }
};

}  // namespace topoflow::BACKEND::slotted
