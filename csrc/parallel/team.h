// A *team* runs one world: a block of threads on a GPU, one thread on a CPU. All threads of a team call the same
// team functions in the same order; each of them ends with the whole team having seen its effects. So what decides
// which one comes next must be the same for all threads: none may write what another still reads since the last of
// them.
#pragma once

#ifdef __CUDACC__
#include "team_cuda.h"
#else
#include "team_cpu.h"
#endif

namespace topoflow::BACKEND {

// A growing list in memory that the team shares. Its order is whatever the threads made of it: nothing may depend on
// it.
struct List {
  int32_t* items;  // one more than it will ever have
  int32_t* size;

  DEVICE int32_t operator[](int32_t i) const { return items[i]; }
  DEVICE void append(int32_t item) const { items[atomic_add(size, 1)] = item; }

  DEVICE void append_if(bool condition, int32_t item) const {
#ifdef __CUDACC__
    if (condition) append(item);
#else  // no branch: which way it goes is often anyone's guess
    items[*size] = item;
    *size += condition;
#endif
  }
};

}  // namespace topoflow::BACKEND
