// Memory of a team, handed out array by array. Source: what rates.h, refill.h, adjust.h and state.h ask for.
#pragma once

#include "tournament.h"

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
    int32_t* const items = take<int32_t>(n + 2);  // append_if writes one too many; then the size
    return {items, items ? items + n + 1 : nullptr};
  }

  HD Tournament tournament(int64_t n) {
    const int64_t blocks = Tournament::blocks(n);
    return {take<double>(n), take<double>(blocks),    take<int32_t>(blocks),
            list(blocks),    static_cast<int32_t>(n), Tournament::log_block(n)};
  }

  HD int64_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  int64_t taken_ = 0;
};

struct Sizes {
  int64_t tasks, paths, hops, links;  // the last two with those of the paths' limits
};

}  // namespace topoflow::BACKEND
