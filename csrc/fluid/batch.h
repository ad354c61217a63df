// A ragged batch of worlds in flat arrays, on one device.
//
// Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links. A graph's tasks, paths and
// dependencies follow those of the graph before. A task's number in `after` and `followers` counts the tasks of all
// graphs; a path's counts from its graph's first, a link's from its world's first.
//
// Source: rows of different length are stored as in compressed sparse rows (Saad, Iterative Methods for Sparse Linear
// Systems, 2nd ed., 3.4); the model is stated in topoflow/engine/base.py.
#pragma once

#include <cstdint>

namespace topoflow {

enum Status : int32_t {
  kPending = 0,
  kDone = 1,
  kStarved = 2,
  kDeadlock = 3,
  kCancelled = 4,
  kNotConverged = 5,
  kPaused = 6
};

struct Graphs {
  int64_t tasks, dependencies;
  const int64_t* task_offsets;      // [G+1]
  const int64_t* path_base;         // [G+1]
  const double* delay;              // [T] s
  const double* bytes;              // [T] B
  const double* release;            // [T] s
  const int32_t* path;              // [T] path, -1: none
  const int64_t* after_offsets;     // [T+1]
  const int32_t* after;             // [D] tasks
  const int64_t* follower_offsets;  // [T+1]
  const int32_t* followers;         // [D] tasks: `after` the other way round
  const int64_t* path_offsets;      // [P+1]
  const int32_t* path_links;        // [H] links
  const double* path_weight;        // [H] share of a flow's rate that the hop carries; nullptr: all of it everywhere
  const double* path_limit;         // [P] B/s, the most that one flow gets; nullptr: no limits
};

struct Batch {
  Graphs graphs;
  int32_t worlds;
  const int32_t* order;         // [W] worlds, the dearest first
  const int32_t* graph;         // [W] graph of every world
  const int64_t* task_offsets;  // [W+1] where the worlds' tasks begin in start and finish
  const int64_t* link_offsets;  // [W+1] where the worlds' links begin
  const double* capacity;       // [links of all worlds] B/s
  const double* latency;        // [links of all worlds] s
  const double* until;          // [W] s, a world is paused before the first event after it; nullptr: none is
  const int32_t* cancel;        // [1] not 0: stop; in memory of the host
  double* start;                // out [tasks of all worlds] s
  double* finish;               // out [tasks of all worlds] s
  double* left;                 // out [tasks of all worlds] B that a paused world has to send; nullptr without `until`
  int32_t* status;              // out [W] Status
  double merge;                 // relative time within which ends are one event
  int32_t threads;              // of the CPU, 0: all
  int64_t budget;               // B of memory for all teams together
  int device;                   // where the arrays lie
  int64_t stream;               // the stream to run on, as a number; 0 on the CPU
};

// Returns the bytes of state that one team needs.
namespace cpu {
int64_t simulate(const Batch& batch);
}
namespace cuda {
int64_t simulate(const Batch& batch);
}

}  // namespace topoflow
