// The state of a world of packets while it runs.
//
// A packet has a slot from when it leaves its NIC until it has arrived, and is in the list of one queue after the
// other. The room that it has left is a credit of its channel until the sender knows; up to four credits that are not
// in the channel's cache line share a slot (calendar.h). All slots are of one pool: the last that has become free is
// the next to be taken, while caches have it. Lists are threaded through `next`; -1 ends them. Each part of a world has
// a pool of its own, and what is counted for the whole world (part.h).
//
// Source: tests/twins/packet.py states the model.
#pragma once

#include "batch.h"
#include "calendar.h"
#include "channel.h"
#include "flow.h"
#include "packet/routing/entropies.h"
#include "parallel/memory.h"
#include "queues/event_heap.h"
#include "tasks.h"

namespace topoflow::BACKEND::packet {

constexpr int64_t kMicrosecond = 1'000'000, kMillisecond = 1'000'000'000;  // ps

enum Routing : int32_t { kByPaths = 0, kMinimal = 1, kValiant = 2, kAdaptive = 3, kUgal = 4 };  // addresses.h

// Bits of a packet's number: it is the last one and not of the full size; it was marked; the number itself.
constexpr uint32_t kShort = uint32_t{1} << 31, kMarked = uint32_t{1} << 30, kNumber = kMarked - 1;

// A step from a queue to the next port (batch.h).
struct Edge {
  int32_t queue, next;
};

struct Packet {
  int64_t born;  // ps, when it began to leave the NIC
  int32_t task;
  int32_t step;     // what follows the queue that it waits in (batch.h); with input queues: the edge that it waits for
  uint32_t number;  // among the packets of its message; kShort, kMarked
  int32_t next;     // list of slots
};

// A packet that waits, or credits.
struct alignas(32) Slot {
  int64_t ready;  // ps; of credits: from when their times count
  union {
    Packet packet;
    CreditGroup credits;
  };
};

// Packets that wait in a part of a channel; with virtual output queues, for one port and channel. By address a queue
// is of a pool while it holds a packet, as a large network has far more places for queues than packets.
struct alignas(32) Queue {
  int64_t ready;  // ps, of the head; kNever: empty
  union {
    uint32_t delay;  // ps, from when the port before begins to send a packet of the full size until it is ready here
    int32_t place;   // by address: in the row of the port
  };
  int32_t head, tail;
  int32_t port;     // that the head waits for
  int32_t after;    // the channel where the head lies afterwards, kNone: it has arrived
  int32_t channel;  // whose buffer it takes room in
};
constexpr uint32_t kLongDelay = ~uint32_t{0};  // of a queue: as long or longer

// The packets of a message that one root sends. A cache line.
struct alignas(64) Sender {
  int64_t time;     // ps, since when it waits for its turn
  int64_t number;   // of the next packet
  int64_t packets;  // of the message
  int64_t pace;     // ps at least between the beginnings of two packets
  int32_t task;
  int32_t root, roots;          // which one, of how many
  int32_t port, channel, step;  // the first port, and what follows it (batch.h)
  int32_t next;                 // list of senders
  bool ends_short;              // the last packet is not of the full size
};

struct alignas(32) Message {
  int64_t left;                      // packets that have not arrived
  int64_t arrival;                   // ps, of the latest of the others: ports of a window send in any order
  int32_t short_bytes, short_flits;  // of a last packet that is not of the full size
  int32_t endpoint, router;          // that it is for, and the router of that endpoint; by address only
};

// A port; its first cache line has the members that every packet needs, its second one the others.
struct alignas(64) Port {
  int64_t free;  // ps, when it can send again
  // Bits of who has a packet: bit 0 is the NIC, bit 1 + i the port's queue i. If there are more queues than bits
  // (is_large), queues have words of their own, and all bits but bit 0 are the number of queues that hold a packet.
  uint64_t occupied;
  int64_t stalled_since;  // ps, kNever: it is not
  int64_t packets;
  int64_t full_time;  // ps, of a packet of the full size
  int64_t latency;    // ps
  int32_t turn;       // whose it is
  int32_t queues, first_queue;
  int32_t first;  // the NIC's senders: those whose turn comes

  int32_t last, scheduled, last_scheduled;  // and those that come later, by their time
  uint32_t idle_1ms;                        // how often it was idle for longer
  uint32_t idle_intervals, idle_1us;        // how often at all, at most once for each packet
  double byte_time;                         // ps
  int64_t stalled, short_packets, short_bytes, short_time;

  DEVICE bool is_large() const { return queues > 63; }
};

// A packet that comes to a router.
struct Arrival {
  int64_t ready;  // ps, when it is there
  int32_t place;  // of its channel among those that end at the router
  int32_t channel, slot, router;

  DEVICE bool operator<(const Arrival& other) const {
    return ready != other.ready ? ready < other.ready : place < other.place;
  }
};

// A channel as the router at its end has it, by address.
struct alignas(32) Input {
  int32_t port;  // that sends into it
  int32_t router;
  int32_t place;  // of its queues in the rows of the router's ports
  int16_t level, virtual_channel;
  double byte_time;  // ps, of `port`
};

// A port as its router has it, by address.
struct alignas(32) Output {
  int32_t waiting;        // flits in its queues; with adaptive routing only
  int32_t router;         // where its link ends
  int32_t first_channel;  // its virtual channel 0
  int32_t place;          // of that channel among those that end at the router
  int32_t level;
  int32_t buffer;  // flits, of each of its channels
  int32_t only;    // the queue, while a single one holds packets, and neither `in_place` nor a word has it; else kNone
};

// The counters of a port at an earlier time, and its time and turn then (periods/periods.h).
struct EarlierPort {
  int64_t free, packets, stalled;
  int32_t turn;
  uint32_t idle_intervals, idle_1us, idle_1ms;
};

// Returns whether the state of a world can come back (periods/periods.h): packets follow paths and draw nothing.
HD bool may_repeat(const PacketBatch& batch, int32_t world) {
  return batch.model.output_queues && batch.address.routing[world] == kByPaths && !batch.transport.is_on &&
         !batch.model.is_sst && batch.paths.branch_offsets[world] == batch.paths.branch_offsets[world + 1];
}

// Returns the readings of all messages of a world (controls/hpcc.h).
HD int64_t count_readings(const PacketBatch& batch, int32_t world) {
  if (batch.flows.telemetry == nullptr) return 0;
  const int64_t *const first = batch.flows.telemetry, *const tasks = batch.tasks.task_offsets + world;
  return first[tasks[1]] - first[tasks[0]];
}

struct State {
  TaskState tasks;
  int64_t* next;   // [N] ps, when the port may be able to send
  int32_t* awake;  // [N] ports that may send in a window
  Port* port;
  uint64_t* occupied;  // bits of the queues that hold a packet, of large ports
  Channel* channel;
  int32_t* day;  // of the calendars of all channels: list of slots
  Queue* queue;
  Slot* slot;
  Edge* edge;
  Sender* sender;
  Message* message;
  int32_t* first_sender;    // [T]
  int64_t slots;            // that a part has
  int32_t first_queue;      // the first of those that the part has
  int32_t* in_place;        // [Q] by address only, as what follows: the queue in a place of a row that holds a packet
  Input* input;             // [C]
  Output* output;           // [N]
  Arrival* arrivals;        // [slots] a part's own, as the next two (arrivals.h); if routing adapts
  int64_t* arriving;        // [R+1] where those to each router begin
  int64_t* arriving_next;   // [R+1] where the next one goes
  int32_t* first_port;      // [R+1] of each router
  uint64_t* awake_bits;     // of each router's ports that may send in a window
  Flow* flow;               // [T] with a transport only, as what follows
  Lane* lane;               // [N]
  InFlight* in_flight;      // [Q]
  Telemetry* telemetry;     // of messages (hpcc.h)
  Entropies* entropies;     // [T] if senders choose (routing/entropies.h)
  EventHeap feedback;       // what messages hear of; that of a part, as what follows
  int64_t* latencies;       // [B] packets in each bin
  EarlierPort* earlier;     // [N] only where states may come back, as what follows (periods/periods.h)
  int64_t* earlier_number;  // [senders]
  int64_t* earlier_latencies;  // [B+1] of a part: its bins, their sum
  int32_t* other_least_room;   // [C] flits

  HD State(Memory memory, const PacketBatch& batch, int32_t world, const Share& share)
      : tasks(memory, batch, world, share) {
    const int32_t parts = share.parts, rank = share.rank;
    const auto count = [&](const int64_t* offsets) { return offsets[world + 1] - offsets[world]; };
    const int64_t messages = count(batch.tasks.task_offsets), ports = count(batch.ports.port_offsets);
    const int64_t first = batch.ports.port_offsets[world];
    const int64_t rows = batch.ports.port_queues[first + ports] - batch.ports.port_queues[first];
    next = memory.take<int64_t>(ports);
    awake = memory.take<int32_t>(ports);
    port = memory.take<Port>(ports);
    occupied = memory.take<uint64_t>(ports + rows / 64);
    const int64_t channels = count(batch.ports.channel_offsets);
    channel = memory.take<Channel>(channels);
    const int64_t* const days = batch.ports.channel_days + batch.ports.channel_offsets[world];
    day = memory.take<int32_t>(days[channels] - days[0]);
    const bool addressed = batch.address.routing[world] != kByPaths, adapts = batch.address.routing[world] >= kAdaptive;
    slots = batch.run.slot_total[world] + 1;  // one for a packet whose first link is its last
    const int64_t queues = count(batch.ports.queue_offsets), queues_per_part = slots < queues ? slots : queues;
    const int64_t all_queues = addressed ? parts * queues_per_part : queues;
    queue = memory.take<Queue>(all_queues);
    first_queue = static_cast<int32_t>(rank * queues_per_part);
    slot = memory.take<Slot>(parts * slots) + rank * slots;
    edge = memory.take<Edge>(count(batch.paths.edge_offsets));
    sender = memory.take<Sender>(batch.run.sends[world]);
    message = memory.take<Message>(messages);
    first_sender = memory.take<int32_t>(messages);
    const bool transports = batch.transport.is_on;
    const int64_t under_way = transports ? batch.flows.under_way[world] : 0;
    feedback = {memory.take<Event>(parts * under_way) + rank * under_way, 0};
    latencies = latency_bins(memory, batch.out.latencies + int64_t{world} * kLatencyBins, share);
    const int64_t routers = adapts ? count(batch.address.router_offsets) : 0;
    in_place = memory.take<int32_t>(addressed ? queues : 0);
    input = memory.take<Input>(addressed ? channels : 0);
    output = memory.take<Output>(addressed ? ports : 0);
    const int64_t rows_of_routers = adapts ? routers + 1 : 0;
    arrivals = memory.take<Arrival>(adapts ? parts * slots : 0) + (adapts ? rank * slots : 0);
    arriving = memory.take<int64_t>(parts * rows_of_routers) + rank * rows_of_routers;
    arriving_next = memory.take<int64_t>(parts * rows_of_routers) + rank * rows_of_routers;
    first_port = memory.take<int32_t>(rows_of_routers);
    awake_bits = memory.take<uint64_t>(adapts ? ports / 64 + routers : 0);
    flow = memory.take<Flow>(transports ? messages : 0);
    lane = memory.take<Lane>(transports ? ports : 0);
    in_flight = memory.take<InFlight>(transports ? all_queues : 0);
    telemetry = memory.take<Telemetry>(count_readings(batch, world));
    entropies = memory.take<Entropies>(batch.model.choice != kByNumber ? messages : 0);
    const bool repeats = may_repeat(batch, world);
    earlier = memory.take<EarlierPort>(repeats ? ports : 0);
    earlier_number = memory.take<int64_t>(repeats ? batch.run.sends[world] : 0);
    earlier_latencies = memory.take<int64_t>(repeats ? parts * (kLatencyBins + 1) : 0);
    earlier_latencies += repeats ? rank * (kLatencyBins + 1) : 0;
    other_least_room = memory.take<int32_t>(repeats ? channels : 0);
    bytes = memory.taken();
  }

  int64_t bytes;
};

}  // namespace topoflow::BACKEND::packet
