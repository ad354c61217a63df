// DCQCN: a message has a rate, which falls when its packets were marked and rises again by time and by bytes.
//
// The rate is in 2^-20 of its link's. `target` is the rate to which it returns, alpha an average of marks.
//
//   a mark             target = rate, rate -= rate * alpha / 2, alpha += gain * (1 - alpha)
//   the timer ends     rate = (rate + target) / 2; after `recoveries` of these, target rises by a step before it
//   bytes were sent    the same; once both have ended `recoveries` times, target rises by a leap
//   no mark for long   alpha -= gain * alpha
//
//   rate 1, alpha 1, a mark: rate 0.5, target 1; then with each timer 0.75, 0.875, 0.9375, ..
//
// Source: Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015.
#pragma once

#include "control.h"

namespace topoflow::BACKEND::packet {

constexpr int32_t kWholeRate = 1 << 20, kWholeAlpha = 1 << 30;

// The rate of a message.
struct Rate {
  int64_t timer, alpha_timer;  // ps, when they end next
  int64_t bytes;               // since the target last rose by bytes
  int32_t now, target, alpha;
  int32_t by_timer, by_bytes;  // how often it rose since the last mark
  bool is_limited;             // it has heard of a mark

  DEVICE void begin() { *this = {0, 0, 0, kWholeRate, kWholeRate, kWholeAlpha, 0, 0, false}; }

  DEVICE void cut(const TransportSettings& settings, int64_t time, int32_t step, int32_t leap) {
    catch_up(settings, time, step, leap);
    target = now;
    now -= static_cast<int32_t>((int64_t{now} * alpha) >> 31);
    if (now < step) now = step;  // ours: the paper has no least rate
    alpha += static_cast<int32_t>(((int64_t{kWholeAlpha} - alpha) * settings.gain) >> 16);
    *this = {time + settings.timer, time + settings.alpha_timer, 0, now, target, alpha, 0, 0, true};
  }

  // The timers that have ended by `time`. `step` and `leap`: what the target rises by.
  DEVICE void catch_up(const TransportSettings& settings, int64_t time, int32_t step, int32_t leap) {
    if (!is_limited) return;
    for (; alpha_timer <= time; alpha_timer += settings.alpha_timer)
      alpha -= static_cast<int32_t>((int64_t{alpha} * settings.gain) >> 16);
    for (; timer <= time; timer += settings.timer) rise(settings, ++by_timer, by_bytes, step, leap);
  }

  DEVICE void sent(const TransportSettings& settings, int32_t size, int32_t step, int32_t leap) {
    if (!is_limited) return;
    for (bytes += size; bytes >= settings.bytes; bytes -= settings.bytes)
      rise(settings, by_timer, ++by_bytes, step, leap);
  }

  // ps from the beginning of a packet that takes `taken` ps on its link to the beginning of the next.
  DEVICE int64_t gap(int64_t duration) const { return now < kWholeRate ? duration * kWholeRate / now : 0; }

 private:
  DEVICE void rise(const TransportSettings& settings, int32_t one, int32_t other, int32_t step, int32_t leap) {
    const int32_t larger = one > other ? one : other, smaller = one > other ? other : one;
    if (larger >= settings.recoveries) target += smaller > settings.recoveries ? leap : step;
    if (target > kWholeRate) target = kWholeRate;
    now = (now + target + 1) / 2;
  }
};

struct Dcqcn : Uncontrolled {
  static constexpr int32_t kNumber = kDcqcn;
  static constexpr int32_t kFeedbackMask = kMark;

  DEVICE static int64_t gap(auto& world, auto& flow, int32_t p, int32_t size, int64_t now) {
    const TransportSettings& settings = world.b_.transport;
    const int32_t step = world.b_.flows.step[world.port_ + p], leap = world.b_.flows.leap[world.port_ + p];
    flow.rate.catch_up(settings, now, step, leap);
    flow.rate.sent(settings, size * world.b_.model.flit, step, leap);
    return flow.rate.gap(world.time(world.s_.port[p], size));
  }

  DEVICE static void begin(auto&, auto& flow, int32_t) { flow.rate.begin(); }

  DEVICE static void on_ack(auto& world, auto& flow, int32_t, int32_t p, const Ack&, int64_t now) {
    flow.rate.cut(world.b_.transport, now, world.b_.flows.step[world.port_ + p], world.b_.flows.leap[world.port_ + p]);
  }
};

}  // namespace topoflow::BACKEND::packet
