// Worlds of one graph, as the bound reads them: what does not depend on the links' numbers is worked out before.
//
// Shapes: W worlds, L links, P paths, H hops, C costs (path, bytes and delay), N nodes in the order of their levels,
// each a task or a block, B blocks (of tasks that count as one node), M members (the costs of their tasks), V levels,
// D dependencies, U users (a node that sends over a path), X crossings (a path that sends over a link), S sinks (nodes
// that no other waits for).
//
// Source: topoflow/engine/bound/condensed.py makes it of a graph; the model is stated in topoflow/engine/base.py.
#pragma once

#include <cstdint>

namespace topoflow {

struct Outline {
  int32_t links, paths, nodes, blocks, levels, sinks;
  const int64_t* path_offsets;      // [P+1] hops of every path
  const int32_t* path_links;        // [H]
  const double* path_weight;        // [H] share of a flow's rate that the hop carries; nullptr: all of it everywhere
  const double* path_limit;         // [P] B/s, the most that one flow gets; nullptr: no limits
  const int32_t* cost_path;         // [C] -1: none
  const double* cost_bytes;         // [C] B
  const double* cost_delay;         // [C] s
  const int64_t* member_offsets;    // [B+1]
  const int32_t* member;            // [M] costs
  const double* steps;              // [B] a block takes so many times the largest of its costs
  const int64_t* level_offsets;     // [V+1] nodes of every level
  const int32_t* node_cost;         // [N] cost of a task, -1 - block of a block
  const double* release;            // [N] s
  const int64_t* after_offsets;     // [N+1]
  const int32_t* after;             // [D] nodes of lower levels
  const int64_t* user_offsets;      // [P+1]
  const int32_t* user;              // [U] nodes
  const double* user_delay;         // [U] s
  const int64_t* crossing_offsets;  // [L+1]
  const int32_t* crossing;          // [X] paths
  const double* link_bytes;         // [L] B
  const int32_t* sink;              // [S] nodes
};

struct BoundBatch {
  Outline outline;
  int32_t worlds;
  const double* capacity;  // [W, L] B/s
  const double* latency;   // [W, L] s; nullptr: none
  const int32_t* cancel;   // [1] not 0: stop
  double* start;           // out [W, N] s; nullptr: not asked for
  double* finish;          // out [W, N] s; likewise
  double* makespan;        // out [W] s
  int64_t budget;          // B of memory for all teams together
  int32_t threads;         // of the CPU, 0: all
  int device;              // where the arrays lie
  int64_t stream;          // the stream to run on, as a number; 0 on the CPU
};

namespace cpu {
void bound(const BoundBatch& batch);
}
namespace cuda {
void bound(const BoundBatch& batch);
}

}  // namespace topoflow
