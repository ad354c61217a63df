// The level of each task: one more than the highest of those it waits for, 0 where it waits for none. Tasks of one
// level do not wait for each other.
//   0 <- 1 <- 2, 0 <- 3   -> 0 1 2 1
//
// Source: longest paths in a directed acyclic graph, Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms,
// 3rd ed., 24.2; tasks name earlier tasks only, so their order is topological.
#pragma once

#include "fields.h"

namespace topoflow {

struct Levels {
  int64_t tasks;
  const int64_t* after_offsets;
  const int32_t* after;
  int32_t* level;

  void operator()() const {
    for (int64_t task = 0; task < tasks; ++task) {
      int32_t highest = -1;
      for (int64_t i = after_offsets[task]; i < after_offsets[task + 1]; ++i)
        highest = level[after[i]] > highest ? level[after[i]] : highest;
      level[task] = highest + 1;
    }
  }
};

constexpr Field<Levels> kLevelsFields[] = {
    array("level", &Levels::level, "T", "out, level"),
    array("after_offsets", &Levels::after_offsets, "T+1", "where the row of each task begins in `after`"),
    array("after", &Levels::after, "D", "earlier tasks that a task waits for"), count('T', &Levels::tasks)};

}  // namespace topoflow
