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

struct Hop {
  int32_t port, channel, queue, turn;  // batch.h
};

struct Slot {
  int64_t ready;  // ps; of a credit, when it is back
  int64_t born;   // ps, when the packet began to leave the NIC
  int32_t task;
  int32_t hop;    // that comes next
  int32_t bytes;  // of the packet
  int32_t next;
};

struct Queue {
  int64_t ready;  // ps, of the head; kNever: empty
  int32_t head, tail;
};

struct Channel {
  int64_t credit_time;  // ps, when the first credit is back, kNever: there is none
  int32_t room;         // flits that are free, as the sender knows it
  int32_t least;        // flits, the least room there was
  int32_t credits;      // list of slots
  int32_t free;         // list of slots
  int32_t port;
  bool starved;  // a packet waits for room
};

struct Message {
  int64_t unsent, underway;  // B
  int64_t time;              // ps, since when it waits for its turn
  int32_t first_hop;
  int32_t next;
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
  // The NIC's messages: those whose turn comes, and those that come later, by their time.
  int32_t first, last, coming;
  int64_t active, stalled, bytes, packets;
};

// Latencies by their four leading bits after the first: a bin is at most a 16th of its latencies wide.
DEVICE int32_t latency_bin(int64_t latency) {
  if (latency < 16) return static_cast<int32_t>(latency);
  const int32_t shift = highest_bit(static_cast<uint64_t>(latency)) - 4;
  return shift * 16 + static_cast<int32_t>(latency >> shift);  // 16 * (shift + 1) + the four bits
}

struct State {
  int64_t* next;  // [N] ps, when the port may be able to send
  Port* port;
  uint64_t* occupied;  // bits of each port's queues that hold a packet
  Channel* channel;
  Queue* queue;
  Slot* slot;
  Hop* hop;
  Message* message;
  int32_t* pending;
  EventHeap* events;

  HD State(Memory memory, const PacketBatch& batch, int32_t world) {
    const auto count = [&](const int64_t* offsets) { return offsets[world + 1] - offsets[world]; };
    const int64_t tasks = count(batch.task_offsets), ports = count(batch.port_offsets);
    const int64_t first = batch.port_offsets[world];
    const int64_t rows = batch.port_queues[first + ports] - batch.port_queues[first];
    events = memory.take<EventHeap>(1);
    next = memory.take<int64_t>(ports);
    port = memory.take<Port>(ports);
    occupied = memory.take<uint64_t>(ports + rows / 64);
    channel = memory.take<Channel>(count(batch.channel_offsets));
    queue = memory.take<Queue>(count(batch.queue_offsets));
    slot = memory.take<Slot>(batch.slot_total[world]);
    hop = memory.take<Hop>(count(batch.hop_offsets));
    message = memory.take<Message>(tasks);
    pending = memory.take<int32_t>(tasks);
    heap_ = memory.take<Event>(tasks);
    bytes = memory.taken();
  }

  DEVICE void begin() const { *events = {heap_, 0}; }

  int64_t bytes;

 private:
  Event* heap_;
};

}  // namespace topoflow::BACKEND::packet
