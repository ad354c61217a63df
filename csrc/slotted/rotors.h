// The tables through which nodes that are joined by rotor switches exchange cells in a slot.
//
// Rows are nodes, U their links, one to each switch; K cells of a link in a slot.
//
// Source: RotorNet (Mellette et al., SIGCOMM 2017); tests/twins/slotted_rotor.py states the model.
#pragma once

#include "batch.h"
#include "parallel/memory.h"
#include "transceivers.h"

namespace topoflow::BACKEND::slotted {

// An intrusive linked list.
struct Ends {
  int32_t head, tail;
};

// A link by which a node accepts cells.
struct Share {
  int32_t capacity;  // cells
  int32_t next;      // destination whose turn it is
};

struct RotorTables {
  Cell* sent;         // [N, U, K] of a sender, by the time of the slot in which a link sends it
  uint64_t* busy;     // [N, U, words of K] bits: times that have a cell
  int32_t* count;     // [N, U] how many have one
  int32_t* end;       // [N, U] the time after the last of them
  int32_t* free;      // [N] of its links, those with capacity left for offers
  int32_t* backlog;   // [N, N] cells in LOCAL by destination
  int32_t* space;     // [N, N] cells that a node can accept for each destination
  Share* share;       // [N, U] of a receiver
  uint64_t* open;     // [N, U, words] of a receiver: destinations for which a link may bring more
  uint8_t* offered;   // [N, row of U, N] of a receiver: cells that are offered and not accepted
  uint8_t* accepted;  // [N, row of U, N] of a receiver
  int64_t row;        // of these two: no two nodes write bytes of one word
  // [N] of staggered switches: flows of low latency with cells in LOCAL, those whose path is full
  Ends *prompt, *blocked;

  HD RotorTables(Memory& memory, const SlottedBatch& batch, int32_t world, int64_t nodes) {
    const int64_t rows = batch.switches[world] ? nodes : 0, links = rows * batch.switches[world];
    const int64_t times = batch.carries[2 * world];
    sent = memory.take<Cell>(links * times);
    busy = memory.take<uint64_t>(links * ((times + 63) / 64));
    count = memory.take<int32_t>(links);
    end = memory.take<int32_t>(links);
    free = memory.take<int32_t>(rows);
    backlog = memory.take<int32_t>(rows * nodes);
    space = memory.take<int32_t>(rows * nodes);
    share = memory.take<Share>(links);
    open = memory.take<uint64_t>(links * ((nodes + 63) / 64));
    row = (batch.switches[world] * nodes + 3) / 4 * 4;
    offered = memory.take<uint8_t>(rows * row);
    accepted = memory.take<uint8_t>(rows * row);
    prompt = memory.take<Ends>(rows);
    blocked = memory.take<Ends>(rows);
  }
};

}  // namespace topoflow::BACKEND::slotted
