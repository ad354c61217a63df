// Periodic states: what a world does again and again is counted, not simulated.
//
// While messages send packet after packet, and nothing is drawn, the state of a world comes back after a period, later
// by it: which packets wait where, credits, turns, times less the current one. From then on each period does the same,
// until a message has two packets left or a task has an event. So the whole periods until then are skipped: times move
// by them, and counters grow by what one period has added.
//
//   three messages of 1,000 packets through one port, 1 us for each packet:   a0 b0 c0 a1 b1 c1 a2 b2 c2 ...
//   at 3 and 6 us the same is there, and it is the same turn: the period is 3 us. Each has 998 packets left, so 996
//   periods are skipped.
//
// States are compared by a digest of 128 bits. An idle port has no part in it: if it sends in the period its time and
// turn are compared as numbers.
//
// Source: detection of a cycle by comparing with states at powers of two, Brent, "An improved Monte Carlo factorization
// algorithm", BIT 20, 1980; digests are finished as in MurmurHash3 (Appleby).
#pragma once

#include "packet/ports.h"

namespace topoflow::BACKEND::packet {

// The sum of digests of parts of a state, in any order.
struct Digest {
  uint64_t one = 0, two = 0;

  DEVICE void add(const Digest& other) {
    one += other.one;
    two += other.two;
  }
  DEVICE bool operator==(const Digest& other) const { return one == other.one && two == other.two; }
};

// The digest of a sequence of numbers.
class Sequence {
 public:
  DEVICE Sequence& add(int64_t number) {
    const auto word = static_cast<uint64_t>(number);
    one_ = (one_ ^ word) * 0xc6a4a7935bd1e995u;
    one_ ^= one_ >> 32;
    two_ = ((two_ << 27 | two_ >> 37) + word) * 0x9fb21c651e98df25u;
    two_ ^= two_ >> 29;
    return *this;
  }
  DEVICE Digest end() const { return {finished(one_), finished(two_)}; }

 private:
  DEVICE static uint64_t finished(uint64_t word) {
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdu;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53u;
    return word ^ word >> 33;
  }

  uint64_t one_ = 0x243f6a8885a308d3u, two_ = 0x13198a2e03707344u;  // digits of pi
};

// The digest of the state of a region, its counters at an earlier state, and the step over whole periods.
template <class Base>
class Periods : public Base {
 public:
  using Base::b_, Base::channel_, Base::channels_, Base::end_port_, Base::first_port_, Base::latencies_, Base::region_,
      Base::s_, Base::collect, Base::delay_credits, Base::find_queue, Base::for_each_credit, Base::queue_of;
  using Base::Base;

  // Returns the digest of all that decides what the region does from `now` on. All ports have sent until then.
  DEVICE Digest digest(int64_t now) {
    Digest result;
    for (int32_t p = first_port_; p < end_port_; ++p)
      if (!is_idle(p, now)) add_port(result, p, now);
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c) add_channel(result, c, now);
    return result;
  }

  // Returns the digest of a small part of that: when ports send next, and in whose turn.
  DEVICE Digest outline(int64_t now) const {
    Sequence words;
    for (int32_t p = first_port_; p < end_port_; ++p)
      if (s_.next[p] < kNever)
        words.add(p).add(static_cast<int64_t>(s_.port[p].occupied)).add(s_.port[p].turn).add(s_.next[p] - now);
    return words.end();
  }

  // Remembers the counters of the region, and counts the most that is taken of each buffer anew.
  DEVICE void remember_counters(bool anew) {
    for (int32_t p = first_port_; p < end_port_; ++p) {
      const Port& port = s_.port[p];
      s_.earlier[p] = {port.free,           port.packets,  port.stalled, port.turn,
                       port.idle_intervals, port.idle_1us, port.idle_1ms};
      for_each_sender(port, [&](int32_t i) { s_.earlier_number[i] = s_.sender[i].number; });
    }
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c) {
      Channel& channel = s_.channel[c];
      if (anew || channel.least_room < s_.other_least_room[c]) s_.other_least_room[c] = channel.least_room;
      channel.least_room = channel.room;  // the digest has collected
    }
    latencies_.remember(s_.earlier_latencies);
  }

  // Forgets that: the most that was taken is that of all of the interval again.
  DEVICE void forget_counters() {
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c)
      if (s_.other_least_room[c] < s_.channel[c].least_room) s_.channel[c].least_room = s_.other_least_room[c];
  }

  // Returns whether ports that are idle, but have sent in the period, are as they were a period ago.
  DEVICE bool is_idle_alike(int64_t period) const {
    for (int32_t p = first_port_; p < end_port_; ++p) {
      const Port& port = s_.port[p];
      const EarlierPort& earlier = s_.earlier[p];
      if (port.packets != earlier.packets && (port.free != earlier.free + period || port.turn != earlier.turn))
        return false;
    }
    return true;
  }

  // Returns the periods until the first message of the region has two packets left, kNever: none sends.
  DEVICE int64_t periods_left() const {
    int64_t fewest = kNever;
    for (int32_t p = first_port_; p < end_port_; ++p) {
      for_each_sender(s_.port[p], [&](int32_t i) {
        const Sender& sender = s_.sender[i];
        const int64_t sent = sender.number - s_.earlier_number[i], remaining = sender.packets - 2 - sender.number;
        if (sent > 0 && remaining / sent < fewest) fewest = remaining > 0 ? remaining / sent : 0;
      });
    }
    return fewest;
  }

  // Skips `periods` periods, which last `by` ps. Returns the packet-hops in them.
  DEVICE int64_t skip_periods(int64_t periods, int64_t by) {
    int64_t hops = 0;
    for (int32_t p = first_port_; p < end_port_; ++p) {
      if (s_.port[p].packets == s_.earlier[p].packets) continue;
      hops += periods * (s_.port[p].packets - s_.earlier[p].packets);
      skip_of_port(p, periods, by);
    }
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c) delay_credits(s_.channel[c], by);
    latencies_.repeat(s_.earlier_latencies, periods);
    return hops;
  }

  // Returns `other` (kNone: none), or a port of the region that is slower and whose NIC has a message to send.
  DEVICE int32_t slower_nic(int32_t other) const {
    for (int32_t p = first_port_; p < end_port_; ++p)
      if (s_.port[p].occupied & 1 && s_.next[p] < kNever &&
          (other == kNone || s_.port[p].full_time > s_.port[other].full_time))
        other = p;
    return other;
  }

  // Exchanges the most that was taken in the interval, now that of all of it, with that of the period.
  DEVICE void end_period() {
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c) {
      const int32_t of_period = s_.channel[c].least_room;
      if (s_.other_least_room[c] < of_period) s_.channel[c].least_room = s_.other_least_room[c];
      s_.other_least_room[c] = of_period;
    }
  }

  // Another interval begins in a skipped period.
  DEVICE void begin_of_period(int32_t c) const {
    Channel& channel = s_.channel[c];
    const int32_t taken = b_.ports.buffer[channel_ + c] - channel.least_room;
    int32_t& fullest = b_.out.fullest[channel_ + c];
    if (taken > fullest) fullest = taken;
    channel.least_room = s_.other_least_room[c];
  }

 private:
  DEVICE static int64_t since(int64_t time, int64_t now) { return time < kNever ? time - now : kNever; }

  DEVICE bool is_idle(int32_t p, int64_t now) const {
    return s_.port[p].occupied == 0 && s_.next[p] == kNever && s_.port[p].free <= now;
  }

  template <class F>
  DEVICE void for_each_sender(const Port& port, const F& f) const {
    for (int32_t i = port.first; i != kNone; i = s_.sender[i].next) f(i);
    for (int32_t i = port.scheduled; i != kNone; i = s_.sender[i].next) f(i);
  }

  DEVICE void add_port(Digest& sum, int32_t p, int64_t now) const {
    const Port& port = s_.port[p];
    Sequence words;
    words.add(p).add(static_cast<int64_t>(port.occupied)).add(port.turn).add(port.free - now);
    words.add(since(port.stalled_since, now)).add(since(s_.next[p], now));
    for (int32_t i = port.first; i != kNone; i = s_.sender[i].next)
      add_sender(words, i, now).add(b_.model.by_arrival ? s_.sender[i].time - now : 0);
    words.add(kNone);
    for (int32_t i = port.scheduled; i != kNone; i = s_.sender[i].next)
      add_sender(words, i, now).add(s_.sender[i].time - now);
    find_queue(port, 0, port.queues, [&](int32_t place, const Queue& queue) {
      words.add(kNone).add(place);
      for (int32_t slot = queue.head; slot != kNone; slot = s_.slot[slot].packet.next) {
        const Packet& packet = s_.slot[slot].packet;
        words.add(packet.task).add(packet.step).add(packet.number & kShort);
        words.add(packet.born - now).add(s_.slot[slot].ready - now);
      }
      return false;
    });
    sum.add(words.end());
  }

  DEVICE Sequence& add_sender(Sequence& words, int32_t i, int64_t now) const {
    return words.add(i).add(s_.message[s_.sender[i].task].arrival - now);
  }

  DEVICE void add_channel(Digest& sum, int32_t c, int64_t now) {
    Channel& channel = s_.channel[c];
    collect(channel, now);
    sum.add(Sequence().add(c).add(channel.room).add(channel.starved).end());
    for_each_credit(channel,
                    [&](int64_t back, int32_t flits) { sum.add(Sequence().add(c).add(back - now).add(flits).end()); });
  }

  DEVICE void skip_of_port(int32_t p, int64_t periods, int64_t by) {
    Port& port = s_.port[p];
    const EarlierPort& earlier = s_.earlier[p];
    port.free += by;
    if (port.stalled_since < kNever) port.stalled_since += by;
    if (s_.next[p] < kNever) s_.next[p] += by;
    port.packets += periods * (port.packets - earlier.packets);
    port.stalled += periods * (port.stalled - earlier.stalled);
    port.idle_intervals += static_cast<uint32_t>(periods) * (port.idle_intervals - earlier.idle_intervals);
    port.idle_1us += static_cast<uint32_t>(periods) * (port.idle_1us - earlier.idle_1us);
    port.idle_1ms += static_cast<uint32_t>(periods) * (port.idle_1ms - earlier.idle_1ms);
    for_each_sender(port, [&](int32_t i) {
      Sender& sender = s_.sender[i];
      const int64_t sent = periods * (sender.number - s_.earlier_number[i]);
      sender.number += sent;
      sender.time += by;
      s_.message[sender.task].left -= sent;
      s_.message[sender.task].arrival += by;
    });
    find_queue(port, 0, port.queues, [&](int32_t place, const Queue&) {
      Queue& queue = queue_of(port, place);
      queue.ready += by;
      for (int32_t slot = queue.head; slot != kNone; slot = s_.slot[slot].packet.next) {
        s_.slot[slot].ready += by;
        s_.slot[slot].packet.born += by;
      }
      return false;
    });
  }
};

}  // namespace topoflow::BACKEND::packet
