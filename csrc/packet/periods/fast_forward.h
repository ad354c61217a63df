// When a world looks for a period, and skips what repeats (periods.h).
//
// The state is looked at when a NIC tries to send its next packet: a window ends there, so that looks are in step with
// the period. Each state is compared with an earlier one, which is that of look 0, 1, 2, 3, 4, 6, 8, 11, ...: a quarter
// of the looks so far apart. Only where the next departures of all ports are alike is all of the state compared. So a
// period of n looks is found n looks after it has begun, or a few more. A message that comes to a NIC ends the search.
// Searches that were in vain make the next ones wait, and a search begins only where the looks in vain are few for the
// windows that were simulated, so that a world without periods takes hardly longer.
//
// Source: Brent (periods.h); how far apart, and the waits, are ours.
#pragma once

#include "periods.h"

namespace topoflow::BACKEND::packet {

class FastForward {
 public:
  DEVICE explicit FastForward(bool is_on) : is_on_(is_on) {}

  DEVICE bool is_on() const { return is_on_; }

  // Returns the latest end of the next window, ps.
  DEVICE int64_t latest_end() const { return latest_end_; }

  // Returns when the next window begins, ps: at `next.first`, or whole periods later, which are skipped.
  // parts: for_each_part(f) calls f(part) for all parts of the world, first() is one of them.
  template <class Parts>
  CALLED_ON_GPU int64_t begin_window(Parts& parts, const Notice& next) {
    latest_end_ = kNever;
    bool is_disturbed = false;
    parts.for_each_part([&](auto& part) { is_disturbed |= part.take_offered(); });
    const bool ends_interval = next.first >= parts.first().end_of_interval();
    if (is_disturbed || ends_interval) stop(parts, is_disturbed);
    ++windows_;
    const bool is_too_early = looks_ == 0 && spent_ > kFirstLooks + windows_ / kWindowsOfLook;
    if (pause_ > 0 || ends_interval || is_too_early) {
      pause_ -= pause_ > 0;
      return next.first;
    }
    if (port_ == kNone || parts.first().next_of(port_) == kNever) {
      port_ = kNone;
      parts.for_each_part([&](auto& part) { port_ = part.slower_nic(port_); });
      if (port_ == kNone) pause_ = kPause;
    }
    if (port_ == kNone || parts.first().next_of(port_) > next.first) {
      if (port_ != kNone) latest_end_ = parts.first().next_of(port_);
      return next.first;
    }
    return next.first + look(parts, next);
  }

  // The world has ended.
  template <class Parts>
  DEVICE void end(Parts& parts) {
    stop(parts, false);
  }

 private:
  // Looks at the state at `next.first`, and returns the time that is skipped.
  template <class Parts>
  CALLED_ON_CPU int64_t look(Parts& parts, const Notice& next) {
    Digest outline;
    ++spent_;
    parts.for_each_part([&](auto& part) { outline.add(part.outline(next.first)); });
    const bool is_saved = looks_ == power_, is_alike = looks_ > 0 && outline == outline_;
    Digest state;
    if (is_saved || is_alike) parts.for_each_part([&](auto& part) { state.add(part.digest(next.first)); });
    if (is_alike && state == state_) return skip(parts, next);
    if (looks_ == kMaxLooks) {
      stop(parts, true);
      pause_ = kLongPause;
      return 0;
    }
    if (is_saved) {
      parts.for_each_part([&](auto& part) { part.remember_counters(looks_ == 0); });
      outline_ = outline;
      state_ = state;
      since_ = next.first;
      power_ = looks_ + 1 + looks_ / 4;
    }
    ++looks_;
    return 0;
  }

  template <class Parts>
  DEVICE int64_t skip(Parts& parts, const Notice& next) {
    const int64_t period = next.first - since_;
    bool is_alike = true;
    int64_t periods = kNever;
    parts.for_each_part([&](auto& part) {
      is_alike &= part.is_idle_alike(period);
      const int64_t remaining = part.periods_left();
      periods = remaining < periods ? remaining : periods;
    });
    const int64_t until_task = (next.tasks - next.first) / period;
    if (!is_alike || periods == kNever) periods = 0;
    if (until_task < periods) periods = until_task;
    periods = parts.first().periods_of_depths(next.first, period, periods);
    pause_ = kPause;
    if (periods == 0) {
      stop(parts, false);
      return 0;
    }
    wait_ = looks_ = power_ = 0;
    spent_ = 0;
    parts.for_each_part([&](auto& part) { part.skip(next.first, periods, periods * period); });
    return periods * period;
  }

  // Ends a search.
  template <class Parts>
  DEVICE void stop(Parts& parts, bool in_vain) {
    if (looks_ > 0) {
      parts.for_each_part([](auto& part) { part.forget_counters(); });
      if (in_vain && wait_ < kLongestWait) wait_ = 2 * wait_ + 1;
    }
    looks_ = power_ = 0;
    if (in_vain) pause_ = wait_;
  }

  static constexpr int32_t kMaxLooks = 32, kLongestWait = 31, kPause = 8, kLongPause = 256;
  static constexpr int64_t kFirstLooks = 40, kWindowsOfLook = 256;

  bool is_on_;
  int64_t latest_end_ = kNever;
  int32_t pause_ = 0;                // windows until it looks again
  int32_t wait_ = 0;                 // windows that it rests after a message has come
  int32_t port_ = kNone;             // whose NIC is looked at
  int64_t windows_ = 0, spent_ = 0;  // windows of the world; looks since it last skipped periods
  int32_t looks_ = 0, power_ = 0;    // of this search; after how many the state is remembered next
  Digest outline_, state_;           // that are remembered
  int64_t since_ = 0;                // ps, when they were
};

}  // namespace topoflow::BACKEND::packet
