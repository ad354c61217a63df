// Which packet a port sends next.
//
// A queue can send if its head is there and the next buffer has room for it. Of these, a port takes the next one in
// turn (round robin), the packet that left its NIC first (age), or the one that came to the port first (arrival).
//
//   bits 0, 2 and 3 are set, it is turn 2   ->   queues are asked in the order 2, 3, 0
//
// Source: Dally and Towles, "Principles and practices of interconnection networks", 2004, 18.3 (round robin);
// Abts and Weisser, "Age-based packet arbitration in large-radix k-ary n-cubes", SC 2007.
#pragma once

#include "nic.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Arbiter : public Base {
 public:
  using Base::b_, Base::full_, Base::s_, Base::find_queue, Base::has_room, Base::nic_can_send, Base::output_queues,
      Base::queue_of, Base::self, Base::size_of;
  using Base::Base;

  DEVICE bool by_arrival() const { return b_.model.by_arrival; }

  DEVICE int32_t size_of_head(const Queue& queue) const {
    const Packet& head = s_.slot[queue.head].packet;
    return size_of(head.task, head.number);
  }

  // Returns the first of the queues from..to-1 of a port whose head can be sent at `now`; kNone if there is none.
  DEVICE int32_t first_queue(const Port& port, int32_t from, int32_t to, int64_t now, int64_t& soonest,
                             bool& has_ready_packet) {
    return find_queue(port, from, to,
                      [&](int32_t, const Queue& queue) { return can_send(queue, now, soonest, has_ready_packet); });
  }

  // Returns whether the head of a queue can be sent at `now`; if not, lowers `soonest` to when it may be.
  DEVICE bool can_send(const Queue& queue, int64_t now, int64_t& soonest, bool& has_ready_packet) {
    if (queue.ready > now) {
      if (queue.ready < soonest) soonest = queue.ready;
      return false;
    }
    has_ready_packet = true;
    if (queue.after == kNone || self().loses() || s_.channel[queue.after].room >= full_) return true;
    return has_room(queue.after, size_of_head(queue), now, soonest);
  }

  // Returns whose turn it is at `now`: 0 for the NIC, 1 + i for queue i; kNone if nobody can send before `soonest`.
  // `has_ready_packet` becomes true if a packet is ready.
  DEVICE int32_t choose(Port& port, int64_t now, int64_t& soonest, bool& has_ready_packet) {
    if (!by_turns_) return first_come(port, now, soonest, has_ready_packet);
    const int32_t turn = port.turn;
    if (port.is_large()) return choose_of_many(port, turn, now, soonest, has_ready_packet);
    for (uint64_t word = rotated(port.occupied, turn); word; word &= word - 1) {
      const int32_t place = (lowest_bit(word) + turn) & 63;
      if (place == 0 ? nic_can_send(port, now, soonest, has_ready_packet)
                     : can_send(queue_of(port, place - 1), now, soonest, has_ready_packet))
        return place;
    }
    return kNone;
  }

  DEVICE int32_t choose_of_many(Port& port, int32_t turn, int64_t now, int64_t& soonest, bool& has_ready_packet) {
    if (turn > 0) {
      const int32_t place = first_queue(port, turn - 1, port.queues, now, soonest, has_ready_packet);
      if (place != kNone) return place + 1;
    }
    if (nic_can_send(port, now, soonest, has_ready_packet)) return 0;
    const int32_t place = first_queue(port, 0, turn > 0 ? turn - 1 : port.queues, now, soonest, has_ready_packet);
    return place == kNone ? kNone : place + 1;
  }

  // Returns the same by age or by arrival. Of equal packets, that of the first queue comes first. By age, a packet that
  // has not left its NIC comes last.
  DEVICE int32_t first_come(Port& port, int64_t now, int64_t& soonest, bool& has_ready_packet) {
    int32_t best = kNone;
    int64_t first = kNever;
    find_queue(port, 0, port.queues, [&](int32_t place, const Queue& queue) {
      const int64_t since = queue.ready > now ? 0 : has_waited_since(queue);
      if (since >= first || !can_send(queue, now, soonest, has_ready_packet)) return false;
      first = since;
      best = place + 1;
      return false;
    });
    if ((best != kNone && !by_arrival()) || !nic_can_send(port, now, soonest, has_ready_packet)) return best;
    return best == kNone || s_.sender[port.first].time <= first ? 0 : best;
  }

  // Returns the time by which heads are compared: when the head left its NIC, or when it came to the port. (The head of
  // an input queue may have come long before it was the head.)
  DEVICE int64_t has_waited_since(const Queue& queue) const {
    if (by_arrival() && output_queues()) return queue.ready;
    const Slot& head = s_.slot[queue.head];
    return by_arrival() ? head.ready : head.packet.born;
  }

  bool by_turns_ = !b_.model.by_age && !b_.model.by_arrival;
};

}  // namespace topoflow::BACKEND::packet
