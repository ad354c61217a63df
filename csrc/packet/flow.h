// The state of messages and ports where packets can be lost or marked (transport.h).
//
// Source: tests/twins/packet_transport.py states the model.
#pragma once

#include "dcqcn.h"

namespace topoflow::BACKEND::packet {

// The event by which a message learns of a packet is kFeedback + 16 * task + these bits.
constexpr int64_t kFeedback = int64_t{1} << 41;
enum Feedback : int32_t {
  kAtSender = 1,  // else at the receiver
  kLost = 2,
  kLastOne = 4,  // of the message, which is not of the full size
  kMark = 8
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
