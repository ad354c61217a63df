// The state of messages and ports where packets can be lost or marked (transport.h).
//
// Source: tests/twins/packet_transport.py states the model.
#pragma once

#include "packet/controls/dcqcn.h"
#include "packet/controls/hpcc.h"
#include "packet/controls/nscc.h"
#include "packet/controls/swift.h"

namespace topoflow::BACKEND::packet {

// The feedback of a packet to its message, as the code of an event: kFeedback + (16 * task + bits of Feedback) *
// 2^kDelayBits + its delay.
constexpr int64_t kFeedback = int64_t{1} << 62;

// The delay is the time from when the packet left its NIC until it arrived, as timestamps of NICs have it: in ticks.
// Longer ones than fit (137 ms) count as that. 0: the packet was lost. With recycled entropies its upper bits are that
// of the packet, and the delay has the others.
constexpr int32_t kDelayBits = 27;
constexpr int64_t kLongestDelay = (int64_t{1} << kDelayBits) - 1;

// A message on its way.
struct Flow {
  union {  // by the control of messages
    Rate rate;
    NsccWindow nscc;
    SwiftWindow swift;
    HpccWindow hpcc;
  };
  int64_t earliest;               // ps, when the next packet may leave
  int64_t quiet;                  // ps, until when its receiver says nothing of marks
  int64_t lost_full, lost_short;  // packets to be sent again, of the full size and not of it
  int64_t resent;                 // packets that were
  int64_t pulled;                 // packets that the receiver has let it send besides those that were lost
  int32_t allowed;                // packets that it may still send
  bool waits;                     // for its turn at the NIC
};

// The packets that wait for a port where packets can be lost or marked.
struct Lane {
  int64_t arrives;  // ps, when the next packet comes
  int64_t pulls;    // ps, when the receiver whose first interface it is lets the next packet be sent
  int64_t lost, marked;
  int32_t waiting;      // flits
  int32_t sending;      // flits of the packet that it sends, until it is free
  int32_t max_waiting;  // flits that waited
};

// The packets of a queue that have not come yet, which follow those that have.
struct InFlight {
  int64_t time;  // ps, of the first
  int32_t before, first;
};

}  // namespace topoflow::BACKEND::packet
