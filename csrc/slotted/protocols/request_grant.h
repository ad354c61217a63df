// Sirius' congestion control: requests are answered an epoch later, and what is granted is sent in the one after that.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 4.3 and Figure 15.
#pragma once

#include "requests.h"

namespace topoflow::BACKEND::slotted {

template <Team T>
DEVICE void request_grant(World<T>& world) {
  receive_grants(world);
  compute_grants(world);
  compute_requests(world);
}

}  // namespace topoflow::BACKEND::slotted
