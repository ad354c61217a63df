// One world, event by event: tasks wait, then flow, then have finished; between two events the rates are max-min fair.
//   a compute task of 1 s, then 100 B on a link of 100 B/s and 0.5 s   -> 0..1, 1..2.5
//   two flows of 100 B and 300 B on a link of 100 B/s                  -> 2 s (100 B each at 50 B/s), 4 s
//
// An event is everything that ends at one instant, up to kSame or the batch's `merge`: flows that end, then waits, also
// those that only begin and end with other tasks that finish. A task keeps its own end, not the event's, so errors do
// not add up along a chain. Each event ends a wait or a flow, so there are at most two events per task.
//
// Source: the flow-level model of SimGrid without its correction factors (Velho, Schnorr, Casanova, Legrand, On the
// Validity of Flow-level TCP Network Models for Grid and Cloud Simulations, ACM TOMACS 23(4), 2013): latency first,
// then max-min shares.
#pragma once

#include "batch.h"
#include "layout.h"
#include "maxmin.h"
#include "state.h"

namespace topoflow::BACKEND {

class World {
 public:
  DEVICE World(const Batch& batch, int32_t world, Arena arena)
      : graph_(batch.graphs),
        base_(graph_.task_offsets[batch.graph[world]]),
        sizes_(sizes(batch, world)),
        merge_(batch.merge > kSame ? batch.merge : kSame),
        latency_(batch.latency + batch.link_offsets[world]),
        until_(batch.until ? batch.until[world] : kInfinity),
        cancel_(batch.cancel),
        start_(batch.start + batch.task_offsets[world]),
        finish_(batch.finish + batch.task_offsets[world]),
        left_(batch.left ? batch.left + batch.task_offsets[world] : nullptr),
        paths_(paths(batch, world)),
        max_min_(arena, sizes_),
        rates_(max_min_.rates),
        state_(arena, sizes_) {
    rates_.paths = paths_;
    rates_.capacities = batch.capacity + batch.link_offsets[world];
  }

  // B of memory that it needs.
  HD static int64_t bytes(const Sizes& sizes) {
    Arena arena(nullptr);
    const MaxMin max_min(arena, sizes);
    const State state(arena, sizes);
    return arena.taken();
  }

  HD static Sizes sizes(const Batch& batch, int32_t world) {
    const Graphs& graphs = batch.graphs;
    const int32_t g = batch.graph[world];
    const int64_t first = graphs.path_base[g], end = graphs.path_base[g + 1];
    const int64_t limits = graphs.path_limit ? end - first : 0;
    return {graphs.task_offsets[g + 1] - graphs.task_offsets[g], end - first,
            graphs.path_offsets[end] - graphs.path_offsets[first] + limits,
            batch.link_offsets[world + 1] - batch.link_offsets[world] + limits};
  }

  // All paths, with links that are left out.
  HD static Paths paths(const Batch& batch, int32_t world) {
    const Graphs& graphs = batch.graphs;
    const int64_t first = graphs.path_base[batch.graph[world]];
    return {graphs.path_offsets + first,
            graphs.path_links,
            graphs.path_weight,
            graphs.path_limit ? graphs.path_limit + first : nullptr,
            static_cast<int32_t>(batch.link_offsets[world + 1] - batch.link_offsets[world]),
            nullptr};
  }

  // Whether a task of the graphs has something to send; others only wait.
  DEVICE static bool sends(const Graphs& graphs, const Paths& paths, int64_t task) {
    const int32_t p = graphs.path[task];
    return p >= 0 && graphs.bytes[task] > 0 && paths.has_hops(p);
  }

  // s that it waits once it is ready.
  DEVICE static double wait(const Graphs& graphs, const Paths& paths, const double* latency, int64_t task) {
    double wait = graphs.delay[task];
    if (const int32_t p = graphs.path[task]; p >= 0)
      paths.for_each_hop(p, [&](int32_t l, double weight) {
        if (l < paths.world_links) wait += weight * latency[l];
      });
    return wait;
  }

  DEVICE Status run(const Team auto& team) {
    if (team.poll(cancel_)) return kCancelled;
    begin(team);
    int32_t done = 0, event = 0;
    double now = 0, horizon = 0;
    while (event % kPoll != 0 || !team.poll(cancel_)) {
      done += proceed(team, horizon);
      if (!max_min_(
              team, state_.changed, ++event, [&](int32_t p) { return state_.flows[p].count; },
              [&](int32_t p, double longer) { settle(team, p, longer, now); }))
        return kNotConverged;
      if (max_min_.refilling()) state_.ends.replay(team);
      begin_flows(team, now);
      const double flow_end = state_.ends.lowest(team), wait_end = state_.waits.lowest(team);
      const double next = wait_end < flow_end ? wait_end : flow_end;
      if (next > until_) return done == sizes_.tasks ? kDone : pause(team);
      if (next == kInfinity) return done == sizes_.tasks ? kDone : starved(team) ? kStarved : kDeadlock;
      now = next > now ? next : now;
      horizon = now * (1 + merge_);
      if (flow_end <= horizon)
        state_.ends.take(team, horizon, [&](int32_t p, double end) { end_flows(team, p, end, horizon); });
      if (wait_end <= horizon)
        state_.waits.take(team, horizon, [&](int32_t task, double) { state_.due.append(team, task); });
    }
    return kCancelled;
  }

 private:
  static constexpr int32_t kPoll = 64;  // events between two looks at `cancel`, which a GPU reads across the bus

  DEVICE void begin(const Team auto& team) {
    max_min_.clear(team);
    for (const List* list : {&state_.changed, &state_.due, &state_.finished}) team.set(list->size, 0);
    for (const Tournament* each : {&state_.ends, &state_.waits}) each->clear(team);
    Layout{rates_, state_}(team);
    team.for_each(static_cast<int32_t>(sizes_.tasks), [&](int32_t task) {
      const int64_t* const after = graph_.after_offsets + base_ + task;
      state_.pending[task] = static_cast<int32_t>(after[1] - after[0]);
      start_[task] = finish_[task] = kInfinity;
      if (after[1] == after[0]) make_ready(team, task, 0);
    });
  }

  // Some path has flows that will never end.
  DEVICE bool starved(const Team auto& team) const {
    return team.any(static_cast<int32_t>(sizes_.paths), [&](int32_t p) { return state_.flows[p].count > 0; });
  }

  // A task waits from now on; finish_ is when that ends.
  DEVICE void make_ready(const Team auto& team, int32_t task, double horizon) {
    double ready = graph_.release[base_ + task];
    for (int64_t i = graph_.after_offsets[base_ + task]; i < graph_.after_offsets[base_ + task + 1]; ++i) {
      const double end = finish_[graph_.after[i] - base_];
      ready = end > ready ? end : ready;
    }
    start_[task] = ready;
    finish_[task] = ready + wait(graph_, paths_, latency_, base_ + task);
    if (finish_[task] <= horizon)
      state_.due.append(team, task);
    else
      state_.waits.set(team, task, finish_[task]);
  }

  DEVICE void mark(const Team auto& team, int32_t p) const {
    state_.changed.append_if(team, team.atomic_exchange(&state_.flows[p].changed, 1) == 0, p);
  }

  // The first flow of the path ends at `end`, and maybe others by the horizon. (One that began with an event, before
  // its own time, may have been given enough to end before it too, if `merge` is large.)
  DEVICE void end_flows(const Team auto& team, int32_t p, double end, double horizon) {
    Flows& x = state_.flows[p];
    while (true) {
      const int32_t task = x.root;
      const Flow& flow = state_.flow[task];
      finish_[task] = end > start_[task] ? end : start_[task];
      state_.finished.append(team, task);
      --x.count;
      x.root = merged(state_.flow, flow.left, flow.right);
      if (x.root < 0) break;
      end += (state_.flow[x.root].target - flow.target) / rates_.rate[p];
      if (end > horizon) {
        state_.ends.set(team, p, end);
        break;
      }
    }
    mark(team, p);
  }

  // Tasks that have finished make others ready, those that have waited flow or finish; returns how many have finished.
  DEVICE int32_t proceed(const Team auto& team, double horizon) {
    int32_t done = 0;
    while (true) {
      const int32_t finished = team.get(state_.finished.size);
      team.for_each(finished, [&](int32_t i) { release_followers(team, state_.finished[i], horizon); });
      team.set(state_.finished.size, 0);
      done += finished;
      const int32_t due = team.get(state_.due.size);
      if (due == 0) return done;
      team.for_each(due, [&](int32_t i) { end_wait(team, state_.due[i]); });
      team.set(state_.due.size, 0);
    }
  }

  // A follower becomes ready with the last of the tasks that it waits for.
  DEVICE void release_followers(const Team auto& team, int32_t finished, double horizon) {
    const int64_t task = base_ + finished;
    for (int64_t j = graph_.follower_offsets[task]; j < graph_.follower_offsets[task + 1]; ++j) {
      const int32_t follower = static_cast<int32_t>(graph_.followers[j] - base_);
      if (team.atomic_add(&state_.pending[follower], -1) == 1) make_ready(team, follower, horizon);
    }
  }

  DEVICE void end_wait(const Team auto& team, int32_t task) const {
    if (!sends(graph_, paths_, base_ + task)) return state_.finished.append(team, task);
    const int32_t p = graph_.path[base_ + task];
    Flows& x = state_.flows[p];
    team.atomic_add(&x.count, 1);
    state_.flow[task].left = team.atomic_exchange(&x.arrived, task);
    mark(team, p);
  }

  // What is left of every task at `until`: one that has not begun to flow has all its bytes left.
  DEVICE Status pause(const Team auto& team) const {
    team.for_each(static_cast<int32_t>(sizes_.tasks), [&](int32_t task) {
      const bool waits = state_.waits.key[task] < kInfinity;
      const bool finished = finish_[task] < kInfinity && !waits;
      const bool flows = start_[task] < kInfinity && !waits && !finished;
      if (waits) finish_[task] = kInfinity;
      left_[task] = finished ? 0 : flows ? left(task) : graph_.bytes[base_ + task];
    });
    return kPaused;
  }

  // Bytes of a flow at `until`. One that began with an event, before its own time, has no more than all of them left.
  DEVICE double left(int32_t task) const {
    const int32_t p = graph_.path[base_ + task];
    const double end = state_.ends.key[p], bytes = graph_.bytes[base_ + task];
    const double served =
        end < kInfinity ? state_.flow[state_.flows[p].root].target - (end - until_) * rates_.rate[p] : 0;
    const double left = state_.flow[task].target - served;
    return left > bytes ? bytes : left > 0 ? left : 0;
  }

  // What is left of the path's first flow takes `longer` times as long.
  DEVICE void settle(const Team auto& team, int32_t p, double longer, double now) const {
    const double end = state_.ends.key[p];
    if (end == kInfinity) return;
    if (max_min_.refilling())
      state_.ends.key[p] = now + (end - now) * longer;
    else
      state_.ends.set(team, p, now + (end - now) * longer);
  }

  DEVICE void begin_flows(const Team auto& team, double now) const {
    team.for_each(team.get(state_.changed.size), [&](int32_t i) {
      const int32_t p = state_.changed[i];
      Flows& x = state_.flows[p];
      x.changed = 0;
      if (x.arrived < 0) return;
      const double rate = rates_.rate[p], end = state_.ends.key[p];
      const double served = end < kInfinity ? state_.flow[x.root].target - (end - now) * rate : 0;
      for (int32_t task = x.arrived, next; task >= 0; task = next) {
        next = state_.flow[task].left;
        state_.flow[task] = {served + rate * (finish_[task] - now) + graph_.bytes[base_ + task], -1, -1};
        finish_[task] = kInfinity;
        x.root = merged(state_.flow, x.root, task);
      }
      x.arrived = -1;
      if (rate > 0) state_.ends.set(team, p, now + (state_.flow[x.root].target - served) / rate);
    });
    team.set(state_.changed.size, 0);
  }

  Graphs graph_;
  int64_t base_;  // this graph's first task
  Sizes sizes_;
  double merge_;
  const double* latency_;  // [L] s
  double until_;           // s
  const int32_t* cancel_;  // [1]
  double* start_;          // [T] s
  double* finish_;         // [T] s; until a task has finished, when it will have waited
  double* left_;           // [T] B
  Paths paths_;            // with links that are left out
  MaxMin max_min_;
  Rates& rates_;
  State state_;
};

}  // namespace topoflow::BACKEND
