// The flows of one path: all have the same rate, so they end in the order of what the path will have served each.
//   a flow of 100 B joins when 40 B have been served, one of 30 B when 100 B have   -> they end at 140 and at 130 B
//
// Source: virtual time (Demers, Keshav and Shenker, Analysis and Simulation of a Fair Queueing Algorithm, SIGCOMM
// 1989).
#pragma once

#include "parallel/team.h"
#include "queues/skew_heap.h"

namespace topoflow::BACKEND {

// An item of a skew heap (skew_heap.h).
struct Flow {
  double target;        // B that the path will have served when the flow ends
  int32_t left, right;  // flows that end later, -1: none; before it flows, `left` is the next that arrived
};

struct Flows {
  int32_t count;    // also those that have just arrived
  int32_t root;     // the flow that ends first, -1: none
  int32_t arrived;  // a flow that is not in the heap yet, -1: none
  int32_t changed;  // 1: flows came or went in this event
};

}  // namespace topoflow::BACKEND
