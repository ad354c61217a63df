// The data that the layers of a world share, and the times that a packet takes.
//
// A world of packets is composed of layers, each a class on top of the next:
//
//   World             windows of time, tasks, mail between threads                       world.h
//   Periods           states that come back, and whole periods that are skipped          periods/periods.h
//   Ports             a port sends a packet into a buffer, or to its target               ports.h
//   Router            routers that forward by address                                     routing/router.h
//   Transport         losses, marks and acknowledgements                                  transport.h
//   Arbiter           which packet a port sends next                                      arbiter.h
//   Nic               messages are cut into packets                                       nic.h
//   Queues            the packets that wait for a port                                    queues.h
//   Credits           the room in buffers, and when a sender learns of it                 credits.h
//   Paths             which step of its path a packet takes                               routing/paths.h
//   Core              this file
//
// A layer calls the layers below it by name, and those above it by self(), which is the World. The Kind of a world
// (run.h) says which features it may have: compilers leave out the code of features that it has not.
//
// A packet of s flits on a link with a flit time f and latency l, through a switch with latency w: the next port can
// begin to send it f + l + w after this one (cut-through), or s * f + l + w (store and forward). If the next link is
// faster, it begins so late that it never waits for a flit:
//
//   4 flits of 10 ns, then of 4 ns   cut-through   max(10, 4 * 10 - 4 * 4) = 24 ns + l + w
//
// Source: tests/twins/packet.py states the model.
#pragma once

#include "look_ahead.h"
#include "packet/routing/addresses.h"
#include "packet/routing/draws.h"
#include "part.h"

namespace topoflow::BACKEND::packet {

// MostDerived: the World. AllOrPart: the ports that this object simulates, Whole or Part (part.h).
template <class MostDerived, class Kind, class AllOrPart>
class Core {
 public:
  using World = MostDerived;
  using Region = AllOrPart;

  DEVICE Core(const PacketBatch& batch, int32_t world, std::byte* memory, const Region& region = Region())
      : b_(batch),
        world_(world),
        region_(region),
        s_(Memory(memory), batch, world, region.share()),
        tasks_(batch, world, s_.tasks),
        messages_(static_cast<int32_t>(batch.tasks.task_offsets[world + 1] - batch.tasks.task_offsets[world])),
        ports_(static_cast<int32_t>(batch.ports.port_offsets[world + 1] - batch.ports.port_offsets[world])),
        task_(batch.tasks.task_offsets[world]),
        port_(batch.ports.port_offsets[world]),
        window_(batch.run.window[world]),
        full_(batch.model.size / batch.model.flit),
        draws_(batch, world),
        root_(batch.paths.root_offsets[world]),
        edge_(batch.paths.edge_offsets[world]),
        branch_(batch.paths.branch_offsets[world]),
        channel_(batch.ports.channel_offsets[world]),
        channels_(static_cast<int32_t>(batch.ports.channel_offsets[world + 1] - channel_)),
        addresses_(batch, world),
        routers_(static_cast<int32_t>(batch.address.router_offsets[world + 1] - batch.address.router_offsets[world])),
        first_port_(region.first_port()),
        end_port_(region.end_port(ports_)),
        look_ahead_(s_, addresses_, tasks_, draws_) {}

  Core(const Core&) = delete;  // its members refer to each other

  DEVICE World& self() { return static_cast<World&>(*this); }
  DEVICE const World& self() const { return static_cast<const World&>(*this); }

  // Return whether the world has a feature.
  DEVICE bool output_queues() const { return !Kind::kInputQueues || b_.model.output_queues; }
  DEVICE bool transports() const { return Kind::kTransport && b_.transport.is_on; }
  DEVICE bool by_address() const { return Kind::kAddresses && addresses_.routing != kByPaths; }
  DEVICE bool adapts() const { return Kind::kAddresses && addresses_.routing >= kAdaptive; }

  // Returns the port that sends into a channel.
  DEVICE int32_t port_of(int64_t channel) const { return b_.ports.channel_port[channel_ + channel]; }

  // Returns the flits of a packet.
  DEVICE int32_t size_of(int32_t task, uint32_t number) const {
    return number & kShort ? s_.message[task].short_flits : full_;
  }

  // Returns the bytes of a packet that is not of the full size.
  DEVICE int32_t short_bytes(int32_t task) const { return s_.message[task].short_bytes; }

  // The port looks for a packet at `time`, ps, or earlier.
  DEVICE void wake(int32_t p, int64_t time) const { s_.next[p] = time < s_.next[p] ? time : s_.next[p]; }

  // Returns the time that a port takes to send these flits, ps, rounded up.
  DEVICE int64_t time(const Port& port, int32_t flits) const {
    const double exact = static_cast<double>(flits * int64_t{b_.model.flit}) * port.byte_time;
    const auto whole = static_cast<int64_t>(exact);
    return whole + (static_cast<double>(whole) < exact);
  }

  // Returns the time from when a port begins to send a packet until the next port can.
  DEVICE int64_t delay(const Port& port, const Port& next, int32_t size) const {
    return head_time(port, next, size) + port.latency + b_.model.switch_latency;
  }

  // Returns the same time, without latencies.
  DEVICE int64_t head_time(const Port& port, const Port& next, int32_t size) const {
    const int64_t duration = size == full_ ? port.full_time : time(port, size);
    if (!b_.model.cut_through) return duration;
    const int64_t flit = time(port, 1);
    if (next.byte_time >= port.byte_time) return flit;
    const int64_t without_gap = duration - (size == full_ ? next.full_time : time(next, size));
    return flit > without_gap ? flit : without_gap;
  }

  const PacketBatch& b_;
  int32_t world_;
  Region region_;
  State s_;
  Tasks tasks_;
  int32_t messages_, ports_;
  int64_t task_, port_;                   // the first of this world, among those of the batch
  int64_t window_, begin_ = 0, end_ = 0;  // ps; when the last window began and ends
  int32_t full_;                          // flits of a packet of the full size
  Draws draws_;
  int64_t root_, edge_, branch_, channel_;  // the first of this world
  int32_t channels_;
  Addresses addresses_;
  int32_t routers_;                // 0: packets follow paths
  int32_t first_port_, end_port_;  // of this region
  LookAhead look_ahead_;
};

}  // namespace topoflow::BACKEND::packet
