// What device code costs that does not depend on the device.
#pragma once

#include <cstdint>

#include "memory.h"

namespace emulation {

struct Thread;

class Counts {
 public:
  void launch() { ++launches_; }
  void barrier() { ++barriers_; }
  void warp(bool is_barrier) { ++(is_barrier ? warp_barriers_ : shuffles_); }

  uint64_t launches_ = 0, barriers_ = 0, warp_barriers_ = 0, shuffles_ = 0;
};
extern Counts counts;

}  // namespace emulation
