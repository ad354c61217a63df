// One piece of a job: those of its tasks that can move until a time are a world of their own, and run alone as they
// would run in the whole.
//   at 0 s 100 B on a link of 10 B/s, then 1 s of compute; 50 B that have no circuit; until 2 s
//     -> the 100 B alone: they cannot end before 10 s, so the compute cannot begin, and the 50 B do not move
//
// Of flows that stand still one goes along, as what ends when they have waited may be merged into that event.
// Nothing ends before the time that its wait, and its bytes at the rate of its narrowest hop, take; a task can begin
// only when all that it waits for can have ended. Ends that are merged into an earlier event may come before that
// by as much as an event is long, which `slack_` allows for.
//
// Source: earliest times as of the critical path (Kelley and Walker, Critical-Path Planning and Scheduling, Eastern
// Joint Computer Conference 1959).
#pragma once

#include <algorithm>
#include <stdexcept>

#include "job.h"
#include "world.h"

namespace topoflow::BACKEND {

// The world of a piece in memory of its own, laid out as in Batch. D dependencies.
struct PieceArrays {
  double *delay, *bytes, *release, *path_weight, *path_limit, *capacity, *latency, *start, *finish, *left;
  int32_t *path, *after, *followers, *path_links;
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
        after(arena.take<int32_t>(dependencies)),
        followers(arena.take<int32_t>(dependencies)),
        path_links(arena.take<int32_t>(n.hops)),
        after_offsets(arena.take<int64_t>(n.tasks + 1)),
        follower_offsets(arena.take<int64_t>(n.tasks + 1)),
        path_offsets(arena.take<int64_t>(n.paths + 1)) {}
};

class Piece {
 public:
  Piece(Job& job, double now, double until) : job_(job), now_(now), until_(until) {
    double longest = 0;  // what flows now was ready by so much earlier
    for (int64_t p = 0; p < job.paths; ++p)
      if (job.users[p] > 0) longest = std::max(longest, job.wait[p]);
    zero_ = now - longest;
    const double merge = std::max(job.merge, kSame);
    slack_ = 2 * merge * (until - zero_);
    horizon_ = zero_ + (until - zero_) * (1 + merge + kRounding) + until * kSame;
  }

  Status run() {
    if (Team().poll(job_.cancel)) return kCancelled;
    select();
    if (job_.moving == 0) return kPaused;
    const Memory memory(bytes());
    Arena arena(memory.start());
    const PieceArrays arrays(arena, sizes_, dependencies_);
    const Status status = simulate(arrays, arena);
    return status == kDone || status == kPaused ? write_back(arrays, status) : status;
  }

  // Leaves the job's scratch as it was.
  ~Piece() {
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t task = job_.moved[k], p = job_.graph.path[task];
      job_.number[task] = -1;
      if (p >= 0) forget(p);
    }
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

 private:
  static constexpr double kRounding = 1e-9;

  bool begun(int32_t task) const { return job_.start[task] < kInfinity; }
  bool over(int32_t task) const { return job_.finish[task] < kInfinity; }
  double wait(int32_t task) const {
    const int32_t p = job_.graph.path[task];
    return job_.graph.delay[task] + (p >= 0 ? job_.wait[p] : 0);
  }

  // B/s, the most that a flow on the path can get.
  double fastest(int32_t p) const {
    const Graphs& graph = job_.graph;
    double rate = graph.path_limit ? graph.path_limit[p] : kInfinity;
    for (int64_t hop = graph.path_offsets[p]; hop < graph.path_offsets[p + 1]; ++hop) {
      const int32_t l = graph.path_links[hop];
      const double capacity = l == Job::kDark ? 0 : job_.capacity[l];
      rate = std::min(rate, graph.path_weight ? capacity / graph.path_weight[hop] : capacity);
    }
    return rate;
  }

  // s that what is left of the task flows at least.
  double flows(int32_t task) const {
    if (!(job_.left[task] > 0)) return 0;
    const double rate = fastest(job_.graph.path[task]);
    return rate > 0 ? std::max(0.0, job_.left[task] / rate - slack_) : kInfinity;
  }

  void take(int32_t task, double end) const {
    job_.moved[job_.moving++] = task;
    job_.end[task] = end;
  }

  void select() {
    job_.moving = 0;
    bool stands = false;
    for (int64_t i = 0; i < job_.lives; ++i) {
      const int32_t task = job_.live[i];
      const bool begun = this->begun(task);
      const double first = begun ? std::max(job_.waited[task], now_) : job_.graph.release[task];
      if (first > horizon_) continue;
      const double flows = this->flows(task);
      if (begun && flows == kInfinity && job_.waited[task] <= now_) {  // it stands still: one tells when all of them do
        if (stands) continue;
        stands = true;
      }
      take(task, first + (begun ? 0 : wait(task)) + flows);
    }
    if (job_.moving == stands) job_.moving = 0;  // all do
    for (int64_t k = 0; k < job_.moving; ++k)
      for_each_follower(job_.moved[k], [&](int32_t f) {
        const double awaited = job_.end[job_.moved[k]];
        job_.end[f] = job_.seen[f] == 0 ? std::max(job_.graph.release[f], awaited) : std::max(job_.end[f], awaited);
        if (++job_.seen[f] == job_.pending[f] && job_.end[f] <= horizon_) take(f, job_.end[f] + wait(f) + flows(f));
      });
    for (int64_t k = 0; k < job_.moving; ++k) for_each_follower(job_.moved[k], [&](int32_t f) { job_.seen[f] = 0; });
    std::sort(job_.moved, job_.moved + job_.moving);
    for (int64_t k = 0; k < job_.moving; ++k) job_.number[job_.moved[k]] = static_cast<int32_t>(k);
  }

  // Of a task that can end by the horizon.
  template <class F>
  void for_each_follower(int32_t task, const F& f) const {
    if (job_.end[task] > horizon_) return;
    for (int64_t i = job_.graph.follower_offsets[task]; i < job_.graph.follower_offsets[task + 1]; ++i)
      f(job_.graph.followers[i]);
  }

  // Of the tasks that it waits for, those that are not over: all of them are in the piece.
  template <class F>
  void for_each_awaited(int32_t task, const F& f) const {
    if (begun(task)) return;
    for (int64_t i = job_.graph.after_offsets[task]; i < job_.graph.after_offsets[task + 1]; ++i)
      if (!over(job_.graph.after[i])) f(job_.number[job_.graph.after[i]]);
  }

  int32_t& link_number(int64_t hop) const {
    const int32_t l = job_.graph.path_links[hop];
    return job_.link_number[l == Job::kDark ? job_.links : l];
  }

  // Numbers paths and links, and returns the bytes that the piece needs.
  int64_t bytes() {
    sizes_ = {job_.moving, 0, 0, 0};
    dependencies_ = 0;
    for (int64_t k = 0; k < job_.moving; ++k) {
      for_each_awaited(job_.moved[k], [&](int32_t) { ++dependencies_; });
      const int32_t p = job_.graph.path[job_.moved[k]];
      if (p < 0 || job_.path_number[p] >= 0) continue;
      job_.path_number[p] = static_cast<int32_t>(sizes_.paths++);
      for (int64_t hop = job_.graph.path_offsets[p]; hop < job_.graph.path_offsets[p + 1]; ++hop, ++sizes_.hops)
        if (link_number(hop) < 0) link_number(hop) = static_cast<int32_t>(sizes_.links++);
    }
    Arena arena(nullptr);
    PieceArrays(arena, sizes_, dependencies_);
    const int64_t limits = job_.graph.path_limit ? sizes_.paths : 0;
    return arena.taken() + State::bytes({sizes_.tasks, sizes_.paths, sizes_.hops + limits, sizes_.links + limits});
  }

  void forget(int32_t p) const {
    job_.path_number[p] = -1;
    for (int64_t hop = job_.graph.path_offsets[p]; hop < job_.graph.path_offsets[p + 1]; ++hop) link_number(hop) = -1;
  }

  Status simulate(const PieceArrays& to, const Arena& arena) const {
    const int64_t tasks[2] = {0, sizes_.tasks}, paths[2] = {0, sizes_.paths}, links[2] = {0, sizes_.links};
    const int32_t first = 0;
    const double until = until_ - zero_;
    copy_tasks(to);
    copy_dependencies(to);
    copy_paths(to);
    Batch batch{};
    batch.graphs = {sizes_.tasks,
                    dependencies_,
                    tasks,
                    paths,
                    to.delay,
                    to.bytes,
                    to.release,
                    to.path,
                    to.after_offsets,
                    to.after,
                    to.follower_offsets,
                    to.followers,
                    to.path_offsets,
                    to.path_links,
                    job_.graph.path_weight ? to.path_weight : nullptr,
                    job_.graph.path_limit ? to.path_limit : nullptr};
    batch.worlds = 1;
    batch.order = batch.graph = &first;
    batch.task_offsets = tasks;
    batch.link_offsets = links;
    batch.capacity = to.capacity;
    batch.latency = to.latency;
    batch.until = &until;
    batch.cancel = job_.cancel;
    batch.start = to.start;
    batch.finish = to.finish;
    batch.left = to.left;
    batch.merge = job_.merge;
    return World(batch, 0, arena).run(Team());
  }

  // On a clock that begins with what flows now, so that `merge` is relative to little. What has begun is ready when its
  // wait ends, but for the latency of its path, which it waits again.
  void copy_tasks(const PieceArrays& to) const {
    for (int64_t k = 0; k < sizes_.tasks; ++k) {
      const int32_t task = job_.moved[k], p = job_.graph.path[task];
      const double ready =
          begun(task) ? std::max(job_.waited[task], now_) - (p >= 0 ? job_.wait[p] : 0) : job_.graph.release[task];
      to.release[k] = std::max(ready - zero_, 0.0);
      to.delay[k] = begun(task) ? 0 : job_.graph.delay[task];
      to.bytes[k] = job_.left[task];
      to.path[k] = p >= 0 ? job_.path_number[p] : -1;
    }
  }

  void copy_dependencies(const PieceArrays& to) const {
    int64_t* const followers = to.follower_offsets;
    std::fill_n(followers, sizes_.tasks + 1, 0);
    int64_t n = 0;
    for (int64_t k = 0; k < sizes_.tasks; ++k) {
      to.after_offsets[k] = n;
      for_each_awaited(job_.moved[k], [&](int32_t awaited) {
        to.after[n++] = awaited;
        ++followers[awaited];
      });
    }
    to.after_offsets[sizes_.tasks] = n;
    for (int64_t k = 0, first = 0; k <= sizes_.tasks; ++k) followers[k] = first += followers[k];  // now their ends
    for (int64_t k = sizes_.tasks - 1; k >= 0; --k)
      for (int64_t i = to.after_offsets[k]; i < to.after_offsets[k + 1]; ++i)
        to.followers[--followers[to.after[i]]] = static_cast<int32_t>(k);
  }

  void copy_paths(const PieceArrays& to) const {
    const Graphs& graph = job_.graph;
    int64_t n = 0, paths = 0;
    to.path_offsets[0] = 0;
    for (int64_t k = 0; k < sizes_.tasks; ++k) {
      const int32_t p = graph.path[job_.moved[k]];
      if (p < 0 || job_.path_number[p] != paths) continue;  // numbered in this order
      if (graph.path_limit) to.path_limit[paths] = graph.path_limit[p];
      for (int64_t hop = graph.path_offsets[p]; hop < graph.path_offsets[p + 1]; ++hop, ++n) {
        const int32_t l = link_number(hop);
        to.path_links[n] = l;
        to.path_weight[n] = graph.path_weight ? graph.path_weight[hop] : 1;
        to.capacity[l] = graph.path_links[hop] == Job::kDark ? 0 : job_.capacity[graph.path_links[hop]];
        to.latency[l] = job_.latency;
      }
      to.path_offsets[++paths] = n;
    }
  }

  Status write_back(const PieceArrays& from, Status status) {
    for (int64_t k = 0; k < sizes_.tasks; ++k) {
      const int32_t task = job_.moved[k];
      const double left = status == kDone ? 0 : from.left[k];
      job_.sent[k] = job_.left[task] - left;
      job_.left[task] = left;
      if (!begun(task) && from.start[k] < kInfinity) {
        job_.start[task] = from.start[k] + zero_;
        job_.waited[task] = job_.start[task] + wait(task);
      }
      if (from.finish[k] < kInfinity) end(task, from.finish[k] + zero_);
    }
    keep_live(from);
    return kPaused;
  }

  void keep_live(const PieceArrays& from) const {
    int32_t* const first = job_.live;
    int32_t* const old = std::remove_if(first, first + job_.lives, [&](int32_t task) { return over(task); });
    int32_t* last = old;
    for (int64_t k = 0; k < sizes_.tasks; ++k) {
      const bool was_live = from.after_offsets[k] == from.after_offsets[k + 1];
      if (const int32_t task = job_.moved[k]; !was_live && begun(task) && !over(task)) *last++ = task;
    }
    last = std::copy_n(job_.moved + job_.moving, idle_, last);
    std::sort(old, last);
    std::inplace_merge(first, old, last);
    job_.lives = last - first;
  }

  void end(int32_t task, double finish) {
    job_.finish[task] = finish;
    if (const int32_t p = job_.graph.path[task]; p >= 0) --job_.users[p];
    for (int64_t i = job_.graph.follower_offsets[task]; i < job_.graph.follower_offsets[task + 1]; ++i) {
      const int32_t f = job_.graph.followers[i];
      if (--job_.pending[f] > 0 || job_.number[f] >= 0) continue;
      if (job_.graph.release[f] <= horizon_) throw std::logic_error("a task began before it could");
      job_.moved[job_.moving + idle_++] = f;
    }
  }

  Job& job_;
  double now_, until_;
  double zero_;     // s, when the clock of the piece begins
  double horizon_;  // s, up to which events may have been merged into the last
  double slack_;    // s, by which they may come before their time
  Sizes sizes_{};
  int64_t dependencies_ = 0;
  int64_t idle_ = 0;  // tasks behind those that moved: they wait for their release only
};

Status go_on(Job& job, double now, double until) { return Piece(job, now, until).run(); }

}  // namespace topoflow::BACKEND
