// All controls of messages.
//
// A new control is a header like dcqcn.h, a number in batch.h (Control), a case here and a name in
// topoflow/engine/packet/transport.py.
//
// Source: dcqcn.h, hpcc.h, nscc.h, pulls.h and swift.h.
#pragma once

#include "dcqcn.h"
#include "hpcc.h"
#include "nscc.h"
#include "pulls.h"
#include "swift.h"

namespace topoflow::BACKEND::packet {

// Returns f(control) of the control with this number.
template <class F>
DEVICE auto with_control(int32_t number, const F& f) {
  switch (number) {
    case Dcqcn::kNumber:
      return f(Dcqcn());
    case Pulls::kNumber:
      return f(Pulls());
    case Nscc::kNumber:
      return f(Nscc());
    case Swift::kNumber:
      return f(Swift());
    case Hpcc::kNumber:
      return f(Hpcc());
    default:
      return f(Uncontrolled());
  }
}

}  // namespace topoflow::BACKEND::packet
