// Swift: a window that follows the round trips of packets.
//
// The window is in 2^-16 packets. Below one packet, a message sends one packet in round trip / window; once the window
// is one packet, the next one waits no longer.
//
//   round trip < target    window += 1 / window; below one packet: window += 1
//   round trip >= target   window *= max(1 - 0.8 (round trip - target) / round trip, 0.5), once in a round trip
//   trimmed, or dropped    window *= 0.5, once in a round trip; dropped in five of these in a row: the least window
//
// The target is a base, and a time for each link of the path, and more for a small window, so that many messages share
// a port fairly: scaling / sqrt(window) - scaling / sqrt(100), at least 0 and at most what a window of 0.1 packets has.
//
//   window 10 packets, round trip 50 us, target 40 us: window 10 * (1 - 0.8 * 10 / 50) = 8.4 packets
//
// Source: Kumar et al., "Swift: Delay is simple and effective for congestion control in the datacenter", SIGCOMM 2020,
// Algorithm 1 and 3.1. The paper gives no constants but the shape of its targets: these are of the authors of htsim
// (github.com/Broadcom/csg-htsim at 841d9e7, sim/swift.cpp, SwiftSrc::SwiftSrc), who call them guesses. Ours: a message
// begins with its largest window, and a round trip is that of the packet, where theirs is an average.
#pragma once

#include "control.h"

namespace topoflow::BACKEND::packet {

// The window of a message.
struct SwiftWindow {
  static constexpr int32_t kBits = 16;
  static constexpr int64_t kPacket = int64_t{1} << kBits, kMinBytes = 10, kMaxDrops = 5;

  struct Limits {
    int64_t idle;               // ps, round trip
    int64_t target, scaling;    // ps
    int64_t smallest, largest;  // 2^-16 packets
  };

  int64_t window;                // 2^-16 packets
  int64_t round_trip, last_cut;  // ps
  int64_t last_sent;             // ps
  int32_t under_way;             // packets
  int32_t drops;                 // in a row

  DEVICE void begin(const Limits& limits) { *this = {limits.largest, limits.idle, 0, 0, 0, 0}; }

  // A packet has arrived.
  DEVICE void on_arrival(const Limits& limits, int64_t measured, int64_t now) {
    drops = 0;
    round_trip = measured;
    const int64_t target = limits.target + scaled(limits);
    if (measured < target) {
      window += window >= kPacket ? (kPacket << kBits) / window : kPacket;
    } else if (now - last_cut >= round_trip) {
      cut(4 * window * ((measured - target) >> kTickBits) / (5 * (measured >> kTickBits)), now);
    }
    bound(limits);
  }

  // A packet was trimmed or dropped.
  DEVICE void on_loss(const Limits& limits, bool is_dropped, int64_t now) {
    if (now - last_cut < round_trip) return;
    drops = is_dropped ? drops + 1 : 0;
    cut(window / 2, now);
    if (drops >= kMaxDrops) window = limits.smallest;
    bound(limits);
  }

  // Returns ps from the beginning of a packet to that of the next one.
  DEVICE int64_t gap() const { return window < kPacket ? round_trip * kPacket / window : 0; }

  DEVICE int32_t packets() const { return window < kPacket ? 1 : static_cast<int32_t>(window >> kBits); }

 private:
  DEVICE int64_t scaled(const Limits& limits) const {
    const int64_t more = limits.scaling * kPacket / root(window << kBits) - limits.scaling / 10;
    const int64_t limit = limits.scaling * 306 / 100;  // 1 / sqrt(0.1) - 1 / sqrt(100) = 3.06
    return more < 0 ? 0 : more < limit ? more : limit;
  }

  // Returns the square root of a number, rounded down.
  DEVICE static int64_t root(int64_t number) {
    int64_t result = 0;
    for (int64_t bit = int64_t{1} << 31; bit > 0; bit >>= 1)
      if ((result + bit) * (result + bit) <= number) result += bit;
    return result;
  }

  DEVICE void cut(int64_t part, int64_t now) {
    window -= part < window / 2 ? part : window / 2;
    last_cut = now;
  }

  DEVICE void bound(const Limits& limits) {
    if (window < limits.smallest) window = limits.smallest;
    if (window > limits.largest) window = limits.largest;
  }
};

struct Swift : Uncontrolled {
  static constexpr int32_t kNumber = kSwift;
  static constexpr int32_t kFeedbackMask = kAtSender;

  DEVICE static void begin(auto& world, auto& flow, int32_t task) { flow.swift.begin(limits_of(world, task)); }

  DEVICE static int64_t gap(auto&, auto& flow, int32_t, int32_t, int64_t now) {
    ++flow.swift.under_way;
    flow.swift.last_sent = now;
    return flow.swift.gap();
  }

  CALLED_ON_CPU static void on_ack(auto& world, auto& flow, int32_t task, int32_t, const Ack& ack, int64_t now) {
    SwiftWindow& swift = flow.swift;
    --swift.under_way;
    if (ack.is_lost)
      swift.on_loss(limits_of(world, task), world.b_.transport.loss == kDrops, now);
    else
      swift.on_arrival(limits_of(world, task), ack.round_trip, now);
    flow.allowed = swift.packets() - swift.under_way;
    const int64_t unpaced = swift.last_sent + world.s_.sender[world.s_.first_sender[task]].pace;
    if (swift.gap() == 0 && flow.earliest > unpaced) flow.earliest = unpaced;
  }

 private:
  DEVICE static SwiftWindow::Limits limits_of(auto& world, int32_t task) {
    const auto& flows = world.b_.flows;
    const int64_t row = world.task_ + task, size = world.b_.model.size;
    return {flows.idle[row], flows.target[row], world.b_.transport.scaling,
            1 + SwiftWindow::kMinBytes * SwiftWindow::kPacket / size, flows.largest[row] / size * SwiftWindow::kPacket};
  }
};

}  // namespace topoflow::BACKEND::packet
