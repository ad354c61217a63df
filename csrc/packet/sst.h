// One world of packets as the Structural Simulation Toolkit has it: its network (merlin) and its NICs (firefly).
//
// A packet is its head: it is at the end of a link one latency after it was sent, however long it is. A router has
// buffers for each virtual channel at its inputs and at its outputs, and a crossbar with a clock between them:
//
//   link 0 --[VC 0 | VC 1]--+           +--[VC 0 | VC 1]-- link 2     a packet goes from input to output buffer at an
//                           | crossbar  |                             edge of the clock, and over the link a flit later
//   link 1 --[VC 0 | VC 1]--+           +--[VC 0 | VC 1]-- link 3     at the earliest
//
// Nothing is heard of another router for the latency of a link at least, which is a window (world.h). In a window each
// router, with the NICs of its endpoints, does what happens there in the order of time. Of one time an edge of the
// clock comes first, then what `Happening` says.
//
// Source: SST 16, merlin (hr_router, portControl, xbar_arb_lru, linkControl, topology/dragonfly) and firefly (nic,
// nicSendMachine); tests/twins/packet_sst.py states the model.
#pragma once

#include "packet/counts/depths.h"
#include "packet/routing/addresses.h"
#include "packet/routing/draws.h"
#include "tasks.h"

namespace topoflow::BACKEND::packet {

// The machines that send a NIC's messages: one of them only sends gets, which ask for data and have `kGet` B.
// Acknowledgements are messages.
constexpr int32_t kMachines = 2, kGet = 13;

enum Happening : int64_t { kArrives = 0, kCredited = 1, kOffered = 2, kFeeds = 3, kWakes = 4 };
constexpr int32_t kIdBits = 40;  // of an event, for the port or machine; what happens to it is above

// A packet, or a credit of `step` flits.
struct HeadSlot {
  int64_t ready;  // ps, when it is at the other end of a link
  int64_t born;   // ps, when it left its NIC
  int32_t task, step;
  uint32_t number;  // kShort
  int32_t next;     // list of slots
  int32_t channel;  // virtual
};

struct HeadList {
  int32_t first, last;
};

// A virtual channel of a link: the buffer before it (out), and that at its end (in).
struct VirtualLane {
  HeadList out, in;
  int32_t space;          // flits that are free before the link
  int32_t credits;        // and at its end, as is known before it
  int32_t least_credits;  // credits in the last interval (of all time where there are none)
  int32_t to;             // lane of the output that the first packet at its end goes to
  int64_t rank;           // of that packet at the crossbar: who was granted least recently is the first
};

struct HeadPort {
  int64_t free;                // ps, when it has sent its last packet
  int64_t wakes;               // ps, when it looks for a packet next; kNever: it waits for a packet or a credit
  int64_t stalled_since;       // ps, kNever: it is not
  int64_t flit, pass, back;    // ps: of a flit; until a head is at the end of the link; until a credit is back
  int64_t from_busy, to_busy;  // ps, of the crossbar: its input at the end of the link, its output before it
  int64_t packets, bytes, active, stalled;
  HeadList flying, credits;
  uint32_t idle_intervals, idle_1us, idle_1ms;
  int32_t node, end;  // router where it is sent from (of a NIC: that it leads to); where it ends, -1: an endpoint
  int32_t turn;       // the virtual channel that was sent last
  bool has_packets;   // as it last looked
};

// A router and the NICs of its endpoints.
struct HeadNode {
  EventHeap events;
  int64_t edge;           // ps, of the clock, when something may pass the crossbar
  int64_t flit;           // ps, between two edges
  int64_t grants;         // edges at which something has
  int32_t first, active;  // lanes with a packet at their end, by rank
};

// Sends messages of a NIC one after the other.
struct Machine {
  HeadList messages;  // tasks; the first is being sent
  int64_t number;     // of its next packet
  bool is_blocked;    // until there is room before the link
};

struct SstState {
  TaskState tasks;
  int64_t* next;        // [R] ps, when something happens at the router
  HeadNode* node;       // [R]
  Event* heap_storage;  // what the heaps of routers consist of, router by router
  HeadPort* port;       // [N]
  VirtualLane* lane;    // [N * V]
  int32_t* active;      // [N * V]
  int32_t* granted;     // [N]
  int32_t* counted;     // [C] lanes whose buffers at the end are counted
  Machine* machine;     // [N * 2], of NICs
  HeadList* offered;    // [N] tasks whose messages come to a NIC
  Message* message;     // [T]
  int64_t* offer_time;  // [T] ps, when its message comes to the NIC
  int32_t* follows;     // [T] list of tasks
  HeadSlot* slot;
  int64_t bytes;

  HD SstState(Memory memory, const PacketBatch& batch, int32_t world) : tasks(memory, batch, world, Share{}) {
    const auto count = [&](const int64_t* offsets) { return offsets[world + 1] - offsets[world]; };
    const int64_t messages = count(batch.tasks.task_offsets), ports = count(batch.ports.port_offsets);
    const int64_t routers = count(batch.address.router_offsets), lanes = ports * channels(batch, world);
    next = memory.take<int64_t>(routers);
    node = memory.take<HeadNode>(routers);
    heap_storage = memory.take<Event>(6 * ports);
    port = memory.take<HeadPort>(ports);
    lane = memory.take<VirtualLane>(lanes);
    active = memory.take<int32_t>(lanes);
    granted = memory.take<int32_t>(ports);
    counted = memory.take<int32_t>(count(batch.ports.channel_offsets));
    machine = memory.take<Machine>(kMachines * ports);
    offered = memory.take<HeadList>(ports);
    message = memory.take<Message>(messages);
    offer_time = memory.take<int64_t>(messages);
    follows = memory.take<int32_t>(messages);
    slot = memory.take<HeadSlot>(batch.run.slot_total[world]);
    bytes = memory.taken();
  }

  // Virtual channels of a link. Source: topology/dragonfly.cc.
  HD static int32_t channels(const PacketBatch& batch, int32_t world) {
    return batch.address.routing[world] == kMinimal ? 2 : 3;
  }
};

class Sst {
 public:
  DEVICE Sst(const PacketBatch& batch, int32_t world, std::byte* memory)
      : b_(batch),
        world_(world),
        s_(Memory(memory), batch, world),
        tasks_(batch, world, s_.tasks),
        messages_(static_cast<int32_t>(batch.tasks.task_offsets[world + 1] - batch.tasks.task_offsets[world])),
        ports_(static_cast<int32_t>(batch.ports.port_offsets[world + 1] - batch.ports.port_offsets[world])),
        routers_(static_cast<int32_t>(batch.address.router_offsets[world + 1] - batch.address.router_offsets[world])),
        channels_(SstState::channels(batch, world)),
        task_(batch.tasks.task_offsets[world]),
        port_(batch.ports.port_offsets[world]),
        root_(batch.paths.root_offsets[world]),
        channel_(batch.ports.channel_offsets[world]),
        counted_(static_cast<int32_t>(batch.ports.channel_offsets[world + 1] - channel_)),
        full_(batch.model.size / batch.model.flit),
        draws_(batch, world),
        addresses_(batch, world),
        latencies_(batch.out.latencies + int64_t{world} * kLatencyBins),
        depths_(batch, world, counted_) {}

  DEVICE void begin() {
    for (int32_t p = 0; p < ports_; ++p) begin_port(p);
    begin_nodes();
    for (int32_t t = 0; t < messages_; ++t) expect(t);
    tasks_.begin();
  }

  DEVICE void begin_region() {
    latencies_.begin();
    tasks_.begin_first([](int32_t) { return true; });
  }

  // At most this many windows; kRunning: there are more.
  DEVICE Status advance(int32_t windows) {
    for (; windows > 0; --windows) {
      int64_t first = tasks_.time();
      for (int32_t r = 0; r < routers_; ++r) first = s_.next[r] < first ? s_.next[r] : first;
      if (first > b_.run.until[world_]) return kPaused;
      if (first >= kNever / 2) return first < kNever ? kTooLong : ended();
      if (first >= depths_.end()) depths_.write(first, 0, counted_, *this);
      const int64_t end = first + b_.run.window[world_] < depths_.end() ? first + b_.run.window[world_] : depths_.end();
      while (tasks_.time() < end) {
        const Event event = tasks_.pop();
        process_event(event);
        tasks_.serve(event.time);
      }
      for (int32_t r = 0; r < routers_; ++r)
        if (s_.next[r] < end) run_to(r, end);
    }
    return kRunning;
  }

  DEVICE void add_counts() const {
    latencies_.add(b_.out.latencies, b_.out.latency_sum, b_.out.latency_most, world_, 0);
    tasks_.add_latencies(0);
  }

  // Writes what ports and buffers saw.
  DEVICE void end() const {
    for (int32_t c = 0; c < counted_; ++c) {
      const VirtualLane& lane = s_.lane[s_.counted[c]];
      int32_t& fullest = b_.out.fullest[channel_ + c];
      if (max_flits(c) > fullest) fullest = max_flits(c);
      b_.out.waits_for[channel_ + c] =
          lane.in.first == kNone ? kNone : channel_of(lane.to / channels_, lane.to % channels_);
    }
    for (int32_t p = 0; p < ports_; ++p) {
      const HeadPort& port = s_.port[p];
      b_.out.active[port_ + p] = port.active;
      b_.out.stalled[port_ + p] = port.stalled;
      b_.out.port_bytes[port_ + p] = port.bytes;
      b_.out.packets[port_ + p] = port.packets;
      b_.out.idle_intervals[port_ + p] = port.idle_intervals;
      b_.out.idle_1us[port_ + p] = port.idle_1us;
      b_.out.idle_1ms[port_ + p] = port.idle_1ms;
      b_.out.free[port_ + p] = port.free;
    }
    depths_.finish(*this);
  }

 private:
  friend class Depths;

  // Before the first window

  DEVICE void begin_port(int32_t p) {
    HeadPort port{};
    port.stalled_since = port.wakes = kNever;
    port.end = b_.address.end[port_ + p];
    port.node = b_.ports.node[port_ + p];
    const double exact = static_cast<double>(b_.model.flit) * b_.ports.byte_time[port_ + p];
    port.flit = static_cast<int64_t>(exact);
    port.flit += static_cast<double>(port.flit) < exact;
    const int64_t link = b_.ports.latency[port_ + p], input = b_.model.switch_latency / 2,
                  output = b_.model.switch_latency - input;
    const bool from_nic = is_up(p), to_nic = port.end < 0;
    port.pass = link + (from_nic ? 0 : output) + (to_nic ? 0 : input);
    port.back = link + (from_nic ? b_.model.credit_latency - b_.model.credit_latency / 2 : b_.model.credit_latency);
    port.flying = port.credits = {kNone, kNone};
    s_.port[p] = port;
    s_.offered[p] = {kNone, kNone};
    for (int32_t m = 0; m < kMachines; ++m) s_.machine[kMachines * p + m] = {{kNone, kNone}, 0, false};
    const int32_t room = b_.flows.depth[port_ + p];
    for (int32_t v = 0; v < channels_; ++v) {  // at first in the order of the ports of a router
      const int64_t rank = int64_t{b_.ports.first_seen[port_ + p]} * channels_ + v - (int64_t{1} << 40);
      lane_of(p, v) = {{kNone, kNone}, {kNone, kNone}, room, room, room, kNone, rank};
      const int32_t counted = channel_of(p, v);
      if (counted == kNone) continue;
      s_.counted[counted] = p * channels_ + v;
      b_.out.fullest[channel_ + counted] = 0;
    }
  }

  DEVICE void begin_nodes() {
    for (int32_t r = 0; r < routers_; ++r) s_.node[r] = {{nullptr, 0}, kNever, kNever, 0, 0, 0};
    for (int32_t p = 0; p < ports_; ++p) {
      const HeadPort& port = s_.port[p];
      HeadNode& node = s_.node[port.node];
      node.events.size += is_up(p) ? 5 : 2;
      if (port.flit < node.flit) node.flit = port.flit;
      if (port.end < 0) continue;
      HeadNode& end = s_.node[port.end];
      ++end.events.size;
      end.active += channels_;
      if (port.flit < end.flit) end.flit = port.flit;
    }
    Event* free = s_.heap_storage;
    int32_t first = 0;
    for (int32_t r = 0; r < routers_; ++r) {
      HeadNode& node = s_.node[r];
      const int64_t capacity = node.events.size;
      node.events = {free, 0};
      free += capacity;
      node.first = first;
      first += node.active;
      node.active = 0;
      s_.next[r] = kNever;
    }
  }

  DEVICE bool is_up(int32_t p) const { return addresses_.level(p) == kUp; }
  DEVICE VirtualLane& lane_of(int32_t p, int32_t channel) const { return s_.lane[p * channels_ + channel]; }

  // Its number for others; kNone: nobody counts its buffer.
  DEVICE int32_t channel_of(int32_t p, int32_t v) const {
    const int32_t first = b_.address.first_channel[port_ + p];
    return first == kNone || (v > 0 && is_up(p)) ? kNone : first + v;
  }

  // Depths of queues over time (Depths): a column for each buffer at the end of a link

  // Flits at most in the interval that has begun last.
  DEVICE int32_t max_flits(int32_t c) const {
    const int32_t lane = s_.counted[c];
    return b_.flows.depth[port_ + lane / channels_] - s_.lane[lane].least_credits;
  }

  DEVICE void remember(int32_t c, int32_t flits) {
    const int32_t lane = s_.counted[c], credits = b_.flows.depth[port_ + lane / channels_] - flits;
    if (credits < s_.lane[lane].least_credits) s_.lane[lane].least_credits = credits;
  }

  // With the credits that come at this time.
  DEVICE void begin_interval(int32_t c, int64_t now) {
    int32_t& fullest = b_.out.fullest[channel_ + c];
    if (max_flits(c) > fullest) fullest = max_flits(c);
    VirtualLane& lane = s_.lane[s_.counted[c]];
    lane.least_credits = lane.credits;
    int32_t i = s_.port[s_.counted[c] / channels_].credits.first;
    for (; i != kNone && s_.slot[i].ready <= now; i = s_.slot[i].next)
      if (s_.slot[i].channel == s_.counted[c] % channels_) lane.least_credits += s_.slot[i].step;
  }

  // Tasks

  DEVICE void process_event(const Event& event) {
    const int32_t task = tasks_.task(event);
    if (!Tasks::is_offer(event)) return tasks_.finish(task, event.time);
    if (tasks_.repeats()) expect(task);
    offer(task, event.time);
  }

  // All packets of a message.
  DEVICE void expect(int32_t task) {
    s_.message[task] = {(b_.tasks.bytes[task_ + task] + b_.model.size - 1) / b_.model.size, 0, 0, 0, kNone, kNone};
  }

  DEVICE Status ended() const {
    for (int32_t i = 0; i < ports_ * channels_; ++i)
      if (s_.lane[i].in.first != kNone || s_.lane[i].out.first != kNone) return kBlocked;
    return tasks_.have_finished() ? kDone : kDeadlock;
  }

  // What happens at a router and its NICs, until the end of a window

  DEVICE void run_to(int32_t r, int64_t end) {
    HeadNode& node = s_.node[r];
    for (;;) {
      const int64_t time = node.events.time();
      if (node.edge <= time) {
        if (node.edge >= end) break;
        arbitrate(node);
      } else {
        if (time >= end) break;
        process_event(node, node.events.pop());
      }
    }
    s_.next[r] = node.edge < node.events.time() ? node.edge : node.events.time();
  }

  DEVICE void process_event(HeadNode& node, const Event& event) {
    const auto id = static_cast<int32_t>(event.code & ((int64_t{1} << kIdBits) - 1));
    switch (event.code >> kIdBits) {
      case kArrives:
        return arrive(node, id, event.time);
      case kCredited:
        return get_credit(id, event.time);
      case kOffered:
        return take_message(id, event.time);
      case kFeeds:
        return feed(id, event.time);
      default:
        return wake(node, id, event.time);
    }
  }

  DEVICE void schedule(int32_t r, int64_t time, Happening kind, int32_t id) {
    s_.node[r].events.push({time, (int64_t{kind} << kIdBits) + id});
    if (time < s_.next[r]) s_.next[r] = time;
  }

  // NICs

  // The message of a task comes to its NIC. They come in the order of time.
  DEVICE void offer(int32_t task, int64_t time) {
    const int32_t p = b_.paths.root_port[root_ + b_.tasks.first_root[task_ + task]];
    s_.offer_time[task] = time;
    if (append_task(s_.offered[p], task)) schedule(s_.port[p].node, time, kOffered, p);
  }

  DEVICE void take_message(int32_t p, int64_t now) {
    const int32_t task = pop_task(s_.offered[p]);
    const int32_t next = s_.offered[p].first;
    if (next != kNone) schedule(s_.port[p].node, s_.offer_time[next], kOffered, p);
    const int32_t m = kMachines * p + (b_.tasks.bytes[task_ + task] <= kGet);
    if (append_task(s_.machine[m].messages, task)) begin_message(m, now);
  }

  DEVICE void begin_message(int32_t m, int64_t now) {
    s_.machine[m].number = 0;
    schedule(s_.port[m / kMachines].node, now + (m % kMachines == 0 ? b_.model.setup : 0), kFeeds, m);
  }

  // A machine puts what there is room for into the buffer before the link.
  DEVICE void feed(int32_t m, int64_t now) {
    Machine& machine = s_.machine[m];
    const int32_t p = m / kMachines, task = machine.messages.first;
    HeadPort& port = s_.port[p];
    VirtualLane& lane = lane_of(p, 0);
    const int64_t bytes = b_.tasks.bytes[task_ + task], packets = (bytes + b_.model.size - 1) / b_.model.size;
    machine.is_blocked = false;
    for (; machine.number < packets; ++machine.number) {
      const bool is_short = bytes % b_.model.size != 0 && machine.number == packets - 1;
      const uint32_t number = (static_cast<uint32_t>(machine.number) & kNumber) | (is_short ? kShort : 0);
      const int32_t size = size_of(task, number);
      if (lane.space < size) {
        machine.is_blocked = true;
        return;
      }
      lane.space -= size;
      append(lane.out, take_slot({0, 0, task, 0, number, kNone, 0}));
      if (port.wakes == kNever && !port.has_packets) wake_at(p, now + port.flit);
    }
    pop_task(machine.messages);
    if (machine.messages.first != kNone) begin_message(m, now);
  }

  // Outputs

  DEVICE void wake_at(int32_t p, int64_t time) {
    s_.port[p].wakes = time;
    schedule(s_.port[p].node, time, kWakes, p);
  }

  DEVICE void get_credit(int32_t p, int64_t now) {
    HeadPort& port = s_.port[p];
    const int32_t i = pop(port.credits);
    lane_of(p, s_.slot[i].channel).credits += s_.slot[i].step;
    free_slot(i);
    if (port.credits.first != kNone) schedule(port.node, s_.slot[port.credits.first].ready, kCredited, p);
    if (port.wakes == kNever) wake_at(p, now + port.flit);
  }

  // The output sends a packet of the next virtual channel that has one and credits for it, or waits for these.
  DEVICE void wake(HeadNode& node, int32_t p, int64_t now) {
    HeadPort& port = s_.port[p];
    port.wakes = kNever;
    port.has_packets = false;
    for (int32_t i = 0; i < channels_; ++i) {
      port.turn = port.turn + 1 == channels_ ? 0 : port.turn + 1;
      VirtualLane& lane = lane_of(p, port.turn);
      if (lane.out.first == kNone) continue;
      port.has_packets = true;
      const int32_t size = size_of(s_.slot[lane.out.first]);
      if (port.end >= 0 && lane.credits < size) continue;
      send(p, lane, size, now);
      if (is_up(p)) {
        for (int32_t m = 0; m < kMachines; ++m)
          if (s_.machine[kMachines * p + m].is_blocked) feed(kMachines * p + m, now);
      } else {
        try_at_next_edge(node, now);
      }
      return;
    }
    if (port.has_packets && port.stalled_since == kNever) port.stalled_since = now;
  }

  DEVICE void send(int32_t p, VirtualLane& lane, int32_t size, int64_t now) {
    HeadPort& port = s_.port[p];
    const int32_t i = pop(lane.out);
    HeadSlot& packet = s_.slot[i];
    const int64_t idle = (now < port.stalled_since ? now : port.stalled_since) - port.free;
    port.idle_intervals += idle > 0;
    port.idle_1us += idle > kMicrosecond;
    port.idle_1ms += idle > kMillisecond;
    if (port.stalled_since != kNever) port.stalled += now - port.stalled_since;
    port.stalled_since = kNever;
    port.free = now + size * port.flit;
    port.active += size * port.flit;
    ++port.packets;
    port.bytes += packet.number & kShort ? short_bytes(packet.task) : b_.model.size;
    lane.space += size;
    wake_at(p, port.free);
    if (is_up(p)) packet.born = now;
    packet.ready = now + port.pass;
    if (port.end < 0) {
      deliver(packet);
      free_slot(i);
      return;
    }
    lane.credits -= size;
    if (lane.credits < lane.least_credits) lane.least_credits = lane.credits;
    if (append(port.flying, i)) schedule(port.end, packet.ready, kArrives, p);
  }

  // The first packet of a message is matched before the message can have arrived.
  DEVICE void deliver(const HeadSlot& packet) {
    latencies_.count(packet.ready - packet.born);
    Message& message = s_.message[packet.task];
    const bool is_first = (packet.number & kNumber) == 0;
    const int64_t arrival = packet.ready + (is_first ? b_.model.match : 0);
    if (arrival > message.arrival) message.arrival = arrival;
    if (--message.left == 0) tasks_.push(tasks_.finished(packet.task, message.arrival + b_.model.nic_latency));
  }

  // Inputs and the crossbar

  DEVICE void arrive(HeadNode& node, int32_t p, int64_t now) {
    HeadPort& port = s_.port[p];
    const int32_t i = pop(port.flying);
    if (port.flying.first != kNone) schedule(port.end, s_.slot[port.flying.first].ready, kArrives, p);
    const int32_t lane = p * channels_ + s_.slot[i].channel;
    if (!append(s_.lane[lane].in, i)) return;
    on_new_head(node, lane);
    try_at_next_edge(node, now);
  }

  DEVICE static void try_at_next_edge(HeadNode& node, int64_t now) {
    if (node.active == 0) return;
    const int64_t edge = (now / node.flit + 1) * node.flit;
    if (edge < node.edge) node.edge = edge;
  }

  // A packet has become the first at the end of its lane: its route is decided, and it takes part in the arbitration.
  DEVICE void on_new_head(HeadNode& node, int32_t lane) {
    s_.lane[lane].to = route(lane / channels_, lane % channels_, s_.slot[s_.lane[lane].in.first]);
    int32_t* const active = s_.active + node.first;
    int32_t at = node.active++;
    for (; at > 0 && s_.lane[active[at - 1]].rank > s_.lane[lane].rank; --at) active[at] = active[at - 1];
    active[at] = lane;
  }

  // An edge of the clock: in the order of their ranks, packets whose input and output are free and for which there is
  // room pass. Of those that were granted at one edge the first is the last from then on.
  DEVICE void arbitrate(HeadNode& node) {
    const int64_t now = node.edge;
    int32_t* const active = s_.active + node.first;
    int32_t granted = 0, remaining = 0;
    for (int32_t i = 0; i < node.active; ++i) {
      const int32_t lane = active[i], to = s_.lane[lane].to;
      HeadPort &from = s_.port[lane / channels_], &out = s_.port[to / channels_];
      const int32_t size = size_of(s_.slot[s_.lane[lane].in.first]);
      if (from.from_busy > now || out.to_busy > now || s_.lane[to].space < size) {
        active[remaining++] = lane;
        continue;
      }
      from.from_busy = out.to_busy = now + size * node.flit;
      s_.lane[lane].rank = (node.grants << 16) + (1 << 16) - 1 - granted;
      int32_t at = granted++;  // they pass in the order of the ports of the router
      const int32_t place = b_.ports.first_seen[port_ + lane / channels_];
      for (; at > 0 && b_.ports.first_seen[port_ + s_.granted[at - 1] / channels_] > place; --at)
        s_.granted[at] = s_.granted[at - 1];
      s_.granted[at] = lane;
    }
    node.grants += granted > 0;
    node.active = remaining;
    for (int32_t i = 0; i < granted; ++i) cross(node, s_.granted[i], now);
    node.edge = kNever;
    for (int32_t i = 0; i < node.active; ++i) {
      const int32_t lane = active[i], to = s_.lane[lane].to;
      if (s_.lane[to].space < size_of(s_.slot[s_.lane[lane].in.first])) continue;  // until the output sends
      int64_t soonest = now + node.flit;
      const int64_t from = s_.port[lane / channels_].from_busy, out = s_.port[to / channels_].to_busy;
      if (from > soonest) soonest = from;
      if (out > soonest) soonest = out;
      if (soonest < node.edge) node.edge = soonest;
    }
  }

  // The first packet at the end of a lane goes to its output, and the credit for it back.
  DEVICE void cross(HeadNode& node, int32_t from, int64_t now) {
    VirtualLane &lane = s_.lane[from], &to = s_.lane[lane.to];
    const int32_t p = from / channels_, out = lane.to / channels_, channel = lane.to % channels_;
    HeadPort& port = s_.port[p];
    const int32_t i = pop(lane.in), size = size_of(s_.slot[i]);
    if (lane.in.first != kNone) on_new_head(node, from);
    const int32_t credit = take_slot({now + port.back, 0, kNone, size, 0, kNone, from % channels_});
    if (append(port.credits, credit)) schedule(port.node, now + port.back, kCredited, p);
    to.space -= size;
    s_.slot[i].channel = channel;
    append(to.out, i);
    if (s_.port[out].wakes == kNever) wake_at(out, now + s_.port[out].flit);
  }

  // Routes

  // The lane by which a packet leaves the router at the end of `p`.
  DEVICE int32_t route(int32_t p, int32_t channel, HeadSlot& packet) const {
    const int32_t router = s_.port[p].end, root = b_.tasks.first_root[task_ + packet.task];
    const int32_t endpoint = b_.paths.root_next[root_ + root], target = addresses_.router_of(endpoint);
    const int32_t cable = b_.paths.root_source[root_ + root] % addresses_.cables, level = addresses_.level(p);
    const bool at_home = router / addresses_.routers == target / addresses_.routers;  // in the group of the target
    int32_t next = channel;
    if (level == kUp) {
      packet.step = first_step(router, target, packet, cable);
    } else {
      next += level == kBetweenGroups || (at_home && router != target);
      const int32_t step = packet.step;
      if (addresses_.is_at_middle(router, step)) packet.step = Addresses::step_by(kNone, Addresses::cable(step));
      if (addresses_.routing == kAdaptive && level == kBetweenGroups && !at_home)
        packet.step = emptier(router, target, kNone, cable, channel).step;
    }
    const int32_t out = addresses_.next(router, endpoint, packet.step);
    return out * channels_ + next;
  }

  DEVICE int32_t first_step(int32_t router, int32_t target, const HeadSlot& packet, int32_t cable) const {
    const int32_t direct = Addresses::step_by(kNone, cable);
    if (router == target || addresses_.routing == kMinimal) return direct;
    const int32_t middle = draw_middle(router, target, packet), source_group = router / addresses_.routers;
    if (source_group == target / addresses_.routers) {
      const int32_t around = Addresses::step_by(middle, cable), place = middle - addresses_.groups;
      if (place == target % addresses_.routers) return direct;
      if (addresses_.routing == kValiant) return around;
      const int32_t one = free_before(*addresses_.across(router, target % addresses_.routers), 0);
      return goes_around(free_before(*addresses_.across(router, place), 0), one) ? around : direct;
    }
    if (addresses_.routing == kValiant) return middle == kNone ? direct : Addresses::step_by(middle, cable);
    const Choice best = emptier(router, target, kNone, cable, 0);
    if (middle == kNone) return best.step;
    const Choice other = emptier(router, target, middle, cable, 0);
    return goes_around(other.free, best.free) ? other.step : best.step;
  }

  // Another group than both; inside a group another router than that of the source. kNone: there is none.
  DEVICE int32_t draw_middle(int32_t router, int32_t target, const HeadSlot& packet) const {
    const uint32_t word = draws_.of(kPurpose, tasks_.number(packet.task), packet.number & kNumber, kAtSource).word[1];
    const int32_t size = addresses_.routers, place_in_group = router % size;
    if (router / size != target / size) return addresses_.draw_middle(router, target, word);
    const int32_t place = below(word, size - 1);
    return addresses_.groups + place + (place >= place_in_group);
  }

  struct Choice {
    int32_t step, free;  // flits
  };

  // Towards a group, by the cable of the source or by the next one, unless there is more room before the first.
  DEVICE Choice emptier(int32_t router, int32_t target, int32_t middle, int32_t cable, int32_t channel) const {
    const int32_t group = middle == kNone ? target / addresses_.routers : middle;
    const int32_t next = (cable + 1) % addresses_.cables;
    const int32_t one = free_before(*addresses_.towards(router, group, cable), channel);
    const int32_t two = free_before(*addresses_.towards(router, group, next), channel);
    return one > two ? Choice{Addresses::step_by(middle, cable), one} : Choice{Addresses::step_by(middle, next), two};
  }

  DEVICE int32_t free_before(int32_t p, int32_t channel) const { return lane_of(p, channel).space; }

  DEVICE bool goes_around(int32_t around, int32_t direct) const {
    return around > static_cast<int64_t>(static_cast<double>(direct) * b_.model.threshold);
  }

  // Packets, lists and slots

  DEVICE int32_t size_of(const HeadSlot& packet) const { return size_of(packet.task, packet.number); }
  DEVICE int32_t size_of(int32_t task, uint32_t number) const {
    return number & kShort ? (short_bytes(task) + b_.model.flit - 1) / b_.model.flit : full_;
  }
  DEVICE int32_t short_bytes(int32_t task) const {
    return static_cast<int32_t>(b_.tasks.bytes[task_ + task] % b_.model.size);
  }

  // Returns whether it is the first.
  DEVICE bool append(HeadList& list, int32_t i) const {
    s_.slot[i].next = kNone;
    const bool is_first = list.first == kNone;
    (is_first ? list.first : s_.slot[list.last].next) = i;
    list.last = i;
    return is_first;
  }

  DEVICE int32_t pop(HeadList& list) const {
    const int32_t i = list.first;
    list.first = s_.slot[i].next;
    return i;
  }

  DEVICE bool append_task(HeadList& list, int32_t task) const {
    s_.follows[task] = kNone;
    const bool is_first = list.first == kNone;
    (is_first ? list.first : s_.follows[list.last]) = task;
    list.last = task;
    return is_first;
  }

  DEVICE int32_t pop_task(HeadList& list) const {
    const int32_t task = list.first;
    list.first = s_.follows[task];
    return task;
  }

  DEVICE int32_t take_slot(const HeadSlot& content) {
    const int32_t recycled = free_slot_;
    const int32_t i = recycled == kNone ? slots_++ : recycled;
    if (recycled != kNone) free_slot_ = s_.slot[i].next;
    s_.slot[i] = content;
    return i;
  }

  DEVICE void free_slot(int32_t i) {
    s_.slot[i].next = free_slot_;
    free_slot_ = i;
  }

  const PacketBatch& b_;
  int32_t world_;
  SstState s_;
  Tasks tasks_;
  int32_t messages_, ports_, routers_, channels_;
  int64_t task_, port_, root_, channel_;  // the first
  int32_t counted_;                       // channels
  int32_t full_;                          // flits of a packet of the full size
  Draws draws_;
  Addresses addresses_;
  Latencies latencies_;
  Depths depths_;
  int32_t free_slot_ = kNone, slots_ = 0;  // list of free slots; those from this number on have never been taken
};

}  // namespace topoflow::BACKEND::packet
