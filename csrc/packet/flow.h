// The rates of messages, and the packets that wait for a port where packets can be lost or marked.
//
// A message has a window of packets in flight. Receivers acknowledge each packet, and an acknowledgement takes the idle
// time of a flit on the way back; the sender may then send another packet, or again the one that was lost.
//
//   pulls    a receiver lets its senders hear of one packet in the time that its interfaces together take for one (NDP)
//   DCQCN    what the sender hears says whether the packet was marked; the sender has a rate, in 2^-20 of its link's
//     marked      target = rate, rate -= rate * alpha / 2, alpha += gain * (1 - alpha)
//     a timer     rate = (rate + target) / 2, the target having risen after `recoveries` of these, likewise by bytes
//     without     alpha -= gain * alpha
//
// Source: Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015; Handley et al.,
// "Re-architecting datacenter networks and stacks for low latency and high performance", SIGCOMM 2017.
#pragma once

#include "batch.h"
#include "parallel/backend.h"

namespace topoflow::BACKEND::packet {

constexpr int64_t kFeedback =
    int64_t{1} << 41;  // this + 16 * task + Feedback: what an event is that a message hears of

enum Feedback : int32_t {
  kAtSender = 1,  // else at the receiver
  kLost = 2,
  kLastOne = 4,  // of the message, which is not of the full size
  kMark = 8
};

constexpr int32_t kWholeRate = 1 << 20, kWholeAlpha = 1 << 30;

// The rate of a message's sender.
struct Rate {
  int64_t timer, alpha_timer;  // ps, when they end next
  int64_t bytes;               // since the target last rose by bytes
  int32_t now, target, alpha;
  int32_t by_timer, by_bytes;  // how often it rose since the last mark
  bool is_limited;             // it has heard of a mark

  DEVICE void begin() { *this = {0, 0, 0, kWholeRate, kWholeRate, kWholeAlpha, 0, 0, false}; }

  DEVICE void cut(const TransportSettings& how, int64_t time, int32_t step, int32_t leap) {
    catch_up(how, time, step, leap);
    target = now;
    now -= static_cast<int32_t>((int64_t{now} * alpha) >> 31);
    if (now < step) now = step;  // ours: the paper has no least rate
    alpha += static_cast<int32_t>(((int64_t{kWholeAlpha} - alpha) * how.gain) >> 16);
    *this = {time + how.timer, time + how.alpha_timer, 0, now, target, alpha, 0, 0, true};
  }

  // The timers that have ended by `time`. `step` and `leap`: what the target rises by.
  DEVICE void catch_up(const TransportSettings& how, int64_t time, int32_t step, int32_t leap) {
    if (!is_limited) return;
    for (; alpha_timer <= time; alpha_timer += how.alpha_timer)
      alpha -= static_cast<int32_t>((int64_t{alpha} * how.gain) >> 16);
    for (; timer <= time; timer += how.timer) rise(how, ++by_timer, by_bytes, step, leap);
  }

  DEVICE void sent(const TransportSettings& how, int32_t size, int32_t step, int32_t leap) {
    if (!is_limited) return;
    for (bytes += size; bytes >= how.bytes; bytes -= how.bytes) rise(how, by_timer, ++by_bytes, step, leap);
  }

  // ps from the beginning of a packet that takes `taken` ps on its link to the beginning of the next.
  DEVICE int64_t gap(int64_t taken) const { return now < kWholeRate ? taken * kWholeRate / now : 0; }

 private:
  DEVICE void rise(const TransportSettings& how, int32_t one, int32_t other, int32_t step, int32_t leap) {
    const int32_t most = one > other ? one : other, least = one > other ? other : one;
    if (most >= how.recoveries) target += least > how.recoveries ? leap : step;
    if (target > kWholeRate) target = kWholeRate;
    now = (now + target + 1) / 2;
  }
};

// A message on its way.
struct Flow {
  Rate rate;
  int64_t earliest;     // ps, when the next packet may leave
  int64_t quiet;        // ps, until when its receiver says nothing of marks
  int64_t again, last;  // packets to be sent again, of the full size and not
  int64_t resent;       // packets that were
  int64_t pulled;       // packets that the receiver has let it send besides those that were lost
  int32_t allowed;      // packets that it may still send
  bool waits;           // for its turn at the NIC
};

// The packets that wait for a port where packets can be lost or marked.
struct Lane {
  int64_t arrives;  // ps, when the next packet comes
  int64_t pulls;    // ps, when the receiver whose first interface it is lets the next packet be sent
  int64_t lost, marked;
  int32_t waiting;  // flits
  int32_t sending;  // flits of the packet that it sends, until it is free
  int32_t most;     // flits that waited
};

// The packets of a queue that have not come yet, which follow those that have.
struct Coming {
  int64_t time;  // ps, of the first
  int32_t before, first;
};

}  // namespace topoflow::BACKEND::packet
