// A job that goes on from pause to pause over ways that change: one world of which only what can move is run.
//
// Shapes: T tasks, P paths, H hops, L links.
//
// Source: topoflow/engine/dynamic/reconfigure.py says whose job it is, world.h how it runs.
#pragma once

#include "fluid/batch.h"

namespace topoflow {

struct Job {
  static constexpr int32_t kDark = -1;  // a hop that carries nothing

  Graphs graph;            // with followers; the paths are the ways that there are now, their links may be kDark
  const double* wait;      // [P] s, the latency of the average byte
  const double* capacity;  // [L] B/s
  double latency;          // s, of every link
  double merge;            // as in Batch
  const int32_t* cancel;   // as in Batch
  int64_t paths, links;

  double* start;     // in and out [T] s; infinity: it has not begun
  double* finish;    // in and out [T] s; infinity: it is not over
  double* waited;    // in and out [T] s, when a task that has begun has waited
  double* left;      // in and out [T] B
  int32_t* pending;  // in and out [T] tasks in `after` that are not over
  int32_t* users;    // in and out [P] tasks on the path that are not over
  int32_t* live;     // in and out [T] tasks that are not over and wait for no other, ascending
  int64_t lives;     // in and out, how many those are

  int32_t* moved;  // out [T] tasks that were run, ascending
  double* sent;    // out [T] B that each of those sent
  int64_t moving;  // out, how many those are

  double* end;           // [T] anything
  int32_t* number;       // [T] -1, and again afterwards
  int32_t* seen;         // [T] 0, and again afterwards
  int32_t* path_number;  // [P] -1, and again afterwards
  int32_t* link_number;  // [L+1] -1, and again afterwards
};

namespace cpu {
// From `now` to `until`; returns kPaused, or why not.
Status go_on(Job& job, double now, double until);
}  // namespace cpu

}  // namespace topoflow
