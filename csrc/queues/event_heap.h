// Events in the order of their times, in a binary heap; of events of one time, in the order of what happens.
//
// Source: Williams, "Algorithm 232: Heapsort", Communications of the ACM 7(6), 1964.
#pragma once

#include "parallel/backend.h"
#include "times.h"

namespace topoflow::BACKEND {

struct Event {
  int64_t time;  // ps
  int64_t code;

  DEVICE bool operator<(const Event& other) const { return time != other.time ? time < other.time : code < other.code; }
};

// A binary heap of events, the first of them on top.
struct EventHeap {
  Event* event;
  int64_t size;

  DEVICE int64_t time() const { return size ? event[0].time : kNever; }

  DEVICE void push(Event added) {
    int64_t at = size++;
    for (; at > 0 && added < event[(at - 1) / 2]; at = (at - 1) / 2) event[at] = event[(at - 1) / 2];
    event[at] = added;
  }

  DEVICE Event pop() {
    const Event top = event[0], last = event[--size];
    int64_t at = 0;
    for (int64_t child = 1; child < size; child = 2 * at + 1) {
      child += child + 1 < size && event[child + 1] < event[child];
      if (!(event[child] < last)) break;
      event[at] = event[child];
      at = child;
    }
    event[at] = last;
    return top;
  }
};

}  // namespace topoflow::BACKEND
