// The flows of one path: all have the same rate, so they end in the order of what the path will have served each.
//   a flow of 100 B joins when 40 B have been served, one of 30 B when 100 B have   -> they end at 140 and at 130 B
//
// Source: virtual time (Demers, Keshav and Shenker, Analysis and Simulation of a Fair Queueing Algorithm, SIGCOMM
// 1989); the order is kept by a skew heap (Sleator and Tarjan, Self-Adjusting Heaps, SIAM J. Computing 15(1), 1986).
#pragma once

#include "parallel/team.h"

namespace topoflow::BACKEND {

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

// The heap of all flows of both heaps (-1: empty).
DEVICE int32_t merged(Flow* flow, int32_t a, int32_t b) {
  int32_t root = -1, above = -1;  // what comes next is the root, or left of `above`
  const auto put = [&](int32_t next) {
    if (above < 0)
      root = next;
    else
      flow[above].left = next;
  };
  while (a >= 0 && b >= 0) {
    if (flow[b].target < flow[a].target || (flow[b].target == flow[a].target && b < a)) {
      const int32_t c = a;
      a = b;
      b = c;
    }
    put(a);
    above = a;
    a = flow[above].right;
    flow[above].right = flow[above].left;
  }
  put(a >= 0 ? a : b);
  return root;
}

}  // namespace topoflow::BACKEND
