// Memory of a team, handed out array by array. Source: what rates.h, refill.h, adjust.h and state.h ask for.
#pragma once

#include "parallel/memory.h"
#include "waits.h"

namespace topoflow::BACKEND {

class Arena : public Memory {
 public:
  using Memory::Memory;

  HD List list(int64_t n) {
    int32_t* const items = take<int32_t>(n + 2);  // append_if writes one too many; then the size
    return {items, items ? items + n + 1 : nullptr};
  }

  HD Tournament tournament(int64_t n) {
    const int64_t blocks = Tournament::count_blocks(n), groups = Tournament::count_groups(n);
    return {take<double>(n),         take<double>(blocks + groups), take<int32_t>(blocks + groups), list(blocks),
            static_cast<int32_t>(n), Tournament::log_block(n),      static_cast<int32_t>(groups)};
  }

  HD Waits waits(int64_t tasks) {
#ifdef TOPOFLOW_ON_GPU
    return tournament(tasks);
#else
    return {take<double>(tasks), list(tasks), static_cast<int32_t>(tasks)};
#endif
  }
};

struct Sizes {
  int64_t tasks, paths, hops, links;  // the last two with those of the paths' limits
  int64_t weights;                    // hops, if the graph has weights, else 0
  int64_t occupying;                  // tasks, if any of them occupies a resource, else 0
};

}  // namespace topoflow::BACKEND
