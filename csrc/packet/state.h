// What a world of packets consists of while it runs.
//
// A packet lies in a slot of the channel whose buffer it takes room in. Its slot is in the list of its queue until the
// next port has sent the packet, then among the credits of the channel until the room is the sender's again, and then
// free. Lists are threaded through `next`; -1 ends them.
//
// Source: topoflow/engine/packet/reference.py states the model.
#pragma once

#include "batch.h"
#include "parallel/bits.h"
#include "parallel/events.h"
#include "parallel/memory.h"

namespace topoflow::BACKEND::packet {

constexpr int32_t kNone = -1;

enum Routing : int32_t { kByPaths = 0, kMinimal = 1, kValiant = 2, kAdaptive = 3, kUgal = 4 };  // addresses.h

constexpr uint32_t kShort = uint32_t{1} << 31;  // of a packet's number: it is the last one and not of the full size

// A step from a queue to the next port (batch.h).
struct Edge {
  int32_t queue, next;
};

struct Slot {
  int64_t ready;  // ps; of a credit, when it is back
  int64_t born;   // ps, when the packet began to leave the NIC
  int32_t task;
  int32_t step;     // what follows the queue that it waits in (batch.h); with input queues: the edge that it waits for
  uint32_t number;  // among the packets of its message; kShort
  int32_t next;
};

// What waits in a part of a channel. With virtual output queues all of its packets go the same way.
struct Queue {
  int64_t ready;  // ps, of the head; kNever: empty
  int64_t delay;  // ps, from when the port before begins to send a packet of the full size until it is ready here
  int32_t head, tail;
  int32_t port, turn;  // that the head waits for, and the place of the queue in its row
  int32_t after;       // the channel where the head lies afterwards, kNone: it has arrived
  int32_t channel;     // whose buffer it takes room in
};

struct Channel {
  int64_t credit_time;   // ps, when the first credit is back, kNever: there is none
  int64_t credit_delay;  // ps, from when a packet has left the buffer until the sender knows
  int32_t room;          // flits that are free, as the sender knows it
  int32_t least;         // flits, the least room there was
  int32_t credits;       // list of slots
  int32_t free;          // list of slots
  int32_t port;
  bool starved;  // a packet waits for room
};

// What one root sends of a message.
struct Sender {
  int64_t time;    // ps, since when it waits for its turn
  int64_t number;  // of the next packet
  int32_t task;
  int32_t root;
  int32_t channel;  // after the first port, kNone: it has arrived
  int32_t next;     // list of senders
};

struct Message {
  int64_t packets, left;  // all of them, and those that have not arrived
  int64_t arrival;        // ps, of the latest of the others: ports of a window send in any order
  int32_t short_bytes;    // of the last packet, 0: the full size
  int32_t first_sender;
};

struct Port {
  int64_t free;           // ps, when it can send again
  int64_t latency;        // ps
  int64_t full_time;      // ps, of a packet of the full size
  int64_t flit_time;      // ps, of a flit
  double byte_time;       // ps
  int64_t stalled_since;  // ps, kNever: it is not
  int32_t turn;           // whose it is: 0 is the NIC's, 1 + i that of the port's queue i
  int32_t queues;
  int32_t first_queue, first_word;  // of its rows
  int32_t occupied;                 // queues that hold a packet
  // The NIC's senders: those whose turn comes, and those that come later, by their time.
  int32_t first, last, coming, last_coming;
  int64_t active, stalled, packets, short_packets, short_bytes;
  int64_t idle_1us, idle_1ms;  // how often it was idle for longer
};

// Packets of a channel that are on the link, where the router decides about them as they come.
struct Flight {
  int32_t first, last;
};

// Latencies by their four leading bits after the first: a bin is at most a 16th of its latencies wide.
DEVICE int32_t latency_bin(int64_t latency) {
  if (latency < 16) return static_cast<int32_t>(latency);
  const int32_t shift = highest_bit(static_cast<uint64_t>(latency)) - 4;
  return shift * 16 + static_cast<int32_t>(latency >> shift);  // 16 * (shift + 1) + the four bits
}

struct State {
  int64_t* next;   // [N] ps, when the port may be able to send
  int32_t* awake;  // [N] ports that may send in a window
  Port* port;
  uint64_t* occupied;  // bits of each port's queues that hold a packet
  Channel* channel;
  Queue* queue;
  Slot* slot;
  Edge* edge;
  Sender* sender;
  Message* message;
  int32_t* pending;
  EventHeap* events;
  int32_t* pool;     // [1] list of slots that any channel may take, where routers forward by address
  int32_t* waiting;  // [N] flits in the queues of each port, and
  Flight* flight;    // [C] where routers adapt to them

  HD State(Memory memory, const PacketBatch& batch, int32_t world) {
    const auto count = [&](const int64_t* offsets) { return offsets[world + 1] - offsets[world]; };
    const int64_t tasks = count(batch.task_offsets), ports = count(batch.port_offsets);
    const int64_t first = batch.port_offsets[world];
    const int64_t rows = batch.port_queues[first + ports] - batch.port_queues[first];
    events = memory.take<EventHeap>(1);
    next = memory.take<int64_t>(ports);
    awake = memory.take<int32_t>(ports);
    port = memory.take<Port>(ports);
    occupied = memory.take<uint64_t>(ports + rows / 64);
    channel = memory.take<Channel>(count(batch.channel_offsets));
    queue = memory.take<Queue>(count(batch.queue_offsets));
    slot = memory.take<Slot>(batch.slot_total[world]);
    edge = memory.take<Edge>(count(batch.edge_offsets));
    sender = memory.take<Sender>(batch.sends[world]);
    message = memory.take<Message>(tasks);
    pending = memory.take<int32_t>(tasks);
    const bool adapts = batch.routing[world] >= kAdaptive;
    heap_ = memory.take<Event>(tasks + (adapts ? batch.slot_total[world] : 0));
    pool = memory.take<int32_t>(1);
    waiting = memory.take<int32_t>(adapts ? ports : 0);
    flight = memory.take<Flight>(adapts ? count(batch.channel_offsets) : 0);
    bytes = memory.taken();
  }

  DEVICE void begin() const { *events = {heap_, 0}; }

  int64_t bytes;

 private:
  Event* heap_;
};

}  // namespace topoflow::BACKEND::packet
