// One world of packets, by windows of time.
//
// What a port does is seen by others one link later at the earliest: a packet by the port that sends it next, a credit
// by the port that sends into the buffer, the end of a message by the tasks that wait for it. The least of these times
// is a window. In a window, ports do not depend on each other: each sends what it can, to its end, one port after the
// other, in any order. There are no events but those of tasks.
//
//   next: 4 ports, 2 of them have something to send in a window of 600 ns that begins with the first
//     before   120   never    480   2000
//     after   1400     780   1135   2000      the first two sent to each other's queues; 780 is such a packet's head
//
// Where a channel has one queue for several ports, what one port sends makes way for another at once. Then ports take
// turns in the order of their times.
//
// Source: conservative parallel simulation with lookahead, Chandy and Misra, "Distributed simulation", IEEE Trans.
// Software Engineering SE-5(5), 1979; the model is stated in topoflow/engine/packet/reference.py.
#pragma once

#include "addresses.h"
#include "parallel/random.h"
#include "state.h"

namespace topoflow::BACKEND::packet {

constexpr int64_t kMicrosecond = 1'000'000, kMillisecond = 1'000'000'000;  // ps
constexpr uint32_t kPurpose = 0x50415448;  // "PATH": another purpose with the same seed draws other numbers
constexpr uint32_t kAtNic = ~uint32_t{0};  // the branch of a packet that chooses its first port

// kUsual: paths, virtual output queues and round robin; then nothing asks for each packet whether the world is so.
template <bool kUsual>
class World {
 public:
  DEVICE World(const PacketBatch& batch, int32_t world, std::byte* memory)
      : b_(batch),
        world_(world),
        s_(Memory(memory), batch, world),
        tasks_(static_cast<int32_t>(batch.task_offsets[world + 1] - batch.task_offsets[world])),
        ports_(static_cast<int32_t>(batch.port_offsets[world + 1] - batch.port_offsets[world])),
        task_(batch.task_offsets[world]),
        port_(batch.port_offsets[world]),
        window_(batch.window[world]),
        full_(batch.size / batch.flit),
        seed_(static_cast<uint64_t>(batch.seed[world])),
        root_(batch.root_offsets[world]),
        edge_(batch.edge_offsets[world]),
        branch_(batch.branch_offsets[world]),
        channel_(batch.channel_offsets[world]),
        addresses_(batch, world),
        routers_(by_address() ? static_cast<int32_t>((batch.inside_offsets[world + 1] - batch.inside_offsets[world]) /
                                                     batch.routers[world])
                              : 0) {}

  DEVICE void begin() {
    s_.begin();
    for (int32_t p = 0; p < ports_; ++p) begin_port(p);
    begin_buffers();
    begin_queues();
    for (int64_t bin = 0; bin < kLatencyBins; ++bin) b_.latencies[world_ * kLatencyBins + bin] = 0;
    b_.latency_sum[world_] = b_.latency_most[world_] = 0;
    begin_messages();
    for (int32_t t = 0; t < tasks_; ++t)
      if (s_.pending[t] == 0) ready(t, 0);
  }

  // At most this many windows; kRunning: there are more.
  DEVICE Status advance(int32_t windows) {
    for (; windows > 0; --windows) {
      int64_t first = s_.events->time();
      for (int32_t p = 0; p < ports_; ++p) first = s_.next[p] < first ? s_.next[p] : first;
      for (int32_t r = 0; r < arriving(); ++r) first = s_.arrives[r] < first ? s_.arrives[r] : first;
      if (first > b_.until[world_]) return kPaused;
      if (first >= kNever / 2) return first < kNever ? kTooLong : ended();
      const int64_t end = first + window_;
      while (s_.events->time() < end) happen(s_.events->pop());
      for (int32_t r = 0; r < arriving(); ++r)
        if (s_.arrives[r] < end) come_to(r, end);
      if (output_queues()) {
        send_all(end);
      } else if (ports_ > 0) {
        for (int32_t p = earliest(); s_.next[p] < end; p = earliest()) try_once(p);
      }
    }
    return kRunning;
  }

  // Writes what ports and buffers saw.
  DEVICE void end() const {
    for (int32_t p = 0; p < ports_; ++p) {
      const Port& port = s_.port[p];
      b_.active[port_ + p] = (port.packets - port.short_packets) * port.full_time + port.short_time;
      b_.stalled[port_ + p] = port.stalled;
      b_.port_bytes[port_ + p] = (port.packets - port.short_packets) * b_.size + port.short_bytes;
      b_.packets[port_ + p] = port.packets;
      b_.idle_intervals[port_ + p] = port.idle_intervals;
      b_.idle_1us[port_ + p] = port.idle_1us;
      b_.idle_1ms[port_ + p] = port.idle_1ms;
      b_.free[port_ + p] = port.free;
    }
    const int64_t first = b_.channel_offsets[world_], channels = b_.channel_offsets[world_ + 1] - first;
    for (int64_t c = 0; c < channels; ++c) {
      b_.fullest[first + c] = b_.buffer[first + c] - s_.channel[c].least;
      b_.waits_for[first + c] = kNone;
    }
    for (int32_t p = 0; p < ports_; ++p) {
      const Port& port = s_.port[p];
      if (!has_packets(port)) continue;
      for (int32_t place = 0; place < port.queues; ++place) {
        if (!is_occupied(port, place)) continue;
        const Queue& queue = s_.queue[queue_at(port, place)];
        int32_t& waits = b_.waits_for[first + queue.channel];
        if (waits == kNone) waits = queue.after;
      }
    }
  }

 private:
  DEVICE bool output_queues() const { return kUsual || b_.output_queues; }
  DEVICE bool by_age() const { return !kUsual && b_.by_age; }

  // Before the first window

  DEVICE void begin_port(int32_t p) {
    const int64_t row = b_.port_queues[port_ + p];
    const auto queues = static_cast<int32_t>(b_.port_queues[port_ + p + 1] - row);
    Port port{};
    port.latency = b_.latency[port_ + p];
    port.byte_time = b_.byte_time[port_ + p];
    port.full_time = time(port, full_);
    port.stalled_since = kNever;
    port.queues = queues;
    port.first_queue = static_cast<int32_t>(row - b_.port_queues[port_]);
    port.first = port.last = port.coming = port.last_coming = kNone;
    s_.port[p] = port;
    s_.next[p] = kNever;
    if (!port.is_large()) return;
    uint64_t* const words = s_.occupied + first_word(s_.port[p]);
    for (int32_t word = 0; word < (queues + 63) / 64; ++word) words[word] = 0;
  }

  DEVICE void begin_buffers() {
    const int64_t first = b_.channel_offsets[world_], channels = b_.channel_offsets[world_ + 1] - first;
    for (int64_t c = 0; c < channels; ++c) {
      const int32_t room = b_.buffer[first + c], p = b_.channel_port[first + c];
      s_.channel[c] = {kNever, s_.port[p].latency + b_.credit_latency, room, room, kNone, p, false};
    }
    if (by_address()) begin_by_address();
  }

  // By address a queue begins with its first packet: of the many of a large network, few pages are ever touched.
  DEVICE void begin_queues() {
    if (by_address()) return;
    const int64_t first = b_.queue_offsets[world_], queues = b_.queue_offsets[world_ + 1] - first;
    for (int64_t q = 0; q < queues; ++q)
      s_.queue[q] = {kNever, 0, kNone, kNone, 0, 0, kNone, b_.queue_channel[first + q]};
    const int64_t edges = b_.edge_offsets[world_ + 1] - edge_;
    for (int64_t e = 0; e < edges; ++e) {
      s_.edge[e] = {b_.edge_queue[edge_ + e], b_.edge_next[edge_ + e]};
      Queue& queue = s_.queue[s_.edge[e].queue];
      lead(queue, static_cast<int32_t>(e));
      queue.delay = delay(s_.port[s_.channel[queue.channel].port], s_.port[queue.port], full_);
    }
  }

  // The head of a queue takes this edge.
  DEVICE void lead(Queue& queue, int32_t edge) const {
    queue.port = b_.edge_port[edge_ + edge];
    queue.turn = b_.edge_turn[edge_ + edge];
    queue.after = b_.edge_channel[edge_ + edge];
  }

  DEVICE void begin_messages() {
    int32_t senders = 0;
    for (int32_t t = 0; t < tasks_; ++t) {
      const int64_t bytes = b_.bytes[task_ + t], packets = (bytes + b_.size - 1) / b_.size;
      s_.message[t] = {packets, 0};
      s_.first_sender[t] = senders;
      s_.pending[t] = b_.pending[task_ + t];
      b_.start[task_ + t] = b_.finish[task_ + t] = kNever;
      const int32_t first = b_.first_root[task_ + t], roots = b_.roots[task_ + t];
      for (int32_t root = first; root < first + roots; ++root)
        s_.sender[senders++] = {kNever,
                                -1,
                                packets,
                                b_.pace[task_ + t],
                                t,
                                root,
                                first,
                                roots,
                                b_.root_channel[root_ + root],
                                b_.root_next[root_ + root],
                                kNone,
                                bytes % b_.size != 0};
    }
  }

  // Tasks

  DEVICE void ready(int32_t task, int64_t time) {
    const int64_t released = b_.release[task_ + task], begin = time > released ? time : released;
    b_.start[task_ + task] = begin;
    const bool sends = s_.message[task].left > 0;
    s_.events->push({begin + b_.delay[task_ + task] + (sends ? b_.nic_latency : 0), 2 * int64_t{task} + !sends});
  }

  DEVICE void happen(const Event& event) {
    const auto task = static_cast<int32_t>(event.what / 2);
    if (event.what % 2 == 0) {
      const int32_t first = s_.first_sender[task];
      for (int32_t i = 0; i < b_.roots[task_ + task]; ++i) offer_next(first + i, event.time);
      return;
    }
    b_.finish[task_ + task] = event.time;
    for (int64_t i = b_.follower_offsets[task_ + task]; i < b_.follower_offsets[task_ + task + 1]; ++i) {
      const int32_t follower = b_.followers[i];
      if (--s_.pending[follower] == 0) ready(follower, event.time);
    }
  }

  // Whether everything has finished, nothing being left that could happen.
  DEVICE Status ended() const {
    for (int32_t p = 0; p < ports_; ++p)
      if (has_packets(s_.port[p])) return kBlocked;
    for (int32_t t = 0; t < tasks_; ++t)
      if (b_.finish[task_ + t] == kNever) return kDeadlock;
    return kDone;
  }

  // NICs

  // The next packet of a sender, if there is one, waits for its turn: from `time` on, or later where it is paced.
  DEVICE void offer_next(int32_t i, int64_t time) {
    Sender& sender = s_.sender[i];
    const int64_t before = sender.number;
    if (advance(sender)) offer(i, time + sender.pace * (sender.number - (before < 0 ? 0 : before)));
  }

  // Goes to the next packet that takes this root.
  DEVICE bool advance(Sender& sender) const {
    do {
      ++sender.number;
    } while (sender.roots > 1 && sender.number < sender.packets &&
             drawn(b_.root_bound + root_, sender.first_root, sender.task, sender.number, kAtNic) != sender.root);
    return sender.number < sender.packets;
  }

  DEVICE void offer(int32_t i, int64_t time) {
    Sender& sender = s_.sender[i];
    const int32_t p = b_.root_port[root_ + sender.root];
    Port& port = s_.port[p];
    sender.time = time;
    int32_t* at = &port.coming;  // by time, then sender
    if (port.coming != kNone && comes_before(port.last_coming, i)) at = &s_.sender[port.last_coming].next;
    while (*at != kNone && comes_before(*at, i)) at = &s_.sender[*at].next;
    sender.next = *at;
    *at = i;
    if (sender.next == kNone) port.last_coming = i;
    port.occupied |= 1;
    if (time < s_.next[p]) s_.next[p] = time;
  }

  DEVICE bool comes_before(int32_t one, int32_t other) const {
    const int64_t time = s_.sender[one].time, later = s_.sender[other].time;
    return time < later || (time == later && one < other);
  }

  DEVICE void append(Port& port, int32_t i) {
    s_.sender[i].next = kNone;
    (port.first == kNone ? port.first : s_.sender[port.last].next) = i;
    port.last = i;
  }

  DEVICE void prepend(Port& port, int32_t i) {
    if (port.first == kNone) port.last = i;
    s_.sender[i].next = port.first;
    port.first = i;
  }

  // Whether the NIC has a packet that can be sent at `now`; else `soonest` is at most when it may have one.
  DEVICE bool nic_can_send(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    while (port.coming != kNone && s_.sender[port.coming].time <= now) {
      const int32_t i = port.coming;
      port.coming = s_.sender[i].next;
      append(port, i);
    }
    if (port.first == kNone) {
      if (port.coming != kNone && s_.sender[port.coming].time < soonest) soonest = s_.sender[port.coming].time;
      return false;
    }
    waits = true;
    const Sender& sender = s_.sender[port.first];
    if (sender.channel == kNone) return true;
    const Channel& channel = s_.channel[sender.channel];
    return channel.room >= full_ || has_room(sender.channel, size_of(sender.task, number_of(sender)), now, soonest);
  }

  DEVICE static uint32_t number_of(const Sender& sender) {
    const bool is_short = sender.ends_short && sender.number == sender.packets - 1;
    return (static_cast<uint32_t>(sender.number) & ~kShort) | (is_short ? kShort : 0);
  }

  DEVICE Packet leave_nic(Port& port, int64_t now) {
    const int32_t i = port.first;
    Sender& sender = s_.sender[i];
    port.first = sender.next;
    const Packet packet{now, sender.task, sender.step, number_of(sender), kNone};
    const int64_t before = sender.number;
    if (advance(sender)) {
      if (sender.pace > 0) {
        offer(i, now + sender.pace * (sender.number - before));
      } else {
        sender.time = now;
        b_.in_order ? prepend(port, i) : append(port, i);
      }
    }
    if (port.first != kNone)
      prefetch(&s_.sender[port.first]);
    else if (port.coming == kNone)
      port.occupied &= ~uint64_t{1};
    return packet;
  }

  // Branches

  // Random numbers of a packet for a branch.
  DEVICE Words words(int32_t task, int64_t number, uint32_t branch) const {
    const auto place = static_cast<uint32_t>(b_.by_message ? 0 : number) & ~kShort;
    return philox(Words{{kPurpose, static_cast<uint32_t>(task), place, branch}}, static_cast<uint32_t>(seed_),
                  static_cast<uint32_t>(seed_ >> 32));
  }

  // The first of the rows from `first` on whose bound is not less than what a packet draws.
  DEVICE int32_t drawn(const int32_t* bound, int32_t first, int32_t task, int64_t number, uint32_t branch) const {
    const uint32_t drawn = words(task, number, branch).word[0];
    int32_t row = first;
    while (static_cast<uint32_t>(bound[row]) < drawn) ++row;
    return row;
  }

  // The edge that a packet takes where `next` is what follows (batch.h).
  DEVICE int32_t taken_edge(int32_t next, const Packet& packet) const {
    if (next >= 0) return next;
    const int32_t branch = -2 - next;
    const auto first = static_cast<int32_t>(b_.branch_edges[branch_ + branch] - b_.branch_edges[branch_]);
    return drawn(b_.edge_bound + edge_, first, packet.task, packet.number, static_cast<uint32_t>(branch));
  }

  // Buffers

  // Flits of a packet.
  DEVICE int32_t size_of(int32_t task, uint32_t number) const {
    return number & kShort ? (short_bytes(task) + b_.flit - 1) / b_.flit : full_;
  }

  DEVICE int32_t size_of_head(const Queue& queue) const {
    const Packet& head = s_.slot[queue.head].packet;
    return size_of(head.task, head.number);
  }

  DEVICE int32_t short_bytes(int32_t task) const { return static_cast<int32_t>(b_.bytes[task_ + task] % b_.size); }

  DEVICE bool has_room(int32_t channel, int32_t needed, int64_t now, int64_t& soonest) {
    Channel& c = s_.channel[channel];
    if (c.room >= needed) return true;
    collect(c, now);
    if (c.room >= needed) return true;
    c.starved = true;
    if (c.credit_time < soonest) soonest = c.credit_time;
    return false;
  }

  // Takes the credits that are back by `now`.
  DEVICE void collect(Channel& c, int64_t now) {
    if (c.credit_time > now) return;
    c.credit_time = kNever;
    int32_t* at = &c.credits;
    while (*at != kNone) {
      const int32_t i = *at;
      Slot& slot = s_.slot[i];
      if (slot.ready > now) {
        if (slot.ready < c.credit_time) c.credit_time = slot.ready;
        at = &slot.packet.next;
        continue;
      }
      *at = slot.packet.next;
      c.room += slot.packet.step;
      free_slot(i);
    }
  }

  DEVICE void take_room(Channel& c, int32_t flits, int64_t now) {
    c.starved = false;
    c.room -= flits;
    if (c.room < c.least) {
      collect(c, now);
      if (c.room < c.least) c.least = c.room;
    }
  }

  DEVICE void give_back(Channel& c, int32_t flits, int64_t gone) {
    const int64_t back = gone + c.credit_delay;
    const int32_t slot = take_slot();
    s_.slot[slot] = {back, {0, kNone, flits, 0, c.credits}};
    c.credits = slot;
    if (back < c.credit_time) c.credit_time = back;
    if (c.starved && back < s_.next[c.port]) s_.next[c.port] = back;
  }

  // Slots

  DEVICE int32_t take_slot() {
    const int32_t slot = free_slot_;
    if (slot == kNone) return slots_++;
    free_slot_ = s_.slot[slot].packet.next;
    return slot;
  }

  DEVICE void free_slot(int32_t slot) {
    s_.slot[slot].packet.next = free_slot_;
    free_slot_ = slot;
  }

  // Ports

  DEVICE int64_t time(const Port& port, int32_t flits) const {
    const double exact = static_cast<double>(flits * int64_t{b_.flit}) * port.byte_time;
    const auto whole = static_cast<int64_t>(exact);
    return whole + (static_cast<double>(whole) < exact);
  }

  // Where the words of a large port begin. Those of the ports before it have q queues, so at most p + q / 64 words.
  DEVICE int64_t first_word(const Port& port) const { return &port - s_.port + port.first_queue / 64; }

  DEVICE int32_t queue_at(const Port& port, int32_t place) const {
    return output_queues() ? port.first_queue + place : b_.queues[b_.port_queues[port_] + port.first_queue + place];
  }

  // Whether packets wait for the port, but for those of the NIC.
  DEVICE static bool has_packets(const Port& port) { return port.occupied > 1; }

  DEVICE bool is_occupied(const Port& port, int32_t place) const {
    if (!port.is_large()) return port.occupied >> (place + 1) & 1;
    return s_.occupied[first_word(port) + place / 64] >> (place % 64) & 1;
  }

  // The first of the queues from..to-1 of a port whose head can be sent at `now`, else kNone.
  DEVICE int32_t first_queue(const Port& port, int32_t from, int32_t to, int64_t now, int64_t& soonest, bool& waits) {
    const uint64_t own = port.occupied >> 1, *const words = port.is_large() ? s_.occupied + first_word(port) : &own;
    for (int32_t i = from / 64; i * 64 < to; ++i) {
      uint64_t word = words[i];
      if (i * 64 < from) word &= ~uint64_t{0} << (from % 64);
      for (; word; word &= word - 1) {
        const int32_t place = i * 64 + lowest_bit(word);
        if (place >= to) break;
        if (can_send(s_.queue[queue_at(port, place)], now, soonest, waits)) return place;
      }
    }
    return kNone;
  }

  // Whether the head of a queue can be sent at `now`; else `soonest` is at most when it may be.
  DEVICE bool can_send(const Queue& queue, int64_t now, int64_t& soonest, bool& waits) {
    if (queue.ready > now) {
      if (queue.ready < soonest) soonest = queue.ready;
      return false;
    }
    waits = true;
    if (queue.after == kNone || s_.channel[queue.after].room >= full_) return true;
    return has_room(queue.after, size_of_head(queue), now, soonest);
  }

  // Whose turn it is at `now`, by round robin; kNone: nobody can send before `soonest`. `waits`: a packet is ready.
  DEVICE int32_t choose(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    if (by_age()) return oldest(port, now, soonest, waits);
    const int32_t turn = port.turn;
    if (port.is_large()) return choose_of_many(port, turn, now, soonest, waits);
    for (uint64_t word = rotated(port.occupied, turn); word; word &= word - 1) {
      const int32_t place = (lowest_bit(word) + turn) & 63;
      if (place == 0 ? nic_can_send(port, now, soonest, waits)
                     : can_send(s_.queue[queue_at(port, place - 1)], now, soonest, waits))
        return place;
    }
    return kNone;
  }

  DEVICE int32_t choose_of_many(Port& port, int32_t turn, int64_t now, int64_t& soonest, bool& waits) {
    if (turn > 0) {
      const int32_t place = first_queue(port, turn - 1, port.queues, now, soonest, waits);
      if (place != kNone) return place + 1;
    }
    if (nic_can_send(port, now, soonest, waits)) return 0;
    const int32_t place = first_queue(port, 0, turn > 0 ? turn - 1 : port.queues, now, soonest, waits);
    return place == kNone ? kNone : place + 1;
  }

  // The same by age: the packet that left its NIC first, of equally old ones that of the first queue.
  DEVICE int32_t oldest(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    int32_t found = kNone;
    int64_t born = kNever;
    for (int32_t place = 0; place != kNone && place < port.queues;) {
      place = first_queue(port, place, port.queues, now, soonest, waits);
      if (place == kNone) break;
      const int64_t since = s_.slot[s_.queue[queue_at(port, place)].head].packet.born;
      ++place;
      if (since < born) {
        born = since;
        found = place;
      }
    }
    return found == kNone && nic_can_send(port, now, soonest, waits) ? 0 : found;
  }

  // All ports send to the end of the window.
  DEVICE void send_all(int64_t end) {
    int32_t* last = s_.awake;
    for (int32_t p = 0; p < ports_; ++p) {
      *last = p;
      last += s_.next[p] < end;  // no branch: it would be hard to predict
    }
    for (const int32_t* p = s_.awake; p < last; ++p) {
      if (p + 1 < last) prefetch(&s_.port[p[1]]);
      send_until(*p, end);
    }
  }

  DEVICE static void prefetch([[maybe_unused]] const void* line) {
#ifndef TOPOFLOW_ON_GPU
    __builtin_prefetch(line);
#endif
  }

  DEVICE void send_until(int32_t p, int64_t end) {
    Port& port = s_.port[p];
    int64_t now = s_.next[p] > port.free ? s_.next[p] : port.free;
    while (now < end) {
      int64_t soonest = kNever;
      bool waits = false;
      const int32_t turn = choose(port, now, soonest, waits);
      if (turn != kNone) {
        send(port, turn, now);
        now = next_try(port);
      } else {
        if (waits && port.stalled_since == kNever) port.stalled_since = now;
        now = soonest;
      }
    }
    s_.next[p] = now;
  }

  // When a port that has just begun to send may send again.
  DEVICE int64_t next_try(const Port& port) const { return port.occupied ? port.free : kNever; }

  DEVICE int32_t earliest() const {
    int32_t first = 0;
    for (int32_t p = 1; p < ports_; ++p)
      if (s_.next[p] < s_.next[first]) first = p;
    return first;
  }

  DEVICE void try_once(int32_t p) {
    Port& port = s_.port[p];
    const int64_t now = s_.next[p];
    if (now < port.free) {
      s_.next[p] = port.free;
      return;
    }
    int64_t soonest = kNever;
    bool waits = false;
    const int32_t turn = choose(port, now, soonest, waits);
    s_.next[p] = soonest;
    if (turn == kNone) {
      if (waits && port.stalled_since == kNever) port.stalled_since = now;
      return;
    }
    s_.next[p] = kNever;
    send(port, turn, now);
    const int64_t again = next_try(port);
    if (again < s_.next[p]) s_.next[p] = again;
  }

  DEVICE void send(Port& port, int32_t turn, int64_t now) {
    port.turn = turn == port.queues ? 0 : turn + 1;
    const int64_t idle = (now < port.stalled_since ? now : port.stalled_since) - port.free;
    if (idle > 0) {  // else the line of these is not read
      ++port.idle_intervals;
      port.idle_1us += idle > kMicrosecond;
      port.idle_1ms += idle > kMillisecond;
    }
    if (port.stalled_since != kNever) {
      port.stalled += now - port.stalled_since;
      port.stalled_since = kNever;
    }
    if (turn == 0) {
      const int32_t channel = s_.sender[port.first].channel;
      const Packet packet = leave_nic(port, now);
      pass(port, packet, packet.step, channel, now);
      return;
    }
    Queue& queue = s_.queue[queue_at(port, turn - 1)];
    const int32_t channel = queue.after;
    const Packet packet = s_.slot[queue.head].packet;
    if (adapts()) s_.waiting[queue.port] -= size_of(packet.task, packet.number);
    const int32_t size = pass(port, packet, output_queues() ? packet.step : s_.edge[packet.step].next, channel, now);
    leave_queue(port, turn - 1, queue, now);
    give_back(s_.channel[queue.channel], size, port.free);
  }

  // The port sends a packet into a channel, or to its target; `next` is what follows there. Returns its flits.
  DEVICE int32_t pass(Port& port, const Packet& packet, int32_t next, int32_t channel, int64_t now) {
    int32_t size = full_;
    int64_t taken = port.full_time;
    if (packet.number & kShort) {
      size = size_of(packet.task, packet.number);
      taken = time(port, size);
      ++port.short_packets;
      port.short_bytes += short_bytes(packet.task);
      port.short_time += taken;
    }
    port.free = now + taken;
    ++port.packets;
    if (channel == kNone) {
      deliver(packet, port.free + port.latency);
    } else {
      forward(port, packet, next, channel, size, now);
    }
    return size;
  }

  DEVICE void leave_queue(Port& port, int32_t place, Queue& queue, int64_t now) {
    const int32_t old = queue.head;
    queue.head = s_.slot[old].packet.next;
    free_slot(old);
    if (queue.head == kNone) {
      queue.ready = kNever;
      forget(port, place);
      return;
    }
    const Slot& head = s_.slot[queue.head];
    queue.ready = head.ready;
    if (output_queues()) return;
    if (queue.ready < now) queue.ready = now;
    forget(port, place);
    lead(queue, head.packet.step);
    remember(queue.port, queue.turn, queue.ready);
  }

  DEVICE void forget(Port& port, int32_t place) const {
    if (!port.is_large()) {
      port.occupied &= ~(uint64_t{2} << place);
      return;
    }
    s_.occupied[first_word(port) + place / 64] &= ~(uint64_t{1} << (place % 64));
    port.occupied -= 2;
  }

  // A queue of this port has a head from `ready` on, which had none.
  DEVICE void remember(int32_t p, int32_t place, int64_t ready) const {
    Port& port = s_.port[p];
    s_.next[p] = ready < s_.next[p] ? ready : s_.next[p];
    if (!port.is_large()) {
      port.occupied |= uint64_t{2} << place;
      return;
    }
    s_.occupied[first_word(port) + place / 64] |= uint64_t{1} << (place % 64);
    port.occupied += 2;
  }

  DEVICE void deliver(const Packet& packet, int64_t arrival) {
    const int64_t latency = arrival - packet.born;
    ++b_.latencies[world_ * kLatencyBins + latency_bin(latency)];
    b_.latency_sum[world_] += latency;
    if (latency > b_.latency_most[world_]) b_.latency_most[world_] = latency;
    Message& message = s_.message[packet.task];
    if (arrival > message.arrival) message.arrival = arrival;
    if (--message.left == 0) s_.events->push({message.arrival + b_.nic_latency, 2 * int64_t{packet.task} + 1});
  }

  DEVICE void forward(const Port& port, const Packet& packet, int32_t next, int32_t channel, int32_t size,
                      int64_t now) {
    if (by_address()) return forward_by_address(port, packet, channel, size, now);
    take_room(s_.channel[channel], size, now);
    const int32_t edge = taken_edge(next, packet);
    const Edge taken = s_.edge[edge];
    Queue& queue = s_.queue[taken.queue];
    const bool usual = output_queues() && size == full_;
    const int64_t ready = now + (usual ? queue.delay : delay(port, s_.port[b_.edge_port[edge_ + edge]], size));
    const Packet waits{packet.born, packet.task, output_queues() ? taken.next : edge, packet.number, kNone};
    if (!enqueue(queue, waits, ready)) return;
    if (!output_queues()) lead(queue, edge);
    remember(queue.port, queue.turn, ready);
  }

  // Whether the packet is the head.
  DEVICE bool enqueue(Queue& queue, const Packet& packet, int64_t ready) {
    const int32_t slot = take_slot();
    s_.slot[slot] = {ready, packet};
    const bool is_head = queue.ready == kNever;
    if (is_head) {
      queue.ready = ready;
      queue.head = slot;
    } else {
      s_.slot[queue.tail].packet.next = slot;
    }
    queue.tail = slot;
    return is_head;
  }

  // From when a port begins to send a packet until the next port can.
  DEVICE int64_t delay(const Port& port, const Port& next, int32_t size) const {
    return head_time(port, next, size) + port.latency + b_.switch_latency;
  }

  // The same if there were no latencies.
  DEVICE int64_t head_time(const Port& port, const Port& next, int32_t size) const {
    const int64_t taken = size == full_ ? port.full_time : time(port, size);
    if (!b_.cut_through) return taken;
    const int64_t flit = time(port, 1);
    if (next.byte_time >= port.byte_time) return flit;
    const int64_t without_gap = taken - (size == full_ ? next.full_time : time(next, size));
    return flit > without_gap ? flit : without_gap;
  }

  // Routers that forward by address (addresses.h)

  DEVICE bool by_address() const { return !kUsual && addresses_.routing != kByPaths; }
  DEVICE bool adapts() const { return !kUsual && addresses_.routing >= kAdaptive; }

  DEVICE void begin_by_address() {
    if (!adapts()) return;
    const int64_t channels = b_.channel_offsets[world_ + 1] - channel_;
    for (int32_t p = 0; p < ports_; ++p) s_.waiting[p] = 0;
    for (int32_t r = 0; r < arriving(); ++r) s_.arriving[r] = {nullptr, 0};
    for (int64_t c = 0; c < channels; ++c) {
      s_.flight[c] = {kNone, kNone};
      ++s_.arriving[router_at(c)].size;
    }
    Event* free = s_.arrivals;
    for (int32_t r = 0; r < arriving(); ++r) {
      s_.arrives[r] = kNever;
      const int64_t most = s_.arriving[r].size;
      s_.arriving[r] = {free, 0};
      free += most;
    }
  }

  // Routers that packets are seen coming to: all with adaptive routing, else none.
  DEVICE int32_t arriving() const { return adapts() ? routers_ : 0; }

  DEVICE int32_t router_at(int64_t channel) const { return addresses_.end(s_.channel[channel].port); }

  // Adaptive routers decide when the head of a packet has come, others when it is sent to them.
  DEVICE void forward_by_address(const Port& port, const Packet& packet, int32_t channel, int32_t size, int64_t now) {
    take_room(s_.channel[channel], size, now);
    Packet waits{packet.born, packet.task, packet.step, packet.number, kNone};
    if (!adapts()) {
      const int32_t out = route(channel, waits, now);
      return wait_at(channel, out, waits, now + delay(port, s_.port[out], size));
    }
    const int32_t slot = take_slot();
    const int64_t ready = now + delay(port, port, size);
    s_.slot[slot] = {ready, waits};
    Flight& flight = s_.flight[channel];
    const bool is_first = flight.first == kNone;
    (is_first ? flight.first : s_.slot[flight.last].packet.next) = slot;
    flight.last = slot;
    if (!is_first) return;
    const int32_t router = router_at(channel);
    s_.arriving[router].push({ready, channel});
    if (ready < s_.arrives[router]) s_.arrives[router] = ready;
  }

  // What comes to a router before the end of the window. Others see nothing of it before, so they need not take turns.
  DEVICE void come_to(int32_t router, int64_t end) {
    EventHeap& arriving = s_.arriving[router];
    while (arriving.time() < end) {
      const Event event = arriving.pop();
      const auto channel = static_cast<int32_t>(event.what);
      come(channel, event.time);
      const int32_t slot = s_.flight[channel].first;
      if (slot != kNone) arriving.push({s_.slot[slot].ready, event.what});
    }
    s_.arrives[router] = arriving.time();
  }

  // The first packet on the way through a channel comes to the router at its end.
  DEVICE void come(int32_t channel, int64_t now) {
    Flight& flight = s_.flight[channel];
    const int32_t slot = flight.first;
    Packet packet = s_.slot[slot].packet;
    flight.first = packet.next;
    packet.next = kNone;
    free_slot(slot);
    const int32_t size = size_of(packet.task, packet.number), out = route(channel, packet, now);
    const Port& port = s_.port[s_.channel[channel].port];
    s_.waiting[out] += size;
    wait_at(channel, out, packet, now + head_time(port, s_.port[out], size) - head_time(port, port, size));
  }

  DEVICE void wait_at(int32_t channel, int32_t out, const Packet& packet, int64_t ready) {
    const int32_t turn = b_.place[channel_ + channel];
    Queue& queue = s_.queue[s_.port[out].first_queue + turn];
    if (!is_occupied(s_.port[out], turn))
      queue = {kNever, 0, kNone, kNone, out, turn, channel_after(channel, out), channel};
    if (enqueue(queue, packet, ready)) remember(out, turn, ready);
  }

  // Where a packet lies after `channel` and port `out`; kNone: it has arrived.
  DEVICE int32_t channel_after(int32_t channel, int32_t out) const {
    const int32_t in = s_.channel[channel].port, level = addresses_.level(out);
    if (level == kDown) return kNone;
    const bool rises = addresses_.level(in) != kUp && level <= addresses_.level(in);
    return b_.first_channel[port_ + out] + (channel - b_.first_channel[port_ + in]) + rises;
  }

  // The port by which a packet leaves the router at the end of its channel.
  DEVICE int32_t route(int32_t channel, Packet& packet, int64_t now) {
    const int32_t in = s_.channel[channel].port, router = addresses_.end(in);
    const int32_t endpoint = b_.root_next[root_ + b_.first_root[task_ + packet.task]];
    if (addresses_.level(in) == kUp) {
      packet.step = first_step(channel, router, endpoint, packet, now);
    } else if (Addresses::middle(packet.step) >= 0 && addresses_.is_middle(router, packet.step)) {
      const int32_t cable = below(words(packet, kAtMiddle).word[0], addresses_.cables);
      packet.step = less_occupied(channel, router, endpoint, Addresses::step_by(kNone, cable), now);
    }
    return addresses_.next(router, endpoint, packet.step);
  }

  DEVICE int32_t first_step(int32_t channel, int32_t router, int32_t endpoint, const Packet& packet, int64_t now) {
    const Words drawn = words(packet, kAtSource);
    const int32_t target = addresses_.router_of(endpoint), cables = addresses_.cables;
    const int32_t direct = Addresses::step_by(kNone, below(drawn.word[0], cables));
    if (addresses_.routing == kMinimal || router == target) return direct;
    const int32_t middle = addresses_.drawn_middle(router, target, drawn.word[1]);
    const int32_t around = Addresses::step_by(middle, below(drawn.word[2], cables));
    if (!adapts()) return middle == kNone ? direct : around;
    const int32_t best = less_occupied(channel, router, endpoint, direct, now);
    if (middle == kNone) return best;
    const int32_t other = less_occupied(channel, router, endpoint, around, now);
    return goes_around(channel, router, endpoint, best, other, now) ? other : best;
  }

  DEVICE bool goes_around(int32_t channel, int32_t router, int32_t endpoint, int32_t direct, int32_t around,
                          int64_t now) {
    const Occupied one = occupied(channel, addresses_.next(router, endpoint, direct), now);
    const Occupied two = occupied(channel, addresses_.next(router, endpoint, around), now);
    if (addresses_.routing == kUgal)
      return one.taken * addresses_.hops(router, endpoint, direct) >
             two.taken * addresses_.hops(router, endpoint, around);
    return b_.by_free ? static_cast<double>(two.free) > b_.threshold * static_cast<double>(one.free)
                      : static_cast<double>(one.taken) > b_.threshold * static_cast<double>(two.taken);
  }

  // The same step, or by the next cable where that has less that is occupied.
  DEVICE int32_t less_occupied(int32_t channel, int32_t router, int32_t endpoint, int32_t step, int64_t now) {
    if (!adapts()) return step;
    const int32_t cable = Addresses::cable(step);
    const int32_t next = Addresses::step_by(Addresses::middle(step), (cable + 1) % addresses_.cables);
    const int32_t one = addresses_.next(router, endpoint, step), two = addresses_.next(router, endpoint, next);
    return one != two && occupied(channel, two, now).taken < occupied(channel, one, now).taken ? next : step;
  }

  struct Occupied {
    int64_t taken, free;  // flits
  };

  // Of the buffer at the end of a port as its router knows it at `now`, and what waits for the port.
  DEVICE Occupied occupied(int32_t channel, int32_t out, int64_t now) {
    send_until(out, now);
    const int32_t after = channel_after(channel, out);
    if (after == kNone) return {s_.waiting[out], 0};
    Channel& c = s_.channel[after];
    collect(c, now);
    const int64_t buffer = b_.buffer[channel_ + after], taken = buffer - c.room + s_.waiting[out];
    return {taken, taken < buffer ? buffer - taken : 0};
  }

  DEVICE Words words(const Packet& packet, uint32_t branch) const { return words(packet.task, packet.number, branch); }

  const PacketBatch& b_;
  int32_t world_;
  State s_;
  int32_t tasks_, ports_;
  int64_t task_, port_;                    // the first
  int64_t window_;                         // ps
  int32_t full_;                           // flits of a packet of the full size
  int32_t free_slot_ = kNone, slots_ = 0;  // list of free slots; those from this number on have never been taken
  uint64_t seed_;
  int64_t root_, edge_, branch_, channel_;  // the first
  Addresses addresses_;
  int32_t routers_;  // 0: packets follow paths
};

}  // namespace topoflow::BACKEND::packet
