// Placement strategies side by side, as contention.h estimates them. A coflow is all that travels into a layer (forth),
// or the gradients that travel out of it again (back).
//
// Shapes: as in strategies.h; T nodes of trees.
//
// Source: topoflow/engine/screen/contention.py makes them.
#pragma once

#include "strategies.h"

namespace topoflow {

// Paths from one server share their beginnings, and paths to one server their ends: a tree for each server of either
// kind. A node is a link behind its parent, which is an earlier node; node 0 is the server itself.
struct Ways {
  int32_t most;                 // nodes of a tree
  int32_t coflows;              // that the change of one layer changes, at most
  const int64_t* tree;          // [2, N+1] nodes of the paths from each server, then of those to each
  const int32_t* parent;        // [T] counted from the first of the tree
  const int32_t* link;          // [T] of node 0, L, which is none
  const int32_t* leaf;          // [2, N, N] the node in the tree of a server at which the path to or from another ends
  const double* latency;        // [2, N, N] s of that path
  const double* ring_latency;   // [K] s that an all-reduce takes without its bytes
  const double* ring_slowness;  // [K] s/B
  const double* ring_busy;      // [J] s/B that it needs of the link
};

struct ContentionBatch : StepBatch {
  Ways ways;
  int64_t* load;  // [C, Y, 2, L] 1/unit B that a layer's coflows forth and back put on links
};

namespace cpu {
void contention(const ContentionBatch& batch);
}
namespace cuda {
void contention(const ContentionBatch& batch);
}

}  // namespace topoflow
