// One world, event by event: tasks wait, then flow, then are over; between two events the rates are max-min fair.
//   a compute task of 1 s, then 100 B on a link of 100 B/s and 0.5 s   -> 0..1, 1..2.5
//   two flows of 100 B and 300 B on a link of 100 B/s                  -> 2 s (100 B each at 50 B/s), 4 s
//
// An event is everything that ends at one instant, up to kSame: rounding makes no events of its own, and since each
// event ends a wait or a flow, there are at most two events per task. A task keeps its own end, not the event's, so
// errors do not add up along a chain.
//
// Source: the flow-level model of SimGrid without its correction factors (Velho, Schnorr, Casanova, Legrand, On the
// Validity of Flow-level TCP Network Models for Grid and Cloud Simulations, ACM TOMACS 23(4), 2013): latency first,
// then max-min shares.
#pragma once

#include "batch.h"
#include "maxmin.h"
#include "state.h"
#include "waits.h"

namespace topoflow::BACKEND {

class World {
 public:
  DEVICE World(const Batch& batch, int32_t world, Arena arena)
      : graph_(batch.graphs),
        base_(graph_.task_offsets[batch.graph[world]]),
        tasks_(static_cast<int32_t>(graph_.task_offsets[batch.graph[world] + 1] - base_)),
        links_(static_cast<int32_t>(batch.link_offsets[world + 1] - batch.link_offsets[world])),
        latency_(batch.latency + batch.link_offsets[world]),
        cancel_(batch.cancel),
        start_(batch.start + batch.task_offsets[world]),
        finish_(batch.finish + batch.task_offsets[world]),
        state_(arena, tasks_, links_),
        waits_{finish_, state_.near, state_.still_near, state_.far, state_.still_far},
        rates_{graph_.path_offsets + graph_.path_base[batch.graph[world]],
               graph_.path_links,
               graph_.path + base_,
               batch.capacity + batch.link_offsets[world],
               state_.dirty,
               state_.level,
               state_.count,
               state_.used,
               state_.share,
               state_.blocked,
               state_.busy,
               state_.open,
               state_.still_open} {}

  DEVICE Status run(const Team& team) {
    begin(team);
    int32_t done = 0;
    double now = 0, flow_end = kInfinity;
    while (team.get(cancel_) == 0) {
      const double wait_end = waits_.earliest(team);
      const double next = wait_end < flow_end ? wait_end : flow_end;
      if (next == kInfinity) return done == tasks_ ? kDone : team.get(state_.flowing.size) > 0 ? kStarved : kDeadlock;
      now = next > now ? next : now;
      const double horizon = now * (1 + kSame);

      team.set(state_.over.size, 0);
      bool changed = flow_end <= horizon;
      if (changed) end_flows(team, horizon);
      if (wait_end <= horizon) changed |= waits_.take(team, horizon, [&](int32_t task) { return end_wait(task); });
      done += release_followers(team);
      if (!changed) continue;
      rates_(team, state_.flowing, [&](int32_t task, double rate) { settle(task, rate, now); });
      flow_end = earliest_flow(team);
    }
    return kCancelled;
  }

 private:
  DEVICE void begin(const Team& team) {
    waits_.clear(team);
    team.set(state_.flowing.size, 0);
    team.for_each(links_, [&](int32_t link) { state_.dirty[link] = state_.count[link] = 0; });
    team.for_each(tasks_, [&](int32_t task) {
      const int64_t* const after = graph_.after_offsets + base_ + task;
      state_.pending[task] = static_cast<int32_t>(after[1] - after[0]);
      state_.level[task] = MaxMin::kIdle;
      start_[task] = finish_[task] = kInfinity;
      if (after[1] == after[0]) make_ready(task);
    });
  }

  DEVICE double earliest_flow(const Team& team) const {
    return team.min(team.get(state_.flowing.size), [&](int32_t i) { return finish_[state_.flowing[i]]; });
  }

  // Until it is over, finish_ is when a task's wait or its bytes will end as things are.
  DEVICE void make_ready(int32_t task) {
    double ready = graph_.release[base_ + task], wait = graph_.delay[base_ + task];
    for (int64_t i = graph_.after_offsets[base_ + task]; i < graph_.after_offsets[base_ + task + 1]; ++i) {
      const double end = finish_[graph_.after[i] - base_];
      ready = end > ready ? end : ready;
    }
    if (rates_.path[task] >= 0) rates_.for_each_link(task, [&](int32_t link) { wait += latency_[link]; });
    start_[task] = ready;
    finish_[task] = ready + wait;
    waits_.append(task);
  }

  DEVICE void end_flows(const Team& team, double horizon) {
    const int32_t n = team.get(state_.flowing.size);
    team.set(state_.still_flowing.size, 0);
    team.for_each(n, [&](int32_t i) {
      const int32_t task = state_.flowing[i];
      if (finish_[task] > horizon) return state_.still_flowing.append(task);
      rates_.touch(task);
      state_.over.append(task);
    });
    swap(state_.flowing, state_.still_flowing);
  }

  // True when the task goes on as a flow.
  DEVICE bool end_wait(int32_t task) const {
    const bool flows = graph_.bytes[base_ + task] > 0 && rates_.path[task] >= 0 && rates_.hops(task) > 0;
    if (flows) join(task);
    (flows ? state_.flowing : state_.over).append(task);
    return flows;
  }

  DEVICE void join(int32_t task) const {
    state_.since[task] = finish_[task];
    state_.left[task] = graph_.bytes[base_ + task];
    state_.rate[task] = 0;
    finish_[task] = kInfinity;
    rates_.touch(task);
  }

  // A flow gets a new rate: what it had moved until now, the rest will take left / rate.
  DEVICE void settle(int32_t task, double rate, double now) {
    const double before = state_.rate[task];
    if (rate == before) return;
    if (before > 0 && now > state_.since[task]) {
      const double left = state_.left[task] - before * (now - state_.since[task]);
      state_.left[task] = left > 0 ? left : 0;
      state_.since[task] = now;
    }
    state_.rate[task] = rate;
    finish_[task] = rate > 0 ? state_.since[task] + state_.left[task] / rate : kInfinity;
  }

  // Returns how many tasks are over. A follower becomes ready with the last of the tasks that it waits for.
  DEVICE int32_t release_followers(const Team& team) {
    const int32_t n = team.get(state_.over.size);
    team.for_each(n, [&](int32_t i) {
      const int64_t task = base_ + state_.over[i];
      for (int64_t j = graph_.follower_offsets[task]; j < graph_.follower_offsets[task + 1]; ++j) {
        const int32_t follower = static_cast<int32_t>(graph_.followers[j] - base_);
        if (atomic_add(&state_.pending[follower], -1) == 1) make_ready(follower);
      }
    });
    return n;
  }

  Graphs graph_;
  int64_t base_;  // this graph's first task
  int32_t tasks_, links_;
  const double* latency_;  // [L] s
  const int32_t* cancel_;  // [1]
  double* start_;          // [T] s
  double* finish_;         // [T] s
  State state_;
  Waits waits_;
  MaxMin rates_;
};

}  // namespace topoflow::BACKEND
