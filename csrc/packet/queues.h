// The packets that wait for a port, in queues.
//
// A port has a queue for each channel that its packets come by (virtual output queues); with input queues, a channel
// has one queue, which waits for the port that its head needs. A bit of a word says which queues hold a packet, so that
// an arbiter looks only at those. By address there are far more places for queues than packets: a queue is of a pool
// while it holds a packet, and a row has its number.
//
//   a port with 3 queues, the NIC and queues 0 and 2 have packets:   occupied = 1101 (bit 0: the NIC)
//
// Source: virtual output queues, Tamir and Frazier, "High-performance multi-queue buffers for VLSI communication
// switches", ISCA 1988.
#pragma once

#include "credits.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Queues : public Base {
 public:
  using Base::b_, Base::edge_, Base::full_, Base::port_, Base::s_, Base::world_, Base::by_address, Base::delay,
      Base::output_queues, Base::port_of, Base::self, Base::time, Base::wake;
  using Base::Base;

  DEVICE void begin_port(int32_t p) {
    const int64_t row = b_.ports.port_queues[port_ + p];
    const auto queues = static_cast<int32_t>(b_.ports.port_queues[port_ + p + 1] - row);
    Port port{};
    port.latency = b_.ports.latency[port_ + p];
    port.byte_time = b_.ports.byte_time[port_ + p];
    port.full_time = time(port, full_);
    port.stalled_since = kNever;
    port.queues = queues;
    port.first_queue = static_cast<int32_t>(row - b_.ports.port_queues[port_]);
    port.first = port.last = port.scheduled = port.last_scheduled = kNone;
    s_.port[p] = port;
    s_.next[p] = kNever;
    if (!port.is_large()) return;
    uint64_t* const words = s_.occupied + first_word(s_.port[p]);
    for (int32_t word = 0; word < (queues + 63) / 64; ++word) words[word] = 0;
  }

  // By address a queue begins with its first packet, so that few pages of memory are touched in a large network.
  DEVICE void begin_queues() {
    if (by_address()) return;
    const int64_t first = b_.ports.queue_offsets[world_], queues = b_.ports.queue_offsets[world_ + 1] - first;
    for (int64_t q = 0; q < queues; ++q) {
      s_.queue[q] = {kNever, {0}, kNone, kNone, 0, kNone, b_.ports.queue_channel[first + q]};
      self().on_open(s_.queue[q]);
    }
    const int64_t edges = b_.paths.edge_offsets[world_ + 1] - edge_;
    for (int64_t e = 0; e < edges; ++e) {
      s_.edge[e] = {b_.paths.edge_queue[edge_ + e], b_.paths.edge_next[edge_ + e]};
      Queue& queue = s_.queue[s_.edge[e].queue];
      set_head(queue, static_cast<int32_t>(e));
      const int64_t usual = delay(s_.port[port_of(queue.channel)], s_.port[queue.port], full_);
      queue.delay = usual < kLongDelay ? static_cast<uint32_t>(usual) : kLongDelay;
    }
  }

  // Sets the port that the head of a queue waits for, and its next channel: those of this edge.
  DEVICE void set_head(Queue& queue, int32_t edge) const {
    queue.port = b_.paths.edge_port[edge_ + edge];
    queue.after = b_.paths.edge_channel[edge_ + edge];
  }

  // Returns the first word of a large port. The p ports before it have q queues, which take p + q / 64 words at most.
  DEVICE int64_t first_word(const Port& port) const { return &port - s_.port + port.first_queue / 64; }

  DEVICE Queue& queue_of(const Port& port, int32_t place) const {
    const int32_t at = port.first_queue + place;
    if (by_address()) {
      const int32_t only = output_of(port).only;
      return s_.queue[only != kNone ? only : s_.in_place[at]];
    }
    return s_.queue[output_queues() ? at : b_.ports.queues[b_.ports.port_queues[port_] + at]];
  }

  DEVICE Output& output_of(const Port& port) const { return s_.output[&port - s_.port]; }

  // Returns whether packets wait for the port, other than those of the NIC.
  DEVICE static bool has_packets(const Port& port) { return port.occupied > 1; }

  // Returns whether a queue of a port holds a packet.
  DEVICE bool is_occupied(const Port& port, int32_t place) const {
    if (!port.is_large()) return port.occupied >> (place + 1) & 1;
    if (!has_packets(port)) return false;
    if (by_address() && output_of(port).only != kNone) return s_.queue[output_of(port).only].place == place;
    return s_.occupied[first_word(port) + place / 64] >> (place % 64) & 1;
  }

  // Returns the first of the queues from..to-1 of a port that holds a packet and for which is_wanted(place, queue) is
  // true; kNone if there is none.
  template <class F>
  DEVICE int32_t find_queue(const Port& port, int32_t from, int32_t to, const F& is_wanted) const {
    if (!has_packets(port)) return kNone;
    if (by_address() && output_of(port).only != kNone) {
      const Queue& queue = s_.queue[output_of(port).only];
      return from <= queue.place && queue.place < to && is_wanted(queue.place, queue) ? queue.place : kNone;
    }
    const uint64_t small_word = port.occupied >> 1, *const words =
                                                        port.is_large() ? s_.occupied + first_word(port) : &small_word;
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

  // Appends a packet to a queue, and returns whether it is the head.
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

  // Removes the head of a queue.
  DEVICE void leave_queue(Port& port, int32_t place, Queue& queue, int64_t now) {
    const int32_t old = queue.head;
    queue.head = s_.slot[old].packet.next;
    self().on_dequeue(queue, old);
    if (queue.head == kNone) return end_queue(port, place, queue);
    const Slot& head = s_.slot[queue.head];
    queue.ready = head.ready;
    prefetch(s_.slot + head.packet.next);  // the next head: deep queues are longer than caches
    if (output_queues()) return;
    if (queue.ready < now) queue.ready = now;
    vacate(port, place);
    set_head(queue, head.packet.step);
    occupy(queue.port, b_.paths.edge_turn[edge_ + head.packet.step], queue.ready);
  }

  // A queue of this port holds no packet any more.
  DEVICE void end_queue(Port& port, int32_t place, Queue& queue) {
    queue.ready = kNever;
    vacate(port, place);
    if (by_address()) free_queue(queue);
  }

  // A queue of this port no longer has a head.
  DEVICE void vacate(Port& port, int32_t place) const {
    if (!port.is_large()) {
      port.occupied &= ~(uint64_t{2} << place);
    } else {
      if (!by_address() || output_of(port).only == kNone)
        s_.occupied[first_word(port) + place / 64] &= ~(uint64_t{1} << (place % 64));
      port.occupied -= 2;
    }
    if (by_address()) output_of(port).only = kNone;
  }

  // An empty queue of port `p` gets a head, which can be sent from `ready` on.
  DEVICE void occupy(int32_t p, int32_t place, int64_t ready) const {
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

  // Takes a queue from the pool for the packets that come by an input and leave by a port.
  DEVICE void open_queue(int32_t out, const Input& input, int32_t channel) {
    const Port& port = s_.port[out];
    Output& output = s_.output[out];
    const int32_t queue = take_queue();
    s_.queue[queue] = {kNever, {.place = input.place}, kNone, kNone, out, channel_after(input, output), channel};
    self().on_open(s_.queue[queue]);
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

  int32_t queues_ = s_.first_queue, free_queue_ = kNone;  // queues from this number on are new; list of free ones
};

}  // namespace topoflow::BACKEND::packet
