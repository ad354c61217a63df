// One world of packets, by windows of time.
//
// What a port does is seen by others one link later at the earliest: a packet by the port that sends it next, a credit
// by the port that sends into the buffer, the end of a message by the tasks that wait for it. The least of these times
// is a window. In a window, ports do not depend on each other: each sends what it can, to its end, one port after the
// other, in any order. There are no events but those of tasks. Threads of a
// world share its ports (part.h).
//
//   next: 4 ports, 2 of them have something to send in a window of 600 ns that begins with the first
//     before   120   never    480   2000
//     after   1400     780   1135   2000      the first two sent to each other's queues; 780 is such a packet's head
//
// Where a channel has one queue for several ports, what one port sends makes way for another at once. Then ports take
// turns in the order of their times.
//
// Source: conservative parallel simulation with lookahead, Chandy and Misra, "Distributed simulation", IEEE Trans.
// Software Engineering SE-5(5), 1979; the model is stated in tests/twins/packet.py.
#pragma once

#include "addresses.h"
#include "arrivals.h"
#include "cycles.h"
#include "depths.h"
#include "draws.h"
#include "look_ahead.h"
#include "part.h"

namespace topoflow::BACKEND::packet {

// kPlain: paths, virtual output queues, no transport; then nothing asks for each packet whether the world is so.
// Own: the part of the world that is simulated.
template <bool kPlain, class Own>
class World {
 public:
  DEVICE World(const PacketBatch& batch, int32_t world, std::byte* memory, const Own& own = Own())
      : b_(batch),
        world_(world),
        own_(own),
        s_(Memory(memory), batch, world, own.share()),
        tasks_(batch, world, s_.tasks),
        messages_(static_cast<int32_t>(batch.task_offsets[world + 1] - batch.task_offsets[world])),
        ports_(static_cast<int32_t>(batch.port_offsets[world + 1] - batch.port_offsets[world])),
        task_(batch.task_offsets[world]),
        port_(batch.port_offsets[world]),
        window_(batch.window[world]),
        full_(batch.size / batch.flit),
        by_turns_(!batch.by_age && !batch.by_arrival),
        draws_(batch, world),
        root_(batch.root_offsets[world]),
        edge_(batch.edge_offsets[world]),
        branch_(batch.branch_offsets[world]),
        channel_(batch.channel_offsets[world]),
        channels_(static_cast<int32_t>(batch.channel_offsets[world + 1] - channel_)),
        addresses_(batch, world),
        routers_(static_cast<int32_t>(batch.router_offsets[world + 1] - batch.router_offsets[world])),
        first_port_(own.first_port()),
        end_port_(own.end_port(ports_)),
        first_router_(own.first_router()),
        end_router_(own.end_router(adapts() ? routers_ : 0)),
        arrivals_(s_, first_router_, end_router_),
        look_ahead_(s_, addresses_, tasks_, draws_),
        queues_(s_.first_queue),
        latencies_(s_.latencies),
        depths_(batch, world, loses() ? ports_ : channels_) {}

  World(const World&) = delete;  // its parts refer to each other

  // The world's state, except for the state of each part.
  DEVICE void begin() {
    for (int32_t p = 0; p < ports_; ++p) begin_port(p);
    begin_buffers();
    begin_queues();
    begin_messages();
    if (transports()) begin_transport();
    tasks_.begin();
    if constexpr (!Own::kAlone)
      for (int32_t t = 0; t < messages_; ++t) tasks_.set_part(t, sending_part(t));
  }

  // After begin() has ended.
  DEVICE void begin_own() {
    latencies_.begin();
    tasks_.begin_first([&](int32_t t) { return own_.follows(t); });
  }

  // At most this many windows; kRunning: there are more.
  DEVICE Status advance(int32_t windows) {
    for (; windows > 0; --windows) {
      const Notice next = notice();
      if (const Status status = status_of(next); status != kRunning) return status;
      begin_window(next.first);
      do_tasks();
      do_ports();
    }
    return kRunning;
  }

  // The mail of other parts from the window before (part.h).
  DEVICE void take_mail() {
    for (int32_t from = 0; from < own_.parts(); ++from) {
      auto& mail = own_.mail_from(from);
      for (const Slot& packet : mail.packets) take(packet);
      for (const auto& credit : mail.credits) give_back(s_.channel[credit.channel], credit.flits, credit.gone);
      for (const Event& event : mail.events) event.what < kHeard ? tasks_.push(event) : s_.heard.push(event);
      mail.packets.clear();
      mail.credits.clear();
      mail.events.clear();
    }
  }

  // Returns the time of the next event of this part.
  DEVICE Notice notice() const { return {soonest(), tasks_.time(), gives_up_}; }

  // Returns whether there is another window, once all parts have set `next`.
  DEVICE Status status_of(const Notice& next) const {
    if (next.gives_up) return kStarved;
    if (next.first > b_.until[world_]) return kPaused;
    if (next.first < kNever / 2) return kRunning;
    return next.first < kNever ? kTooLong : ended();
  }

  // The next window begins at `first`, ps.
  DEVICE void begin_window(int64_t first) {
    begin_ = first;
    if (first >= depths_.end()) write_depths(first);
    end_ = first + window_ < depths_.end() ? first + window_ : depths_.end();
  }

  // Runs the events of tasks in the window.
  DEVICE void do_tasks() {
    for (tasks_.begin_window(end_); tasks_.time() < end_;) {
      look_ahead_.at_tasks();
      const Event event = tasks_.pop();
      happen(event);
      tasks_.serve(event.time);
    }
  }

  // And to ports, after tasks of all parts.
  DEVICE void do_ports() {
    if constexpr (!Own::kAlone) take_offers();
    if (transports())
      while (s_.heard.time() < end_) hear(s_.heard.pop());
    if (adapts()) {
      forward(end_);
    } else if (output_queues()) {
      send_all(end_);
    } else if (first_port_ < end_port_) {
      for (int32_t p = earliest(); s_.next[p] < end_; p = earliest()) try_once(p);
    }
  }

  // Adds what this part has counted, by rank.
  DEVICE void add_counts() const {
    latencies_.add(b_.latencies, b_.latency_sum, b_.latency_most, world_, own_.rank());
    tasks_.add_latencies(own_.rank());
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
      if (transports()) {
        b_.lost[port_ + p] = s_.lane[p].lost;
        b_.marked[port_ + p] = s_.lane[p].marked;
        int32_t& deepest = b_.deepest[port_ + p];
        if (s_.lane[p].most > deepest) deepest = s_.lane[p].most;
      }
    }
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t taken = most_taken(c);
      int32_t& fullest = b_.fullest[channel_ + c];
      if (taken > fullest) fullest = taken;
      b_.waits_for[channel_ + c] = kNone;
    }
    for (int32_t p = 0; p < ports_; ++p) {
      const Port& port = s_.port[p];
      if (!has_packets(port)) continue;
      for (int32_t place = 0; place < port.queues; ++place) {
        if (!is_occupied(port, place)) continue;
        const Queue& queue = queue_of(port, place);
        int32_t& waits = b_.waits_for[channel_ + queue.channel];
        if (waits == kNone) waits = queue.after;
      }
    }
    depths_.finish(*this);
  }

 private:
  friend class Depths;

  DEVICE bool output_queues() const { return kPlain || b_.output_queues; }
  DEVICE bool by_arrival() const { return b_.by_arrival; }
  DEVICE bool transports() const { return !kPlain && b_.transport.is_on; }
  DEVICE bool loses() const { return transports() && b_.transport.loss != kLossless; }

  // Returns the time of the next event of this part, ps.
  DEVICE int64_t soonest() const {
    int64_t first = tasks_.time();
    if (transports() && s_.heard.time() < first) first = s_.heard.time();
    for (int32_t p = first_port_; p < end_port_; ++p) first = s_.next[p] < first ? s_.next[p] : first;
    return adapts() && arrivals_.time() < first ? arrivals_.time() : first;
  }

  DEVICE void take(const Slot& slot) {
    const Packet& packet = slot.packet;
    const int32_t where = packet.next;
    const int32_t size = size_of(packet.task, packet.number), own = take_slot();
    s_.slot[own].packet = packet;
    if (by_address()) {
      wait_by_address(s_.port[port_of(where)], own, where, size, slot.ready);
    } else {
      const int32_t channel = b_.queue_channel[b_.queue_offsets[world_] + s_.edge[where].queue];
      wait(s_.port[port_of(channel)], own, where, size, slot.ready);
    }
  }

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
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t room = b_.buffer[channel_ + c], p = port_of(c);
      b_.fullest[channel_ + c] = 0;
      s_.channel[c] = {s_.port[p].latency + b_.credit_latency, 0, kNever, room, room, 0, 0, 0, false, {}};
    }
    const int64_t* const days = b_.channel_days + channel_;
    for (int64_t day = 0; day < days[channels_] - days[0]; ++day) s_.day[day] = kNone;
    if (by_address()) begin_by_address();
  }

  // By address a queue begins with its first packet: of the many of a large network, few pages are ever touched.
  DEVICE void begin_queues() {
    if (by_address()) return;
    const int64_t first = b_.queue_offsets[world_], queues = b_.queue_offsets[world_ + 1] - first;
    for (int64_t q = 0; q < queues; ++q)
      s_.queue[q] = {kNever, {0}, kNone, kNone, 0, kNone, b_.queue_channel[first + q]};
    const int64_t edges = b_.edge_offsets[world_ + 1] - edge_;
    for (int64_t e = 0; e < edges; ++e) {
      s_.edge[e] = {b_.edge_queue[edge_ + e], b_.edge_next[edge_ + e]};
      Queue& queue = s_.queue[s_.edge[e].queue];
      lead(queue, static_cast<int32_t>(e));
      const int64_t usual = delay(s_.port[port_of(queue.channel)], s_.port[queue.port], full_);
      queue.delay = usual < kLongDelay ? static_cast<uint32_t>(usual) : kLongDelay;
    }
  }

  // The head of a queue takes this edge.
  DEVICE void lead(Queue& queue, int32_t edge) const {
    queue.port = b_.edge_port[edge_ + edge];
    queue.after = b_.edge_channel[edge_ + edge];
  }

  DEVICE void begin_messages() {
    int32_t senders = 0;
    for (int32_t t = 0; t < messages_; ++t) {
      s_.first_sender[t] = senders;
      senders += b_.roots[task_ + t];
      begin_message(t);
    }
  }

  DEVICE void begin_message(int32_t task) {
    const int64_t bytes = b_.bytes[task_ + task], packets = (bytes + b_.size - 1) / b_.size;
    const auto rest = static_cast<int32_t>(bytes % b_.size);
    const int32_t first = b_.first_root[task_ + task], roots = b_.roots[task_ + task];
    const bool addressed = by_address() && roots > 0;
    const int32_t endpoint = addressed ? b_.root_next[root_ + first] : kNone;
    const int32_t router = addressed ? addresses_.router_of(endpoint) : kNone;
    s_.message[task] = {packets, 0, rest, (rest + b_.flit - 1) / b_.flit, endpoint, router};
    for (int32_t root = first; root < first + roots; ++root) {
      const int64_t row = root_ + root;
      s_.sender[s_.first_sender[task] + root - first] = {
          kNever, -1,       packets,           b_.pace[task_ + task], task,
          root,   roots,    b_.root_port[row], b_.root_channel[row],  b_.root_next[row],
          kNone,  rest != 0};
    }
  }

  // Tasks

  DEVICE void happen(const Event& event) {
    const int32_t task = tasks_.task(event);
    if (!Tasks::is_offer(event)) return tasks_.finish(task, event.time);
    if constexpr (Own::kAlone) {
      look_ahead_.at_offers([&](int32_t later) {
        const Event* const next = tasks_.ahead(later);
        return next == nullptr || !Tasks::is_offer(*next) ? kNone : tasks_.task(*next);
      });
      offer_message(task, event.time);
    } else if (tasks_.part(task) != kNone) {
      own_.mail_to(tasks_.part(task)).offers.push_back(event);
    } else {
      begin_round(task);
      for (int32_t to = 0; to < own_.parts(); ++to) own_.mail_to(to).offers.push_back(event);
    }
  }

  // The part that sends the message of a task; kNone: it has several senders, whose ports may be of several parts.
  DEVICE int32_t sending_part(int32_t task) const {
    if (b_.roots[task_ + task] != 1) return kNone;
    return own_.template part_of<&Cut::port>(s_.sender[s_.first_sender[task]].port);
  }

  // The message of a task comes to the ports of its NIC, as far as they are of this part.
  DEVICE void offer_message(int32_t task, int64_t time) {
    const int32_t first = s_.first_sender[task], senders = s_.sender[first].roots;
    if (Own::kAlone || senders == 1) begin_round(task);
    for (int32_t i = first; i < first + senders; ++i) {
      if (!own_.template has<&Cut::port>(s_.sender[i].port)) continue;
      if (tasks_.repeats()) s_.sender[i].number = -1;
      offer_next(i, time);
    }
  }

  // The message of a task is sent, once more where there are several rounds. No part may send a packet of it before:
  // one that leaves by its last link counts as arrived in the same window.
  DEVICE void begin_round(int32_t task) {
    if (transports()) s_.flow[task].waits = true;
    if (!tasks_.repeats()) return;
    s_.message[task].left = s_.sender[s_.first_sender[task]].packets;
    s_.message[task].arrival = 0;
  }

  // The messages that the ports of this part send.
  DEVICE void take_offers() {
    for (int32_t from = 0; from < own_.parts(); ++from) {
      auto& offers = own_.mail_from(from).offers;
      for (size_t i = 0; i < offers.size(); ++i) {
        look_ahead_.at_offers(
            [&](int32_t later) { return i + later < offers.size() ? tasks_.task(offers[i + later]) : kNone; });
        offer_message(tasks_.task(offers[i]), offers[i].time);
      }
      offers.clear();
    }
  }

  // Returns whether all tasks have finished, once no event is left.
  DEVICE Status ended() const {
    for (int32_t p = 0; p < ports_; ++p)
      if (has_packets(s_.port[p])) return kBlocked;
    return tasks_.have_finished() ? kDone : kDeadlock;
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
             drawn(b_.root_bound + root_, b_.first_root[task_ + sender.task], sender.task, sender.number, kAtNic) !=
                 sender.root);
    return sender.number < sender.packets;
  }

  DEVICE void offer(int32_t i, int64_t time) {
    Sender& sender = s_.sender[i];
    const int32_t p = sender.port;
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
    return time < later || (time == later && is_before(one, other));
  }

  // Returns whether it would come first if all rounds were written one after the other.
  DEVICE bool is_before(int32_t one, int32_t other) const {
    if (!tasks_.repeats()) return one < other;
    const int64_t first = tasks_.number(s_.sender[one].task), second = tasks_.number(s_.sender[other].task);
    return first < second || (first == second && one < other);
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

  // The rest of a message waits for its turn; where it is sent to its end, it has waited since it came.
  DEVICE void wait_again(Port& port, int32_t i, int64_t now) {
    if (b_.in_order) return prepend(port, i);
    s_.sender[i].time = now;
    append(port, i);
  }

  // Returns whether the NIC can send a packet at `now`; if not, lowers `soonest` to when it may have one.
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
    if (sender.channel == kNone || loses()) return true;
    const Channel& channel = s_.channel[sender.channel];
    return channel.room >= full_ || has_room(sender.channel, size_of(sender.task, number_of(sender)), now, soonest);
  }

  DEVICE uint32_t number_of(const Sender& sender) const {
    if (transports() && has_lost(s_.flow[sender.task])) {
      const Flow& flow = s_.flow[sender.task];  // other numbers than before, so that they draw other paths
      return (static_cast<uint32_t>(sender.packets + flow.resent) & kNumber) | (flow.again == 0 ? kShort : 0);
    }
    const bool is_short = sender.ends_short && sender.number == sender.packets - 1;
    return (static_cast<uint32_t>(sender.number) & kNumber) | (is_short ? kShort : 0);
  }

  DEVICE Packet leave_nic(Port& port, int64_t now) {
    const int32_t i = port.first;
    Sender& sender = s_.sender[i];
    port.first = sender.next;
    const Packet packet{now, sender.task, sender.step, number_of(sender), kNone};
    const int64_t before = sender.number;
    if (transports()) {
      send_next(port, i, packet, now);
    } else if (advance(sender)) {
      if (sender.pace > 0) {
        offer(i, now + sender.pace * (sender.number - before));
      } else {
        wait_again(port, i, now);
      }
    }
    if (port.first != kNone)
      prefetch(&s_.sender[port.first]);
    else if (port.coming == kNone)
      port.occupied &= ~uint64_t{1};
    return packet;
  }

  // Branches

  // The first of the rows from `first` on whose bound is not less than what a packet draws.
  DEVICE int32_t drawn(const int32_t* bound, int32_t first, int32_t task, int64_t number, uint32_t branch) const {
    const uint32_t drawn = draws_.of(tasks_.number(task), number, branch).word[0];
    int32_t row = first;
    while (static_cast<uint32_t>(bound[row]) < drawn) ++row;
    return row;
  }

  // The edge that a packet takes where `next` is what follows (batch.h).
  DEVICE int32_t taken_edge(int32_t next, const Packet& packet) const {
    if (next >= 0) return next;
    const int32_t branch = -2 - next;
    const auto first = static_cast<int32_t>(b_.branch_edges[branch_ + branch] - b_.branch_edges[branch_]);
    const auto place = static_cast<uint32_t>(branch);
    if (const int32_t stride = b_.in_turn ? b_.branch_stride[branch_ + branch] : 0) {
      const auto end = static_cast<int32_t>(b_.branch_edges[branch_ + branch + 1] - b_.branch_edges[branch_]);
      const uint32_t number = packet.number & kNumber;
      return first + way_in_turn(draws_, tasks_.number(packet.task), number, stride, end - first, place);
    }
    return drawn(b_.edge_bound + edge_, first, packet.task, packet.number, place);
  }

  // Buffers

  // Flits of a packet.
  DEVICE int32_t size_of(int32_t task, uint32_t number) const {
    return number & kShort ? s_.message[task].short_flits : full_;
  }

  DEVICE int32_t size_of_head(const Queue& queue) const {
    const Packet& head = s_.slot[queue.head].packet;
    return size_of(head.task, head.number);
  }

  DEVICE int32_t short_bytes(int32_t task) const { return s_.message[task].short_bytes; }

  DEVICE bool has_room(int32_t channel, int32_t needed, int64_t now, int64_t& soonest) {
    Channel& c = s_.channel[channel];
    if (c.room >= needed) return true;
    collect(c, now);
    if (c.room >= needed) return true;
    c.starved = true;
    const int64_t back = c.first_time();
    if (back < soonest) soonest = back;
    return false;
  }

  // Takes the credits that are back by `now`.
  DEVICE void collect(Channel& c, int64_t now) {
    c.take(now);
    if (c.more_time <= now) collect_more(c, now);
  }

  DEVICE Calendar calendar_of(const Channel& c) const {
    const int64_t *const days = b_.channel_days + channel_, *const own = days + (&c - s_.channel);
    return {static_cast<int32_t>(own[0] - days[0]), static_cast<int32_t>(own[1] - own[0]), c.credit_delay};
  }

  // Takes the credits of the calendar that are back by `now`, and sets `more_time` to the time of the next credit: it
  // looks at the days up to the first one that still has a credit.
  CALLED_ON_CPU void collect_more(Channel& c, int64_t now) {
    const Calendar calendar = calendar_of(c);
    const int64_t begin = now < begin_ ? now : begin_;  // depths over time are written up to a time before `begin_`
    int64_t first = kNever, number = calendar.number(c.more_time);
    const int64_t end = number + calendar.days();
    for (; c.listed > 0 && number < end && number <= calendar.number(first); ++number) {
      int32_t* at = &s_.day[calendar.index(number)];
      while (*at != kNone) {
        const int32_t i = *at;
        Slot& slot = s_.slot[i];
        c.room += slot.credits.take(now - slot.ready);
        const int32_t next = slot.credits.first();
        if (next == Credits::kNoCredit || c.copy(slot.credits, slot.ready, begin)) {
          *at = slot.credits.next;
          --c.listed;
          free_slot(i);
        } else {
          first = slot.ready + next < first ? slot.ready + next : first;
          at = &slot.credits.next;
        }
      }
    }
    c.more_time = first;
    prefetch(&s_.slot[s_.day[calendar.index(number)]]);
  }

  DEVICE void take_room(Channel& c, int32_t flits, int64_t now) {
    c.starved = false;
    c.room -= flits;
    if (c.room < c.least) {
      collect(c, now);
      if (c.room < c.least) c.least = c.room;
    }
  }

  // Frees the room of a packet whose last flit has left.
  DEVICE void give_back(int32_t channel, int32_t flits, int64_t gone) {
    if constexpr (!Own::kAlone) {
      if (!own_.template has<&Cut::channel>(channel)) {
        own_.template mail_for<&Cut::channel>(channel).credits.push_back({gone, channel, flits});
        return;
      }
    }
    give_back(s_.channel[channel], flits, gone);
  }

  INLINED_ON_CPU void give_back(Channel& c, int32_t flits, int64_t gone) {
    const int64_t back = gone + c.credit_delay;
    if (c.listed > Channel::kFewSlots || !c.keep(flits, back, begin_)) keep_later(c, flits, back);
    if (c.starved) wake(port_of(&c - s_.channel), back);
  }

  // Keeps a credit that has no place in the cache line of its channel.
  CALLED_ON_CPU void keep_later(Channel& c, int32_t flits, int64_t back) {
    if (c.listed == 0) {
      collect(c, begin_);  // the sender is as far, at least
      if (back - c.since >= Channel::kLongest) c.count_from(begin_);
      if (c.keep(flits, back, begin_)) return;
    }
    const Calendar calendar = calendar_of(c);
    const int64_t begin = calendar.begin(back);
    const auto time = static_cast<int32_t>(back - begin);
    int32_t& day = s_.day[calendar.index(calendar.number(back))];
    if (day == kNone || s_.slot[day].ready != begin || !s_.slot[day].credits.add(flits, time)) {
      const int32_t slot = take_slot();
      s_.slot[slot].ready = begin;
      s_.slot[slot].credits = {{time, Credits::kNoCredit, Credits::kNoCredit, Credits::kNoCredit}, flits, day};
      day = slot;
      ++c.listed;
    }
    if (back < c.more_time) c.more_time = back;  // taking a slot may have collected
  }

  DEVICE void wake(int32_t p, int64_t time) const { s_.next[p] = time < s_.next[p] ? time : s_.next[p]; }

  // Depths of queues over time (Depths): a column for each channel, or where packets are lost for each port

  DEVICE void write_depths(int64_t now) {
    const int32_t first = loses() ? first_port_ : own_.first_channel();
    depths_.write(now, first, loses() ? end_port_ : own_.end_channel(channels_), *this);
  }

  // Flits at most in the interval that has begun last.
  DEVICE int32_t most(int32_t i) const { return loses() ? s_.lane[i].most : most_taken(i); }
  DEVICE int32_t most_taken(int32_t c) const { return b_.buffer[channel_ + c] - s_.channel[c].least; }

  DEVICE void remember(int32_t i, int32_t flits) {
    if (loses()) {
      if (flits > s_.lane[i].most) s_.lane[i].most = flits;
    } else {
      const int32_t room = b_.buffer[channel_ + i] - flits;
      if (room < s_.channel[i].least) s_.channel[i].least = room;
    }
  }

  DEVICE void begin_interval(int32_t i, int64_t now) {
    if (loses()) {
      Lane& lane = s_.lane[i];
      int32_t& deepest = b_.deepest[port_ + i];
      if (lane.most > deepest) deepest = lane.most;
      lane.most = lane.waiting + (now < s_.port[i].free ? lane.sending : 0);
    } else {
      Channel& channel = s_.channel[i];
      int32_t& fullest = b_.fullest[channel_ + i];
      if (most_taken(i) > fullest) fullest = most_taken(i);
      collect(channel, now);
      channel.least = channel.room;
    }
  }

  // Slots, and queues by address

  DEVICE int32_t take_slot() {
    if (free_slot_ == kNone && slots_ < s_.slots) return slots_++;
    if (free_slot_ == kNone) free_slots();
    const int32_t slot = free_slot_;
    free_slot_ = s_.slot[slot].packet.next;
    return slot;
  }

  // Collects all credits that are back: there are slots for all packets and credits under way (settings.py).
  CALLED_ON_CPU void free_slots() {
    for (int32_t c = own_.first_channel(); c < own_.end_channel(channels_); ++c) collect(s_.channel[c], begin_);
  }

  DEVICE int32_t take_queue() {
    const int32_t queue = free_queue_;
    if (queue == kNone) return queues_++;
    free_queue_ = s_.queue[queue].head;
    return queue;
  }

  DEVICE void free_queue(Queue& queue) {
    queue.head = free_queue_;
    free_queue_ = static_cast<int32_t>(&queue - s_.queue);
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

  DEVICE Queue& queue_of(const Port& port, int32_t place) const {
    const int32_t at = port.first_queue + place;
    if (by_address()) {
      const int32_t only = output_of(port).only;
      return s_.queue[only != kNone ? only : s_.in_place[at]];
    }
    return s_.queue[output_queues() ? at : b_.queues[b_.port_queues[port_] + at]];
  }

  DEVICE Output& output_of(const Port& port) const { return s_.output[&port - s_.port]; }

  // Returns whether packets wait for the port, other than those of the NIC.
  DEVICE static bool has_packets(const Port& port) { return port.occupied > 1; }

  DEVICE bool is_occupied(const Port& port, int32_t place) const {
    if (!port.is_large()) return port.occupied >> (place + 1) & 1;
    if (!has_packets(port)) return false;
    if (by_address() && output_of(port).only != kNone) return s_.queue[output_of(port).only].place == place;
    return s_.occupied[first_word(port) + place / 64] >> (place % 64) & 1;
  }

  // The first of the queues from..to-1 of a port whose head can be sent at `now`, else kNone.
  DEVICE int32_t first_queue(const Port& port, int32_t from, int32_t to, int64_t now, int64_t& soonest, bool& waits) {
    return find_queue(port, from, to,
                      [&](int32_t, const Queue& queue) { return can_send(queue, now, soonest, waits); });
  }

  // The first of the queues from..to-1 of a port that hold a packet for which is_wanted(place, queue), else kNone.
  template <class F>
  DEVICE int32_t find_queue(const Port& port, int32_t from, int32_t to, const F& is_wanted) const {
    if (!has_packets(port)) return kNone;
    if (by_address() && output_of(port).only != kNone) {
      const Queue& queue = s_.queue[output_of(port).only];
      return from <= queue.place && queue.place < to && is_wanted(queue.place, queue) ? queue.place : kNone;
    }
    const uint64_t own = port.occupied >> 1, *const words = port.is_large() ? s_.occupied + first_word(port) : &own;
    for (int32_t i = from / 64; i * 64 < to; ++i) {
      uint64_t word = words[i];
      if (i * 64 < from) word &= ~uint64_t{0} << (from % 64);
      for (; word; word &= word - 1) {
        const int32_t place = i * 64 + lowest_bit(word);
        if (place >= to) break;
        if (is_wanted(place, queue_of(port, place))) return place;
      }
    }
    return kNone;
  }

  // Returns whether the head of a queue can be sent at `now`; if not, lowers `soonest` to when it may be.
  DEVICE bool can_send(const Queue& queue, int64_t now, int64_t& soonest, bool& waits) {
    if (queue.ready > now) {
      if (queue.ready < soonest) soonest = queue.ready;
      return false;
    }
    waits = true;
    if (queue.after == kNone || loses() || s_.channel[queue.after].room >= full_) return true;
    return has_room(queue.after, size_of_head(queue), now, soonest);
  }

  // Whose turn it is at `now`, by round robin; kNone: nobody can send before `soonest`. `waits`: a packet is ready.
  DEVICE int32_t choose(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    if (!by_turns_) return first_come(port, now, soonest, waits);
    const int32_t turn = port.turn;
    if (port.is_large()) return choose_of_many(port, turn, now, soonest, waits);
    for (uint64_t word = rotated(port.occupied, turn); word; word &= word - 1) {
      const int32_t place = (lowest_bit(word) + turn) & 63;
      if (place == 0 ? nic_can_send(port, now, soonest, waits)
                     : can_send(queue_of(port, place - 1), now, soonest, waits))
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

  // The same by age: the packet that left its NIC first; or that which came to the port first. Of equals that of the
  // first queue. A packet that has not left its NIC is younger than all others.
  DEVICE int32_t first_come(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    int32_t found = kNone;
    int64_t first = kNever;
    find_queue(port, 0, port.queues, [&](int32_t place, const Queue& queue) {
      const int64_t since = queue.ready > now ? 0 : has_waited_since(queue);
      if (since >= first || !can_send(queue, now, soonest, waits)) return false;
      first = since;
      found = place + 1;
      return false;
    });
    if ((found != kNone && !by_arrival()) || !nic_can_send(port, now, soonest, waits)) return found;
    return found == kNone || s_.sender[port.first].time <= first ? 0 : found;
  }

  // What decides by age or by arrival: when the head left its NIC, or when it came (with input queues the one that is
  // the head since may have come earlier than it could be sent).
  DEVICE int64_t has_waited_since(const Queue& queue) const {
    if (by_arrival() && output_queues()) return queue.ready;
    const Slot& head = s_.slot[queue.head];
    return by_arrival() ? head.ready : head.packet.born;
  }

  // Lets all ports of this part send to the end of the window.
  DEVICE void send_all(int64_t end) {
    int32_t *const awake = s_.awake + first_port_, *last = awake;
    for (int32_t p = first_port_; p < end_port_; ++p) {
      *last = p;
      last += s_.next[p] < end;  // no branch: it would be hard to predict
    }
    for (const int32_t* p = awake; p < last; ++p) {
      if (p + 1 < last) prefetch(&s_.port[p[1]]);
      send_inlined(*p, end);
    }
  }

  CALLED_ON_GPU void send_until(int32_t p, int64_t end) { send_inlined(p, end); }

  INLINED_ON_CPU void send_inlined(int32_t p, int64_t end) {
    Port& port = s_.port[p];
    int64_t now = s_.next[p] > port.free ? s_.next[p] : port.free;
    while (now < end) {
      if (transports()) admit(p, now);
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
    if (!transports()) return;
    admit(p, end - 1);
    if (s_.lane[p].arrives < now) s_.next[p] = s_.lane[p].arrives;
  }

  // Returns when a port that has just begun to send may send again.
  DEVICE int64_t next_try(const Port& port) const { return port.occupied ? port.free : kNever; }

  DEVICE int32_t earliest() const {
    int32_t first = first_port_;
    for (int32_t p = first + 1; p < end_port_; ++p)
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
    port.turn = turn + 1;  // after the last queue comes the NIC: bits and rows begin again by themselves
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
    int32_t slot, next, left = kNone;  // the channel that the packet leaves
    int32_t channel;
    if (turn == 0) {
      channel = s_.sender[port.first].channel;
      slot = take_slot();
      s_.slot[slot].packet = leave_nic(port, now);
      next = s_.slot[slot].packet.step;
      if (transports()) s_.lane[&port - s_.port].sending = 0;
    } else {
      Queue& queue = queue_of(port, turn - 1);
      slot = queue.head;
      channel = queue.after;
      left = queue.channel;
      Packet& packet = s_.slot[slot].packet;
      next = output_queues() ? packet.step : s_.edge[packet.step].next;
      if (transports() && b_.transport.mark_leaving) mark_leaving(packet, static_cast<int32_t>(&port - s_.port));
      if (adapts()) s_.output[queue.port].waiting -= size_of(packet.task, packet.number);
      leave_queue(port, turn - 1, queue, now);
    }
    const int32_t size = pass(port, slot, next, channel, now);
    if (left == kNone) return;
    if (transports()) leave_lane(s_.lane[&port - s_.port], size);
    if (!loses()) give_back(left, size, port.free);
  }

  // The port sends a packet into a channel, or to its target; `next` is what follows there. Returns its flits.
  DEVICE int32_t pass(Port& port, int32_t slot, int32_t next, int32_t channel, int64_t now) {
    const Packet& packet = s_.slot[slot].packet;
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
      free_slot(slot);
    } else {
      forward(port, slot, next, channel, size, now);
    }
    return size;
  }

  // The head leaves a queue.
  DEVICE void leave_queue(Port& port, int32_t place, Queue& queue, int64_t now) {
    const int32_t old = queue.head;
    queue.head = s_.slot[old].packet.next;
    if (transports() && s_.coming[&queue - s_.queue].before == old) s_.coming[&queue - s_.queue].before = kNone;
    if (queue.head == kNone) {
      queue.ready = kNever;
      forget(port, place);
      if (by_address()) free_queue(queue);
      return;
    }
    const Slot& head = s_.slot[queue.head];
    queue.ready = head.ready;
    prefetch(s_.slot + head.packet.next);  // the next head: deep queues are longer than caches
    if (output_queues()) return;
    if (queue.ready < now) queue.ready = now;
    forget(port, place);
    lead(queue, head.packet.step);
    remember(queue.port, b_.edge_turn[edge_ + head.packet.step], queue.ready);
  }

  DEVICE void forget(Port& port, int32_t place) const {
    if (!port.is_large()) {
      port.occupied &= ~(uint64_t{2} << place);
    } else {
      if (!by_address() || output_of(port).only == kNone)
        s_.occupied[first_word(port) + place / 64] &= ~(uint64_t{1} << (place % 64));
      port.occupied -= 2;
    }
    if (by_address()) output_of(port).only = kNone;
  }

  // A queue of this port has a head from `ready` on, which had none.
  DEVICE void remember(int32_t p, int32_t place, int64_t ready) const {
    Port& port = s_.port[p];
    wake(p, ready);
    if (!port.is_large()) {
      port.occupied |= uint64_t{2} << place;
      return;
    }
    if (!by_address() || output_of(port).only == kNone) set_bit(port, place);
    port.occupied += 2;
  }

  DEVICE void set_bit(const Port& port, int32_t place) const {
    s_.occupied[first_word(port) + place / 64] |= uint64_t{1} << (place % 64);
  }

  DEVICE void deliver(const Packet& packet, int64_t arrival) {
    latencies_.count(arrival - packet.born);
    Message& message = s_.message[packet.task];
    if (own_.arrives(packet.task, message, arrival))
      finish(tasks_.finished(packet.task, message.arrival + b_.nic_latency));
    if (!transports()) return;
    count(b_.delivered, b_.delivered_bytes, packet);
    tell(arrival, packet, packet.number & kMarked ? kMark : 0);
  }

  DEVICE void finish(const Event& event) {
    if constexpr (!Own::kAlone) {
      const int32_t task = tasks_.task(event);
      if (!own_.follows(task)) return own_.mail_to(own_.follower(task)).events.push_back(event);
    }
    tasks_.push(event);
  }

  DEVICE void forward(const Port& port, int32_t slot, int32_t next, int32_t channel, int32_t size, int64_t now) {
    if (by_address()) return forward_by_address(port, slot, channel, size, now);
    if (!loses()) take_room(s_.channel[channel], size, now);
    const int32_t edge = taken_edge(next, s_.slot[slot].packet);
    if constexpr (!Own::kAlone) {
      if (!has_edge(edge))
        return mail_packet(own_.template mail_for<&Cut::port>(b_.edge_port[edge_ + edge]), slot, edge, now);
    }
    wait(port, slot, edge, size, now);
  }

  // A packet that a port has begun to send at `now` goes to another part, where it takes an edge or lies in a channel.
  DEVICE void mail_packet(auto& to, int32_t slot, int32_t where, int64_t now) {
    const Packet& packet = s_.slot[slot].packet;
    to.packets.push_back({now, {{packet.born, packet.task, packet.step, packet.number, where}}});
    free_slot(slot);
  }

  // Returns whether the packets that take it wait in this part.
  DEVICE bool has_edge(int32_t edge) const {
    return output_queues() ? own_.template has<&Cut::queue>(s_.edge[edge].queue)
                           : own_.template has<&Cut::port>(b_.edge_port[edge_ + edge]);
  }

  // A packet that `port` has begun to send at `now` waits for the port of an edge.
  INLINED_ON_CPU void wait(const Port& port, int32_t slot, int32_t edge, int32_t size, int64_t now) {
    const Edge taken = s_.edge[edge];
    Queue& queue = s_.queue[taken.queue];
    const bool usual = output_queues() && size == full_ && queue.delay != kLongDelay;
    const int64_t ready = now + (usual ? queue.delay : delay(port, s_.port[b_.edge_port[edge_ + edge]], size));
    s_.slot[slot].packet.step = output_queues() ? taken.next : edge;
    const bool is_head = enqueue(queue, slot, ready);
    if (transports()) expect(queue, ready);
    if (!is_head) return;
    if (!output_queues()) lead(queue, edge);
    const int32_t place = output_queues() ? taken.queue - s_.port[queue.port].first_queue : b_.edge_turn[edge_ + edge];
    remember(queue.port, place, ready);
  }

  // Returns whether the packet is the head.
  DEVICE bool enqueue(Queue& queue, int32_t slot, int64_t ready) {
    s_.slot[slot].ready = ready;
    s_.slot[slot].packet.next = kNone;
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

  // Returns the time from when a port begins to send a packet until the next port can.
  DEVICE int64_t delay(const Port& port, const Port& next, int32_t size) const {
    return head_time(port, next, size) + port.latency + b_.switch_latency;
  }

  // Returns the same time, without latencies.
  DEVICE int64_t head_time(const Port& port, const Port& next, int32_t size) const {
    const int64_t taken = size == full_ ? port.full_time : time(port, size);
    if (!b_.cut_through) return taken;
    const int64_t flit = time(port, 1);
    if (next.byte_time >= port.byte_time) return flit;
    const int64_t without_gap = taken - (size == full_ ? next.full_time : time(next, size));
    return flit > without_gap ? flit : without_gap;
  }

  // Ports that lose or mark packets, and what messages do about it (transport.h)

  DEVICE void begin_transport() {
    for (int32_t t = 0; t < messages_; ++t) {
      Flow& flow = s_.flow[t];
      flow = {};
      flow.rate.begin();
      flow.allowed = b_.allowed[task_ + t];
      for (int64_t* count : {b_.sent, b_.sent_bytes, b_.delivered, b_.delivered_bytes, b_.lost_of, b_.lost_bytes})
        count[task_ + t] = 0;
    }
    for (int32_t p = 0; p < ports_; ++p) {
      s_.lane[p] = {kNever, 0, 0, 0, 0, 0, 0};
      b_.deepest[port_ + p] = 0;
    }
    const int64_t queues = b_.queue_offsets[world_ + 1] - b_.queue_offsets[world_];
    for (int64_t q = 0; q < queues; ++q) s_.coming[q] = {kNever, kNone, kNone};
  }

  DEVICE void count(int64_t* packets, int64_t* bytes, const Packet& packet) const {
    Own::add(packets[task_ + packet.task], 1);
    Own::add(bytes[task_ + packet.task], packet.number & kShort ? short_bytes(packet.task) : b_.size);
  }

  DEVICE static bool has_lost(const Flow& flow) { return flow.again + flow.last > 0; }

  // Sender `i` has sent `packet`; the next one waits for its turn, if there is one that may be sent.
  DEVICE void send_next(Port& port, int32_t i, const Packet& packet, int64_t now) {
    Sender& sender = s_.sender[i];
    Flow& flow = s_.flow[sender.task];
    if (has_lost(flow)) {
      --(flow.again ? flow.again : flow.last);
      if (++flow.resent > kMostLosses * sender.packets) gives_up_ = true;
    } else {
      ++sender.number;
    }
    --flow.allowed;
    count(b_.sent, b_.sent_bytes, packet);
    const int32_t size = size_of(packet.task, packet.number);
    int64_t gap = 0;
    if (b_.transport.control == kDcqcn) {
      const int64_t own = port_ + (&port - s_.port);
      flow.rate.catch_up(b_.transport, now, b_.step[own], b_.leap[own]);
      flow.rate.sent(b_.transport, size * b_.flit, b_.step[own], b_.leap[own]);
      gap = flow.rate.gap(time(port, size));
    }
    flow.earliest = now + (gap > sender.pace ? gap : sender.pace);
    flow.waits = may_send(sender, flow);
    if (!flow.waits) return;
    if (flow.earliest > now) return offer(i, flow.earliest);
    wait_again(port, i, now);
  }

  DEVICE static bool may_send(const Sender& sender, const Flow& flow) {
    return flow.allowed > 0 && (has_lost(flow) || sender.number < sender.packets);
  }

  // A message hears of a packet at `time`: at its receiver first, and then at its sender.
  DEVICE void tell(int64_t time, const Packet& packet, int32_t news) {
    tell(time, packet.task, news | (packet.number & kShort ? kLastOne : 0));
  }

  DEVICE void tell(int64_t time, int32_t task, int32_t news) {
    const Event event{time, kHeard + 16 * int64_t{task} + news};
    if constexpr (!Own::kAlone) {
      const int32_t nic = b_.root_port[root_ + b_.first_root[task_ + task]];
      const int32_t port = news & kAtSender ? nic : b_.puller[task_ + task];
      if (!own_.template has<&Cut::port>(port)) return own_.template mail_for<&Cut::port>(port).events.push_back(event);
    }
    s_.heard.push(event);
  }

  DEVICE void hear(const Event& event) {
    const int64_t heard = event.what - kHeard;
    const auto task = static_cast<int32_t>(heard / 16), news = static_cast<int32_t>(heard % 16);
    news& kAtSender ? hear_at_sender(task, news, event.time) : hear_at_receiver(task, news, event.time);
  }

  DEVICE void hear_at_receiver(int32_t task, int32_t news, int64_t now) {
    Flow& flow = s_.flow[task];
    if (now < flow.quiet) {
      news &= ~kMark;
    } else if (news & kMark) {
      flow.quiet = now + b_.transport.notice;
    }
    int64_t sent = now;
    if (b_.transport.control == kPulls) {
      if (!(news & kLost)) {
        if (flow.pulled == s_.sender[s_.first_sender[task]].packets - b_.allowed[task_ + task]) return;
        ++flow.pulled;
      }
      int64_t& pulls = s_.lane[b_.puller[task_ + task]].pulls;
      if (pulls > sent) sent = pulls;
      pulls = sent + b_.pull[task_ + task];
    }
    tell(sent + b_.back[task_ + task], task, news | kAtSender);
  }

  DEVICE void hear_at_sender(int32_t task, int32_t news, int64_t now) {
    const int32_t i = s_.first_sender[task], p = s_.sender[i].port;
    send_until(p, now);
    Flow& flow = s_.flow[task];
    ++flow.allowed;
    if (news & kLost) ++(news & kLastOne ? flow.last : flow.again);
    if (news & kMark && b_.transport.control == kDcqcn)
      flow.rate.cut(b_.transport, now, b_.step[port_ + p], b_.leap[port_ + p]);
    if (flow.waits || !may_send(s_.sender[i], flow)) return;
    flow.waits = true;
    offer(i, now > flow.earliest ? now : flow.earliest);
  }

  // A packet is on its way to the end of a queue.
  DEVICE void expect(Queue& queue, int64_t ready) {
    Coming& coming = s_.coming[&queue - s_.queue];
    if (coming.first == kNone) coming = {ready, coming.before, queue.tail};
    Lane& lane = s_.lane[queue.port];
    if (ready < lane.arrives) lane.arrives = ready;
    if (ready < s_.next[queue.port]) s_.next[queue.port] = ready;
  }

  // Packets that come to a port until `end` begin to wait, or are lost, in the order of their times.
  DEVICE void admit(int32_t p, int64_t end) {
    Lane& lane = s_.lane[p];
    while (lane.arrives <= end) {
      const Port& port = s_.port[p];
      int32_t found = kNone;
      int64_t first = kNever, second = kNever;
      for (int32_t place = 0; place < port.queues; ++place) {
        const int64_t time = s_.coming[port.first_queue + place].time;
        if (time < first) {
          second = first;
          first = time;
          found = place;
        } else if (time < second) {
          second = time;
        }
      }
      if (found != kNone) admit_one(p, found, first);
      const int64_t next = found == kNone ? kNever : s_.coming[port.first_queue + found].time;
      lane.arrives = next < second ? next : second;
    }
  }

  DEVICE void admit_one(int32_t p, int32_t place, int64_t now) {
    Port& port = s_.port[p];
    Lane& lane = s_.lane[p];
    Queue& queue = s_.queue[port.first_queue + place];
    Coming& coming = s_.coming[port.first_queue + place];
    const int32_t slot = coming.first;
    Packet& packet = s_.slot[slot].packet;
    const int32_t size = size_of(packet.task, packet.number), next = packet.next;
    const int32_t waits = lane.waiting + (now < port.free ? lane.sending : 0);
    coming.first = next;
    coming.time = next == kNone ? kNever : s_.slot[next].ready;
    if (loses() && waits + size > b_.depth[port_ + p]) {
      ++lane.lost;
      count(b_.lost_of, b_.lost_bytes, packet);
      lose(p, queue, packet, now);
      (coming.before == kNone ? queue.head : s_.slot[coming.before].packet.next) = next;
      if (queue.tail == slot) queue.tail = coming.before;
      free_slot(slot);
      if (coming.before != kNone) return;
      queue.ready = coming.time;
      if (next == kNone) forget(port, place);
      return;
    }
    if (!b_.transport.mark_leaving) mark(packet, p, waits);
    lane.waiting += size;
    if (waits + size > lane.most) lane.most = waits + size;
    coming.before = slot;
  }

  DEVICE static void leave_lane(Lane& lane, int32_t size) {
    lane.waiting -= size;
    lane.sending = size;
  }

  DEVICE void mark_leaving(Packet& packet, int32_t p) {
    mark(packet, p, s_.lane[p].waiting - size_of(packet.task, packet.number));
  }

  DEVICE void mark(Packet& packet, int32_t p, int32_t flits) {
    if (!is_marked(packet, p, int64_t{flits} * b_.flit)) return;
    packet.number |= kMarked;
    ++s_.lane[p].marked;
  }

  DEVICE bool is_marked(const Packet& packet, int32_t p, int64_t waits) const {
    const Transport& how = b_.transport;
    if (how.mark_to < 0 || packet.number & kMarked || waits <= how.mark_from) return false;
    if (waits >= how.mark_to) return true;
    const int64_t limit = how.mark_most * (waits - how.mark_from) / (how.mark_to - how.mark_from);
    return draws_
               .of(kMarks, tasks_.number(packet.task), packet.number & kNumber,
                   static_cast<uint32_t>(b_.first_seen[port_ + p]))
               .word[0] < limit;
  }

  // A trimmed packet continues as a flit in the time of an idle path; the sender of a dropped one waits.
  DEVICE void lose(int32_t p, const Queue& queue, const Packet& packet, int64_t now) {
    const Port& port = s_.port[p];
    if (b_.transport.loss == kTrims) return tell(now + rest(p, queue.after, packet), packet, kLost);
    const int64_t known = packet.born + b_.transport.timeout, least = now + time(port, 1) + port.latency;
    tell(known > least ? known : least, packet, kLost | kAtSender);
  }

  // ps until a flit that leaves port `p` has come to the target of a packet, which will be in `channel` next.
  DEVICE int64_t rest(int32_t p, int32_t channel, const Packet& packet) const {
    int64_t total = time(s_.port[p], 1) + s_.port[p].latency;
    for (int32_t next = packet.step; channel != kNone;) {
      const int32_t edge = taken_edge(next, packet);
      const Port& port = s_.port[b_.edge_port[edge_ + edge]];
      total += b_.switch_latency + time(port, 1) + port.latency;
      channel = b_.edge_channel[edge_ + edge];
      next = s_.edge[edge].next;
    }
    return total;
  }

  // Routers that forward by address (addresses.h)

  DEVICE bool by_address() const { return !kPlain && addresses_.routing != kByPaths; }
  DEVICE bool adapts() const { return !kPlain && addresses_.routing >= kAdaptive; }

  DEVICE void begin_by_address() {
    for (int32_t p = 0; p < ports_; ++p) {
      const int32_t first = b_.first_channel[port_ + p], buffer = first == kNone ? 0 : b_.buffer[channel_ + first];
      const int32_t place = first == kNone ? kNone : b_.place[channel_ + first];
      s_.output[p] = {0, addresses_.end(p), first, place, addresses_.level(p), buffer, kNone};
    }
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t p = port_of(c);
      const Output& port = s_.output[p];
      const auto level = static_cast<int16_t>(port.level), number = static_cast<int16_t>(c - port.first_channel);
      s_.input[c] = {p, port.router, b_.place[channel_ + c], level, number, s_.port[p].byte_time};
    }
    if (!adapts()) return;
    for (int32_t r = 0, p = 0; r <= routers_; ++r) {
      while (p < ports_ && b_.node[port_ + p] < r) ++p;
      s_.first_port[r] = p;
    }
  }

  DEVICE int32_t port_of(int64_t channel) const { return b_.channel_port[channel_ + channel]; }

  // Adaptive routers decide when the head of a packet has come, others when it is sent to them.
  DEVICE void forward_by_address(const Port& port, int32_t slot, int32_t channel, int32_t size, int64_t now) {
    take_room(s_.channel[channel], size, now);
    if constexpr (!Own::kAlone) {
      const int32_t router = s_.output[&port - s_.port].router;
      if (!own_.template has<&Cut::router>(router))
        return mail_packet(own_.template mail_for<&Cut::router>(router), slot, channel, now);
    }
    wait_by_address(port, slot, channel, size, now);
  }

  // A packet that `port` has begun to send at `now` waits at the router where the channel ends, or comes to it.
  DEVICE void wait_by_address(const Port& port, int32_t slot, int32_t channel, int32_t size, int64_t now) {
    if (adapts()) {
      const Output& output = output_of(port);
      const int32_t place = output.place + channel - output.first_channel;
      return arrivals_.add({now + delay(port, port, size), place, channel, slot, output.router});
    }
    const int32_t out = route(s_.input[channel], s_.slot[slot].packet, now);
    wait_at(channel, out, slot, now + delay(port, s_.port[out], size));
  }

  // What comes to routers, and what they send, until the end of the window. Others see nothing of what comes before, so
  // they need not take turns.
  DEVICE void forward(int64_t end) {
    arrivals_.collect(end);
    look_ahead_.begin_window();
    if (first_router_ < end_router_) find_awake(first_router_, end);
    for (int32_t router = first_router_; router < end_router_; ++router) {
      if (router + 1 < end_router_) find_awake(router + 1, end);
      for_each_awake(router, [&](int32_t p) { look_ahead_.at_first_packet(p); });
      while (arrivals_.has(router)) {
        look_ahead_.at_arrivals(arrivals_);
        come(arrivals_.pop());
      }
      for_each_awake(router, [&](int32_t p) { look_ahead_.at_its_channel(p); });
      for_each_awake(router, [&](int32_t p) { send_until(p, end); });
    }
  }

  // Bits of the ports of a router that may send before the end of the window. Those of the routers before it have p
  // ports, so at most p / 64 words and one each.
  DEVICE uint64_t* awake(int32_t router) const { return s_.awake_bits + s_.first_port[router] / 64 + router; }

  // Sets those bits, before anything comes to the router.
  DEVICE void find_awake(int32_t router, int64_t end) const {
    const int32_t first = s_.first_port[router], ports = s_.first_port[router + 1] - first;
    for (int32_t from = 0; from < ports; from += 64) {
      uint64_t& word = awake(router)[from / 64] = 0;
      for (int32_t i = from; i < from + 64 && i < ports; ++i) word |= uint64_t{s_.next[first + i] < end} << (i - from);
    }
    for_each_awake(router, [&](int32_t p) {
      look_ahead_.at_port(p);
      look_ahead_.at_output(p);
    });
  }

  template <class F>
  DEVICE void for_each_awake(int32_t router, const F& f) const {
    const int32_t first = s_.first_port[router], ports = s_.first_port[router + 1] - first;
    for (int32_t from = 0; from < ports; from += 64)
      for (uint64_t word = awake(router)[from / 64]; word; word &= word - 1) f(first + from + lowest_bit(word));
  }

  DEVICE void wake_in_window(int32_t router, int32_t p) const {
    const int32_t i = p - s_.first_port[router];
    awake(router)[i / 64] |= uint64_t{1} << (i % 64);
  }

  // A packet comes to its next router.
  DEVICE void come(const Arrival& arrival) {
    const Input& input = s_.input[arrival.channel];
    Packet& packet = s_.slot[arrival.slot].packet;
    const int32_t size = size_of(packet.task, packet.number), out = route(input, packet, arrival.ready);
    s_.output[out].waiting += size;
    int64_t ready = arrival.ready;
    if (s_.port[out].byte_time != input.byte_time) {
      const Port& port = s_.port[input.port];
      ready += head_time(port, s_.port[out], size) - head_time(port, port, size);
    }
    wait_at(arrival.channel, out, arrival.slot, ready);
  }

  DEVICE void wait_at(int32_t channel, int32_t out, int32_t slot, int64_t ready) {
    const Input& input = s_.input[channel];
    const Port& port = s_.port[out];
    if (!is_occupied(port, input.place)) hold(out, input, channel);
    if (!enqueue(queue_of(port, input.place), slot, ready)) return;
    remember(out, input.place, ready);
    if (adapts() && ready < end_) wake_in_window(input.router, out);
  }

  // A queue for what comes by an input and leaves by a port.
  DEVICE void hold(int32_t out, const Input& input, int32_t channel) {
    const Port& port = s_.port[out];
    Output& output = s_.output[out];
    const int32_t queue = take_queue();
    s_.queue[queue] = {kNever, {.place = input.place}, kNone, kNone, out, channel_after(input, output), channel};
    if (!has_packets(port)) {
      output.only = queue;
      return;
    }
    if (output.only != kNone) {
      const int32_t first = s_.queue[output.only].place;
      s_.in_place[port.first_queue + first] = output.only;
      if (port.is_large()) set_bit(port, first);
      output.only = kNone;
    }
    s_.in_place[port.first_queue + input.place] = queue;
  }

  DEVICE Words words(const Packet& packet, uint32_t branch) const {
    return draws_.of(tasks_.number(packet.task), packet.number, branch);
  }

  // The port by which a packet leaves the router at the end of its channel.
  DEVICE int32_t route(const Input& input, Packet& packet, int64_t now) {
    if (input.level == kUp) {
      packet.step = first_step(input, packet, now);
    } else if (addresses_.is_at_middle(input.router, packet.step)) {
      packet.step = less_occupied(input, packet, addresses_.drawn_direct(words(packet, kAtMiddle)), now);
    }
    return port_towards(input, packet, packet.step, now);
  }

  // The port by which a router sends a packet on if this is its step: of a set one is drawn. Adaptive routers compare
  // it with the next of the set, and take that if less is occupied there.
  DEVICE int32_t port_towards(const Input& input, const Packet& packet, int32_t step, int64_t now) {
    const Message& message = s_.message[packet.task];
    const int32_t router = input.router, entry = *addresses_.next(router, message.endpoint, message.router, step);
    const int32_t ports = addresses_.count(entry);
    if (ports == 1) return addresses_.port(entry, 0);
    const int32_t place = below(words(packet, static_cast<uint32_t>(router)).word[0], ports);
    const int32_t one = addresses_.port(entry, place), two = addresses_.port(entry, (place + 1) % ports);
    return adapts() && occupied(input, two, now).taken < occupied(input, one, now).taken ? two : one;
  }

  DEVICE int32_t first_step(const Input& input, const Packet& packet, int64_t now) {
    const int32_t router = input.router, target = s_.message[packet.task].router;
    const Steps drawn = addresses_.drawn_steps(router, target, words(packet, kAtSource));
    if (addresses_.routing == kMinimal || router == target) return drawn.direct;
    if (!adapts()) return drawn.around == kNone ? drawn.direct : drawn.around;
    const int32_t best = less_occupied(input, packet, drawn.direct, now);
    if (drawn.around == kNone) return best;
    const int32_t other = less_occupied(input, packet, drawn.around, now);
    return goes_around(input, packet, best, other, now) ? other : best;
  }

  DEVICE bool goes_around(const Input& input, const Packet& packet, int32_t direct, int32_t around, int64_t now) {
    const Occupied one = occupied(input, port_towards(input, packet, direct, now), now);
    const Occupied two = occupied(input, port_towards(input, packet, around, now), now);
    const int32_t router = input.router, endpoint = s_.message[packet.task].endpoint;
    if (addresses_.routing == kUgal)
      return one.taken * addresses_.hops(router, endpoint, direct) >
             two.taken * addresses_.hops(router, endpoint, around);
    return b_.by_free ? static_cast<double>(two.free) > b_.threshold * static_cast<double>(one.free)
                      : static_cast<double>(one.taken) > b_.threshold * static_cast<double>(two.taken);
  }

  // The same step, or by the next cable where that has less that is occupied.
  DEVICE int32_t less_occupied(const Input& input, const Packet& packet, int32_t step, int64_t now) {
    if (!adapts() || addresses_.cables == 1) return step;
    const int32_t next = addresses_.by_next_cable(step);
    const int32_t one = port_towards(input, packet, step, now);
    const int32_t two = port_towards(input, packet, next, now);
    return one != two && occupied(input, two, now).taken < occupied(input, one, now).taken ? next : step;
  }

  struct Occupied {
    int64_t taken, free;  // flits
  };

  // Of the buffer at the end of a port as its router knows it at `now`, and what waits for the port.
  DEVICE Occupied occupied(const Input& input, int32_t out, int64_t now) {
    send_until(out, now);
    const Output& output = s_.output[out];
    const int32_t after = channel_after(input, output);
    if (after == kNone) return {output.waiting, 0};
    Channel& c = s_.channel[after];
    collect(c, now);
    const int64_t taken = int64_t{output.buffer} - c.room + output.waiting;
    return {taken, taken < output.buffer ? output.buffer - taken : 0};
  }

  const PacketBatch& b_;
  int32_t world_;
  Own own_;
  State s_;
  Tasks tasks_;
  int32_t messages_, ports_;
  int64_t task_, port_;                    // the first
  int64_t window_, begin_ = 0, end_ = 0;   // ps; when the last one began and ends
  int32_t full_;                           // flits of a packet of the full size
  bool by_turns_;                          // else by age or by arrival
  int32_t free_slot_ = kNone, slots_ = 0;  // list of free slots; those from this number on have never been taken
  Draws draws_;
  int64_t root_, edge_, branch_, channel_;  // the first
  int32_t channels_;
  Addresses addresses_;
  int32_t routers_;                                            // 0: packets follow paths
  int32_t first_port_, end_port_, first_router_, end_router_;  // of this part; routers with adaptive routing only
  Arrivals arrivals_;                                          // that come to these
  LookAhead look_ahead_;
  int32_t queues_, free_queue_ = kNone;  // those from this number on have never been taken; list of free ones
  Latencies latencies_;                  // of packets
  Depths depths_;
  bool gives_up_ = false;  // a message does
};

}  // namespace topoflow::BACKEND::packet
