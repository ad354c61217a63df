// Tasks that wait, by when that ends. Few of all tasks wait at once: on a CPU these are in a binary heap, which stays
// in its cache. A warp of a GPU reads the keys of all tasks side by side, in a tournament.
//
// Source: Williams, "Algorithm 232: Heapsort", Communications of the ACM 7(6), 1964.
#pragma once

#include <algorithm>

#include "tournament.h"

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

using Waits = Tournament;

#else

struct Waits {
  double* key;   // [T] s; infinity: the task does not wait
  List waiting;  // a heap of those that do, the first to end on top
  int32_t n;

  void clear(const Team auto& team) const {
    std::fill_n(key, n, kInfinity);
    waiting.clear(team);
  }

  double lowest(const Team auto& team) const { return waiting.count(team) > 0 ? key[waiting[0]] : kInfinity; }

  // The task does not wait yet.
  void set(const Team auto&, int32_t task, double value) const {
    int32_t* const heap = waiting.items;
    int32_t at = (*waiting.size)++;
    for (; at > 0 && value < key[heap[(at - 1) / 2]]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = task;
    key[task] = value;
  }

  // Takes out all tasks with keys up to `limit`, and calls f(task, key) for each.
  template <class F>
  void take(const Team auto& team, double limit, const F& f) const {
    while (lowest(team) <= limit) {
      const int32_t task = waiting[0];
      const double value = key[task];
      pop();
      key[task] = kInfinity;
      f(task, value);
    }
  }

 private:
  void pop() const {
    int32_t* const heap = waiting.items;
    const int32_t size = --*waiting.size, last = heap[size];
    int32_t at = 0;
    for (int32_t child = 1; child < size; child = 2 * at + 1) {
      child += child + 1 < size && key[heap[child + 1]] < key[heap[child]];
      if (!(key[heap[child]] < key[last])) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
  }
};

#endif

}  // namespace topoflow::BACKEND
