// A calendar queue of credits: those that do not fit into the cache line of a channel (packet/channel.h).
//
// Time is divided into days, and a channel has a power of two of them. The credits that are back on day n are in list n
// modulo that number, up to four in a slot. A sender that asks for the credits that are back looks only at the days
// since it last asked, so that a credit takes the same time however many are under way on a long or fast link.
//
//   4 days of 256 ps, credits that are back at 300, 520, 700 and 1,300 ps:
//   day 0: none   day 1: 300, 1,300   day 2: 520, 700   day 3: none
//   collected at 600 ps: days 1 and 2 are looked at, 300 and 520 are taken
//
// Source: Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation event set problem",
// Communications of the ACM 31(10), 1988.
#pragma once

#include "parallel/bits.h"

namespace topoflow::BACKEND {

// Up to four credits with the same number of flits. They share a slot.
struct CreditGroup {
  static constexpr int32_t kNoCredit = kLargest;

  int32_t back[4];  // ps after the slot's `ready`, in any order
  int32_t flits;    // of each
  int32_t next;     // list of slots

  // Adds a credit and returns true, unless there are four or `credit_flits` differs from theirs.
  DEVICE bool add(int32_t credit_flits, int32_t time) {
    const uint32_t free = four_equal(back, kNoCredit);
    if (free == 0 || flits != credit_flits) return false;
    back[lowest_bit(free)] = time;
    return true;
  }

  // Removes the credits that are back by `time`, ps after the slot's `ready`; returns their flits.
  DEVICE int32_t take(int64_t time) {
    if (time < 0) return 0;
    return flits * few_bits(take_four(back, static_cast<int32_t>(time < kNoCredit ? time : kNoCredit - 1)));
  }

  // Returns when the first credit is back, kNoCredit if there is none.
  DEVICE int32_t first() const {
    const int32_t one = back[0] < back[1] ? back[0] : back[1], two = back[2] < back[3] ? back[2] : back[3];
    return one < two ? one : two;
  }
};

// The days of a channel.
class Calendar {
 public:
  // It has `days` lists from `first` on, which together last at least twice the delay of a credit.
  DEVICE Calendar(int32_t first, int32_t days, int64_t credit_delay) : first_(first), days_(days) {
    const int32_t bits = highest_bit(credit_delay | 1) + 2 - highest_bit(days);
    log_day_ = bits > 0 ? bits : 0;
  }

  DEVICE int32_t days() const { return days_; }
  DEVICE int64_t number(int64_t time) const { return time >> log_day_; }
  DEVICE int32_t index(int64_t number) const { return first_ + (static_cast<int32_t>(number) & (days_ - 1)); }

  // Returns the time from which the credits in a slot count theirs. It is at most a millisecond earlier.
  DEVICE int64_t begin(int64_t time) const {
    const int32_t bits = log_day_ < 30 ? log_day_ : 30;
    return time >> bits << bits;
  }

 private:
  int32_t first_, days_, log_day_;  // a day has 2^log_day_ ps
};

}  // namespace topoflow::BACKEND
