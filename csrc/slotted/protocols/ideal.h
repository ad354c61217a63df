// Sirius with back-pressure that needs no time: requests are answered and used at once.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 7, "Sirius (Ideal)".
#pragma once

#include "requests.h"

namespace topoflow::BACKEND::slotted {

struct Ideal : Scheduled {
  static constexpr int32_t kNumber = kIdeal;

  template <Team T>
  DEVICE static void advance(World<T>& world) {
    world.inject();
    compute_requests(world);
    compute_grants(world);
    receive_grants(world);
    world.send();
  }
};

}  // namespace topoflow::BACKEND::slotted
