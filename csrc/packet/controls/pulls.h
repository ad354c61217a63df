// Pulls: a receiver lets its senders send one packet in the time that its interfaces together take for a packet.
//
// Each packet that arrives, whole or trimmed, asks for a pull. Pulls leave a receiver `pull` ps apart, in the order in
// which they were asked for. For a trimmed packet the sender sends it again, else the next packet of its message; the
// packets that a message may send without a pull need none.
//
//   pull = 100 ns, packets arrive at 0, 10 and 20 ns     pulls leave at 0, 100 and 200 ns
//
// Source: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance",
// SIGCOMM 2017, 3.2.
#pragma once

#include "control.h"

namespace topoflow::BACKEND::packet {

struct Pulls : Uncontrolled {
  static constexpr int32_t kNumber = kPulls;

  DEVICE static int64_t ack_time(auto& world, auto& flow, int32_t task, bool is_lost, int64_t now) {
    const int64_t row = world.task_ + task;
    if (!is_lost) {
      const int64_t packets = world.s_.sender[world.s_.first_sender[task]].packets;
      if (flow.pulled == packets - world.b_.flows.allowed[row]) return kNever;
      ++flow.pulled;
    }
    int64_t& next = world.s_.lane[world.b_.flows.puller[row]].pulls;
    const int64_t sent = next > now ? next : now;
    next = sent + world.b_.flows.pull[row];
    return sent;
  }
};

}  // namespace topoflow::BACKEND::packet
