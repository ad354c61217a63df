// HPCC: a window that follows what the ports of a path say of themselves.
//
// Each port of a switch tells a packet that leaves: the time, how long the port has sent so far, and how long what
// still waits takes it (in-band telemetry). Two packets of a message in a row give the utilization of the port:
//
//   min(wait of both) / round trip + time sent between them / time between them
//
// The message averages the utilization of its busiest port over a round trip, and aims at `utilization` (eta), a bit
// less than 1. The reference is the window of a round trip ago, so that no packet is reacted to twice.
//
//   below eta                     window = reference + increase
//   at eta, or the sixth time     window = reference * eta / utilization + increase
//   once in a round trip          reference = window
//
//   reference 100 kB, utilization 1.9, eta 0.95: window 50 kB. The sender paces it: window / round trip.
//
// Packets of a message keep their path and order and none is lost (Packet.refuses). So the packet before at a port is
// the one that was acknowledged before, and ports compare the two at once: a packet carries the busiest port so far.
//
// Source: Li et al., "HPCC: High precision congestion control", SIGCOMM 2019, Algorithm 1; what the paper leaves open
// is as in the authors' simulator (github.com/alibaba-edu/High-Precision-Congestion-Control at 9f4be2a, rdma-hw.cc,
// UpdateRateHp; rdma-queue-pair.cc, IsWinBound): an average begins with 1, the first packet only begins to measure, a
// packet may be sent while fewer bytes than the window are under way, the window is at most the first one, and one
// round trip counts for all messages. Ours: telemetry takes no room in packets, and a change of the rate does not move
// the time of the next packet, as in hardware that paces (Saeed et al., "Carousel", SIGCOMM 2017).
#pragma once

#include "control.h"

namespace topoflow::BACKEND::packet {

// The telemetry of a port.
struct PortReading {
  int64_t time;    // ps
  int64_t active;  // ps, that it has sent until then
  int64_t wait;    // ps, to send what waits
};

// The telemetry that a packet has collected on its path.
struct PathReading {
  int64_t utilization, time;  // of the busiest port, 2^-20; ps since the packet before
  int64_t ports;              // that it has left
};

union Telemetry {
  PortReading port;
  PathReading path;
};

// The telemetry of a message: of each port of its path, and of each packet that may be under way.
struct Readings {
  Telemetry* first;
  int64_t ports, packets;

  DEVICE PortReading& of_port(int64_t place) const { return first[place].port; }
  DEVICE PathReading& of_packet(int64_t number) const { return first[ports + number % packets].path; }
};

// The window of a message.
struct HpccWindow {
  static constexpr int64_t kWhole = int64_t{1} << 20;

  struct Limits {
    int64_t round_trip;                     // ps
    int64_t size, largest;                  // B, of a packet and of a window
    int64_t utilization, increase, stages;  // eta, 2^-20; B; additive increases in a row
  };

  int64_t window, reference;  // B
  int64_t utilization;        // 2^-20, the average
  int64_t sent, acked;        // packets
  int64_t updated;            // packets that had been sent when the reference was set
  int64_t stage;

  DEVICE void begin(const Limits& limits) { *this = {limits.largest, limits.largest, kWhole, 0, 0, 0, 0}; }

  // Returns part / whole, 2^-20, at most 2^10. Numbers of more than 32 bits are shortened.
  DEVICE static int64_t share(int64_t part, int64_t whole) {
    if (part >> 10 >= whole) return kWhole << 10;
    for (; whole >> 32; whole >>= 1) part >>= 1;
    return part * kWhole / whole;
  }

  // A packet leaves a port.
  DEVICE static void measure(PortReading& last, PathReading& path, const PortReading& now, int64_t round_trip) {
    if (last.time >= 0) {
      const int64_t time = now.time - last.time, wait = now.wait < last.wait ? now.wait : last.wait;
      const int64_t utilization = share(wait, round_trip) + share(now.active - last.active, time);
      if (utilization > path.utilization) path = {utilization, time, path.ports};
    }
    last = now;
  }

  // A packet that has heard this was acknowledged.
  DEVICE void on_ack(const Limits& limits, const PathReading& path) {
    ++acked;
    const bool is_first = acked == 1, is_new = acked > updated;
    if (is_new) updated = sent;
    if (is_first || path.time == 0) return;
    const int64_t weight = share(path.time < limits.round_trip ? path.time : limits.round_trip, limits.round_trip);
    utilization = (utilization * (kWhole - weight) + path.utilization * weight) / kWhole;
    const bool decreases = utilization >= limits.utilization || stage >= limits.stages;
    window = reference;
    if (decreases) window = window * limits.utilization / (utilization > 0 ? utilization : 1);
    window += limits.increase;
    if (window > limits.largest) window = limits.largest;
    if (!is_new) return;
    stage = decreases ? 0 : stage + 1;
    reference = window;
  }

  DEVICE int64_t gap(const Limits& limits, int64_t bytes) const {
    return window < limits.largest ? bytes * limits.round_trip / window : 0;
  }

  DEVICE int32_t packets(const Limits& limits) const {
    return static_cast<int32_t>((window + limits.size - 1) / limits.size);
  }
};

struct Hpcc : Uncontrolled {
  static constexpr int32_t kNumber = kHpcc;
  static constexpr int32_t kFeedbackMask = kAtSender;
  static constexpr bool kMeasures = true;

  DEVICE static void begin(auto& world, auto& flow, int32_t task) {
    flow.hpcc.begin(limits_of(world, task));
    const Readings readings = readings_of(world, task);
    for (int64_t i = 0; i < readings.ports; ++i) readings.of_port(i) = {-1, 0, 0};
    for (int64_t i = 0; i < readings.packets; ++i) readings.of_packet(i) = {0, 0, 0};
  }

  DEVICE static int64_t gap(auto& world, auto& flow, int32_t, int32_t size, int64_t) {
    ++flow.hpcc.sent;
    return flow.hpcc.gap(limits_of(world, static_cast<int32_t>(&flow - world.s_.flow)), size * world.b_.model.flit);
  }

  CALLED_ON_CPU static void measure(auto& world, const auto& port, int32_t task, uint32_t number, int32_t waits,
                                    int64_t now) {
    const int64_t active = (port.packets - port.short_packets) * port.full_time + port.short_time;
    const Readings readings = readings_of(world, task);
    PathReading& path = readings.of_packet(number);
    HpccWindow::measure(readings.of_port(path.ports++), path, {now, active, world.time(port, waits)},
                        world.b_.flows.idle[world.task_ + task]);
  }

  CALLED_ON_CPU static void on_ack(auto& world, auto& flow, int32_t task, int32_t, const Ack&, int64_t) {
    HpccWindow& hpcc = flow.hpcc;
    const HpccWindow::Limits limits = limits_of(world, task);
    PathReading& path = readings_of(world, task).of_packet(hpcc.acked);
    hpcc.on_ack(limits, path);
    path = {0, 0, 0};
    flow.allowed = hpcc.packets(limits) - static_cast<int32_t>(hpcc.sent - hpcc.acked);
  }

 private:
  DEVICE static Readings readings_of(auto& world, int32_t task) {
    const int64_t* const first = world.b_.flows.telemetry + world.task_;
    const int64_t packets = world.b_.flows.allowed[world.task_ + task];
    return {world.s_.telemetry + (first[task] - first[0]), first[task + 1] - first[task] - packets, packets};
  }

  DEVICE static HpccWindow::Limits limits_of(auto& world, int32_t task) {
    const auto& flows = world.b_.flows;
    const auto& settings = world.b_.transport;
    const int64_t row = world.task_ + task, size = world.b_.model.size;
    return {flows.idle[row], size, flows.largest[row], settings.utilization, settings.increase, settings.stages};
  }
};

}  // namespace topoflow::BACKEND::packet
