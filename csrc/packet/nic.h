// Network interfaces: messages are cut into packets, and those of several messages take turns.
//
// Each message has a sender for each port at which its paths begin. A sender waits for its turn from the time of its
// next packet on: senders whose time has not come are ordered by it, the others are in a list.
//
//   two messages of 3 packets at 0 and 1 us, 1 us for each packet   round robin   a0 a1 b0 a2 b1 b2
//                                                                   in order      a0 a1 a2 b0 b1 b2
//
// Source: queue pairs of a host channel adapter are served by round robin, InfiniBand Architecture Specification,
// volume 1, release 1.3, 7.6.9; tests/twins/packet.py states the model.
#pragma once

#include "queues.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Nic : public Base {
 public:
  using Base::addresses_, Base::b_, Base::full_, Base::messages_, Base::region_, Base::root_, Base::s_, Base::task_,
      Base::tasks_, Base::by_address, Base::draw_row, Base::has_room, Base::self, Base::size_of;
  using Base::Base;
  using typename Base::Region;

  DEVICE void begin_messages() {
    int32_t senders = 0;
    for (int32_t t = 0; t < messages_; ++t) {
      s_.first_sender[t] = senders;
      senders += b_.tasks.roots[task_ + t];
      begin_message(t);
    }
  }

  DEVICE void begin_message(int32_t task) {
    const int64_t bytes = b_.tasks.bytes[task_ + task], packets = (bytes + b_.model.size - 1) / b_.model.size;
    const auto tail_bytes = static_cast<int32_t>(bytes % b_.model.size);
    const int32_t first = b_.tasks.first_root[task_ + task], roots = b_.tasks.roots[task_ + task];
    const bool addressed = by_address() && roots > 0;
    const int32_t endpoint = addressed ? b_.paths.root_next[root_ + first] : kNone;
    const int32_t router = addressed ? addresses_.router_of(endpoint) : kNone;
    s_.message[task] = {packets, 0, tail_bytes, (tail_bytes + b_.model.flit - 1) / b_.model.flit, endpoint, router};
    for (int32_t root = first; root < first + roots; ++root) {
      const int64_t row = root_ + root;
      s_.sender[s_.first_sender[task] + root - first] = {kNever,
                                                         -1,
                                                         packets,
                                                         b_.tasks.pace[task_ + task],
                                                         task,
                                                         root,
                                                         roots,
                                                         b_.paths.root_port[row],
                                                         b_.paths.root_channel[row],
                                                         b_.paths.root_next[row],
                                                         kNone,
                                                         tail_bytes != 0};
    }
  }

  // Returns the part that sends the message of a task; kNone: it has several senders, maybe in several parts.
  DEVICE int32_t sending_part(int32_t task) const {
    if (b_.tasks.roots[task_ + task] != 1) return kNone;
    return region_.template part_of<&Cut::port>(s_.sender[s_.first_sender[task]].port);
  }

  // The message of a task comes to the ports of its NIC that are of this region.
  DEVICE void offer_message(int32_t task, int64_t time) {
    const int32_t first = s_.first_sender[task], senders = s_.sender[first].roots;
    if (Region::kAlone || senders == 1) begin_round(task);
    for (int32_t i = first; i < first + senders; ++i) {
      if (!region_.template has<&Cut::port>(s_.sender[i].port)) continue;
      if (tasks_.repeats()) s_.sender[i].number = -1;
      offer_next(i, time);
    }
  }

  // The message of a task is sent, or is sent once more in another round. No part may send a packet of it earlier: a
  // packet that leaves by its last link counts as arrived in the same window.
  DEVICE void begin_round(int32_t task) {
    self().on_round(task);
    if (!tasks_.repeats()) return;
    s_.message[task].left = s_.sender[s_.first_sender[task]].packets;
    s_.message[task].arrival = 0;
  }

  // The next packet of a sender, if there is one, waits for its turn: from `time` on, or later where it is paced.
  DEVICE void offer_next(int32_t i, int64_t time) {
    Sender& sender = s_.sender[i];
    const int64_t before = sender.number;
    if (next_packet(sender)) offer(i, time + sender.pace * (sender.number - (before < 0 ? 0 : before)));
  }

  // Goes to the next packet that takes the sender's root, and returns whether there is one.
  DEVICE bool next_packet(Sender& sender) const {
    do {
      ++sender.number;
    } while (sender.roots > 1 && sender.number < sender.packets &&
             draw_row(b_.paths.root_bound + root_, b_.tasks.first_root[task_ + sender.task], sender.task, sender.number,
                      kAtNic) != sender.root);
    return sender.number < sender.packets;
  }

  // The next packet of sender `i` waits for its turn from `time` on.
  CALLED_ON_CPU void offer(int32_t i, int64_t time) {
    Sender& sender = s_.sender[i];
    const int32_t p = sender.port;
    Port& port = s_.port[p];
    sender.time = time;
    int32_t* at = &port.scheduled;  // by time, then sender
    if (port.scheduled != kNone && comes_before(port.last_scheduled, i)) at = &s_.sender[port.last_scheduled].next;
    while (*at != kNone && comes_before(*at, i)) at = &s_.sender[*at].next;
    sender.next = *at;
    *at = i;
    if (sender.next == kNone) port.last_scheduled = i;
    port.occupied |= 1;
    if (time < s_.next[p]) s_.next[p] = time;
  }

  DEVICE bool comes_before(int32_t one, int32_t other) const {
    const int64_t time = s_.sender[one].time, later = s_.sender[other].time;
    return time < later || (time == later && is_before(one, other));
  }

  // Returns whether a sender comes before another one of the same time: by task, in the order of rounds.
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

  // Queues the next packet of a message: last, or first if messages are sent in order.
  DEVICE void requeue(Port& port, int32_t i, int64_t now) {
    if (b_.model.in_order) return prepend(port, i);
    s_.sender[i].time = now;
    append(port, i);
  }

  // Returns whether the NIC can send a packet at `now`; if not, lowers `soonest` to when it may have one.
  DEVICE bool nic_can_send(Port& port, int64_t now, int64_t& soonest, bool& has_ready_packet) {
    while (port.scheduled != kNone && s_.sender[port.scheduled].time <= now) {
      const int32_t i = port.scheduled;
      port.scheduled = s_.sender[i].next;
      append(port, i);
    }
    if (port.first == kNone) {
      if (port.scheduled != kNone && s_.sender[port.scheduled].time < soonest) soonest = s_.sender[port.scheduled].time;
      return false;
    }
    has_ready_packet = true;
    const Sender& sender = s_.sender[port.first];
    if (sender.channel == kNone || self().loses()) return true;
    const Channel& channel = s_.channel[sender.channel];
    return channel.room >= full_ ||
           has_room(sender.channel, size_of(sender.task, self().number_of(sender)), now, soonest);
  }

  // Returns the number of a sender's next packet.
  DEVICE uint32_t number_of(const Sender& sender) const {
    const bool is_short = sender.ends_short && sender.number == sender.packets - 1;
    return (static_cast<uint32_t>(sender.number) & kNumber) | (is_short ? kShort : 0);
  }

  // Removes the first packet of a NIC and returns it.
  DEVICE Packet leave_nic(Port& port, int64_t now) {
    const int32_t i = port.first;
    Sender& sender = s_.sender[i];
    port.first = sender.next;
    Packet packet{now, sender.task, sender.step, self().number_of(sender), kNone};
    self().send_next(port, i, packet, now);
    if (port.first != kNone)
      prefetch(&s_.sender[port.first]);
    else if (port.scheduled == kNone)
      port.occupied &= ~uint64_t{1};
    return packet;
  }

  // Sender `i` has sent a packet at `now`; the next one waits for its turn.
  DEVICE void send_next(Port& port, int32_t i, Packet&, int64_t now) {
    Sender& sender = s_.sender[i];
    const int64_t before = sender.number;
    if (!next_packet(sender)) return;
    if (sender.pace > 0) {
      offer(i, now + sender.pace * (sender.number - before));
    } else {
      requeue(port, i, now);
    }
  }
};

}  // namespace topoflow::BACKEND::packet
