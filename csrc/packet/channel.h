// A buffer at the end of a link (with virtual channels a part of it), as the port that sends into it knows it.
//
// What has left a buffer is free there at once, but its sender learns of it one delay later. Until then it is a
// credit. Credits are in no order: the ports of a switch, which send in any order, give them back. The sender asks
// for all that are back by now, and compares the times of all six at once.
//
//   since 1000, delay 900, given back at 1050, 1400, 1100:   back 950 1300 1000
//   collected at 2200 (1200 after `since`):                  950 and 1000 are back, 1300 is not
//
// Source: credit-based flow control, Dally and Towles, "Principles and practices of interconnection networks", 2004,
// 13.3.1.
#pragma once

#include "calendar.h"
#include "parallel/bits.h"
#include "times.h"

namespace topoflow::BACKEND::packet {

// A cache line. A few credits of as many flits each are here, the others in a calendar (calendar.h). Where these are
// many, the line has no places for others but those of the next slot.
struct alignas(64) Channel {
  static constexpr int32_t kCredits = 6;
  static constexpr int32_t kLongest = 0x7fffffff;  // ps after `since`, less than this
  static constexpr int32_t kFewSlots = 4;  // of the calendar; ours: of 0, 2 and 4 the one with the fewest instructions

  int64_t credit_delay;    // ps, from when a packet has left the buffer until the sender knows
  int64_t since;           // ps
  int64_t more_time;       // ps, when the first credit of its calendar is back, kNever: there is none
  int32_t room;            // flits that are free, as the sender knows it
  int32_t least_room;      // flits, the least room there was in the last interval (of all time where there are none)
  int32_t calendar_slots;  // slots in its calendar
  uint16_t flits;          // of each credit that is here
  uint8_t valid;           // bit i: back[i] is a credit
  bool starved;            // a packet waits for room
  int32_t back[kCredits];  // ps after `since`

  // Takes those that are here and back by `now`. No branch depends on their times: it would be hard to predict.
  INLINED_ON_CPU void take(int64_t now) {
    const int64_t passed = now - since;
    const uint32_t returned = six_at_most(back, passed < kLongest ? static_cast<int32_t>(passed) : kLongest) & valid;
    room += few_bits(returned) * flits;
    valid = static_cast<uint8_t>(valid & ~returned);
  }

  // Keeps a credit here, if it can. No one asks for what was back before `begin` any more.
  DEVICE bool store(int32_t credit_flits, int64_t time, int64_t begin) {
    if (valid == 0) {
      since = begin;
      flits = static_cast<uint16_t>(credit_flits);
    }
    const int64_t after = time - since;
    if (valid == kAll || credit_flits != flits || after >= kLongest) return false;
    const int32_t place = lowest_bit(~uint64_t{valid});
    back[place] = static_cast<int32_t>(after);
    valid = static_cast<uint8_t>(valid | 1 << place);
    return true;
  }

  // Copies the credits of a slot here if there are none, and returns whether it did. They are back after `begin`.
  DEVICE bool copy(const CreditGroup& credits, int64_t ready, int64_t begin) {
    const int64_t later = ready - begin;
    if (valid != 0 || later > kLongest / 2 || credits.flits > 0xffff) return false;
    since = begin;
    flits = static_cast<uint16_t>(credits.flits);
    valid = static_cast<uint8_t>(~four_equal(credits.back, CreditGroup::kNoCredit) & 0xf);
    for (int32_t i = 0; i < 4; ++i)
      back[i] = static_cast<int32_t>(static_cast<uint32_t>(credits.back[i]) + static_cast<uint32_t>(later));
    return true;
  }

  // Counts times from `begin` on. All that was back by then must have been taken.
  DEVICE void count_from(int64_t begin) {
    for (int32_t i = 0; i < kCredits; ++i)
      if (valid >> i & 1) back[i] -= static_cast<int32_t>(begin - since);
    since = begin;
  }

  // ps, when the first credit is back, kNever: there is none.
  DEVICE int64_t first_time() const {
    int64_t first = more_time;
    for (int32_t i = 0; i < kCredits; ++i)
      if (valid >> i & 1 && since + back[i] < first) first = since + back[i];
    return first;
  }

 private:
  static constexpr uint8_t kAll = (1 << kCredits) - 1;
};

}  // namespace topoflow::BACKEND::packet
