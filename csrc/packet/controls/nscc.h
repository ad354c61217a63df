// NSCC, the congestion control of Ultra Ethernet's senders: a window that follows marks and waits.
//
// A packet waits in queues for the time by which its round trip is longer than the shortest one so far. The target is
// the wait at which a window aims. `unit` is the size of a packet, times the bandwidth-delay product over that of
// 100 Gb/s and 12 us.
//
//   not marked, wait < target    proportional increase: the more, the shorter the wait; fast once no packet waits
//   not marked, wait >= target   fair increase: the same for all messages
//   marked, wait < target        nothing: the queue is short already
//   marked, wait >= target       decrease by the share of the average wait that is above the target, once a round trip
//   lost                         the window falls by the packet
//   lost, and little arrived     quick adapt: the window becomes what arrived in a round trip and a target
//
//   window 100 kB, target 6 us, average wait 12 us, a mark: window 100 - 100 * 0.8 * (12 - 6) / 12 = 60 kB
//
// Source: Ultra Ethernet Specification 1.0, as the consortium's simulator has it (github.com/ultraethernet/uet-htsim at
// 40ccb05, htsim/sim/uec.cpp: all constants in initNsccParams; updateCwndOnAck_NSCC, updateCwndOnNack_NSCC). Ours: a
// window counts packets, the last one of a message as well; the largest window stays, where theirs follows the shortest
// round trip; and a trimmed packet, which overtakes others, says nothing of the shortest round trip.
#pragma once

#include "control.h"

namespace topoflow::BACKEND::packet {

// The window of a message.
struct NsccWindow {
  struct Limits {
    int64_t idle, target;         // ps, round trip and wait
    int64_t size, largest, unit;  // B, of a packet, of a window
  };

  int64_t window;                 // B
  int64_t shortest;               // ps, round trip
  int64_t average;                // ps, wait
  int64_t increase;               // B^2: the window will rise by this, divided by itself
  int64_t arrived;                // B, since the window last rose
  int64_t achieved, adapt_end;    // B that arrive until this time, ps
  int64_t ignored, to_ignore;     // B, of the packets that were under way at a quick adapt
  int64_t calm;                   // B, that arrived without a wait, one after the other
  int64_t last_cut, last_adjust;  // ps
  int32_t under_way;              // packets
  bool is_fast, has_lost;

  DEVICE void begin(const Limits& limits) {
    *this = {limits.largest, limits.idle, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false};
  }

  // A packet has arrived.
  DEVICE void on_arrival(const Limits& limits, const Ack& ack, int64_t now) {
    if (ack.round_trip < shortest) shortest = ack.round_trip;
    const int64_t wait = ack.round_trip - shortest;
    const bool is_long = wait >= limits.target;
    average = (79 * average + (is_long && wait > limits.target && !ack.is_marked ? shortest / 4 : wait)) / 80;
    achieved += ack.bytes;
    arrived += ack.bytes;
    ignored += ack.bytes;
    if (adapts(limits, ack, wait, now)) return;
    if (ack.is_marked && is_long)
      decrease(limits, now);
    else if (!ack.is_marked && is_long)
      increase += 5 * limits.unit * ack.bytes;
    else if (!ack.is_marked)
      rise(limits, ack, wait);
    bound(limits);
    if (arrived > 8 * limits.size || now - last_adjust > limits.idle) adjust(limits, now);
    bound(limits);
  }

  // A trimmed packet has come to the receiver.
  DEVICE void on_trimmed(const Limits& limits, const Ack& ack, int64_t now) {
    ignored += ack.bytes;
    average = (79 * average + limits.idle) / 80;
    has_lost = true;
    if (adapts(limits, ack, 0, now)) return;
    window -= ack.bytes;
    bound(limits);
  }

  // A packet was dropped.
  DEVICE void on_dropped(const Limits& limits, const Ack& ack) {
    window -= ack.bytes;
    bound(limits);
  }

 private:
  static constexpr int64_t kNoWait = 1'000'000;  // ps

  DEVICE void bound(const Limits& limits) {
    if (window < limits.size) window = limits.size;
    if (window > limits.largest) window = limits.largest;
  }

  // Returns whether the window follows what has arrived, or a packet is ignored as it was sent before the window did.
  DEVICE bool adapts(const Limits& limits, const Ack& ack, int64_t wait, int64_t now) {
    bool adapted = (ack.is_marked || ack.is_lost) && ignored < to_ignore;
    if (!adapted && now > adapt_end) {
      const bool is_jammed = has_lost || wait > 4 * limits.target;
      if (adapt_end != 0 && is_jammed && achieved < limits.largest / 8) {
        window = achieved > limits.size ? achieved : limits.size;
        to_ignore = under_way * limits.size;
        ignored = 0;
        has_lost = false;
        adapted = true;
      }
      achieved = 0;
      adapt_end = now + shortest + limits.target;
    }
    if (adapted) increase = arrived = 0;
    return adapted;
  }

  DEVICE void rise(const Limits& limits, const Ack& ack, int64_t wait) {
    calm = wait < kNoWait ? calm + ack.bytes : 0;
    is_fast = wait < kNoWait && (is_fast || calm > window);
    if (is_fast)
      window += ack.bytes * limits.unit / (4 * limits.size);
    else  // 4 * unit * bytes * wait / 12 us, with the wait in ticks
      increase += limits.unit * ack.bytes * ((limits.target - wait) >> kTickBits) * 16 / 46'875;
  }

  DEVICE void decrease(const Limits& limits, int64_t now) {
    is_fast = false;
    calm = 0;
    if (average <= limits.target || now - last_cut <= shortest) return;
    const int64_t cut = 4 * window * ((average - limits.target) >> kTickBits) / (5 * (average >> kTickBits));
    window -= cut < window / 2 ? cut : window / 2;
    last_cut = now;
  }

  DEVICE void adjust(const Limits& limits, int64_t now) {
    window += increase / window;
    if (now - last_adjust >= limits.idle) {
      window += 3 * limits.unit / 20;
      last_adjust = now;
    }
    increase = arrived = 0;
  }
};

struct Nscc : Uncontrolled {
  static constexpr int32_t kNumber = kNscc;
  static constexpr int32_t kFeedbackMask = kAtSender;

  DEVICE static void begin(auto& world, auto& flow, int32_t task) { flow.nscc.begin(limits_of(world, task)); }

  DEVICE static int64_t gap(auto&, auto& flow, int32_t, int32_t, int64_t) {
    ++flow.nscc.under_way;
    return 0;
  }

  CALLED_ON_CPU static void on_ack(auto& world, auto& flow, int32_t task, int32_t, const Ack& ack, int64_t now) {
    NsccWindow& nscc = flow.nscc;
    const NsccWindow::Limits limits = limits_of(world, task);
    if (!ack.is_lost) {
      --nscc.under_way;
      nscc.on_arrival(limits, ack, now);
    } else {
      if (world.b_.transport.loss == kTrims)
        nscc.on_trimmed(limits, ack, now);
      else
        nscc.on_dropped(limits, ack);
      --nscc.under_way;  // a lost packet counts in what quick adapt ignores
    }
    flow.allowed = static_cast<int32_t>(nscc.window / limits.size) - nscc.under_way;
  }

 private:
  DEVICE static NsccWindow::Limits limits_of(auto& world, int32_t task) {
    const auto& flows = world.b_.flows;
    const int64_t row = world.task_ + task, size = world.b_.model.size;
    return {flows.idle[row], flows.target[row], size, flows.largest[row], flows.unit[row]};
  }
};

}  // namespace topoflow::BACKEND::packet
