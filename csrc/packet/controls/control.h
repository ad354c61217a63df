// How a message is controlled, beyond the number of packets that it may have under way.
//
// A control is a class in a header of its own, which replaces some of these functions (dcqcn.h, pulls.h); controls.h
// lists them. `world` is the World (core.h), `flow` the state of the message.
//
//   gap        how long a sender waits after a packet    DCQCN: by its rate
//   measure    a packet leaves a port of a switch         HPCC: what the port says of itself
//   on_ack     a sender learns of a packet               DCQCN: if it was marked, the rate falls
//   ack_time   when a receiver acknowledges a packet     pulls: at the receiver's own pace
//
// Source: the hooks are ours; a window alone limits a message as in Handley et al., "Re-architecting datacenter
// networks and stacks for low latency and high performance", SIGCOMM 2017, 3.1.
#pragma once

#include "packet/batch.h"
#include "parallel/backend.h"
#include "times.h"

namespace topoflow::BACKEND::packet {

// Bits of the feedback of a packet to its message.
enum Feedback : int32_t {
  kAtSender = 1,  // else at the receiver
  kLost = 2,
  kLastOne = 4,  // of the message, which is not of the full size
  kMark = 8
};

constexpr int32_t kTickBits = 10;  // timestamps of NICs count ticks of 1,024 ps

// The acknowledgement of a packet at its sender.
struct Ack {
  int64_t round_trip;  // ps, from when it left its NIC until now; of a packet that arrived
  int32_t bytes;
  bool is_lost, is_marked;
};

struct Uncontrolled {
  static constexpr int32_t kNumber = kNoControl;
  // on_ack is called if the feedback of a packet has one of these bits; 0: neither on_ack nor gap is called.
  static constexpr int32_t kFeedbackMask = 0;
  static constexpr bool kMeasures = false;  // whether measure is called

  // A message of a task begins.
  DEVICE static void begin(auto&, auto&, [[maybe_unused]] int32_t task) {}

  // Returns the least time from the beginning of a packet of `size` flits to that of the next one, ps. The packet
  // leaves by port `p` at `now`.
  DEVICE static int64_t gap(auto&, auto&, [[maybe_unused]] int32_t p, [[maybe_unused]] int32_t size,
                            [[maybe_unused]] int64_t now) {
    return 0;
  }

  // Packet `number` of a task's message, which has waited for a port, leaves it at `now`; `waits` flits stay.
  DEVICE static void measure(auto&, const auto&, [[maybe_unused]] int32_t task, [[maybe_unused]] uint32_t number,
                             [[maybe_unused]] int32_t waits, [[maybe_unused]] int64_t now) {}

  // The sender of a task's message, which sends by port `p`, learns of a packet at `now`.
  DEVICE static void on_ack(auto&, auto&, [[maybe_unused]] int32_t task, [[maybe_unused]] int32_t p,
                            [[maybe_unused]] const Ack& ack, [[maybe_unused]] int64_t now) {}

  // Returns when the receiver acknowledges a packet of a task's message that has arrived at `now`, or only its header
  // (is_lost), ps; kNever: it does not.
  DEVICE static int64_t ack_time(auto&, auto&, [[maybe_unused]] int32_t task, [[maybe_unused]] bool is_lost,
                                 int64_t now) {
    return now;
  }
};

}  // namespace topoflow::BACKEND::packet
