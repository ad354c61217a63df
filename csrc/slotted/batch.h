// Worlds of slots and cells in flat arrays, one after the other; numbers of tasks, servers and nodes count from the
// first of their world.
//
// Shapes: W worlds, S tasks, D dependencies, V servers, N nodes, F tasks that wait for none, of all worlds together;
// C cells and R words of bits of all tasks; K words of bits of pairs of nodes. Times are in ps.
//
// Source: topoflow/engine/slotted/cells.py says what a world is; tests/twins/slotted.py is the model in plain Python.
#pragma once

#include "fields.h"
#include "status.h"
#include "times.h"

namespace topoflow {

enum Protocol : int32_t {
  kRequestGrant = 0,
  kIdeal = 1,
  kDirect = 2,
  kAckNack = 3,
  kRotorLB = 4,
  kOpera = 5,
  kProtocols = 6
};

enum Cable : int32_t { kTurns = 0, kArrival = 1 };  // who is next on the cable from a node to a server

constexpr int32_t kMaxReservations = 16;  // Q
constexpr int32_t kMaxSamples = 512;      // epochs whose queues a world reports

struct SlottedBatch {
  int32_t worlds;
  const int64_t *task_offsets, *server_offsets, *node_offsets, *first_offsets;
  const int32_t *slots, *queue, *credits, *cable, *drops, *key;
  const int64_t *slot, *pace, *until, *window;
  const int32_t *radix, *intra, *inter, *room, *pause;
  const int32_t *switches, *carries;
  const int64_t* arrive;
  const int64_t* node_servers;
  const int32_t* server_node;
  const int64_t* node_tasks;
  const int32_t *cells, *source, *target;
  const int64_t *delay, *release;
  const int32_t *pending, *resource;
  const int64_t* follower_offsets;
  const int32_t* followers;
  const int32_t* first;
  const int64_t* bit_offsets;
  const int64_t *dark_offsets, *dark;
  const int64_t *drawn_at, *drawn;
  const int32_t* low_latency;
  const int64_t* cell_offsets;
  const int32_t *order, *counts, *cancel;
  int64_t *start, *finish;
  int32_t *delivered, *dropped, *reorder, *fullest;
  int64_t *hops, *received;
  int32_t* refused;
  int32_t* epochs;
  int32_t *stuck, *samples, *sampled;
  int32_t* through;
  int64_t *sent, *sent_on;
  int32_t* status;

  int32_t threads;  // of the CPU, 0: all
  int64_t budget;   // B of memory for all teams together
  int device;       // where the arrays lie
  int64_t stream;   // the stream to run on, as a number; 0 on the CPU
};

constexpr Field<SlottedBatch> kSlottedFields[] = {
    array("task_offsets", &SlottedBatch::task_offsets, "W+1", "first task of each world"),
    array("server_offsets", &SlottedBatch::server_offsets, "W+1", "first server of each world"),
    array("node_offsets", &SlottedBatch::node_offsets, "W+1", "first node of each world"),
    array("first_offsets", &SlottedBatch::first_offsets, "W+1", "where the row of each world begins in `first`"),
    array("slots", &SlottedBatch::slots, "W", "of an epoch"),
    array("queue", &SlottedBatch::queue, "W", "cells that a node has room for, for each destination"),
    array("credits", &SlottedBatch::credits, "W", "cells that a server may have in LOCAL"),
    array("cable", &SlottedBatch::cable, "W", "Cable"),
    array("drops", &SlottedBatch::drops, "W", "1: a packet that finds the buffers of transceivers full is lost"),
    array("keys", &SlottedBatch::key, "2,W", "of random numbers: of each world that of the settings and its own"),
    array("slot", &SlottedBatch::slot, "W", "ps"),
    array("pace", &SlottedBatch::pace, "W", "ps that the cable of a server needs for a cell"),
    array("until", &SlottedBatch::until, "W", "ps, nothing later need be simulated"),
    array("window", &SlottedBatch::window, "W", "ps, cells that come earlier are counted in `received`"),
    array("radix", &SlottedBatch::radix, "W",
          "servers of a rack; 0: nodes follow a schedule, the next five mean nothing"),
    array("intra", &SlottedBatch::intra, "W", "transceivers of a server to the others of its rack"),
    array("inter", &SlottedBatch::inter, "W", "and to the servers of other racks that have its place"),
    array("room", &SlottedBatch::room, "W", "packets that the buffer of a transceiver holds"),
    array(
        "pause", &SlottedBatch::pause, "2,W",
        "of each world by kind: slots until what was received can be sent on; of staggered rotor switches the first is "
        "times of a cell, of those that do not wait for their link"),
    array("switches", &SlottedBatch::switches, "W", "rotor switches, each with a link to every node; 0: none"),
    array("carries", &SlottedBatch::carries, "2,W",
          "of each world: cells of a link of a rotor switch in a slot, and of one that turns at the end of it"),
    array(
        "arrive", &SlottedBatch::arrive, "2,W",
        "of each world by kind: ps from the beginning of a slot; of rotor switches: until the first cell of a link has "
        "come, and from each to the next"),
    array("node_servers", &SlottedBatch::node_servers, "N+1", "first server of each node, of all worlds together"),
    array("server_node", &SlottedBatch::server_node, "V", "node of each server"),
    array("node_tasks", &SlottedBatch::node_tasks, "N+1", "tasks that begin at the nodes before"),
    array("cells", &SlottedBatch::cells, "S", "0: a wait only"),
    array("source", &SlottedBatch::source, "S", "server, -1: nothing is sent"),
    array("target", &SlottedBatch::target, "S", "server, -1: nothing is sent"),
    array("delay", &SlottedBatch::delay, "S", "ps"),
    array("release", &SlottedBatch::release, "S", "ps"),
    array("pending", &SlottedBatch::pending, "S", "tasks that a task waits for"),
    optional("resource", &SlottedBatch::resource, "S", "number of the resource that a task occupies, -1: none"),
    array("follower_offsets", &SlottedBatch::follower_offsets, "S+1", "where the row of each task begins"),
    array("followers", &SlottedBatch::followers, "D", "tasks that wait for a task"),
    array("first", &SlottedBatch::first, "F", "tasks that wait for nothing, by the end of their delay"),
    array("bit_offsets", &SlottedBatch::bit_offsets, "S+1", "first word of the bits of each task's cells"),
    array("dark_offsets", &SlottedBatch::dark_offsets, "W+1", "first word of `dark` of each world"),
    array("dark", &SlottedBatch::dark, "K",
          "bits: to which other nodes each node does not send, as a part failed; none where nothing did"),
    array("drawn_at", &SlottedBatch::drawn_at, "W", "first word of `drawn` of each world; of staggered switches alone"),
    array("drawn", &SlottedBatch::drawn, "M",
          "bytes: the node that each matching joins each node to, and by slot, node and target the switch that comes "
          "next, 255: none"),
    array("low_latency", &SlottedBatch::low_latency, "S", "1: staggered switches send its cells without waiting"),
    array("cell_offsets", &SlottedBatch::cell_offsets, "S+1", "cells of the tasks before"),
    array("order", &SlottedBatch::order, "W", "worlds by Protocol, of each the most expensive first"),
    on_host("counts", &SlottedBatch::counts, "6", "how many worlds each Protocol has"),
    on_host("cancel", &SlottedBatch::cancel, "1", "not 0: stop"),
    array("start", &SlottedBatch::start, "S", "out, ps"),
    array("finish", &SlottedBatch::finish, "S", "out, ps; 2^62: never, as for a task that lost a cell"),
    array("delivered", &SlottedBatch::delivered, "S", "out, cells that have come to the node of the target"),
    array("dropped", &SlottedBatch::dropped, "S", "out, cells that found full buffers, and never come"),
    array("reorder", &SlottedBatch::reorder, "S", "out, cells that waited at most for an earlier one"),
    array("fullest", &SlottedBatch::fullest, "N", "out, cells that waited at most at a node, LOCAL not counted"),
    array("hops", &SlottedBatch::hops, "W", "out, cells that were sent, once for each hop"),
    array("received", &SlottedBatch::received, "W", "out, cells that came to the nodes of their targets in the window"),
    array("refused", &SlottedBatch::refused, "2,N",
          "out, of each node by kind: NACKs for packets that were sent to it"),
    array("epochs", &SlottedBatch::epochs, "W", "out, when it ended"),
    array("stuck", &SlottedBatch::stuck, "2,W",
          "out, a node and the destination of cells that wait there for ever, -1"),
    array("samples", &SlottedBatch::samples, "W", "out, how many of `sampled` there are"),
    array("sampled", &SlottedBatch::sampled, "1536,W",
          "out, of epochs: number, cells that wait at all nodes at its end, and the most at one"),
    optional("through", &SlottedBatch::through, "C", "out, node of the detour of each cell, -1: none, or not sent"),
    optional("sent", &SlottedBatch::sent, "C", "out, slot of the first hop of each cell, -1: none"),
    optional("sent_on", &SlottedBatch::sent_on, "C", "out, slot of the second hop of each cell, -1: none"),
    on_host("status", &SlottedBatch::status, "W", "out, Status, also while it runs"),
    count('W', &SlottedBatch::worlds)};

// Returns the bytes of state that one team needs.
namespace cpu {
int64_t slots(const SlottedBatch& batch);
}
namespace cuda {
int64_t slots(const SlottedBatch& batch);
}

}  // namespace topoflow
