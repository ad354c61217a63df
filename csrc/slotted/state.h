// The state of a world of slots while it runs. Everything belongs to a node, which alone writes it between two
// barriers; what nodes hand to each other lies in tables with a place for each pair, and bits say which places are
// taken.
//
// Rows of tables are nodes. *Columns* are nodes as well, in the order of the slots: column place * G + group, so that
// the nodes which a node sends to in one slot lie next to each other. What comes to a node in an epoch lies in the
// order in which it comes: slot * G + the sender's group.
//
// Source: tests/twins/slotted.py states the model.
#pragma once

#include "batch.h"
#include "parallel/bits.h"
#include "parallel/memory.h"
#include "parallel/team.h"
#include "queues/event_heap.h"
#include "queues/resources.h"
#include "rotors.h"
#include "transceivers.h"

namespace topoflow::BACKEND::slotted {

constexpr int32_t kNone = -1;
constexpr int32_t kWordLog = 6;
constexpr int32_t kWordBits = 1 << kWordLog;

// Cells of a task at their source.
struct Flow {
  int32_t unsent;      // at the server
  int32_t number;      // of the next cell that leaves LOCAL
  int32_t place;       // among the node's active flows, while it has cells in LOCAL
  int32_t next_local;  // of those for the same column
  int32_t next_server;
  int32_t server;
  int32_t source;  // node
  int32_t target;  // column
};

// A flow with cells in LOCAL, as the draws of requests read it.
struct Active {
  int32_t task;
  int32_t local;          // cells
  int32_t epoch;          // in which it asked last
  uint16_t target;        // column
  uint16_t num_requests;  // how many of its cells asked then
};

// Cells of a task at their target.
struct Receipt {
  uint64_t window;  // which of the 64 from `expected` on have arrived
  int32_t bits;     // first word of the bits of those that are farther
  int32_t cells;    // of the task, those that were dropped not counted
  int32_t server;
  int32_t arrived;   // of its cells
  int32_t expected;  // the first that has not arrived
  int32_t latest;    // the most that waited for an earlier one
  int32_t far;       // that arrived, and are not in the window
  int32_t waiting;   // for the cable to the server
  int32_t next;      // of the tasks whose cells wait for it
};

struct Server {
  Ends queue;       // tasks that take turns
  Ends cable;       // tasks whose cells wait for the cable from the node; they take turns
  int64_t surplus;  // ps of sending that it has not used
  int64_t free;     // ps, when its cable has delivered all that it got
  int32_t local;    // cells in LOCAL
};

// A cell on its way, and, where that is to its intermediate node, the column of its target.
struct Sent {
  Cell cell;
  int32_t to;
};

// Cells that are sent on, to one column. Q places: from the grant until it is sent on, a cell has one.
struct Queue {
  uint32_t reserved : 8;  // places
  uint32_t count : 8;     // cells that are there
  uint32_t first : 16;    // place of the first of them
};

struct Node {
  int32_t destinations;  // nodes that it sends to
  int32_t first;         // of its flows in `active`
  int32_t active;        // flows with cells in LOCAL
  int32_t queued;        // cells in queues
  int32_t fullest;       // the most of that
  int64_t hops;          // cells that it sent
  int64_t received;      // cells for its servers, in the window
};

struct Control {
  EventHeap events;
  int32_t ended;  // tasks in `ended`
  int32_t open;   // tasks whose cells are under way
  int32_t left;   // tasks that have not finished
  int32_t epoch;
  int32_t quiet;    // epochs since a task was open
  int32_t initial;  // of those that wait for no other: how many have begun
  int32_t status;   // Status
  int64_t sent;     // cells, when something was last sent
  int32_t since;    // epoch of that
  int32_t stride;   // every such epoch is a sample
  int32_t samples;
};

struct State {
  Flow* flow;
  Active* active;  // [N] rows
  Receipt* receipt;
  uint32_t* bits;  // of the cells of each task: has arrived, outside of the window
  Server* server;
  uint64_t *sending, *waiting;  // bits of servers that send, for which cells wait; each node has words of its own
  Node* node;
  int32_t *place, *group, *column;  // [N] of each node
  int32_t *node_at, *place_at;      // [columns]
  Ends* local;                      // [N, columns] flows with cells in LOCAL; they take turns
  // [N, columns] what comes in this epoch: to its target (~number: straight from the source, to a place that is
  // reserved) or to be sent on. A pair of nodes has one slot.
  Sent* incoming;
  Queue* queue;   // [N, columns]
  Cell* relayed;  // [Q, N, columns]
  // Rows of what a node says to others, each in words of its own. They are small, as caches hold little (a schedule has
  // up to 4,096 nodes).
  uint16_t* candidate;                  // [N, pairs] the other nodes that each sends to
  uint16_t* request;                    // [N, pairs] of a source, by node: the column that a cell is for
  uint16_t* grant;                      // [N, pairs] of a node, by source: the same
  uint16_t* unused;                     // [N, pairs] of a source, by node: the same, given back
  uint64_t *requested, *declined;       // [N, words] which of them there are
  uint64_t* answered;                   // [N, column words] which grants there are
  uint64_t *has_granted, *has_relayed;  // [N, column words] columns for which a cell waits
  uint64_t *is_incoming, *is_last;      // [N, column words] which of the cells that come there are
  int32_t* pending;
  int64_t* ready;
  int32_t* ended;  // tasks
  Event* heap;
  Control* control;
  Resources<int64_t> resources;
  Transceivers transceivers;  // of nodes that send on demand; these have no tables
  RotorTables rotors;         // of nodes that rotor switches join
  int64_t bytes;

  HD State(Memory memory, const SlottedBatch& batch, int32_t world)
      : resources(memory, batch.resource ? batch.task_offsets[world + 1] - batch.task_offsets[world] : 0),
        transceivers(memory, batch, world, batch.node_offsets[world + 1] - batch.node_offsets[world]),
        rotors(memory, batch, world, batch.node_offsets[world + 1] - batch.node_offsets[world]) {
    const int64_t tasks = batch.task_offsets[world + 1] - batch.task_offsets[world];
    const int64_t servers = batch.server_offsets[world + 1] - batch.server_offsets[world];
    const int64_t nodes = batch.node_offsets[world + 1] - batch.node_offsets[world];
    const int64_t slots = batch.slots[world], groups = (nodes + slots - 1) / slots, columns = slots * groups;
    const int64_t rows = batch.radix[world] ? 0 : nodes, pairs = rows * pairs_of(nodes), places = rows * columns;
    const int64_t words = (nodes + kWordBits - 1) / kWordBits, column_words = (columns + kWordBits - 1) / kWordBits + 1;
    const int64_t* const bit = batch.bit_offsets;
    flow = memory.take<Flow>(tasks);
    active = memory.take<Active>(tasks);
    receipt = memory.take<Receipt>(tasks);
    bits = memory.take<uint32_t>(bit[batch.task_offsets[world + 1]] - bit[batch.task_offsets[world]]);
    server = memory.take<Server>(servers);
    sending = memory.take<uint64_t>(servers / kWordBits + nodes + 1);
    waiting = memory.take<uint64_t>(servers / kWordBits + nodes + 1);
    node = memory.take<Node>(nodes);
    place = memory.take<int32_t>(nodes);
    group = memory.take<int32_t>(nodes);
    column = memory.take<int32_t>(nodes);
    node_at = memory.take<int32_t>(columns);
    place_at = memory.take<int32_t>(columns);
    local = memory.take<Ends>(places);
    incoming = memory.take<Sent>(places);
    queue = memory.take<Queue>(places);
    relayed = memory.take<Cell>(places * batch.queue[world]);
    candidate = memory.take<uint16_t>(pairs);
    request = memory.take<uint16_t>(pairs);
    grant = memory.take<uint16_t>(pairs);
    unused = memory.take<uint16_t>(pairs);
    requested = memory.take<uint64_t>(rows * words);
    declined = memory.take<uint64_t>(rows * words);
    answered = memory.take<uint64_t>(rows * column_words);
    has_granted = memory.take<uint64_t>(rows * column_words);
    has_relayed = memory.take<uint64_t>(rows * column_words);
    is_incoming = memory.take<uint64_t>(rows * column_words);
    is_last = memory.take<uint64_t>(rows * column_words);
    pending = memory.take<int32_t>(tasks);
    ready = memory.take<int64_t>(tasks);
    ended = memory.take<int32_t>(tasks);
    heap = memory.take<Event>(tasks);
    control = memory.take<Control>(1);
    bytes = memory.taken();
  }

  // Entries of a row of 16-bit numbers, one for each node.
  HD static int64_t pairs_of(int64_t nodes) { return nodes + nodes % 2; }
};

}  // namespace topoflow::BACKEND::slotted
