// How a message is controlled, beyond the number of packets that it may have under way.
//
// A control is a class in a header of its own, which replaces some of these functions (dcqcn.h, pulls.h); controls.h
// lists them. `world` is the World (core.h), `flow` the state of the message.
//
//   gap        how long a sender waits after a packet    DCQCN: by its rate
//   on_mark    a sender learns that a packet was marked  DCQCN: the rate falls
//   ack_time   when a receiver acknowledges a packet     pulls: at the receiver's own pace
//
// Source: the hooks are ours; a window alone limits a message as in Handley et al., "Re-architecting datacenter
// networks and stacks for low latency and high performance", SIGCOMM 2017, 3.1.
#pragma once

#include "batch.h"
#include "parallel/backend.h"
#include "times.h"

namespace topoflow::BACKEND::packet {

struct Uncontrolled {
  static constexpr int32_t kNumber = kNoControl;

  // Returns the least time from the beginning of a packet of `size` flits to that of the next one, ps. The packet
  // leaves by port `p` at `now`.
  DEVICE static int64_t gap(auto&, auto&, [[maybe_unused]] int32_t p, [[maybe_unused]] int32_t size,
                            [[maybe_unused]] int64_t now) {
    return 0;
  }

  // The sender of a message, which sends by port `p`, learns at `now` that a packet was marked.
  DEVICE static void on_mark(auto&, auto&, [[maybe_unused]] int32_t p, [[maybe_unused]] int64_t now) {}

  // Returns when the receiver acknowledges a packet of a task's message that has arrived at `now`, or only its header
  // (is_lost), ps; kNever: it does not.
  DEVICE static int64_t ack_time(auto&, auto&, [[maybe_unused]] int32_t task, [[maybe_unused]] bool is_lost,
                                 int64_t now) {
    return now;
  }
};

}  // namespace topoflow::BACKEND::packet
