// A heap of items that have a key, and those with larger keys below them.
//
// Source: skew heaps (Sleator and Tarjan, Self-Adjusting Heaps, SIAM J. Computing 15(1), 1986).
#pragma once

#include "parallel/backend.h"

namespace topoflow::BACKEND {

// The heap of all items of both heaps (-1: empty); of equal keys the lower item comes first. An item has `target`, its
// key, and `left` and `right`, -1: none.
template <class Items>
DEVICE int32_t merged(const Items& item, int32_t a, int32_t b) {
  int32_t root = -1, above = -1;  // what comes next is the root, or left of `above`
  const auto put = [&](int32_t next) {
    if (above < 0)
      root = next;
    else
      item[above].left = next;
  };
  while (a >= 0 && b >= 0) {
    if (item[b].target < item[a].target || (item[b].target == item[a].target && b < a)) {
      const int32_t c = a;
      a = b;
      b = c;
    }
    put(a);
    above = a;
    a = item[above].right;
    item[above].right = item[above].left;
  }
  put(a >= 0 ? a : b);
  return root;
}

}  // namespace topoflow::BACKEND
