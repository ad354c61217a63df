// What a world of slots consists of while it runs. Everything belongs to a node, which alone writes it between two
// barriers; what nodes hand to each other lies in tables with a place for each pair, and bits say which places are
// taken.
//
// A cell on its way has a *reservation* at its intermediate node: one of Q places of that node for its destination,
// from the grant until the node has sent the cell on. So a cell lies where its grant said, and nothing is allocated.
#pragma once

#include "batch.h"
#include "parallel/bits.h"
#include "parallel/events.h"
#include "parallel/memory.h"
#include "parallel/team.h"

namespace topoflow::BACKEND::slotted {

constexpr int32_t kNone = -1;
constexpr int32_t kWordBits = 64;

// A list that is threaded through its items.
struct Ends {
  int32_t head, tail;
};

// Cells of a task at their source.
struct Flow {
  int32_t unsent;      // at the server
  int32_t number;      // of the next cell that leaves LOCAL
  int32_t place;       // among the node's active flows, while it has cells in LOCAL
  int32_t next_local;  // of those for the same destination
  int32_t next_server;
  int32_t source, target;  // nodes
};

// A flow with cells in LOCAL, as the draws of requests read it.
struct Active {
  int32_t task, target;
  int32_t local;  // cells
  int32_t asked;  // of these, in the epoch `epoch`
  int32_t epoch;
};

// Cells of a task at their target.
struct Receipt {
  int32_t arrived;   // of its cells
  int32_t expected;  // the first that has not arrived
  int32_t latest;    // the most that waited for an earlier one
};

struct Server {
  Ends queue;      // tasks that take turns
  int64_t credit;  // ps of sending that it has not used
  int64_t free;    // ps, when its cable has delivered all that it got
};

struct Cell {
  int32_t task, number;
  int32_t to;    // node
  int32_t next;  // in the queue at the source
};

// What waits at a node for the slot of another one.
struct Queue {
  uint64_t order;     // reservations of the cells that are sent on to it, four bits each, the first lowest
  Ends first;         // cells that begin here with a hop to it
  uint16_t reserved;  // bits: reservations for it as destination
  uint16_t count;     // cells that are sent on to it
};

struct Node {
  int32_t active;     // flows with cells in LOCAL
  int32_t held;       // cells in queues
  int32_t fullest;    // the most of that
  int64_t hops;       // cells that it sent
  int64_t received;   // cells for its servers, in the window
};

struct Control {
  EventHeap events;
  int32_t ended;    // tasks in `ended`
  int32_t open;     // tasks whose cells are under way
  int32_t left;     // tasks that have not finished
  int32_t epoch;
  int32_t quiet;    // epochs since a task was open
  int32_t initial;  // of those that wait for no other: how many have begun
};

struct State {
  Flow* flow;
  Active* active;      // [N] rows
  Receipt* receipt;
  uint32_t* bits;      // of the cells of each task: has arrived
  Server* server;
  Node* node;
  Ends* local;         // [N, N] flows with cells in LOCAL by destination; they take turns
  Queue* queue;        // [N, N]
  Cell* cell;          // [N, N, Q]
  int32_t* candidate;  // [N, N-1] the other nodes
  int32_t* request;    // [N, N] of a node, by source: the destination
  int32_t* grant;      // [N, N] of a source, by the node that grants: 16 * destination + reservation
  int32_t* unused;     // [N, N] of a node, by source: the same, given back
  uint64_t *requested, *granted, *declined;  // [N, words] which of them there are
  uint64_t* waiting;                         // [N, E, group words] nodes for which something waits, by place and group
  int32_t* inbox;                            // [N, G] of a node, by the sender's group: the cell that came in this slot
  uint64_t* came;                            // [N, group words] which of them there are
  int32_t* pending;
  int64_t* ready;
  int32_t* ended;      // tasks
  Event* heap;
  Control* control;
  int64_t bytes;

  HD State(Memory memory, const SlottedBatch& batch, int32_t world) {
    const int64_t tasks = batch.task_offsets[world + 1] - batch.task_offsets[world];
    const int64_t servers = batch.server_offsets[world + 1] - batch.server_offsets[world];
    const int64_t nodes = batch.node_offsets[world + 1] - batch.node_offsets[world];
    const int64_t slots = batch.slots[world], groups = (nodes + slots - 1) / slots, pairs = nodes * nodes;
    const int64_t words = (nodes + kWordBits - 1) / kWordBits, group_words = (groups + kWordBits - 1) / kWordBits;
    const int64_t* const bit = batch.bit_offsets;
    flow = memory.take<Flow>(tasks);
    active = memory.take<Active>(tasks);
    receipt = memory.take<Receipt>(tasks);
    bits = memory.take<uint32_t>(bit[batch.task_offsets[world + 1]] - bit[batch.task_offsets[world]]);
    server = memory.take<Server>(servers);
    node = memory.take<Node>(nodes);
    local = memory.take<Ends>(pairs);
    queue = memory.take<Queue>(pairs);
    cell = memory.take<Cell>(pairs * batch.queue[world]);
    candidate = memory.take<int32_t>(pairs);
    request = memory.take<int32_t>(pairs);
    grant = memory.take<int32_t>(pairs);
    unused = memory.take<int32_t>(pairs);
    requested = memory.take<uint64_t>(nodes * words);
    granted = memory.take<uint64_t>(nodes * words);
    declined = memory.take<uint64_t>(nodes * words);
    waiting = memory.take<uint64_t>(nodes * slots * group_words);
    inbox = memory.take<int32_t>(nodes * groups);
    came = memory.take<uint64_t>(nodes * group_words);
    pending = memory.take<int32_t>(tasks);
    ready = memory.take<int64_t>(tasks);
    ended = memory.take<int32_t>(tasks);
    heap = memory.take<Event>(tasks);
    control = memory.take<Control>(1);
    bytes = memory.taken();
  }
};

}  // namespace topoflow::BACKEND::slotted
