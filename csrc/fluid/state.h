// The memory that a team needs to run one world. Source: what world.h, waits.h and maxmin.h ask for.
#pragma once

#include <cstddef>

#include "../parallel.h"

namespace topoflow::BACKEND {

// Hands out arrays from one block of memory, or only counts their bytes.
class Arena {
 public:
  HD explicit Arena(std::byte* memory) : memory_(memory) {}

  template <class T>
  HD T* take(int64_t n) {
    T* const array = memory_ ? reinterpret_cast<T*>(memory_ + taken_) : nullptr;
    taken_ += (n * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    return array;
  }

  HD List list(int64_t n) {
    int32_t* const size = take<int32_t>(1);
    return {take<int32_t>(n), size};
  }

  HD int64_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  int64_t taken_ = 0;
};

// What a team keeps while it runs a world of T tasks and L links.
struct State {
  int32_t* pending;  // [T] tasks in `after` that are not over
  double* since;     // [T] s, flows: `left` and `rate` hold from here on
  double* left;      // [T] B
  double* rate;      // [T] B/s
  double* level;     // [T] B/s, see MaxMin
  List near, still_near, far, still_far, flowing, still_flowing, over, open, still_open;  // tasks
  int32_t* dirty;                                                                         // [L] see MaxMin
  int32_t* count;                                                                         // [L]
  int32_t* blocked;                                                                       // [L]
  int64_t* used;                                                                          // [L]
  double* share;                                                                          // [L]
  List busy;                                                                              // links

  HD State(Arena& arena, int64_t tasks, int64_t links) {
    pending = arena.take<int32_t>(tasks);
    for (double** array : {&since, &left, &rate, &level}) *array = arena.take<double>(tasks);
    for (List* list : {&near, &still_near, &far, &still_far, &flowing, &still_flowing, &over, &open, &still_open})
      *list = arena.list(tasks);
    for (int32_t** array : {&dirty, &count, &blocked}) *array = arena.take<int32_t>(links);
    used = arena.take<int64_t>(links);
    share = arena.take<double>(links);
    busy = arena.list(links);
  }

  HD static int64_t bytes(int64_t tasks, int64_t links) {
    Arena arena(nullptr);
    State(arena, tasks, links);
    return arena.taken();
  }
};

}  // namespace topoflow::BACKEND
