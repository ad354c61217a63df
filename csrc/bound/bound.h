// The least time that worlds can take: no flow is faster than alone, no link faster than its capacity.
//   100 B and 300 B over one link of 100 B/s: alone 1 s and 3 s, together 4 s   -> 4
//   1 s of compute, then those two                                              -> 5
//   two such links, 100 B over the first, then 300 B over the second            -> 4 (1 s + 3 s, one after the other)
//
// 1. A task that shares nothing takes delay + sum(weight * latency) + bytes / min(limit, capacity / weight over its
//    hops); the longest chain of such tasks is the critical path.
// 2. A link is busy from the first moment that a flow of it can begin, if all before it share nothing, for at least
//    bytes / capacity.
// 3. A resource is busy from the first moment that a task of it can begin, for as long as all its tasks take together.
// The bound is the largest of the longest critical path and the latest ends of 2 and 3 over all links and resources.
//
// Source: the critical path and the most loaded resource, the two lower bounds of Graham, Bounds on Multiprocessing
// Timing Anomalies, SIAM J. Applied Mathematics 17(2), 1969, section 3; the second with the heads of Carlier, The
// One-Machine Sequencing Problem, European J. Operational Research 11, 1982.
#pragma once

#include "batch.h"
#include "lanes.h"

namespace topoflow::BACKEND {

class Bound {
 public:
  HD Bound(const BoundBatch& batch, int32_t group, double* memory)
      : graph_(batch.graph), batch_(batch), first_(group * kLanes), free_(memory) {
    for (Rows* rows : {&slowness_, &latency_}) *rows = take(graph_.links);
    for (Rows* rows : {&path_slowness_, &path_latency_}) *rows = take(graph_.paths);
    block_ = take(graph_.blocks);
    finish_ = take(graph_.nodes);
    part_ = take(kParts);
    longest_ = take(1);
  }

  // Numbers that one team keeps.
  HD static int64_t numbers(const CondensedGraph& g) {
    return (2 * (int64_t{g.links} + g.paths) + g.blocks + g.nodes + kParts + 1) * kLanes;
  }

  DEVICE void run(const Team auto& team) const {
    read_links(team);
    if (graph_.path_weight)
      cross_paths(team, [&](int64_t hop, const Wide& number) { return graph_.path_weight[hop] * number; });
    else
      cross_paths(team, [](int64_t, const Wide& number) { return number; });
    measure_blocks(team);
    for (int32_t level = 0; level < graph_.levels; ++level) run_level(team, level);
    longest(team, graph_.last, false, [&](int32_t i, int32_t lane) { return finish_.get(graph_.last_nodes[i], lane); });
    longest(team, graph_.resources, true, [&](int32_t r, int32_t lane) { return busy_until(r, lane); });
    load_links(team);
    longest(team, graph_.links, true, [&](int32_t link, int32_t lane) { return slowness_.get(link, lane); });
    write(team);
  }

 private:
  static constexpr int32_t kParts = 16;  // of a search

  HD Rows take(int64_t rows) {
    double* const start = free_;
    free_ += rows * kLanes;
    return {start};
  }

  // s/B and s of each link. The worlds that the last group lacks are copies of its first.
  DEVICE void read_links(const Team auto& team) const {
    const int32_t links = graph_.links;
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const int64_t from = int64_t{first_ + lane < batch_.worlds ? first_ + lane : first_} * links;
      team.for_each(links, [&](int32_t link) {
        slowness_.at(link, lane) = 1 / batch_.capacity[from + link];
        latency_.at(link, lane) = batch_.latency ? batch_.latency[from + link] : 0;
      });
    }
  }

  // s/B and s of each path, for a flow that is alone on it; weigh(hop, number) is the hop's weight times the number.
  template <class Weigh>
  DEVICE void cross_paths(const Team auto& team, const Weigh& weigh) const {
    const CondensedGraph& g = graph_;
    for_each_row(team, 0, g.paths, [&](int64_t path, int32_t lane) {
      Wide slowness = all(g.path_limit ? 1 / g.path_limit[path] : 0), latency = all(0);
      for (int64_t hop = g.path_offsets[path]; hop < g.path_offsets[path + 1]; ++hop) {
        slowness = higher(slowness, weigh(hop, slowness_.get(g.path_links[hop], lane)));
        latency = latency + weigh(hop, latency_.get(g.path_links[hop], lane));
      }
      path_slowness_.set(path, lane, slowness);
      path_latency_.set(path, lane, latency);
    });
  }

  DEVICE void measure_blocks(const Team auto& team) const {
    const CondensedGraph& g = graph_;
    for_each_row(team, 0, g.blocks, [&](int64_t block, int32_t lane) {
      Wide slowest = all(0);
      for (int64_t i = g.member_offsets[block]; i < g.member_offsets[block + 1]; ++i)
        slowest = higher(slowest, seconds(g.member[i], lane));
      block_.set(block, lane, g.steps[block] * slowest);
    });
  }

  // Returns how long a task takes alone.
  DEVICE Wide seconds(int32_t cost, int32_t lane) const {
    const CondensedGraph& g = graph_;
    const int32_t path = g.cost_path[cost];
    const Wide delay = all(g.cost_delay[cost]);
    if (path < 0) return delay;
    const Wide waits = delay + path_latency_.get(path, lane);
    return g.cost_bytes[cost] > 0 ? waits + g.cost_bytes[cost] * path_slowness_.get(path, lane) : waits;
  }

  DEVICE Wide ready(int64_t node, int32_t lane) const {
    const CondensedGraph& g = graph_;
    Wide last = all(g.release[node]);
    for (int64_t i = g.after_offsets[node]; i < g.after_offsets[node + 1]; ++i)
      last = higher(last, finish_.get(g.after[i], lane));
    return last;
  }

  DEVICE void run_level(const Team auto& team, int32_t level) const {
    const CondensedGraph& g = graph_;
    for_each_row(team, g.level_offsets[level], g.level_offsets[level + 1], [&](int64_t node, int32_t lane) {
      const int32_t cost = g.node_cost[node];
      const Wide duration = cost < 0 ? block_.get(-1 - cost, lane) : seconds(cost, lane);
      finish_.set(node, lane, ready(node, lane) + duration);
    });
  }

  // The first moment at which the resource can have run all its tasks.
  DEVICE Wide busy_until(int32_t r, int32_t lane) const {
    const CondensedGraph& g = graph_;
    Wide begin = all(kInfinity);
    for (int64_t i = g.resource_offsets[r]; i < g.resource_offsets[r + 1]; ++i)
      begin = lower(begin, ready(g.occupant[i], lane));
    return begin + all(g.resource_seconds[r]);
  }

  // The largest of value(i < n), and of what `longest_` was if it counts.
  template <class F>
  DEVICE void longest(const Team auto& team, int32_t n, bool continues, const F& value) const {
    for_each_row(team, 0, kParts, [&](int64_t part, int32_t lane) {
      Wide largest = continues ? longest_.get(0, lane) : all(0);
      for (int32_t i = static_cast<int32_t>(part); i < n; i += kParts) largest = higher(largest, value(i, lane));
      part_.set(part, lane, largest);
    });
    for_each_row(team, 0, 1, [&](int64_t, int32_t lane) {
      Wide largest = part_.get(0, lane);
      for (int32_t part = 1; part < kParts; ++part) largest = higher(largest, part_.get(part, lane));
      longest_.set(0, lane, largest);
    });
  }

  // `slowness_` becomes the first moment at which the link can have moved its bytes. If the first of its paths
  // shows that this is no later than the critical path in any world, the other paths can be skipped.
  DEVICE void load_links(const Team auto& team) const {
    const CondensedGraph& g = graph_;
    for_each_row(team, 0, g.links, [&](int64_t link, int32_t lane) {
      const int64_t crossing = g.paths_on_link_offsets[link], end = g.paths_on_link_offsets[link + 1];
      if (crossing == end) return slowness_.set(link, lane, all(0));
      const Wide busy_seconds = g.link_bytes[link] * slowness_.get(link, lane);
      Wide begin = begin_on(g.paths_on_link[crossing], lane);
      if (exceeds(begin + busy_seconds, longest_.get(0, lane)))
        for (int64_t i = crossing + 1; i < end; ++i) begin = lower(begin, begin_on(g.paths_on_link[i], lane));
      slowness_.set(link, lane, begin + busy_seconds);
    });
  }

  // The first moment at which a flow on the path can begin.
  DEVICE Wide begin_on(int32_t path, int32_t lane) const {
    const CondensedGraph& g = graph_;
    Wide begin = all(kInfinity);
    for (int64_t i = g.sender_offsets[path]; i < g.sender_offsets[path + 1]; ++i)
      begin = lower(begin, all(g.sender_delay[i]) + ready(g.sender[i], lane));
    return begin + path_latency_.get(path, lane);
  }

  DEVICE void write(const Team auto& team) const {
    const int32_t worlds = batch_.worlds - first_ < kLanes ? batch_.worlds - first_ : kLanes;
    team.for_each(worlds, [&](int32_t lane) { batch_.makespan[first_ + lane] = longest_.at(0, lane); });
    if (!batch_.start) return;
    for_each_row(team, 0, graph_.nodes, [&](int64_t node, int32_t lane) {
      const Wide start = ready(node, lane), finish = finish_.get(node, lane);
      for (int32_t i = 0; i < kWide && lane + i < worlds; ++i) {
        const int64_t to = int64_t{first_ + lane + i} * graph_.nodes + node;
        batch_.start[to] = number(start, i);
        batch_.finish[to] = number(finish, i);
      }
    });
  }

  CondensedGraph graph_;
  BoundBatch batch_;
  int32_t first_;                      // world of the first lane
  double* free_;                       // memory that is left
  Rows slowness_, latency_;            // [L] s/B, s
  Rows path_slowness_, path_latency_;  // [P] s/B, s
  Rows block_;                         // [B] s
  Rows finish_;                        // [N] s
  Rows part_, longest_;                // [kParts] s, [1] s
};

}  // namespace topoflow::BACKEND
