// Placement strategies as contention.h estimates them. A coflow is all activations that travel into a layer, or the
// gradients that travel out of it again.
//
// Shapes: as in strategies.h; T nodes of trees.
//
// Source: topoflow/engine/screen/contention.py makes them.
#pragma once

#include "strategies.h"

namespace topoflow {

// Paths from one server share their beginnings, and paths to one server their ends: a tree for each server of either
// kind. A node is a link after its parent, which is an earlier node; node 0 is the server itself.
struct PathTrees {
  int32_t largest;  // nodes of a tree, at most
  const int64_t* tree;
  const int32_t *parent, *link, *leaf;
  const double* latency;
};

constexpr Field<PathTrees> kPathTreesFields[] = {
    array("tree", &PathTrees::tree, "2,N+1", "first node of the tree from each server, then of those to each"),
    array("tree_parent", &PathTrees::parent, "T", "counted from the first of the tree"),
    array("tree_link", &PathTrees::link, "T", "of node 0, L, which is none"),
    array("tree_leaf", &PathTrees::leaf, "2,N,N", "node at which the path from, or to, another server ends"),
    array("tree_latency", &PathTrees::latency, "2,N,N", "s of that path")};

// A job and a fabric as the estimate sees them.
struct ContentionModel {
  Strategies strategies;
  PathTrees trees;
  int32_t coflows;  // that the change of one layer changes, at most
  const double *ring_latency, *ring_slowness, *ring_busy;
};

constexpr Field<ContentionModel> kContentionFields[] = {
    array("ring_latency", &ContentionModel::ring_latency, "K", "s that an all-reduce takes without its bytes"),
    array("ring_slowness", &ContentionModel::ring_slowness, "K", "s/B"),
    array("ring_busy", &ContentionModel::ring_busy, "J", "s/B that it needs of the link")};

// The device, threads and memory of a kernel.
struct Where {
  int64_t budget;   // B for the state of teams
  int32_t threads;  // of a CPU, 0: all
  int device;
  int64_t stream;
};

// Placements, each to be estimated by itself.
struct PlacementBatch {
  ContentionModel model;
  Where where;
  int32_t placements;
  int32_t* placement;
  double* makespan;
};

constexpr Field<PlacementBatch> kPlacementFields[] = {
    array("makespan", &PlacementBatch::makespan, "C", "out, s"),
    array("placement", &PlacementBatch::placement, "C,Y", "choice of each layer"),
    count('C', &PlacementBatch::placements)};

namespace cpu {
void contention(const PlacementBatch& batch);
}
namespace cuda {
void contention(const PlacementBatch& batch);
}

}  // namespace topoflow
