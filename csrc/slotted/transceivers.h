// The transceivers of nodes that send on demand: a buffer for each, and the requests that their switches get.
//
// Rows are nodes; transceiver t of a node sends to transceiver t of others, the first `intra` of them within its rack.
//
// Source: FOSquare (Yan et al., Photonics 2021), 2 and Figure 2; tests/twins/slotted_ack_nack.py states the model.
#pragma once

#include "batch.h"
#include "parallel/memory.h"

namespace topoflow::BACKEND::slotted {

constexpr int32_t kNobody = -1;
constexpr int32_t kDropped = -2;  // who forwards a packet that finds no room

struct Cell {
  int32_t task, number;
};

// A packet that waits at a transceiver.
struct Waiting {
  Cell cell;
  int32_t ready;  // epoch from which on it can be sent
};

// Two rings in one buffer: packets that this node injected, and those that it forwards, which go first.
struct Buffer {
  uint8_t first[2], count[2];
  int32_t claimed;  // places for packets that come in this slot; a word of its own, as others read the first
};

// A packet that comes in this slot, its sender, and the transceiver that will forward it; kNobody: it is for this node;
// kDropped: none has room.
struct IncomingPacket {
  Cell cell;
  int32_t from, next;
};

struct Transceivers {
  Waiting* waiting;          // [N, T, 2, room]
  Buffer* buffer;            // [N, T]
  int32_t* offered;          // [N, T] the ring whose first packet is sent in this slot, kNobody: none
  uint64_t* senders;         // [N, T, words] of a receiver: which members of its switch send to it
  IncomingPacket* incoming;  // [N, T] `from` kNobody: nothing
  int32_t* accepted;         // [N, T] of a sender: its packet was accepted
  int32_t* turn;             // [N, T] of a receiver: the member whose turn it is

  HD Transceivers(Memory& memory, const SlottedBatch& batch, int32_t world, int64_t nodes) {
    const int64_t transceivers = nodes * (batch.intra[world] + batch.inter[world]);
    waiting = memory.take<Waiting>(2 * transceivers * batch.room[world]);
    buffer = memory.take<Buffer>(transceivers);
    offered = memory.take<int32_t>(transceivers);
    senders = memory.take<uint64_t>(transceivers * words(batch, world, nodes));
    incoming = memory.take<IncomingPacket>(transceivers);
    accepted = memory.take<int32_t>(transceivers);
    turn = memory.take<int32_t>(transceivers);
  }

  // Returns the words that the bits of a switch's members take.
  HD static int64_t words(const SlottedBatch& batch, int32_t world, int64_t nodes) {
    const int64_t radix = batch.radix[world], racks = radix ? nodes / radix : 0;
    return ((radix > racks ? radix : racks) + 63) / 64;
  }
};

}  // namespace topoflow::BACKEND::slotted
