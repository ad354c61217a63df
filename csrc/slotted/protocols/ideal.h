// Sirius with back-pressure that needs no time: requests are answered and used at once.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 7, "Sirius (Ideal)".
#pragma once

#include "requests.h"

namespace topoflow::BACKEND::slotted {

template <Team T>
DEVICE void ideal(World<T>& world) {
  compute_requests(world);
  compute_grants(world);
  receive_grants(world);
}

}  // namespace topoflow::BACKEND::slotted
