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

#include "state.h"

namespace topoflow::BACKEND::packet {

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
        full_(batch.size / batch.flit) {}

  DEVICE void begin() {
    s_.begin();
    const int64_t hop = b_.hop_offsets[world_], hops = b_.hop_offsets[world_ + 1] - hop;
    for (int64_t h = 0; h < hops; ++h)
      s_.hop[h] = {b_.hop_port[hop + h], b_.hop_channel[hop + h], b_.hop_queue[hop + h], b_.hop_turn[hop + h]};
    int32_t words = 0;
    for (int32_t p = 0; p < ports_; ++p) words = begin_port(p, words);
    begin_buffers();
    for (int64_t bin = 0; bin < kLatencyBins; ++bin) b_.latencies[world_ * kLatencyBins + bin] = 0;
    b_.latency_sum[world_] = b_.latency_most[world_] = 0;
    for (int32_t t = 0; t < tasks_; ++t) {
      const int64_t bytes = b_.bytes[task_ + t];
      b_.start[task_ + t] = b_.finish[task_ + t] = kNever;
      s_.message[t] = {bytes, bytes, 0, b_.first_hop[task_ + t], kNone};
      s_.pending[t] = b_.pending[task_ + t];
    }
    for (int32_t t = 0; t < tasks_; ++t)
      if (s_.pending[t] == 0) ready(t, 0);
  }

  // At most this many windows; kRunning: there are more.
  DEVICE Status advance(int32_t windows) {
    for (; windows > 0; --windows) {
      int64_t first = s_.events->time();
      for (int32_t p = 0; p < ports_; ++p) first = s_.next[p] < first ? s_.next[p] : first;
      if (first > b_.until[world_]) return kPaused;
      if (first >= kNever / 2) return first < kNever ? kTooLong : ended();
      const int64_t end = first + window_;
      while (s_.events->time() < end) happen(s_.events->pop());
      if (b_.output_queues) {
        for (int32_t p = 0; p < ports_; ++p)
          if (s_.next[p] < end) send_until(p, end);
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
      b_.active[port_ + p] = port.active;
      b_.stalled[port_ + p] = port.stalled;
      b_.port_bytes[port_ + p] = port.bytes;
      b_.packets[port_ + p] = port.packets;
    }
    const int64_t first = b_.channel_offsets[world_], channels = b_.channel_offsets[world_ + 1] - first;
    for (int64_t c = 0; c < channels; ++c) {
      b_.fullest[first + c] = b_.buffer[first + c] - s_.channel[c].least;
      b_.waits_for[first + c] = kNone;
    }
    const int64_t queue = b_.queue_offsets[world_], queues = b_.queue_offsets[world_ + 1] - queue;
    for (int64_t q = 0; q < queues; ++q) {
      if (s_.queue[q].ready == kNever) continue;
      int32_t& waits = b_.waits_for[first + b_.queue_channel[queue + q]];
      const int32_t next = s_.hop[s_.slot[s_.queue[q].head].hop].channel;
      if (waits == kNone) waits = next;
    }
  }

 private:
  // Before the first window

  DEVICE int32_t begin_port(int32_t p, int32_t words) {
    const int64_t row = b_.port_queues[port_ + p];
    const auto queues = static_cast<int32_t>(b_.port_queues[port_ + p + 1] - row);
    Port port{};
    port.latency = b_.latency[port_ + p];
    port.byte_time = b_.byte_time[port_ + p];
    port.full_time = time(port, full_);
    port.flit_time = time(port, 1);
    port.stalled_since = kNever;
    port.queues = queues;
    port.first_queue = static_cast<int32_t>(row - b_.port_queues[port_]);
    port.first_word = words;
    port.first = port.last = port.coming = kNone;
    s_.port[p] = port;
    s_.next[p] = kNever;
    for (int32_t word = 0; word < (queues + 63) / 64; ++word) s_.occupied[words++] = 0;
    return words;
  }

  DEVICE void begin_buffers() {
    const int64_t first = b_.channel_offsets[world_], channels = b_.channel_offsets[world_ + 1] - first;
    int32_t slot = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const int32_t slots = b_.slots[first + c], room = b_.buffer[first + c];
      s_.channel[c] = {kNever, room, room, kNone, slots ? slot : kNone, b_.channel_port[first + c], false};
      for (int32_t i = 0; i < slots; ++i, ++slot) s_.slot[slot].next = i + 1 < slots ? slot + 1 : kNone;
    }
    const int64_t queues = b_.queue_offsets[world_ + 1] - b_.queue_offsets[world_];
    for (int64_t q = 0; q < queues; ++q) s_.queue[q] = {kNever, kNone, kNone};
  }

  // Tasks

  DEVICE void ready(int32_t task, int64_t time) {
    const int64_t released = b_.release[task_ + task], begin = time > released ? time : released;
    b_.start[task_ + task] = begin;
    const bool sends = s_.message[task].unsent > 0;
    s_.events->push({begin + b_.delay[task_ + task] + (sends ? b_.nic_latency : 0), 2 * int64_t{task} + !sends});
  }

  DEVICE void happen(const Event& event) {
    const auto task = static_cast<int32_t>(event.what / 2);
    if (event.what % 2 == 0) {
      offer(task, event.time);
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
    const int64_t queues = b_.queue_offsets[world_ + 1] - b_.queue_offsets[world_];
    for (int64_t q = 0; q < queues; ++q)
      if (s_.queue[q].ready != kNever) return kBlocked;
    for (int32_t t = 0; t < tasks_; ++t)
      if (b_.finish[task_ + t] == kNever) return kDeadlock;
    return kDone;
  }

  // NICs

  // A message waits for its turn from `time` on.
  DEVICE void offer(int32_t task, int64_t time) {
    Message& message = s_.message[task];
    const int32_t p = s_.hop[message.first_hop].port;
    Port& port = s_.port[p];
    message.time = time;
    int32_t* at = &port.coming;  // by time, then task
    while (*at != kNone && (s_.message[*at].time < time || (s_.message[*at].time == time && *at < task)))
      at = &s_.message[*at].next;
    message.next = *at;
    *at = task;
    if (time < s_.next[p]) s_.next[p] = time;
  }

  DEVICE void append(Port& port, int32_t task) {
    s_.message[task].next = kNone;
    (port.first == kNone ? port.first : s_.message[port.last].next) = task;
    port.last = task;
  }

  // Whether the NIC has a packet that can be sent at `now`; else `soonest` is at most when it may have one.
  DEVICE bool nic_can_send(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    while (port.coming != kNone && s_.message[port.coming].time <= now) {
      const int32_t task = port.coming;
      port.coming = s_.message[task].next;
      append(port, task);
    }
    if (port.first == kNone) {
      if (port.coming != kNone && s_.message[port.coming].time < soonest) soonest = s_.message[port.coming].time;
      return false;
    }
    waits = true;
    const Message& message = s_.message[port.first];
    const auto bytes = static_cast<int32_t>(message.unsent < b_.size ? message.unsent : b_.size);
    return has_room(s_.hop[message.first_hop].channel, bytes, now, soonest);
  }

  DEVICE Slot leave_nic(Port& port, int64_t now) {
    const int32_t task = port.first;
    Message& message = s_.message[task];
    const auto bytes = static_cast<int32_t>(message.unsent < b_.size ? message.unsent : b_.size);
    message.unsent -= bytes;
    port.first = message.next;
    if (message.unsent > 0) {
      const int64_t pace = b_.pace[task_ + task];
      if (pace > 0) {
        offer(task, now + pace);
      } else {
        message.time = now;
        append(port, task);
      }
    }
    return {now, now, task, message.first_hop, bytes, kNone};
  }

  // Buffers

  DEVICE int32_t flits(int32_t bytes) const { return bytes == b_.size ? full_ : (bytes + b_.flit - 1) / b_.flit; }

  DEVICE bool has_room(int32_t channel, int32_t bytes, int64_t now, int64_t& soonest) {
    if (channel == kNone) return true;
    Channel& c = s_.channel[channel];
    const int32_t needed = flits(bytes);
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
        at = &slot.next;
        continue;
      }
      *at = slot.next;
      c.room += flits(slot.bytes);
      slot.next = c.free;
      c.free = i;
    }
  }

  DEVICE int32_t take_room(Channel& c, int32_t flits, int64_t now) {
    c.starved = false;
    c.room -= flits;
    if (c.room < c.least) {
      collect(c, now);
      if (c.room < c.least) c.least = c.room;
    }
    const int32_t slot = c.free;
    c.free = s_.slot[slot].next;
    return slot;
  }

  DEVICE void give_back(Channel& c, int32_t slot, int64_t gone) {
    const int64_t back = gone + s_.port[c.port].latency + b_.credit_latency;
    s_.slot[slot].ready = back;
    s_.slot[slot].next = c.credits;
    c.credits = slot;
    if (back < c.credit_time) c.credit_time = back;
    if (c.starved && back < s_.next[c.port]) s_.next[c.port] = back;
  }

  // Ports

  DEVICE int64_t time(const Port& port, int32_t flits) const {
    const double exact = static_cast<double>(flits * int64_t{b_.flit}) * port.byte_time;
    const auto whole = static_cast<int64_t>(exact);
    return whole + (static_cast<double>(whole) < exact);
  }

  // The first of the queues from..to-1 of a port whose head can be sent at `now`, else kNone.
  DEVICE int32_t first_queue(const Port& port, int32_t from, int32_t to, int64_t now, int64_t& soonest, bool& waits) {
    const uint64_t* const words = s_.occupied + port.first_word;
    const int32_t* const row = b_.queues + b_.port_queues[port_] + port.first_queue;
    for (int32_t i = from / 64; i * 64 < to; ++i) {
      uint64_t word = words[i];
      if (i * 64 < from) word &= ~uint64_t{0} << (from % 64);
      for (; word; word &= word - 1) {
        const int32_t place = i * 64 + lowest_bit(word);
        if (place >= to) break;
        const Queue& queue = s_.queue[row[place]];
        if (queue.ready > now) {
          if (queue.ready < soonest) soonest = queue.ready;
          continue;
        }
        waits = true;
        const Slot& slot = s_.slot[queue.head];
        if (has_room(s_.hop[slot.hop].channel, slot.bytes, now, soonest)) return place;
      }
    }
    return kNone;
  }

  // Whose turn it is at `now`, by round robin; kNone: nobody can send before `soonest`. `waits`: a packet is ready.
  DEVICE int32_t choose(Port& port, int64_t now, int64_t& soonest, bool& waits) {
    const int32_t turn = port.turn;
    if (turn > 0) {
      const int32_t place = first_queue(port, turn - 1, port.queues, now, soonest, waits);
      if (place != kNone) return place + 1;
    }
    if (nic_can_send(port, now, soonest, waits)) return 0;
    const int32_t place = first_queue(port, 0, turn > 0 ? turn - 1 : port.queues, now, soonest, waits);
    return place == kNone ? kNone : place + 1;
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
  DEVICE int64_t next_try(const Port& port) const {
    return port.occupied > 0 || port.first != kNone || port.coming != kNone ? port.free : kNever;
  }

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
    if (port.stalled_since != kNever) {
      port.stalled += now - port.stalled_since;
      port.stalled_since = kNever;
    }
    int32_t queue = kNone, old = kNone;
    Slot packet;
    if (turn == 0) {
      packet = leave_nic(port, now);
    } else {
      queue = b_.queues[b_.port_queues[port_] + port.first_queue + turn - 1];
      old = s_.queue[queue].head;
      packet = s_.slot[old];
    }
    const int32_t size = flits(packet.bytes);
    const int64_t taken = size == full_ ? port.full_time : time(port, size);
    port.free = now + taken;
    port.active += taken;
    port.bytes += packet.bytes;
    ++port.packets;
    if (turn > 0) leave_queue(port, turn - 1, queue, old, packet, now);
    const Hop hop = s_.hop[packet.hop];
    if (hop.channel == kNone) {
      deliver(packet, port.free + port.latency);
    } else {
      forward(port, hop, packet, size, taken, now);
    }
  }

  DEVICE void leave_queue(Port& port, int32_t place, int32_t q, int32_t old, const Slot& packet, int64_t now) {
    Queue& queue = s_.queue[q];
    queue.head = packet.next;
    if (packet.next == kNone) {
      queue.ready = kNever;
      forget(port, place);
    } else {
      const Slot& head = s_.slot[packet.next];
      queue.ready = head.ready;
      if (!b_.output_queues) {
        if (queue.ready < now) queue.ready = now;
        forget(port, place);
        remember(s_.hop[head.hop].port, s_.hop[head.hop - 1].turn, queue.ready);
      }
    }
    give_back(s_.channel[b_.queue_channel[b_.queue_offsets[world_] + q]], old, port.free);
  }

  DEVICE void forget(Port& port, int32_t place) {
    s_.occupied[port.first_word + place / 64] &= ~(uint64_t{1} << (place % 64));
    --port.occupied;
  }

  // A queue of this port has a head from `ready` on.
  DEVICE void remember(int32_t p, int32_t place, int64_t ready) {
    Port& port = s_.port[p];
    s_.occupied[port.first_word + place / 64] |= uint64_t{1} << (place % 64);
    ++port.occupied;
    if (ready < s_.next[p]) s_.next[p] = ready;
  }

  DEVICE void deliver(const Slot& packet, int64_t arrival) {
    const int64_t latency = arrival - packet.born;
    ++b_.latencies[world_ * kLatencyBins + latency_bin(latency)];
    b_.latency_sum[world_] += latency;
    if (latency > b_.latency_most[world_]) b_.latency_most[world_] = latency;
    Message& message = s_.message[packet.task];
    message.underway -= packet.bytes;
    if (message.underway == 0) s_.events->push({arrival + b_.nic_latency, 2 * int64_t{packet.task} + 1});
  }

  DEVICE void forward(const Port& port, const Hop& hop, const Slot& packet, int32_t size, int64_t taken, int64_t now) {
    const int32_t place = take_room(s_.channel[hop.channel], size, now);
    const int32_t next = s_.hop[packet.hop + 1].port;
    const int64_t ready = now + head_time(port, s_.port[next], size, taken) + port.latency + b_.switch_latency;
    s_.slot[place] = {ready, packet.born, packet.task, packet.hop + 1, packet.bytes, kNone};
    Queue& queue = s_.queue[hop.queue];
    if (queue.ready == kNever) {
      queue = {ready, place, place};
      remember(next, hop.turn, ready);
    } else {
      s_.slot[queue.tail].next = place;
      queue.tail = place;
    }
  }

  // From the beginning of a packet until the next port could begin to send it, were there no latencies.
  DEVICE int64_t head_time(const Port& port, const Port& next, int32_t size, int64_t taken) const {
    if (!b_.cut_through) return taken;
    if (next.byte_time >= port.byte_time) return port.flit_time;
    const int64_t without_gap = taken - (size == full_ ? next.full_time : time(next, size));
    return port.flit_time > without_gap ? port.flit_time : without_gap;
  }

  const PacketBatch& b_;
  int32_t world_;
  State s_;
  int32_t tasks_, ports_;
  int64_t task_, port_;  // the first
  int64_t window_;       // ps
  int32_t full_;         // flits of a packet of the full size
};

}  // namespace topoflow::BACKEND::packet
