// Worlds of one graph, as the bound reads them: what does not depend on the links' numbers is computed before.
//
// Shapes: W worlds, L links, P paths, H hops, C costs (path, bytes and delay), N nodes in the order of their levels,
// each a task or a block, B blocks (of tasks that count as one node), M members (the costs of their tasks), V levels,
// D dependencies, U sends (a node and the path that it sends over), X crossings (a path and a link of it), S last nodes
// (that no other waits for), R resources, O nodes that occupy one.
//
// Source: topoflow/engine/bound/condensed.py makes it of a graph; the model is stated in topoflow/engine/base.py.
#pragma once

#include "fields.h"

namespace topoflow {

struct CondensedGraph {
  int32_t links, paths, nodes, blocks, levels, last, resources;
  const int64_t* path_offsets;
  const int32_t* path_links;
  const double *path_weight, *path_limit;
  const int32_t* cost_path;
  const double *cost_bytes, *cost_delay;
  const int64_t* member_offsets;
  const int32_t* member;
  const double* steps;
  const int64_t* level_offsets;
  const int32_t* node_cost;
  const double* release;
  const int64_t* after_offsets;
  const int32_t* after;
  const int64_t* sender_offsets;
  const int32_t* sender;
  const double* sender_delay;
  const int64_t* paths_on_link_offsets;
  const int32_t* paths_on_link;
  const double* link_bytes;
  const int32_t* last_nodes;
  const int64_t* resource_offsets;
  const int32_t* occupant;
  const double* resource_seconds;
};

constexpr Field<CondensedGraph> kCondensedGraphFields[] = {
    array("path_offsets", &CondensedGraph::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &CondensedGraph::path_links, "H", "link of every hop"),
    optional("path_weight", &CondensedGraph::path_weight, "H", "share of a flow's rate that the hop carries"),
    optional("path_limit", &CondensedGraph::path_limit, "P", "B/s, the most that one flow gets"),
    array("cost_path", &CondensedGraph::cost_path, "C", "path, -1: none"),
    array("cost_bytes", &CondensedGraph::cost_bytes, "C", "B"),
    array("cost_delay", &CondensedGraph::cost_delay, "C", "s"),
    array("steps", &CondensedGraph::steps, "B", "a block takes this many times the largest of its costs"),
    array("member_offsets", &CondensedGraph::member_offsets, "B+1", "where the row of each block begins in `member`"),
    array("member", &CondensedGraph::member, "M", "costs of a block's tasks"),
    array("level_offsets", &CondensedGraph::level_offsets, "V+1", "first node of each level"),
    array("node_cost", &CondensedGraph::node_cost, "N", "cost of a task, -1 - block of a block"),
    array("release", &CondensedGraph::release, "N", "s"),
    array("after_offsets", &CondensedGraph::after_offsets, "N+1", "where the row of each node begins in `after`"),
    array("after", &CondensedGraph::after, "D", "nodes of lower levels that a node waits for"),
    array("user_offsets", &CondensedGraph::sender_offsets, "P+1", "where the row of each path begins in `sender`"),
    array("user", &CondensedGraph::sender, "U", "nodes that send over a path"),
    array("user_delay", &CondensedGraph::sender_delay, "U", "s"),
    array("link_bytes", &CondensedGraph::link_bytes, "L", "B"),
    array("crossing_offsets", &CondensedGraph::paths_on_link_offsets, "L+1",
          "where the row of each link begins in `paths_on_link`"),
    array("crossing", &CondensedGraph::paths_on_link, "X", "paths that cross a link"),
    array("sink", &CondensedGraph::last_nodes, "S", "nodes that no other waits for"),
    array("resource_offsets", &CondensedGraph::resource_offsets, "R+1",
          "where the row of each resource begins in `occupant`"),
    array("occupant", &CondensedGraph::occupant, "O", "nodes that occupy a resource, one at a time"),
    array("resource_seconds", &CondensedGraph::resource_seconds, "R", "s, how long they do"),
    count('L', &CondensedGraph::links),
    count('P', &CondensedGraph::paths),
    count('N', &CondensedGraph::nodes),
    count('B', &CondensedGraph::blocks),
    count('V', &CondensedGraph::levels),
    count('S', &CondensedGraph::last),
    count('R', &CondensedGraph::resources)};

struct BoundBatch {
  CondensedGraph graph;
  int32_t worlds;
  const double *capacity, *latency;
  const int32_t* cancel;
  double *start, *finish, *makespan;
  int64_t budget;   // B of memory for all teams together
  int32_t threads;  // of the CPU, 0: all
  int device;       // where the arrays lie
  int64_t stream;   // the stream to run on, as a number; 0 on the CPU
};

constexpr Field<BoundBatch> kBoundFields[] = {array("makespan", &BoundBatch::makespan, "W", "out, s"),
                                              array("capacity", &BoundBatch::capacity, "W,L", "B/s"),
                                              optional("latency", &BoundBatch::latency, "W,L", "s; none: 0"),
                                              on_host("cancel", &BoundBatch::cancel, "1", "not 0: stop"),
                                              optional("start", &BoundBatch::start, "W,N", "out, s; none: not wanted"),
                                              optional("finish", &BoundBatch::finish, "W,N", "out, s; likewise"),
                                              count('W', &BoundBatch::worlds)};

namespace cpu {
void bound(const BoundBatch& batch);
}
namespace cuda {
void bound(const BoundBatch& batch);
}

}  // namespace topoflow
