// A ragged batch of worlds in flat arrays, on one device.
//
// Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links. A graph's tasks, paths and
// dependencies follow those of the graph before. A task's number in `after` and `followers` counts the tasks of all
// graphs; a path's counts from its graph's first, a link's from its world's first.
//
// Source: rows of different length are stored as in compressed sparse rows (Saad, Iterative Methods for Sparse Linear
// Systems, 2nd ed., 3.4); the model is stated in topoflow/engine/base.py.
#pragma once

#include "fields.h"
#include "status.h"

namespace topoflow {

struct Graphs {
  int64_t tasks, dependencies;
  const int64_t *task_offsets, *path_base;
  const double *delay, *bytes, *release;
  const int32_t *path, *resource;
  const int64_t* after_offsets;
  const int32_t* after;
  const int64_t* path_offsets;
  const int32_t* path_links;
  const double *path_weight, *path_limit;
  const int64_t* follower_offsets;  // [T+1]
  const int32_t* followers;         // [D] tasks: `after` the other way round
};

constexpr Field<Graphs> kGraphFields[] = {
    array("graph_task_offsets", &Graphs::task_offsets, "G+1", "first task of each graph"),
    array("path_base", &Graphs::path_base, "G+1", "first path of each graph"),
    array("delay", &Graphs::delay, "T", "s"),
    array("bytes", &Graphs::bytes, "T", "B"),
    array("release", &Graphs::release, "T", "s"),
    array("path", &Graphs::path, "T", "path, -1: none"),
    optional("resource", &Graphs::resource, "T", "number of the resource that a task occupies, -1: none"),
    array("after_offsets", &Graphs::after_offsets, "T+1", "where the row of each task begins in `after`"),
    array("after", &Graphs::after, "D", "tasks that a task waits for"),
    array("path_offsets", &Graphs::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &Graphs::path_links, "H", "link of every hop"),
    optional("path_weight", &Graphs::path_weight, "H", "share of a flow's rate that the hop carries; none: all of it"),
    optional("path_limit", &Graphs::path_limit, "P", "B/s, the most that one flow gets; none: no limits"),
    count('T', &Graphs::tasks),
    count('D', &Graphs::dependencies)};

struct Batch {
  Graphs graphs;
  int32_t worlds;
  const int32_t *graph, *order;
  const int64_t *task_offsets, *link_offsets;
  const double *capacity, *latency, *until;
  const int32_t* cancel;
  double *start, *finish, *left;
  int32_t* status;
  double merge;     // relative time within which ends are one event
  int32_t threads;  // of the CPU, 0: all
  int64_t budget;   // B of memory for all teams together
  int device;       // where the arrays lie
  int64_t stream;   // the stream to run on, as a number; 0 on the CPU
};

// Q links of all worlds, S tasks of all worlds.
constexpr Field<Batch> kBatchFields[] = {
    array("graph", &Batch::graph, "W", "graph of every world"),
    array("order", &Batch::order, "W", "worlds, the most expensive first"),
    array("task_offsets", &Batch::task_offsets, "W+1", "where the tasks of each world begin in start and finish"),
    array("link_offsets", &Batch::link_offsets, "W+1", "where the links of each world begin in capacity and latency"),
    array("capacity", &Batch::capacity, "Q", "B/s"),
    array("latency", &Batch::latency, "Q", "s"),
    optional("until", &Batch::until, "W", "s, a world is paused before the first event after it; none: none is"),
    on_host("cancel", &Batch::cancel, "1", "not 0: stop"),
    array("start", &Batch::start, "S", "out, s"),
    array("finish", &Batch::finish, "S", "out, s"),
    optional("left", &Batch::left, "S", "out, B that a paused world has to send; none without `until`"),
    on_host("status", &Batch::status, "W", "out, Status, also while it runs"),
    count('W', &Batch::worlds)};

// Returns the bytes of state that one team needs.
namespace cpu {
int64_t simulate(const Batch& batch);
}
namespace cuda {
int64_t simulate(const Batch& batch);
}

}  // namespace topoflow
