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
constexpr int64_t kMostLosses = 1000;

enum Loss : int32_t { kLossless = 0, kDrops = 1, kTrims = 2 };
enum Control : int32_t { kNoControl = 0, kDcqcn = 1, kPulls = 2 };

// Ports that lose or mark packets, and what messages do about it (transport.h).
struct TransportSettings {
  bool is_on, mark_leaving;
  int32_t loss, control, mark_from, mark_to, gain, recoveries;
  int64_t timeout, mark_most, timer, bytes, alpha_timer, notice;
};

constexpr Setting<TransportSettings> kTransportSettings[] = {
    setting("is_on", &TransportSettings::is_on, "whether there is any of this"),
    setting("loss", &TransportSettings::loss, "what happens to a packet without room: Loss"),
    setting("control", &TransportSettings::control, "what controls messages: Control"),
    setting("timeout", &TransportSettings::timeout, "ps, of a packet that was dropped"),
    setting("mark_from", &TransportSettings::mark_from, "B that wait, up to which no packet is marked"),
    setting("mark_to", &TransportSettings::mark_to, "B that wait, from which on all are; < 0: none is ever marked"),
    setting("mark_most", &TransportSettings::mark_most, "2^-32, the share of marked packets just below mark_to"),
    setting("mark_leaving", &TransportSettings::mark_leaving,
            "marks count what waits when a packet leaves, not arrives"),
    setting("timer", &TransportSettings::timer, "ps, after which a rate rises"),
    setting("bytes", &TransportSettings::bytes, "B, after which a rate rises"),
    setting("alpha_timer", &TransportSettings::alpha_timer, "ps, after which alpha falls"),
    setting("notice", &TransportSettings::notice, "ps at least between two notices of marks of a receiver"),
    setting("gain", &TransportSettings::gain, "2^-16, of alpha"),
    setting("recoveries", &TransportSettings::recoveries, "rises of a rate until its target rises")};

// How switches and NICs treat packets.
struct PacketSettings {
  int32_t size, flit, samples;
  int64_t switch_latency, nic_latency, credit_latency, setup, match;
  bool cut_through, output_queues, by_message, in_turn, by_age, by_arrival, in_order, by_free, is_sst;
  double threshold;
};

constexpr Setting<PacketSettings> kPacketSettings[] = {
    setting("size", &PacketSettings::size, "B of a packet of the full size"),
    setting("flit", &PacketSettings::flit, "B"),
    setting("switch_latency", &PacketSettings::switch_latency, "ps"),
    setting("nic_latency", &PacketSettings::nic_latency, "ps"),
    setting("credit_latency", &PacketSettings::credit_latency, "ps"),
    setting("cut_through", &PacketSettings::cut_through, "else switches store packets before they forward them"),
    setting("output_queues", &PacketSettings::output_queues, "virtual output queues, else input queues"),
    setting("by_message", &PacketSettings::by_message, "of several paths, one for all packets of a message"),
    setting("in_turn", &PacketSettings::in_turn, "packets of a message take all paths in turn (cycles.h)"),
    setting("by_age", &PacketSettings::by_age, "the oldest packet is sent first"),
    setting("by_arrival", &PacketSettings::by_arrival, "the packet that came to the port first is sent first"),
    setting("in_order", &PacketSettings::in_order, "a NIC sends a message to its end before the next"),
    setting("by_free", &PacketSettings::by_free, "adaptive-local compares free space, not occupied space"),
    setting("threshold", &PacketSettings::threshold, "of adaptive-local"),
    setting("samples", &PacketSettings::samples, "intervals at most in which depths of queues are written; 0: none"),
    setting("is_sst", &PacketSettings::is_sst, "the model of sst.h, which alone reads the next two"),
    setting("setup", &PacketSettings::setup, "ps, before the first packet of a message leaves its buffer"),
    setting("match", &PacketSettings::match, "ps, until a message is matched at its receiver")};

struct PacketBatch {
  int32_t worlds, bins;
  const int64_t *task_offsets, *root_offsets, *edge_offsets, *branch_offsets, *port_offsets, *channel_offsets,
      *queue_offsets;
  const int64_t *bytes, *delay, *release, *pace;
  const int32_t *first_root, *roots, *pending, *resource;
  const int64_t* follower_offsets;
  const int32_t *followers, *tokens, *awaited;
  const int64_t *rounds, *awaited_offsets, *waited;
  const int32_t *root_port, *root_channel, *root_next, *root_bound, *root_source;
  const int32_t *edge_queue, *edge_turn, *edge_port, *edge_channel, *edge_next, *edge_bound;
  const int64_t* branch_edges;
  const int32_t* branch_stride;
  const double* byte_time;
  const int64_t* latency;
  const int64_t* port_queues;
  const int32_t* queues;
  const int32_t *node, *first_seen;
  const int32_t *channel_port, *buffer;
  const int64_t* channel_days;
  const int32_t* queue_channel;
  const int32_t *allowed, *puller, *step, *leap, *depth;
  const int64_t *back, *pull, *under_way;
  const int32_t *routing, *hops, *groups, *routers, *cables;
  const int64_t *endpoint_offsets, *router_offsets, *inside_offsets, *outside_offsets, *set_offsets, *set_begin;
  const int32_t *endpoint_router, *down, *router_group, *inside, *outside, *set_links;
  const int32_t *end, *level, *first_channel, *place;
  const int64_t* depth_offsets;
  const int64_t *window, *until, *slot_total, *sends, *seed;
  const int32_t* order;
  const int32_t* cancel;
  int64_t *start, *finish;
  int64_t *active, *stalled, *port_bytes, *packets, *idle_intervals, *idle_1us, *idle_1ms, *free;
  int64_t *lost, *marked;
  int64_t *sent, *sent_bytes, *delivered, *delivered_bytes, *lost_of, *lost_bytes;
  int32_t *fullest, *waits_for, *deepest, *depths;
  int64_t *interval, *intervals;
  int64_t *latencies, *latency_sum, *latency_most;
  int64_t *message_latencies, *message_latency_sum, *message_latency_most;
  int32_t* status;

  PacketSettings model;
  TransportSettings transport;
  int32_t threads;  // of the CPU, 0: all
  int32_t grain;    // ports of a part at least, where threads share a world
  int64_t budget;   // B of memory for all teams together
  int device;       // where the arrays lie
  int64_t stream;   // the stream to run on, as a number; 0 on the CPU
};

constexpr Field<PacketBatch> kPacketFields[] = {
    array("task_offsets", &PacketBatch::task_offsets, "W+1", "first task of each world"),
    array("root_offsets", &PacketBatch::root_offsets, "W+1", "first root of each world"),
    array("edge_offsets", &PacketBatch::edge_offsets, "W+1", "first edge of each world"),
    array("branch_offsets", &PacketBatch::branch_offsets, "W+1", "first branch of each world"),
    array("port_offsets", &PacketBatch::port_offsets, "W+1", "first port of each world"),
    array("channel_offsets", &PacketBatch::channel_offsets, "W+1", "first channel of each world"),
    array("queue_offsets", &PacketBatch::queue_offsets, "W+1", "first queue of each world"),
    array("bytes", &PacketBatch::bytes, "S", "B that cross the network, 0: a wait only"),
    array("delay", &PacketBatch::delay, "S", "ps"),
    array("release", &PacketBatch::release, "S", "ps"),
    array("pace", &PacketBatch::pace, "S", "ps at least between the beginnings of two packets"),
    array("first_root", &PacketBatch::first_root, "S", "root at which the paths begin, -1: none"),
    array("roots", &PacketBatch::roots, "S", "roots at which they begin"),
    array("pending", &PacketBatch::pending, "S", "tasks that a task waits for"),
    optional("resource", &PacketBatch::resource, "S", "number of the resource that a task occupies, -1: none"),
    array("follower_offsets", &PacketBatch::follower_offsets, "S+1", "where the row of each task begins"),
    array("followers", &PacketBatch::followers, "D", "tasks that wait for a task"),
    array("waited", &PacketBatch::waited, "S", "ps of the delay in which no message is under way"),
    array("rounds", &PacketBatch::rounds, "W", "times that all tasks run"),
    optional("awaited_offsets", &PacketBatch::awaited_offsets, "S+1",
             "first of the dependencies of each task, numbered by the task that waits; none: there is one round"),
    optional("awaited", &PacketBatch::awaited, "D", "that number of each of `followers`, from the first of its world"),
    optional("tokens", &PacketBatch::tokens, "D", "by that number, at first (tasks.h)"),
    array("root_port", &PacketBatch::root_port, "Y", "port of the NIC"),
    array("root_channel", &PacketBatch::root_channel, "Y", "where the packet lies after it, -1: it has arrived"),
    array("root_next", &PacketBatch::root_next, "Y", "edge that follows, -1: none, -2 - b: one of branch b"),
    array("root_bound", &PacketBatch::root_bound, "Y", "greatest draw that takes it, 32 bits without sign"),
    array("root_source", &PacketBatch::root_source, "Y", "by address: endpoint that sends"),
    array("edge_queue", &PacketBatch::edge_queue, "E", "queue in which a packet waits"),
    array("edge_turn", &PacketBatch::edge_turn, "E", "place of the queue among those of the port"),
    array("edge_port", &PacketBatch::edge_port, "E", "port that it waits for"),
    array("edge_channel", &PacketBatch::edge_channel, "E", "where it lies afterwards, -1: it has arrived"),
    array("edge_next", &PacketBatch::edge_next, "E", "as root_next"),
    array("edge_bound", &PacketBatch::edge_bound, "E", "as root_bound"),
    array("branch_edges", &PacketBatch::branch_edges, "K+1", "where the edges of each branch begin, which come first"),
    array("branch_stride", &PacketBatch::branch_stride, "K",
          "ways that lead to it, 0: packets draw always, as its ways are not equally likely (cycles.h)"),
    array("byte_time", &PacketBatch::byte_time, "N", "ps for each byte"),
    array("latency", &PacketBatch::latency, "N", "ps"),
    array("port_queues", &PacketBatch::port_queues, "N+1", "where the row of each port begins in `queues`"),
    array("queues", &PacketBatch::queues, "R", "queues that a port sends from"),
    array("node", &PacketBatch::node, "N", "the switch that it is a part of, ascending; by address the router"),
    array("first_seen", &PacketBatch::first_seen, "N", "its number in the order in which paths come upon ports"),
    array("channel_port", &PacketBatch::channel_port, "C", "port that sends into the channel"),
    array("buffer", &PacketBatch::buffer, "C", "flits"),
    array("channel_days", &PacketBatch::channel_days, "C+1",
          "where the days of each channel begin (calendar.h), whose number is a power of two"),
    array("queue_channel", &PacketBatch::queue_channel, "Q", "channel that the queue is a part of"),
    array("allowed", &PacketBatch::allowed, "S",
          "packets that may be under way; with a transport only, as what follows"),
    array("back", &PacketBatch::back, "S", "ps from when a packet has arrived until its sender knows"),
    array("puller", &PacketBatch::puller, "S", "a port of its receiver, of several interfaces the first"),
    array("pull", &PacketBatch::pull, "S", "ps between two pulls of its receiver"),
    array("step", &PacketBatch::step, "N", "2^-20 of the port's rate that the target of a rate rises by"),
    array("leap", &PacketBatch::leap, "N", "the same once it rises fast"),
    array("depth", &PacketBatch::depth, "N", "flits that may wait for it where packets are lost, and with sst"),
    array("under_way", &PacketBatch::under_way, "W", "packets that all messages may have under way"),
    array("routing", &PacketBatch::routing, "W", "0: by paths, else by address (addresses.h)"),
    array("hops", &PacketBatch::hops, "W", "by address: ports of a route at most"),
    array("groups", &PacketBatch::groups, "W", "of routers"),
    array("routers", &PacketBatch::routers, "W", "of a group"),
    array("cables", &PacketBatch::cables, "W", "between every two groups"),
    array("endpoint_offsets", &PacketBatch::endpoint_offsets, "W+1", "first endpoint of each world"),
    array("router_offsets", &PacketBatch::router_offsets, "W+1", "first router of each world"),
    array("inside_offsets", &PacketBatch::inside_offsets, "W+1", "where `inside` of each world begins"),
    array("outside_offsets", &PacketBatch::outside_offsets, "W+1", "where `outside` of each world begins"),
    array("set_offsets", &PacketBatch::set_offsets, "W+1", "first set of links of each world"),
    array("set_begin", &PacketBatch::set_begin, "G+1", "where each set begins in `set_links`"),
    array("endpoint_router", &PacketBatch::endpoint_router, "H", "router of an endpoint"),
    array("down", &PacketBatch::down, "H", "port of that router towards it"),
    array("router_group", &PacketBatch::router_group, "J", "of each router, -1: none"),
    array("inside", &PacketBatch::inside, "I", "port (-2 - s: set s) of each router to each router of its group"),
    array("outside", &PacketBatch::outside, "O", "the same towards each group by each of the cables"),
    array("set_links", &PacketBatch::set_links, "M", "ports; a router draws one of a set"),
    array("end", &PacketBatch::end, "N", "router where the link ends, -1: an endpoint"),
    array("level", &PacketBatch::level, "N", "of the link (addresses.h)"),
    array("first_channel", &PacketBatch::first_channel, "N", "its virtual channel 0, -1: none"),
    array("place", &PacketBatch::place, "C", "among the channels that end at the same router"),
    array("depth_offsets", &PacketBatch::depth_offsets, "W+1", "where `depths` of each world begins"),
    array("window", &PacketBatch::window, "W", "ps until others see what a port does"),
    array("until", &PacketBatch::until, "W", "ps, nothing later need be simulated"),
    array("slot_total", &PacketBatch::slot_total, "W", "slots of all channels"),
    array("sends", &PacketBatch::sends, "W", "the sum of `roots`"),
    array("seed", &PacketBatch::seed, "W", "of the draws, 64 bits without sign"),
    array("order", &PacketBatch::order, "W", "worlds, the most expensive first"),
    on_host("cancel", &PacketBatch::cancel, "1", "not 0: stop"),
    array("start", &PacketBatch::start, "S", "out, ps"),
    array("finish", &PacketBatch::finish, "S", "out, ps"),
    array("active", &PacketBatch::active, "N", "out, ps that the port sent"),
    array("stalled", &PacketBatch::stalled, "N", "out, ps that packets waited for nothing but room in the next buffer"),
    array("port_bytes", &PacketBatch::port_bytes, "N", "out, B"),
    array("packets", &PacketBatch::packets, "N", "out"),
    array("idle_intervals", &PacketBatch::idle_intervals, "N", "out, how often it was idle, until it last sent"),
    array("idle_1us", &PacketBatch::idle_1us, "N", "out, and for more than 1 us"),
    array("idle_1ms", &PacketBatch::idle_1ms, "N", "out, and for more than 1 ms"),
    array("free", &PacketBatch::free, "N", "out, ps, when it last sent"),
    array("lost", &PacketBatch::lost, "N", "out, packets that the port dropped or trimmed"),
    array("marked", &PacketBatch::marked, "N", "out, packets that it marked"),
    array("sent", &PacketBatch::sent, "S",
          "out, packets of a message that left its NIC, of a transport, as what follows"),
    array("sent_bytes", &PacketBatch::sent_bytes, "S", "out, B"),
    array("delivered", &PacketBatch::delivered, "S", "out, packets of it that arrived"),
    array("delivered_bytes", &PacketBatch::delivered_bytes, "S", "out, B"),
    array("lost_of", &PacketBatch::lost_of, "S", "out, packets of it that ports dropped or trimmed"),
    array("lost_bytes", &PacketBatch::lost_bytes, "S", "out, B"),
    array("deepest", &PacketBatch::deepest, "N", "out, flits that waited for it at most, of a transport"),
    array("fullest", &PacketBatch::fullest, "C", "out, flits that were taken at most"),
    array("waits_for", &PacketBatch::waits_for, "C", "out, for a blocked world: the channel that its packets wait for"),
    array("depths", &PacketBatch::depths, "V",
          "out, flits that were taken at most, interval by interval, of each channel (where packets are lost: port)"),
    array("interval", &PacketBatch::interval, "W", "out, ps, how long each of these is"),
    array("intervals", &PacketBatch::intervals, "W", "out, how many"),
    array("latencies", &PacketBatch::latencies, "W,B", "out, packets whose latency lies in each bin"),
    array("latency_sum", &PacketBatch::latency_sum, "W", "out, ps"),
    array("latency_most", &PacketBatch::latency_most, "W", "out, ps"),
    array("message_latencies", &PacketBatch::message_latencies, "W,B", "out, the same of messages"),
    array("message_latency_sum", &PacketBatch::message_latency_sum, "W", "out, ps"),
    array("message_latency_most", &PacketBatch::message_latency_most, "W", "out, ps"),
    on_host("status", &PacketBatch::status, "W", "out, Status, also while it runs"),
    count('W', &PacketBatch::worlds),
    count('B', &PacketBatch::bins)};

// Returns the bytes of state that one team needs.
namespace cpu {
int64_t packets(const PacketBatch& batch);
}
namespace cuda {
int64_t packets(const PacketBatch& batch);
}

}  // namespace topoflow
