// The room in buffers, and when a sender learns of it.
//
// A port sends a packet only if the buffer at the end of its link has room for all of its flits. Room is free again as
// soon as the packet has left the buffer, but the sender learns of it one credit delay later.
//
//   a buffer of 8 flits, packets of 4, credit delay 300 ns
//     0 ns     8 free, a packet is sent: 4
//     50 ns    another one: 0
//     200 ns   the first one has left the buffer
//     500 ns   the sender learns of it: 4 free, and it sends a third one
//
// The first credits of a channel are in its cache line (channel.h), others share slots of a calendar (calendar.h).
// Packets and these slots are of one pool: what became free last is taken next, while caches have it.
//
// Source: credit-based flow control, Dally and Towles, "Principles and practices of interconnection networks", 2004,
// 13.3.1.
#pragma once

#include "packet/routing/paths.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Credits : public Base {
 public:
  using Base::b_, Base::begin_, Base::channel_, Base::channels_, Base::region_, Base::s_, Base::port_of, Base::wake;
  using Base::Base;
  using typename Base::Region;

  DEVICE void begin_buffers() {
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t room = b_.ports.buffer[channel_ + c], p = port_of(c);
      b_.out.fullest[channel_ + c] = 0;
      s_.channel[c] = {s_.port[p].latency + b_.model.credit_latency, 0, kNever, room, room, 0, 0, 0, false, {}};
    }
    const int64_t* const days = b_.ports.channel_days + channel_;
    for (int64_t day = 0; day < days[channels_] - days[0]; ++day) s_.day[day] = kNone;
  }

  // Returns whether a channel has room for a packet at `now`; if not, lowers `soonest` to when it may have.
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
  INLINED_ON_CPU void collect(Channel& c, int64_t now) {
    c.take(now);
    if (c.more_time <= now) collect_more(c, now);
  }

  // Returns the days of a channel.
  DEVICE Calendar calendar_of(const Channel& c) const {
    const int64_t *const days = b_.ports.channel_days + channel_, *const row = days + (&c - s_.channel);
    return {static_cast<int32_t>(row[0] - days[0]), static_cast<int32_t>(row[1] - row[0]), c.credit_delay};
  }

  // Takes the credits of the calendar that are back by `now`, and sets `more_time` to the time of the next credit: it
  // looks at the days up to the first one that still has a credit.
  CALLED_ON_CPU void collect_more(Channel& c, int64_t now) {
    const Calendar calendar = calendar_of(c);
    const int64_t begin = now < begin_ ? now : begin_;  // depths over time are written up to a time before `begin_`
    int64_t first = kNever, number = calendar.number(c.more_time);
    const int64_t end = number + calendar.days();
    for (; c.calendar_slots > 0 && number < end && number <= calendar.number(first); ++number) {
      int32_t* at = &s_.day[calendar.index(number)];
      while (*at != kNone) {
        const int32_t i = *at;
        Slot& slot = s_.slot[i];
        c.room += slot.credits.take(now - slot.ready);
        const int32_t next = slot.credits.first();
        if (next == CreditGroup::kNoCredit || c.copy(slot.credits, slot.ready, begin)) {
          *at = slot.credits.next;
          --c.calendar_slots;
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

  // A packet is sent into the channel.
  DEVICE void reserve_room(Channel& c, int32_t flits, int64_t now) {
    c.starved = false;
    c.room -= flits;
    if (c.room < c.least_room) {
      collect(c, now);
      if (c.room < c.least_room) c.least_room = c.room;
    }
  }

  // A packet has left the channel: its last flit was gone at `left_at`.
  DEVICE void return_credit(int32_t channel, int32_t flits, int64_t left_at) {
    if constexpr (!Region::kAlone) {
      if (!region_.template has<&Cut::channel>(channel)) {
        region_.template mail_for<&Cut::channel>(channel).credits.push_back({left_at, channel, flits});
        return;
      }
    }
    return_credit(s_.channel[channel], flits, left_at);
  }

  INLINED_ON_CPU void return_credit(Channel& c, int32_t flits, int64_t left_at) {
    const int64_t back = left_at + c.credit_delay;
    if (c.calendar_slots > Channel::kFewSlots || !c.store(flits, back, begin_)) list_credit(c, flits, back);
    if (c.starved) wake(port_of(&c - s_.channel), back);
  }

  // Adds a credit that has no place in the cache line of its channel to the calendar.
  CALLED_ON_CPU void list_credit(Channel& c, int32_t flits, int64_t back) {
    if (c.calendar_slots == 0) {
      collect(c, begin_);  // the sender is as far, at least
      if (back - c.since >= Channel::kLongest) c.count_from(begin_);
      if (c.store(flits, back, begin_)) return;
    }
    const Calendar calendar = calendar_of(c);
    const int64_t begin = calendar.begin(back);
    const auto time = static_cast<int32_t>(back - begin);
    int32_t& day = s_.day[calendar.index(calendar.number(back))];
    if (day == kNone || s_.slot[day].ready != begin || !s_.slot[day].credits.add(flits, time)) {
      const int32_t slot = take_slot();
      s_.slot[slot].ready = begin;
      s_.slot[slot].credits = {
          {time, CreditGroup::kNoCredit, CreditGroup::kNoCredit, CreditGroup::kNoCredit}, flits, day};
      day = slot;
      ++c.calendar_slots;
    }
    if (back < c.more_time) c.more_time = back;  // taking a slot may have collected
  }

  // Calls f(time, flits) for each credit that has not been taken.
  template <class F>
  DEVICE void for_each_credit(const Channel& c, const F& f) const {
    for (int32_t i = 0; i < Channel::kCredits; ++i)
      if (c.valid >> i & 1) f(c.since + c.back[i], int32_t{c.flits});
    if (c.calendar_slots == 0) return;
    const Calendar calendar = calendar_of(c);
    for (int32_t day = 0; day < calendar.days(); ++day)
      for (int32_t i = s_.day[calendar.index(day)]; i != kNone; i = s_.slot[i].credits.next)
        for (const int32_t back : s_.slot[i].credits.back)
          if (back != CreditGroup::kNoCredit) f(s_.slot[i].ready + back, s_.slot[i].credits.flits);
  }

  // All credits of a channel come back later by this much. `begin_` is later by it already.
  DEVICE void delay_credits(Channel& c, int64_t by) {
    c.since += by;
    if (c.calendar_slots == 0) return;
    const Calendar calendar = calendar_of(c);
    int32_t all = kNone;
    for (int32_t day = 0; day < calendar.days(); ++day) {
      for (int32_t& first = s_.day[calendar.index(day)]; first != kNone;) {
        const int32_t slot = first;
        first = s_.slot[slot].credits.next;
        s_.slot[slot].credits.next = all;
        all = slot;
      }
    }
    c.calendar_slots = 0;
    c.more_time = kNever;
    while (all != kNone) {
      const Slot slot = s_.slot[all];
      free_slot(all);
      all = slot.credits.next;
      for (const int32_t back : slot.credits.back)
        if (back != CreditGroup::kNoCredit) list_credit(c, slot.credits.flits, slot.ready + back + by);
    }
  }

  // Returns the most flits that were taken in the interval that has begun last (depths.h).
  DEVICE int32_t max_taken(int32_t c) const { return b_.ports.buffer[channel_ + c] - s_.channel[c].least_room; }

  // Returns a slot for a packet, or for credits.
  DEVICE int32_t take_slot() {
    if (free_slot_ == kNone && slots_ < s_.slots) return slots_++;
    if (free_slot_ == kNone) free_slots();
    const int32_t slot = free_slot_;
    free_slot_ = s_.slot[slot].packet.next;
    return slot;
  }

  // Collects all credits that are back. There are slots for all packets and credits under way (settings.py).
  CALLED_ON_CPU void free_slots() {
    for (int32_t c = region_.first_channel(); c < region_.end_channel(channels_); ++c) collect(s_.channel[c], begin_);
  }

  DEVICE void free_slot(int32_t slot) {
    s_.slot[slot].packet.next = free_slot_;
    free_slot_ = slot;
  }

  // There were `flits` in the interval.
  DEVICE void remember_taken(int32_t c, int32_t flits) {
    const int32_t room = b_.ports.buffer[channel_ + c] - flits;
    if (room < s_.channel[c].least_room) s_.channel[c].least_room = room;
  }

  // Another interval begins at `now`.
  DEVICE void begin_taken(int32_t c, int64_t now) {
    Channel& channel = s_.channel[c];
    int32_t& fullest = b_.out.fullest[channel_ + c];
    if (max_taken(c) > fullest) fullest = max_taken(c);
    collect(channel, now);
    channel.least_room = channel.room;
  }

  int32_t free_slot_ = kNone, slots_ = 0;  // list of free slots; slots from this number on have never been taken
};

}  // namespace topoflow::BACKEND::packet
