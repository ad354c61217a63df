// Some tasks of a job as a world of their own: numbered anew, with the paths, links and dependencies that they have, on
// a clock of their own.
//   tasks 3, 5 and 8 move, 3 over link 7, 5 and 8 over links 7 and 2; 8 waits for 5
//     -> tasks 0, 1 and 2, 0 over link 0, 1 and 2 over links 0 and 1; 2 waits for 1
//
// Shapes: T tasks, D dependencies, P paths, H hops, L links, all of the piece.
//
// Source: topoflow/engine/dynamic/reconfigure.py says whose job it is, world.h how it runs.
#pragma once

#include <algorithm>

#include "fluid/world.h"
#include "job.h"
#include "parallel/device.h"

namespace topoflow::BACKEND {

inline bool begun(const Job& job, int32_t task) { return job.start[task] < kInfinity; }
inline bool over(const Job& job, int32_t task) { return job.finish[task] < kInfinity; }
inline bool occupies(const Job& job, int32_t task) { return job.graph.resource && job.graph.resource[task] >= 0; }

// Numbers the tasks that move, in their order. Leaves the job's scratch as it was.
class Numbers {
 public:
  Sizes sizes{};
  int64_t dependencies = 0;

  explicit Numbers(const Job& job) : job_(job) {
    for (int64_t k = 0; k < job.moving; ++k) {
      job.number[job.moved[k]] = static_cast<int32_t>(k);
      for_each_awaited(job.moved[k], [&](int32_t) { ++dependencies; });
      if (const int32_t p = job.graph.path[job.moved[k]]; p >= 0 && job.path_number[p] < 0) add_path(p);
    }
    sizes.tasks = job.moving;
    sizes.occupying = job.graph.resource ? job.moving : 0;
  }
  ~Numbers() {
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t task = job_.moved[k], p = job_.graph.path[task];
      job_.number[task] = -1;
      if (p >= 0) forget_path(p);
    }
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  // Calls f for the unfinished dependencies of a task: all of them are in the piece.
  template <class F>
  void for_each_awaited(int32_t task, const F& f) const {
    if (begun(job_, task)) return;
    for (int64_t i = job_.graph.after_offsets[task]; i < job_.graph.after_offsets[task + 1]; ++i)
      if (!over(job_, job_.graph.after[i])) f(job_.number[job_.graph.after[i]]);
  }

  int32_t& link(int64_t hop) const {
    const int32_t l = job_.graph.path_links[hop];
    return job_.link_number[l == Job::kNoLink ? job_.links : l];
  }

 private:
  void add_path(int32_t p) {
    job_.path_number[p] = static_cast<int32_t>(sizes.paths++);
    for (int64_t hop = job_.graph.path_offsets[p]; hop < job_.graph.path_offsets[p + 1]; ++hop, ++sizes.hops)
      if (link(hop) < 0) link(hop) = static_cast<int32_t>(sizes.links++);
  }

  void forget_path(int32_t p) const {
    job_.path_number[p] = -1;
    for (int64_t hop = job_.graph.path_offsets[p]; hop < job_.graph.path_offsets[p + 1]; ++hop) link(hop) = -1;
  }

  const Job& job_;
};

// The arrays of a piece, laid out as in Batch.
struct PieceArrays {
  double *delay, *bytes, *release, *path_weight, *path_limit, *capacity, *latency, *start, *finish, *left;
  int32_t *path, *resource, *after, *followers, *path_links;
  int64_t *after_offsets, *follower_offsets, *path_offsets;

  PieceArrays(Arena& arena, const Sizes& n, int64_t dependencies)
      : delay(arena.take<double>(n.tasks)),
        bytes(arena.take<double>(n.tasks)),
        release(arena.take<double>(n.tasks)),
        path_weight(arena.take<double>(n.hops)),
        path_limit(arena.take<double>(n.paths)),
        capacity(arena.take<double>(n.links)),
        latency(arena.take<double>(n.links)),
        start(arena.take<double>(n.tasks)),
        finish(arena.take<double>(n.tasks)),
        left(arena.take<double>(n.tasks)),
        path(arena.take<int32_t>(n.tasks)),
        resource(arena.take<int32_t>(n.occupying)),
        after(arena.take<int32_t>(dependencies)),
        followers(arena.take<int32_t>(dependencies)),
        path_links(arena.take<int32_t>(n.hops)),
        after_offsets(arena.take<int64_t>(n.tasks + 1)),
        follower_offsets(arena.take<int64_t>(n.tasks + 1)),
        path_offsets(arena.take<int64_t>(n.paths + 1)) {}
};

class PieceWorld {
 public:
  // Takes the moving tasks of `job`; the clock begins at `zero`, so that `merge` is relative to a short time.
  PieceWorld(const Job& job, double now, double zero)
      : job_(job),
        now_(now),
        zero_(zero),
        numbers_(job),
        memory_(bytes()),
        arena_(memory_.data()),
        to_(arena_, numbers_.sizes, numbers_.dependencies) {
    copy_tasks();
    copy_dependencies();
    copy_paths();
  }

  // Runs until this time and returns the status.
  Status run(double until) const {
    const Sizes& n = numbers_.sizes;
    const int64_t tasks[2] = {0, n.tasks}, paths[2] = {0, n.paths}, links[2] = {0, n.links};
    const int32_t first = 0;
    const double end = until - zero_;
    Batch batch{};
    batch.graphs = {.tasks = n.tasks,
                    .dependencies = numbers_.dependencies,
                    .task_offsets = tasks,
                    .path_base = paths,
                    .delay = to_.delay,
                    .bytes = to_.bytes,
                    .release = to_.release,
                    .path = to_.path,
                    .resource = job_.graph.resource ? to_.resource : nullptr,
                    .after_offsets = to_.after_offsets,
                    .after = to_.after,
                    .path_offsets = to_.path_offsets,
                    .path_links = to_.path_links,
                    .path_weight = job_.graph.path_weight ? to_.path_weight : nullptr,
                    .path_limit = job_.graph.path_limit ? to_.path_limit : nullptr,
                    .follower_offsets = to_.follower_offsets,
                    .followers = to_.followers};
    batch.worlds = 1;
    batch.order = batch.graph = &first;
    batch.task_offsets = tasks;
    batch.link_offsets = links;
    batch.capacity = to_.capacity;
    batch.latency = to_.latency;
    batch.until = &end;
    batch.cancel = job_.cancel;
    batch.start = to_.start;
    batch.finish = to_.finish;
    batch.left = to_.left;
    batch.merge = job_.merge;
    WorldData data(batch, 0, arena_, nullptr);
    return World<WorldData>(batch, data).run(ThreadTeam());
  }

  // Return values of the task with number k, on the job's clock.
  double start(int64_t k) const { return to_.start[k] + zero_; }
  double finish(int64_t k) const { return to_.finish[k] + zero_; }
  double left(int64_t k) const { return to_.left[k]; }  // B, of a world that is paused
  bool waits(int64_t k) const { return to_.after_offsets[k] < to_.after_offsets[k + 1]; }  // for a task of the piece

 private:
  int64_t bytes() const {
    const Sizes& n = numbers_.sizes;
    Arena arena(nullptr);
    PieceArrays(arena, n, numbers_.dependencies);
    const int64_t limits = job_.graph.path_limit ? n.paths : 0;
    const int64_t weights = job_.graph.path_weight ? n.hops : 0;
    return arena.taken() +
           WorldData::bytes({n.tasks, n.paths, n.hops + limits, n.links + limits, weights, n.occupying});
  }

  // A task that has begun is ready at the end of its wait, minus the latency of its path, which it waits again. A task
  // that waits for a resource keeps the time at which it became ready, and so its turn. A task that occupies a resource
  // gets a time before those of all tasks that wait.
  void copy_tasks() const {
    if (job_.graph.resource) copy_resources();
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t task = job_.moved[k], p = job_.graph.path[task];
      const double ready = begun(job_, task) ? std::max(job_.waited[task], now_) - (p >= 0 ? job_.wait[p] : 0)
                                             : job_.graph.release[task];
      to_.release[k] = std::max(ready - zero_, 0.0);
      to_.delay[k] = begun(job_, task) ? 0 : job_.graph.delay[task];
      to_.bytes[k] = job_.left[task];
      to_.path[k] = p >= 0 ? job_.path_number[p] : -1;
      if (!occupies(job_, task)) continue;
      to_.release[k] = (begun(job_, task) ? -now_ : job_.ready_at[task]) - zero_;
      to_.delay[k] = begun(job_, task) ? job_.waited[task] + now_ : job_.graph.delay[task];
    }
  }

  // A resource has the number of the first task of the piece that occupies it.
  void copy_resources() const {
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t task = job_.moved[k];
      if (occupies(job_, task)) job_.resource_number[job_.graph.resource[task]] = -1;
    }
    for (int64_t k = 0; k < job_.moving; ++k) {
      to_.resource[k] = -1;
      if (!occupies(job_, job_.moved[k])) continue;
      int32_t& number = job_.resource_number[job_.graph.resource[job_.moved[k]]];
      to_.resource[k] = number = number < 0 ? static_cast<int32_t>(k) : number;
    }
  }

  void copy_dependencies() const {
    int64_t* const followers = to_.follower_offsets;
    std::fill_n(followers, job_.moving + 1, 0);
    int64_t n = 0;
    for (int64_t k = 0; k < job_.moving; ++k) {
      to_.after_offsets[k] = n;
      numbers_.for_each_awaited(job_.moved[k], [&](int32_t awaited) {
        to_.after[n++] = awaited;
        ++followers[awaited];
      });
    }
    to_.after_offsets[job_.moving] = n;
    for (int64_t k = 0, first = 0; k <= job_.moving; ++k) followers[k] = first += followers[k];  // now their ends
    for (int64_t k = job_.moving - 1; k >= 0; --k)
      for (int64_t i = to_.after_offsets[k]; i < to_.after_offsets[k + 1]; ++i)
        to_.followers[--followers[to_.after[i]]] = static_cast<int32_t>(k);
  }

  void copy_paths() const {
    const Graphs& graph = job_.graph;
    int64_t n = 0, paths = 0;
    to_.path_offsets[0] = 0;
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t p = graph.path[job_.moved[k]];
      if (p < 0 || job_.path_number[p] != paths) continue;  // numbered in this order
      if (graph.path_limit) to_.path_limit[paths] = graph.path_limit[p];
      for (int64_t hop = graph.path_offsets[p]; hop < graph.path_offsets[p + 1]; ++hop, ++n) {
        const int32_t l = numbers_.link(hop);
        to_.path_links[n] = l;
        to_.path_weight[n] = graph.path_weight ? graph.path_weight[hop] : 1;
        to_.capacity[l] = graph.path_links[hop] == Job::kNoLink ? 0 : job_.capacity[graph.path_links[hop]];
        to_.latency[l] = job_.latency;
      }
      to_.path_offsets[++paths] = n;
    }
  }

  const Job& job_;
  double now_, zero_;  // s
  Numbers numbers_;
  Array<std::byte> memory_;
  Arena arena_;
  PieceArrays to_;
};

}  // namespace topoflow::BACKEND
