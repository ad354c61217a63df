// A port sends packets to the end of a window.
//
// It sends the packet that the arbiter chooses, and is busy for as long as the packet has flits. The packet goes into
// the queue of its next port, with the time at which that port can send it, or to its target; the room that it left
// becomes a credit. A port that could send nothing has stalled if a packet waited for room.
//
//   packets of 1 us, the next buffer has room from 2.5 us on     sends at 0, 1 and 2.5 us, stalled for 0.5 us
//
// Source: tests/twins/packet.py states the model.
#pragma once

#include "packet/routing/router.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Ports : public Base {
 public:
  using Base::b_, Base::edge_, Base::end_port_, Base::first_port_, Base::full_, Base::region_, Base::s_, Base::tasks_,
      Base::adapts, Base::admit, Base::after_departure, Base::by_address, Base::choose, Base::delay, Base::end_sending,
      Base::enqueue, Base::forward_by_address, Base::free_slot, Base::leave_nic, Base::leave_queue, Base::loses,
      Base::occupy, Base::on_delivery, Base::on_departure, Base::on_enqueue, Base::on_nic_departure,
      Base::output_queues, Base::queue_of, Base::reserve_room, Base::return_credit, Base::set_head, Base::short_bytes,
      Base::size_of, Base::take_slot, Base::choose_edge, Base::time;
  using Base::Base;
  using typename Base::Region;

  // Lets all ports of this region send to the end of the window.
  DEVICE void send_all(int64_t end) {
    int32_t *const awake = s_.awake + first_port_, *last = awake;
    for (int32_t p = first_port_; p < end_port_; ++p) {
      *last = p;
      last += s_.next[p] < end;  // no branch: it would be hard to predict
    }
    for (const int32_t* p = awake; p < last; ++p) {
      if (p + 1 < last) prefetch(&s_.port[p[1]]);
      send_in_window(*p, end);
    }
  }

  // Lets a port send all packets that it can begin before `end`.
  CALLED_ON_GPU void send_until(int32_t p, int64_t end) { send_in_window(p, end); }

  INLINED_ON_CPU void send_in_window(int32_t p, int64_t end) {
    Port& port = s_.port[p];
    int64_t now = s_.next[p] > port.free ? s_.next[p] : port.free;
    while (now < end) {
      admit(p, now);
      int64_t soonest = kNever;
      bool has_ready_packet = false;
      const int32_t turn = choose(port, now, soonest, has_ready_packet);
      if (turn != kNone) {
        send(port, turn, now);
        now = next_try(port);
      } else {
        if (has_ready_packet && port.stalled_since == kNever) port.stalled_since = now;
        now = soonest;
      }
    }
    s_.next[p] = now;
    end_sending(p, end, now);
  }

  // Returns when a port that has just begun to send may send again.
  DEVICE int64_t next_try(const Port& port) const { return port.occupied ? port.free : kNever; }

  // Returns the port that looks for a packet first.
  DEVICE int32_t earliest() const {
    int32_t first = first_port_;
    for (int32_t p = first + 1; p < end_port_; ++p)
      if (s_.next[p] < s_.next[first]) first = p;
    return first;
  }

  // Lets a port send one packet, if it can. With input queues, ports take turns in the order of their times.
  DEVICE void try_once(int32_t p) {
    Port& port = s_.port[p];
    const int64_t now = s_.next[p];
    if (now < port.free) {
      s_.next[p] = port.free;
      return;
    }
    int64_t soonest = kNever;
    bool has_ready_packet = false;
    const int32_t turn = choose(port, now, soonest, has_ready_packet);
    s_.next[p] = soonest;
    if (turn == kNone) {
      if (has_ready_packet && port.stalled_since == kNever) port.stalled_since = now;
      return;
    }
    s_.next[p] = kNever;
    send(port, turn, now);
    const int64_t next_time = next_try(port);
    if (next_time < s_.next[p]) s_.next[p] = next_time;
  }

  // A port begins to send the packet of the NIC (turn 0) or of queue turn - 1.
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
    int32_t slot, next, left_channel = kNone;  // the channel that the packet leaves
    int32_t channel;
    if (turn == 0) {
      channel = s_.sender[port.first].channel;
      slot = take_slot();
      s_.slot[slot].packet = leave_nic(port, now);
      next = s_.slot[slot].packet.step;
      on_nic_departure(port);
    } else {
      Queue& queue = queue_of(port, turn - 1);
      slot = queue.head;
      channel = queue.after;
      left_channel = queue.channel;
      Packet& packet = s_.slot[slot].packet;
      next = output_queues() ? packet.step : s_.edge[packet.step].next;
      on_departure(port, packet, now);
      if (adapts()) s_.output[queue.port].waiting -= size_of(packet.task, packet.number);
      leave_queue(port, turn - 1, queue, now);
    }
    const int32_t size = transmit(port, slot, next, channel, now);
    if (left_channel == kNone) return;
    after_departure(port, size);
    if (!loses()) return_credit(left_channel, size, port.free);
  }

  // Sends a packet into a channel or to its target, and returns its flits. `next` says what follows the channel.
  DEVICE int32_t transmit(Port& port, int32_t slot, int32_t next, int32_t channel, int64_t now) {
    const Packet& packet = s_.slot[slot].packet;
    int32_t size = full_;
    int64_t duration = port.full_time;
    if (packet.number & kShort) {
      size = size_of(packet.task, packet.number);
      duration = time(port, size);
      ++port.short_packets;
      port.short_bytes += short_bytes(packet.task);
      port.short_time += duration;
    }
    port.free = now + duration;
    ++port.packets;
    if (channel == kNone) {
      deliver(packet, port.free + port.latency);
      free_slot(slot);
    } else {
      forward(port, slot, next, channel, size, now);
    }
    return size;
  }

  // A packet arrives at its target at `arrival`, ps.
  DEVICE void deliver(const Packet& packet, int64_t arrival) {
    latencies_.count(arrival - packet.born);
    Message& message = s_.message[packet.task];
    if (region_.arrives(packet.task, message, arrival))
      finish(tasks_.finished(packet.task, message.arrival + b_.model.nic_latency));
    on_delivery(packet, arrival);
  }

  // A task finishes: its event goes to the part that follows the task.
  DEVICE void finish(const Event& event) {
    if constexpr (!Region::kAlone) {
      const int32_t task = tasks_.task(event);
      if (!region_.follows(task)) return region_.mail_to(region_.follower(task)).events.push_back(event);
    }
    tasks_.push(event);
  }

  // Sends a packet into a channel.
  DEVICE void forward(const Port& port, int32_t slot, int32_t next, int32_t channel, int32_t size, int64_t now) {
    if (!loses()) reserve_room(s_.channel[channel], size, now);
    if (by_address()) return forward_by_address(port, slot, channel, size, now);
    const int32_t edge = choose_edge(next, s_.slot[slot].packet);
    if constexpr (!Region::kAlone) {
      if (!has_edge(edge))
        return mail_packet(region_.template mail_for<&Cut::port>(b_.paths.edge_port[edge_ + edge]), slot, edge, now);
    }
    enqueue_by_path(port, slot, edge, size, now);
  }

  // A packet that a port has begun to send at `now` goes to another part; `destination` is its edge, or by address its
  // channel.
  DEVICE void mail_packet(auto& to, int32_t slot, int32_t destination, int64_t now) {
    const Packet& packet = s_.slot[slot].packet;
    to.packets.push_back({now, {{packet.born, packet.task, packet.step, packet.number, destination}}});
    free_slot(slot);
  }

  // Returns whether the packets that take an edge wait in this region.
  DEVICE bool has_edge(int32_t edge) const {
    return output_queues() ? region_.template has<&Cut::queue>(s_.edge[edge].queue)
                           : region_.template has<&Cut::port>(b_.paths.edge_port[edge_ + edge]);
  }

  // A packet that `port` has begun to send at `now` waits for the port of an edge.
  INLINED_ON_CPU void enqueue_by_path(const Port& port, int32_t slot, int32_t edge, int32_t size, int64_t now) {
    const Edge step = s_.edge[edge];
    Queue& queue = s_.queue[step.queue];
    const bool usual = output_queues() && size == full_ && queue.delay != kLongDelay;
    const int64_t ready = now + (usual ? queue.delay : delay(port, s_.port[b_.paths.edge_port[edge_ + edge]], size));
    s_.slot[slot].packet.step = output_queues() ? step.next : edge;
    const bool is_head = enqueue(queue, slot, ready);
    on_enqueue(queue, ready);
    if (!is_head) return;
    if (!output_queues()) set_head(queue, edge);
    const int32_t place =
        output_queues() ? step.queue - s_.port[queue.port].first_queue : b_.paths.edge_turn[edge_ + edge];
    occupy(queue.port, place, ready);
  }

  Latencies latencies_{s_.latencies};  // of packets
};

}  // namespace topoflow::BACKEND::packet
