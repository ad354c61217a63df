// Worlds of packets in flat arrays, one after the other; numbers of ports, channels, queues, roots, edges, branches and
// tasks count from the first of their world.
//
// Shapes: W worlds, S tasks, D dependencies, Y roots, E edges, K branches, N ports, C channels, Q queues, R entries of
// the ports' rows, H endpoints, J routers, I and O entries of their tables, G sets of ports, M ports in them, V
// depths of queues, of all worlds together, B bins. Times: ps.
//
// Source: topoflow/engine/packet/layout.py says what ports, channels and queues are, and makes these arrays.
#pragma once

#include "fields.h"
#include "status.h"
#include "times.h"

namespace topoflow {

constexpr int32_t kLatencyBins = 1024;  // of the histogram of latencies (state.h)

// A message gives up when its packets were lost this many times each, on average: ports that are always full when the
// packets of two messages come to them would lose these for ever. Ours; a queue pair of InfiniBand gives up after 7.
constexpr int64_t kMaxLosses = 1000;

enum Loss : int32_t { kLossless = 0, kDrops = 1, kTrims = 2 };
enum Control : int32_t { kNoControl = 0, kDcqcn = 1, kPulls = 2, kNscc = 3, kSwift = 4, kHpcc = 5 };
enum Choice : int32_t { kByNumber = 0, kRecycled = 1, kFlowlets = 2 };  // of entropies (routing/entropies.h)

// Ports that lose or mark packets, and what messages do about it (transport.h).
struct TransportSettings {
  bool is_on, mark_leaving;
  int32_t loss, control, mark_from, mark_to, gain, recoveries, utilization, increase, stages;
  int64_t timeout, mark_most, timer, bytes, alpha_timer, notice, scaling;
};

constexpr Setting<TransportSettings> kTransportSettings[] = {
    setting("is_on", &TransportSettings::is_on, "packets are lost or marked, or messages are controlled"),
    setting("loss", &TransportSettings::loss, "what happens to a packet without room: Loss"),
    setting("control", &TransportSettings::control, "what controls messages: Control"),
    setting("timeout", &TransportSettings::timeout, "ps until the sender of a dropped packet learns of it"),
    setting("mark_from", &TransportSettings::mark_from, "B that wait for a port, up to which it marks no packet"),
    setting("mark_to", &TransportSettings::mark_to, "B that wait, from which on it marks all; < 0: it never marks"),
    setting("mark_most", &TransportSettings::mark_most, "2^-32, the share of marked packets just below mark_to"),
    setting("mark_leaving", &TransportSettings::mark_leaving,
            "marks count what waits when a packet leaves; else when it arrives"),
    setting("timer", &TransportSettings::timer, "ps after which a rate rises"),
    setting("bytes", &TransportSettings::bytes, "B after which a rate rises"),
    setting("alpha_timer", &TransportSettings::alpha_timer, "ps after which alpha falls"),
    setting("notice", &TransportSettings::notice, "ps at least between two notices of marks by a receiver"),
    setting("scaling", &TransportSettings::scaling, "ps by which the target of a small window is longer (swift.h)"),
    setting("gain", &TransportSettings::gain, "2^-16, the gain of alpha"),
    setting("recoveries", &TransportSettings::recoveries, "rises of a rate until its target rises"),
    setting("utilization", &TransportSettings::utilization, "2^-20, of ports, at which windows aim (hpcc.h)"),
    setting("increase", &TransportSettings::increase, "B by which such a window grows"),
    setting("stages", &TransportSettings::stages, "times in a row that it grows by that alone")};

// How switches and NICs treat packets.
struct PacketSettings {
  int32_t size, flit, samples, entropies, choice;
  int64_t switch_latency, nic_latency, credit_latency, flowlet_gap, setup, match;
  bool cut_through, output_queues, in_turn, by_age, by_arrival, in_order, by_free, is_sst;
  double threshold;
};

constexpr Setting<PacketSettings> kPacketSettings[] = {
    setting("size", &PacketSettings::size, "B of a packet of the full size"),
    setting("flit", &PacketSettings::flit, "B of a flit"),
    setting("switch_latency", &PacketSettings::switch_latency, "ps that a packet takes in a switch"),
    setting("nic_latency", &PacketSettings::nic_latency,
            "ps that a message takes in the NIC of its sender, and of its receiver"),
    setting("credit_latency", &PacketSettings::credit_latency, "ps that a credit takes beyond the latency of the link"),
    setting("cut_through", &PacketSettings::cut_through, "cut-through switches; else store and forward"),
    setting("output_queues", &PacketSettings::output_queues, "virtual output queues; else input queues"),
    setting("entropies", &PacketSettings::entropies,
            "a power of two: packets of a message draw paths by this many numbers"),
    setting("choice", &PacketSettings::choice, "how a packet gets one of these numbers: Choice"),
    setting("flowlet_gap", &PacketSettings::flowlet_gap, "ps without a packet after which a message takes the next"),
    setting("in_turn", &PacketSettings::in_turn, "packets of a message take all paths in turn (cycles.h)"),
    setting("by_age", &PacketSettings::by_age, "a port sends first the packet that left its NIC first"),
    setting("by_arrival", &PacketSettings::by_arrival, "a port sends first the packet that came to it first"),
    setting("in_order", &PacketSettings::in_order, "a NIC sends a message to its end before the next one"),
    setting("by_free", &PacketSettings::by_free, "adaptive-local compares free space; else occupied space"),
    setting("threshold", &PacketSettings::threshold, "factor of adaptive-local (adaptive.h)"),
    setting("samples", &PacketSettings::samples, "intervals at most for which depths of queues are kept; 0: none"),
    setting("is_sst", &PacketSettings::is_sst, "the model of sst.h, which alone reads the next two"),
    setting("setup", &PacketSettings::setup, "ps until the first packet of a message leaves its buffer"),
    setting("match", &PacketSettings::match, "ps until a message is matched at its receiver")};

// Tasks and messages (tasks.h, nic.h).
struct TaskArrays {
  const int64_t *task_offsets, *bytes, *delay, *release, *pace, *follower_offsets, *waited, *rounds, *awaited_offsets;
  const int32_t *first_root, *roots, *pending, *resource, *followers, *awaited, *tokens;
};

constexpr Field<TaskArrays> kPacketTaskFields[] = {
    array("task_offsets", &TaskArrays::task_offsets, "W+1", "first task of each world"),
    array("bytes", &TaskArrays::bytes, "S", "B that cross the network, 0: a wait only"),
    array("delay", &TaskArrays::delay, "S", "ps"),
    array("release", &TaskArrays::release, "S", "ps"),
    array("pace", &TaskArrays::pace, "S", "ps at least between the beginnings of two packets"),
    array("first_root", &TaskArrays::first_root, "S", "root at which the paths begin, -1: none"),
    array("roots", &TaskArrays::roots, "S", "roots at which they begin"),
    array("pending", &TaskArrays::pending, "S", "tasks that a task waits for"),
    optional("resource", &TaskArrays::resource, "S", "number of the resource that a task occupies, -1: none"),
    array("follower_offsets", &TaskArrays::follower_offsets, "S+1", "where the row of each task begins"),
    array("followers", &TaskArrays::followers, "D", "tasks that wait for a task"),
    array("waited", &TaskArrays::waited, "S", "ps of the delay in which no message is under way"),
    array("rounds", &TaskArrays::rounds, "W", "times that all tasks run"),
    optional("awaited_offsets", &TaskArrays::awaited_offsets, "S+1",
             "first of the dependencies of each task, numbered by the task that waits; none: there is one round"),
    optional("awaited", &TaskArrays::awaited, "D", "that number of each of `followers`, from the first of its world"),
    optional("tokens", &TaskArrays::tokens, "D", "by that number, at first (tasks.h)")};

// Paths as a graph of steps (paths.h).
struct PathArrays {
  const int64_t *root_offsets, *edge_offsets, *branch_offsets, *branch_edges;
  const int32_t *root_port, *root_channel, *root_next, *root_bound, *root_source, *edge_queue, *edge_turn, *edge_port,
      *edge_channel, *edge_next, *edge_bound, *branch_stride;
};

constexpr Field<PathArrays> kPathFields[] = {
    array("root_offsets", &PathArrays::root_offsets, "W+1", "first root of each world"),
    array("edge_offsets", &PathArrays::edge_offsets, "W+1", "first edge of each world"),
    array("branch_offsets", &PathArrays::branch_offsets, "W+1", "first branch of each world"),
    array("root_port", &PathArrays::root_port, "Y", "port of the NIC"),
    array("root_channel", &PathArrays::root_channel, "Y", "where the packet lies after it, -1: it has arrived"),
    array("root_next", &PathArrays::root_next, "Y", "edge that follows, -1: none, -2 - b: one of branch b"),
    array("root_bound", &PathArrays::root_bound, "Y", "greatest draw that takes it, 32 bits without sign"),
    array("root_source", &PathArrays::root_source, "Y", "by address: endpoint that sends"),
    array("edge_queue", &PathArrays::edge_queue, "E", "queue in which a packet waits"),
    array("edge_turn", &PathArrays::edge_turn, "E", "place of the queue among those of the port"),
    array("edge_port", &PathArrays::edge_port, "E", "port that it waits for"),
    array("edge_channel", &PathArrays::edge_channel, "E", "where it lies afterwards, -1: it has arrived"),
    array("edge_next", &PathArrays::edge_next, "E", "as root_next"),
    array("edge_bound", &PathArrays::edge_bound, "E", "as root_bound"),
    array("branch_edges", &PathArrays::branch_edges, "K+1", "where the edges of each branch begin, which come first"),
    array("branch_stride", &PathArrays::branch_stride, "K",
          "paths that lead to it, 0: packets always draw, because its edges are not equally likely (cycles.h)")};

// Ports, and the channels and queues between them (ports.h, credits.h, queues.h).
struct PortArrays {
  const int64_t *port_offsets, *channel_offsets, *queue_offsets, *latency, *port_queues, *channel_days;
  const double* byte_time;
  const int32_t *queues, *node, *first_seen, *channel_port, *buffer, *queue_channel;
};

constexpr Field<PortArrays> kPortFields[] = {
    array("port_offsets", &PortArrays::port_offsets, "W+1", "first port of each world"),
    array("channel_offsets", &PortArrays::channel_offsets, "W+1", "first channel of each world"),
    array("queue_offsets", &PortArrays::queue_offsets, "W+1", "first queue of each world"),
    array("byte_time", &PortArrays::byte_time, "N", "ps for each byte"),
    array("latency", &PortArrays::latency, "N", "ps"),
    array("port_queues", &PortArrays::port_queues, "N+1", "where the row of each port begins in `queues`"),
    array("queues", &PortArrays::queues, "R", "queues that a port sends from"),
    array("node", &PortArrays::node, "N", "the switch that it is a part of, ascending; by address the router"),
    array("first_seen", &PortArrays::first_seen, "N", "its number in the order in which paths come upon ports"),
    array("channel_port", &PortArrays::channel_port, "C", "port that sends into the channel"),
    array("buffer", &PortArrays::buffer, "C", "flits"),
    array("channel_days", &PortArrays::channel_days, "C+1",
          "where the days of each channel begin (calendar.h), whose number is a power of two"),
    array("queue_channel", &PortArrays::queue_channel, "Q", "channel that the queue is a part of")};

// Messages and ports of a transport (transport.h).
struct TransportArrays {
  const int32_t *allowed, *puller, *largest, *step, *leap, *depth;
  const int64_t *back, *pull, *idle, *target, *unit, *telemetry, *under_way;
};

constexpr Field<TransportArrays> kFlowFields[] = {
    array("allowed", &TransportArrays::allowed, "S",
          "packets that may be under way; with a transport only, as what follows"),
    array("back", &TransportArrays::back, "S", "ps from when a packet has arrived until its sender knows"),
    array("puller", &TransportArrays::puller, "S", "a port of its receiver, of several interfaces the first"),
    array("pull", &TransportArrays::pull, "S", "ps between two pulls of its receiver"),
    array("largest", &TransportArrays::largest, "S", "B of its largest window; where windows change, as what follows"),
    array("idle", &TransportArrays::idle, "S", "ps of a round trip on an idle network"),
    array("target", &TransportArrays::target, "S", "ps that its packets are to wait in queues"),
    array("unit", &TransportArrays::unit, "S", "B, in which the control states how windows rise"),
    optional("telemetry", &TransportArrays::telemetry, "S+1",
             "where the readings of each message begin: of ports, and of packets that may be under way (hpcc.h)"),
    array("step", &TransportArrays::step, "N", "2^-20 of the port's rate that the target of a rate rises by"),
    array("leap", &TransportArrays::leap, "N", "the same once it rises fast"),
    array("depth", &TransportArrays::depth, "N", "flits that may wait for it where packets are lost, and with sst"),
    array("under_way", &TransportArrays::under_way, "W", "packets that all messages may have under way")};

// Routers that forward by address, and their tables (router.h, addresses.h).
struct AddressArrays {
  const int32_t *routing, *hops, *groups, *routers, *cables, *endpoint_router, *down, *router_group, *inside, *outside,
      *set_links, *end, *level, *first_channel, *place;
  const int64_t *endpoint_offsets, *router_offsets, *inside_offsets, *outside_offsets, *set_offsets, *set_begin;
};

constexpr Field<AddressArrays> kAddressFields[] = {
    array("routing", &AddressArrays::routing, "W", "0: by paths, else by address (addresses.h)"),
    array("hops", &AddressArrays::hops, "W", "by address: ports of a route at most"),
    array("groups", &AddressArrays::groups, "W", "of routers"),
    array("routers", &AddressArrays::routers, "W", "of a group"),
    array("cables", &AddressArrays::cables, "W", "between every two groups"),
    array("endpoint_offsets", &AddressArrays::endpoint_offsets, "W+1", "first endpoint of each world"),
    array("router_offsets", &AddressArrays::router_offsets, "W+1", "first router of each world"),
    array("inside_offsets", &AddressArrays::inside_offsets, "W+1", "where `inside` of each world begins"),
    array("outside_offsets", &AddressArrays::outside_offsets, "W+1", "where `outside` of each world begins"),
    array("set_offsets", &AddressArrays::set_offsets, "W+1", "first set of links of each world"),
    array("set_begin", &AddressArrays::set_begin, "G+1", "where each set begins in `set_links`"),
    array("endpoint_router", &AddressArrays::endpoint_router, "H", "router of an endpoint"),
    array("down", &AddressArrays::down, "H", "port of that router towards it"),
    array("router_group", &AddressArrays::router_group, "J", "of each router, -1: none"),
    array("inside", &AddressArrays::inside, "I", "port (-2 - s: set s) of each router to each router of its group"),
    array("outside", &AddressArrays::outside, "O", "the same towards each group by each of the cables"),
    array("set_links", &AddressArrays::set_links, "M", "ports; a router draws one of a set"),
    array("end", &AddressArrays::end, "N", "router where the link ends, -1: an endpoint"),
    array("level", &AddressArrays::level, "N", "of the link (addresses.h)"),
    array("first_channel", &AddressArrays::first_channel, "N", "its virtual channel 0, -1: none"),
    array("place", &AddressArrays::place, "C", "among the channels that end at the same router")};

// How each world is run.
struct RunArrays {
  const int64_t *depth_offsets, *window, *until, *slot_total, *sends, *seed;
  const int32_t *order, *cancel;
};

constexpr Field<RunArrays> kRunFields[] = {
    array("depth_offsets", &RunArrays::depth_offsets, "W+1", "where `depths` of each world begins"),
    array("window", &RunArrays::window, "W", "ps until others see what a port does"),
    array("until", &RunArrays::until, "W", "ps, nothing later need be simulated"),
    array("slot_total", &RunArrays::slot_total, "W", "slots of all channels"),
    array("sends", &RunArrays::sends, "W", "the sum of `roots`"),
    array("seed", &RunArrays::seed, "W", "of the draws, 64 bits without sign"),
    array("order", &RunArrays::order, "W", "worlds, the most expensive first"),
    on_host("cancel", &RunArrays::cancel, "1", "not 0: stop")};

// Results that a kernel writes.
struct AnswerArrays {
  int64_t *start, *finish, *active, *stalled, *port_bytes, *packets, *idle_intervals, *idle_1us, *idle_1ms, *free,
      *lost, *marked, *sent, *sent_bytes, *delivered, *delivered_bytes, *lost_of, *lost_bytes, *interval, *intervals,
      *latencies, *latency_sum, *latency_most, *message_latencies, *message_latency_sum, *message_latency_most,
      *skipped;
  int32_t *deepest, *fullest, *waits_for, *depths, *status;
};

constexpr Field<AnswerArrays> kAnswerFields[] = {
    array("start", &AnswerArrays::start, "S", "out, ps"),
    array("finish", &AnswerArrays::finish, "S", "out, ps"),
    array("active", &AnswerArrays::active, "N", "out, ps that the port sent"),
    array("stalled", &AnswerArrays::stalled, "N",
          "out, ps that packets waited for nothing but room in the next buffer"),
    array("port_bytes", &AnswerArrays::port_bytes, "N", "out, B"),
    array("packets", &AnswerArrays::packets, "N", "out"),
    array("idle_intervals", &AnswerArrays::idle_intervals, "N", "out, how often it was idle, until it last sent"),
    array("idle_1us", &AnswerArrays::idle_1us, "N", "out, and for more than 1 us"),
    array("idle_1ms", &AnswerArrays::idle_1ms, "N", "out, and for more than 1 ms"),
    array("free", &AnswerArrays::free, "N", "out, ps, when it last sent"),
    array("lost", &AnswerArrays::lost, "N", "out, packets that the port dropped or trimmed"),
    array("marked", &AnswerArrays::marked, "N", "out, packets that it marked"),
    array("sent", &AnswerArrays::sent, "S",
          "out, packets of a message that left its NIC, of a transport, as what follows"),
    array("sent_bytes", &AnswerArrays::sent_bytes, "S", "out, B"),
    array("delivered", &AnswerArrays::delivered, "S", "out, packets of it that arrived"),
    array("delivered_bytes", &AnswerArrays::delivered_bytes, "S", "out, B"),
    array("lost_of", &AnswerArrays::lost_of, "S", "out, packets of it that ports dropped or trimmed"),
    array("lost_bytes", &AnswerArrays::lost_bytes, "S", "out, B"),
    array("deepest", &AnswerArrays::deepest, "N", "out, flits that waited for it at most, of a transport"),
    array("fullest", &AnswerArrays::fullest, "C", "out, flits that were taken at most"),
    array("waits_for", &AnswerArrays::waits_for, "C",
          "out, for a blocked world: the channel that its packets wait for"),
    array("depths", &AnswerArrays::depths, "V",
          "out, flits that were taken at most, interval by interval, of each channel (where packets are lost: port)"),
    array("interval", &AnswerArrays::interval, "W", "out, ps, how long each of these is"),
    array("intervals", &AnswerArrays::intervals, "W", "out, how many"),
    array("latencies", &AnswerArrays::latencies, "W,B", "out, packets whose latency lies in each bin"),
    array("latency_sum", &AnswerArrays::latency_sum, "W", "out, ps"),
    array("latency_most", &AnswerArrays::latency_most, "W", "out, ps"),
    array("message_latencies", &AnswerArrays::message_latencies, "W,B", "out, the same of messages"),
    array("message_latency_sum", &AnswerArrays::message_latency_sum, "W", "out, ps"),
    array("message_latency_most", &AnswerArrays::message_latency_most, "W", "out, ps"),
    array("skipped", &AnswerArrays::skipped, "W", "out, of all packets of ports those of skipped periods"),
    on_host("status", &AnswerArrays::status, "W", "out, Status, also while it runs")};

// A batch of worlds, and how it is run.
struct PacketBatch {
  int32_t worlds, bins;
  TaskArrays tasks;
  PathArrays paths;
  PortArrays ports;
  TransportArrays flows;
  AddressArrays address;
  RunArrays run;
  AnswerArrays out;
  PacketSettings model;
  TransportSettings transport;
  int32_t threads;  // of the CPU, 0: all
  int32_t grain;    // ports of a part at least, where threads share a world
  int64_t budget;   // B of memory for all teams together
  int device;       // where the arrays lie
  int64_t stream;   // the stream to run on, as a number; 0 on the CPU
};

constexpr Field<PacketBatch> kPacketCounts[] = {count('W', &PacketBatch::worlds), count('B', &PacketBatch::bins)};

// Returns the bytes of state that one team needs.
namespace cpu {
int64_t packets(const PacketBatch& batch);
}
namespace cuda {
int64_t packets(const PacketBatch& batch);
}

}  // namespace topoflow
