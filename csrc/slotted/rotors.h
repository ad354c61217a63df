// What nodes that are joined by rotor switches hand to each other in a slot.
//
// Rows are nodes, U their links, one to each switch; K cells of a link in a slot.
//
// Source: RotorNet (Mellette et al., SIGCOMM 2017); reference_rotor.py states the model.
#pragma once

#include "batch.h"
#include "parallel/memory.h"
#include "transceivers.h"

namespace topoflow::BACKEND::slotted {

// A link by which a node accepts cells.
struct Share {
  int32_t capacity;  // cells
  int32_t next;      // destination whose turn it is
};

struct RotorTables {
  Cell* sent;         // [N, U, K] of a sender
  int32_t* count;     // [N, U] how many
  int32_t* free;      // [N] of its links, those with capacity left for offers
  int32_t* backlog;   // [N, N] cells in LOCAL by destination
  int32_t* space;     // [N, N] cells that a node can accept for each destination
  Share* share;       // [N, U] of a receiver
  uint64_t* open;     // [N, U, words] of a receiver: destinations for which a link may bring more
  uint8_t* offered;   // [N, row of U, N] of a receiver: cells that are offered and not accepted
  uint8_t* accepted;  // [N, row of U, N] of a receiver
  int64_t row;        // of these two: no two nodes write bytes of one word

  HD RotorTables(Memory& memory, const SlottedBatch& batch, int32_t world, int64_t nodes) {
    const int64_t rows = batch.switches[world] ? nodes : 0, links = rows * batch.switches[world];
    sent = memory.take<Cell>(links * batch.queue[world]);
    count = memory.take<int32_t>(links);
    free = memory.take<int32_t>(rows);
    backlog = memory.take<int32_t>(rows * nodes);
    space = memory.take<int32_t>(rows * nodes);
    share = memory.take<Share>(links);
    open = memory.take<uint64_t>(links * ((nodes + 63) / 64));
    row = (batch.switches[world] * nodes + 3) / 4 * 4;
    offered = memory.take<uint8_t>(rows * row);
    accepted = memory.take<uint8_t>(rows * row);
  }
};

}  // namespace topoflow::BACKEND::slotted
