// Memory of a team, handed out array by array.
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

// Fetches a cache line that is needed soon; a GPU has other threads to run meanwhile. gcc 12 takes a function that does
// nothing but prefetch for one without effect and removes its calls, unless something in it is volatile.
DEVICE void prefetch([[maybe_unused]] const void* line) {
#ifndef TOPOFLOW_ON_GPU
  __builtin_prefetch(line);
  asm volatile("");
#endif
}

// Hands out arrays from one block of memory, or only counts their bytes where there is none.
class Memory {
 public:
  HD explicit Memory(std::byte* memory) : memory_(memory) {}

  template <class T>
  HD T* take(int64_t n) {
    constexpr auto kAlign = static_cast<int64_t>(alignof(T) > 16 ? alignof(T) : 16);
    taken_ = (taken_ + kAlign - 1) / kAlign * kAlign;
    T* const array = memory_ ? reinterpret_cast<T*>(memory_ + taken_) : nullptr;
    taken_ += (n * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign;
    return array;
  }

  HD int64_t taken() const { return (taken_ + 63) / 64 * 64; }  // whole cache lines: the next team's begins with one

 private:
  std::byte* memory_;
  int64_t taken_ = 0;
};

}  // namespace topoflow::BACKEND
