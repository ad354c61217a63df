// The status of a world.
#pragma once

#include <cstdint>

namespace topoflow {

enum Status : int32_t {
  kPending = 0,
  kDone = 1,
  kStarved = 2,
  kDeadlock = 3,  // tasks wait for each other
  kCancelled = 4,
  kNotConverged = 5,
  kPaused = 6,
  kBlocked = 7,  // full buffers wait for each other
  kTooLong = 8,  // beyond the times that can be said
  kRunning = 9
};

}  // namespace topoflow
