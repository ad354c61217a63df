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
#include <iterator>
#include <stdexcept>
#include <vector>

#include "piece_world.h"

namespace topoflow::BACKEND {

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
    if (ThreadTeam().poll(job_.cancel)) return kCancelled;
    select();
    if (job_.moving == 0) return kPaused;
    const PieceWorld world(job_, now_, zero_);
    const Status status = world.run(until_);
    if (status != kDone && status != kPaused) return status;
    write_back(world, status);
    return kPaused;
  }

 private:
  static constexpr double kRounding = 1e-9;

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
      const double capacity = l == Job::kNoLink ? 0 : job_.capacity[l];
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
    for (int64_t i = 0; i < job_.ready_count; ++i) {
      const int32_t task = job_.ready[i];
      const bool has_begun = begun(job_, task);
      const bool occupies = BACKEND::occupies(job_, task);
      const double first =
          has_begun ? std::max(job_.waited[task], now_) : std::max(job_.graph.release[task], occupies ? now_ : 0.0);
      if (first > horizon_ && !(has_begun && occupies)) continue;  // others wait for the resource that it occupies
      const double flows = this->flows(task);
      if (has_begun && flows == kInfinity && job_.waited[task] <= now_) {  // it stands still: one tells that all do
        if (stands) continue;
        stands = true;
      }
      take(task, first + (has_begun ? 0 : wait(task)) + flows);
    }
    if (job_.moving == stands) job_.moving = 0;  // all do
    for (int64_t k = 0; k < job_.moving; ++k)
      for_each_follower(job_.moved[k], [&](int32_t f) {
        const double awaited = job_.end[job_.moved[k]];
        job_.end[f] =
            job_.ended_predecessors[f] == 0 ? std::max(job_.graph.release[f], awaited) : std::max(job_.end[f], awaited);
        if (++job_.ended_predecessors[f] == job_.pending[f] && job_.end[f] <= horizon_)
          take(f, job_.end[f] + wait(f) + flows(f));
      });
    for (int64_t k = 0; k < job_.moving; ++k)
      for_each_follower(job_.moved[k], [&](int32_t f) { job_.ended_predecessors[f] = 0; });
    std::sort(job_.moved, job_.moved + job_.moving);
  }

  // Calls f for the followers of a task that can end by the horizon.
  template <class F>
  void for_each_follower(int32_t task, const F& f) const {
    if (job_.end[task] > horizon_) return;
    for (int64_t i = job_.graph.follower_offsets[task]; i < job_.graph.follower_offsets[task + 1]; ++i)
      f(job_.graph.followers[i]);
  }

  void write_back(const PieceWorld& world, Status status) {
    for (int64_t k = 0; k < job_.moving; ++k) {
      const int32_t task = job_.moved[k];
      const double left = status == kDone ? 0 : world.left(k);
      job_.sent[k] = job_.left[task] - left;
      job_.left[task] = left;
      if (!begun(job_, task) && world.start(k) < kInfinity) {
        job_.start[task] = world.start(k);
        job_.waited[task] = job_.start[task] + wait(task);
      }
      if (world.finish(k) < kInfinity) end(task, world.finish(k));
    }
    keep_ready(world);
    if (job_.graph.resource) unite_ready();
  }

  // Gives tasks that became ready in one event the same time.
  void unite_ready() const {
    std::vector<int32_t> queued;
    std::copy_if(job_.ready, job_.ready + job_.ready_count, std::back_inserter(queued),
                 [&](int32_t task) { return occupies(job_, task) && !begun(job_, task); });
    const auto ready_at = [&](int32_t task) -> double& { return job_.ready_at[task]; };
    std::sort(queued.begin(), queued.end(), [&](int32_t a, int32_t b) { return ready_at(a) < ready_at(b); });
    for (size_t i = 1; i < queued.size(); ++i)
      if (ready_at(queued[i]) <= ready_at(queued[i - 1]) * (1 + kSame)) ready_at(queued[i]) = ready_at(queued[i - 1]);
  }

  void keep_ready(const PieceWorld& world) const {
    int32_t* const first = job_.ready;
    int32_t* const old =
        std::remove_if(first, first + job_.ready_count, [&](int32_t task) { return over(job_, task); });
    int32_t* last = old;
    for (int64_t k = 0; k < job_.moving; ++k)
      if (const int32_t task = job_.moved[k]; world.waits(k) && job_.pending[task] == 0 && !over(job_, task))
        *last++ = task;
    last = std::copy_n(job_.moved + job_.moving, idle_, last);
    std::sort(old, last);
    std::inplace_merge(first, old, last);
    job_.ready_count = last - first;
  }

  void end(int32_t task, double finish) {
    job_.finish[task] = finish;
    if (const int32_t p = job_.graph.path[task]; p >= 0) --job_.users[p];
    for (int64_t i = job_.graph.follower_offsets[task]; i < job_.graph.follower_offsets[task + 1]; ++i) {
      const int32_t f = job_.graph.followers[i];
      job_.ready_at[f] = std::max(job_.ready_at[f], finish);
      if (--job_.pending[f] > 0 || job_.number[f] >= 0) continue;
      if (job_.graph.release[f] <= horizon_) throw std::logic_error("a task began before it could");
      job_.moved[job_.moving + idle_++] = f;
    }
  }

  Job& job_;
  double now_, until_;
  double zero_;       // s, when the clock of the piece begins
  double horizon_;    // s, up to which events may have been merged into the last
  double slack_;      // s, by which they may come before their time
  int64_t idle_ = 0;  // tasks after those that moved, which wait for their release only
};

Status advance(Job& job, double now, double until) { return Piece(job, now, until).run(); }

}  // namespace topoflow::BACKEND
