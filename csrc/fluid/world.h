// One world, event by event: tasks wait, then flow, then have finished; between two events the rates are max-min fair.
//   a compute task of 1 s, then 100 B on a link of 100 B/s and 0.5 s   -> 0..1, 1..2.5
//   two flows of 100 B and 300 B on a link of 100 B/s                  -> 2 s (100 B each at 50 B/s), 4 s
//
// An event is everything that ends at one instant, up to kSame: flows that end, then waits, also those that only begin
// and end with other tasks that finish. With the batch's `merge`, a flow that has lasted d at the beginning of an event
// and would end at most merge * d later ends with the event. A task keeps its own end, not the event's, so errors do
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

// Where everything lies, which does not change during a run. A warp keeps it in the memory that its lanes share.
struct WorldData {
  int32_t* status;  // [1]
  int64_t base;     // this graph's first task
  Sizes sizes;
  double merge;
  Global<const double> latency;  // [L] s
  double until;                  // s
  Global<double> start;          // [T] s
  Global<double> finish;         // [T] s; until a task has finished, when it will have waited
  Global<double> left;           // [T] B
  Paths paths;                   // with links that are left out
  Rates rates;
  State state;

  // `arena`: bytes(sizes). `fast`: Hot::bytes(sizes.links) of the team's fast memory, or null.
  DEVICE WorldData(const Batch& batch, int32_t world, Arena arena, std::byte* fast)
      : status(batch.status + world),
        base(batch.graphs.task_offsets[batch.graph[world]]),
        sizes(sizes_of(batch, world)),
        merge(batch.merge > kSame ? batch.merge : kSame),
        latency(batch.latency + batch.link_offsets[world]),
        until(batch.until ? batch.until[world] : kInfinity),
        start(batch.start + batch.task_offsets[world]),
        finish(batch.finish + batch.task_offsets[world]),
        left(batch.left ? batch.left + batch.task_offsets[world] : nullptr),
        paths(paths_of(batch, world)),
        rates(arena, sizes, fast),
        state(arena, sizes) {
    rates.paths = paths_of(batch, world);
    rates.capacities = batch.capacity + batch.link_offsets[world];
  }

  // B of memory that it needs.
  HD static int64_t bytes(const Sizes& sizes) {
    Arena arena(nullptr);
    const Rates rates(arena, sizes, nullptr);
    const State state(arena, sizes);
    return arena.taken();
  }

  HD static Sizes sizes_of(const Batch& batch, int32_t world) {
    const Graphs& graphs = batch.graphs;
    const int32_t g = batch.graph[world];
    const int64_t first = graphs.path_base[g], end = graphs.path_base[g + 1];
    const int64_t limits = graphs.path_limit ? end - first : 0;
    return {graphs.task_offsets[g + 1] - graphs.task_offsets[g],
            end - first,
            graphs.path_offsets[end] - graphs.path_offsets[first] + limits,
            batch.link_offsets[world + 1] - batch.link_offsets[world] + limits,
            graphs.path_weight ? graphs.path_offsets[end] - graphs.path_offsets[first] : 0,
            graphs.resource ? graphs.task_offsets[g + 1] - graphs.task_offsets[g] : 0};
  }

  // All paths, with links that are left out.
  HD static Paths paths_of(const Batch& batch, int32_t world) {
    const Graphs& graphs = batch.graphs;
    const int64_t first = graphs.path_base[batch.graph[world]];
    return {graphs.path_offsets + first,
            graphs.path_links,
            graphs.path_weight,
            graphs.path_limit ? graphs.path_limit + first : nullptr,
            static_cast<int32_t>(batch.link_offsets[world + 1] - batch.link_offsets[world]),
            nullptr};
  }

  // Returns whether a task of the graphs has something to send; others only wait.
  DEVICE static bool sends(const Graphs& graphs, const Paths& paths, int64_t task) {
    const int32_t p = graphs.path[task];
    return p >= 0 && graphs.bytes[task] > 0 && paths.has_hops(p);
  }

  // s that it waits once it is ready.
  DEVICE static double wait(const Graphs& graphs, const Paths& paths, const auto& latency, int64_t task) {
    double wait = graphs.delay[task];
    if (const int32_t p = graphs.path[task]; p >= 0)
      paths.for_each_hop(p, [&](int32_t l, double weight) {
        if (l < paths.world_links) wait += weight * latency[l];
      });
    return wait;
  }

  // Finds the rates of the paths, and when the first flow of each of them ends.
  using Solver = MaxMin;
  using Ends = const Tournament&;
  DEVICE MaxMin solver() { return MaxMin(rates); }
  DEVICE const Tournament& ends(const MaxMin&) const { return state.ends; }
};

template <class Data>
class World {
 public:
  DEVICE World(const Batch& batch, Data& data)
      : graph_(batch.graphs),
        cancel_(batch.cancel),
        data_(data),
        rates_(data.rates),
        state_(data.state),
        max_min_(data.solver()),
        ends_(data.ends(max_min_)) {}

  // (A call would put this into a GPU's local memory.)
  INLINED Status run(const Team auto& team) {
    if (team.poll(cancel_)) return kCancelled;
    begin(team);
    double now = 0;
    while (rates_.tally.events % kPoll != 0 || !team.poll(cancel_)) {
      proceed(team, horizon(now));
      if (!max_min_(
              team, state_.changed, [&](int32_t p) { return state_.flows[p].count; },
              [&](int32_t p, double time_scale) { settle(team, p, time_scale, now); }))
        return kNotConverged;
      begin_flows(team, now);
      const double flow_end = ends_.lowest(team, max_min_.refilling()), wait_end = state_.waits.lowest(team);
      const double next = wait_end < flow_end ? wait_end : flow_end;
      if (next > data_.until) return have_finished(team) ? kDone : pause(team);
      if (next == kInfinity) return have_finished(team) ? kDone : starved(team) ? kStarved : kDeadlock;
      now = next > now ? next : now;
      const double same = horizon(now), latest = now * (1 + data_.merge);  // no flow has lasted longer than `now`
      if (flow_end <= latest) ends_.take(team, latest, [&](int32_t p, double end) { end_flows(team, p, end, now); });
      if (wait_end <= same) state_.waits.take(team, same, [&](int32_t task, double) { state_.due.append(team, task); });
    }
    return kCancelled;
  }

 private:
  static constexpr int32_t kPoll = 64;  // events between two looks at `cancel`, which a GPU reads across the bus

  DEVICE void begin(const Team auto& team) {
    state_.changed.clear(team);
    state_.due.clear(team);
    state_.finished.clear(team);
    state_.waits.clear(team);
    if (graph_.resource) begin_resources(team);
    Layout{rates_, state_}(team);
    max_min_.begin(team);
    ends_.clear(team);
    team.for_each(static_cast<int32_t>(data_.sizes.tasks), [&](int32_t task) {
      const int64_t* const after = graph_.after_offsets + data_.base + task;
      state_.pending[task] = static_cast<int32_t>(after[1] - after[0]);
      data_.start[task] = data_.finish[task] = kInfinity;
      if (after[1] == after[0]) make_ready(team, task, 0);
    });
  }

  // Returns the time up to which ends belong to the event of `now`.
  DEVICE static double horizon(double now) { return now * (1 + kSame); }

  // Returns whether a flow that would end at `end` ends with the event of this time.
  DEVICE bool ends_with_event(int32_t task, double end, double now) const {
    return end <= horizon(now) || end - now <= data_.merge * (now - data_.start[task]);
  }

  DEVICE bool have_finished(const Team auto& team) const {
    return !team.any(static_cast<int32_t>(data_.sizes.tasks), [&](int32_t task) { return !has_finished(task); });
  }
  // Until then `finish` is when it will have waited.
  DEVICE bool has_finished(int32_t task) const { return data_.finish[task] < kInfinity && !waits(task); }
  DEVICE bool waits(int32_t task) const { return state_.waits.key[task] < kInfinity; }

  // Some path has flows that will never end.
  DEVICE bool starved(const Team auto& team) const {
    return team.any(static_cast<int32_t>(data_.sizes.paths), [&](int32_t p) { return state_.flows[p].count > 0; });
  }

  // The last dependency of a task has finished.
  DEVICE void make_ready(const Team auto& team, int32_t task, double horizon) const {
    double ready = graph_.release[data_.base + task];
    for (int64_t i = graph_.after_offsets[data_.base + task]; i < graph_.after_offsets[data_.base + task + 1]; ++i) {
      const double end = data_.finish[graph_.after[i] - data_.base];
      ready = end > ready ? end : ready;
    }
    if (resource(task) >= 0) {
      state_.flow[task].target = ready;  // it never flows
      return state_.queued.append(team, task);
    }
    data_.start[task] = ready;
    data_.finish[task] = ready + Data::wait(graph_, data_.paths, data_.latency, data_.base + task);
    end_later(team, task, horizon);
  }

  // -1: it occupies none.
  DEVICE int32_t resource(int32_t task) const { return graph_.resource ? graph_.resource[data_.base + task] : -1; }

  // A task waits from now on; data_.finish is when that ends.
  DEVICE void end_later(const Team auto& team, int32_t task, double horizon) const {
    if (data_.finish[task] <= horizon)
      state_.due.append(team, task);
    else
      state_.waits.set(team, task, data_.finish[task]);
  }

  DEVICE void mark(const Team auto& team, int32_t p) const {
    state_.changed.append_if(team, team.atomic_exchange(&state_.flows[p].changed, 1) == 0, p);
  }

  // The first flow of the path would end at `end`. Ends those that end with the event.
  DEVICE void end_flows(const Team auto& team, int32_t p, double end, double now) {
    Flows& x = state_.flows[p];
    for (const int32_t count = x.count;;) {
      const int32_t task = x.root;
      if (!ends_with_event(task, end, now)) {
        ends_.set(team, p, end);
        if (x.count == count) return;
        break;
      }
      const Flow& flow = state_.flow[task];
      data_.finish[task] = end > data_.start[task] ? end : data_.start[task];
      state_.finished.append(team, task);
      --x.count;
      x.root = merged(state_.flow, flow.left, flow.right);
      if (x.root < 0) break;
      end += (state_.flow[x.root].target - flow.target) / rates_.rate[p];
    }
    mark(team, p);
  }

  // Tasks that have finished make others ready, those that have waited flow or finish.
  DEVICE void proceed(const Team auto& team, double horizon) {
    while (true) {
      const int32_t finished = state_.finished.count(team);
      team.for_each(finished, [&](int32_t i) { release_followers(team, state_.finished[i], horizon); });
      state_.finished.clear(team);
      if (graph_.resource && state_.due.count(team) == 0) serve(team, horizon);
      const int32_t due = state_.due.count(team);
      if (due == 0) return;
      team.for_each(due, [&](int32_t i) { end_wait(team, state_.due[i]); });
      state_.due.clear(team);
    }
  }

  // A follower becomes ready with the last of the tasks that it waits for.
  DEVICE void release_followers(const Team auto& team, int32_t finished, double horizon) {
    const int64_t task = data_.base + finished;
    if (resource(finished) >= 0) state_.queued.append(team, finished);
    for (int64_t j = graph_.follower_offsets[task]; j < graph_.follower_offsets[task + 1]; ++j) {
      const int32_t follower = static_cast<int32_t>(graph_.followers[j] - data_.base);
      if (team.atomic_add(&state_.pending[follower], -1) == 1) make_ready(team, follower, horizon);
    }
  }

  DEVICE void begin_resources(const Team auto& team) const {
    state_.queued.clear(team);
    team.for_each(static_cast<int32_t>(data_.sizes.tasks), [&](int32_t r) { state_.resources.begin(r, -kInfinity); });
    team.for_each(1, [&](int32_t) { state_.resources.begin(); });
  }

  // Nothing else happens in this event: by one thread, tasks begin on resources. All that became ready in it did so at
  // one time; at the beginning, a task did when it was released.
  DEVICE void serve(const Team auto& team, double horizon) const {
    const int32_t queued = state_.queued.count(team);
    team.for_each(1, [&](int32_t) {
      for (int32_t i = 0; i < queued; ++i) queue(team, state_.queued[i], horizon);
      state_.resources.serve([&](int32_t task, double free) {
        const double since = state_.flow[task].target;
        data_.start[task] = since > free ? since : free;
        data_.finish[task] = data_.start[task] + graph_.delay[data_.base + task];
        end_later(team, task, horizon);
      });
    });
    state_.queued.clear(team);
  }

  // Queues a task that has finished on its resource, waits for it, or waits for its own release.
  DEVICE void queue(const Team auto& team, int32_t task, double horizon) const {
    if (data_.start[task] < kInfinity) return state_.resources.release(resource(task), data_.finish[task]);
    const double since = state_.flow[task].target;
    if (graph_.release[data_.base + task] > horizon)
      state_.waits.set(team, task, since);
    else
      state_.resources.wait(resource(task), task, horizon > 0 ? horizon : since);
  }

  DEVICE void end_wait(const Team auto& team, int32_t task) const {
    if (resource(task) >= 0 && data_.start[task] == kInfinity) return state_.queued.append(team, task);  // is released
    if (!Data::sends(graph_, data_.paths, data_.base + task)) return state_.finished.append(team, task);
    const int32_t p = graph_.path[data_.base + task];
    Flows& x = state_.flows[p];
    team.atomic_add(&x.count, 1);
    state_.flow[task].left = team.atomic_exchange(&x.arrived, task);
    mark(team, p);
  }

  // Writes the bytes that every task has left at `until`: all of them if it has not begun to flow.
  DEVICE Status pause(const Team auto& team) const {
    team.for_each(static_cast<int32_t>(data_.sizes.tasks), [&](int32_t task) {
      const bool finished = has_finished(task), flows = data_.start[task] < kInfinity && !waits(task) && !finished;
      if (waits(task)) data_.finish[task] = kInfinity;
      data_.left[task] = finished ? 0 : flows ? left(task) : graph_.bytes[data_.base + task];
    });
    return kPaused;
  }

  // Bytes of a flow at `until`. One that began with an event, before its own time, has no more than all of them left.
  DEVICE double left(int32_t task) const {
    const int32_t p = graph_.path[data_.base + task];
    const double end = ends_.key[p], bytes = graph_.bytes[data_.base + task];
    const double served =
        end < kInfinity ? state_.flow[state_.flows[p].root].target - (end - data_.until) * rates_.rate[p] : 0;
    const double left = state_.flow[task].target - served;
    return left > bytes ? bytes : left > 0 ? left : 0;
  }

  // The rest of the path's first flow takes `time_scale` times as long.
  DEVICE void settle(const Team auto& team, int32_t p, double time_scale, double now) const {
    const double end = ends_.key[p];
    if (end == kInfinity) return;
    if (max_min_.refilling())
      ends_.key[p] = now + (end - now) * time_scale;
    else
      ends_.set(team, p, now + (end - now) * time_scale);
  }

  DEVICE void begin_flows(const Team auto& team, double now) const {
    team.for_each(state_.changed.count(team), [&](int32_t i) {
      const int32_t p = state_.changed[i];
      Flows& x = state_.flows[p];
      x.changed = 0;
      if (x.arrived < 0) return;
      const double rate = rates_.rate[p], end = ends_.key[p];
      const double served = end < kInfinity ? state_.flow[x.root].target - (end - now) * rate : 0;
      for (int32_t task = x.arrived, next; task >= 0; task = next) {
        next = state_.flow[task].left;
        state_.flow[task] = {served + rate * (data_.finish[task] - now) + graph_.bytes[data_.base + task], -1, -1};
        data_.finish[task] = kInfinity;
        x.root = merged(state_.flow, x.root, task);
      }
      x.arrived = -1;
      if (rate > 0) ends_.set(team, p, now + (state_.flow[x.root].target - served) / rate);
    });
    state_.changed.forget(team);
  }

  const Graphs& graph_;
  const int32_t* cancel_;  // [1]
  const Data& data_;
  Rates& rates_;
  const State& state_;
  typename Data::Solver max_min_;
  typename Data::Ends ends_;
};

// Runs a world, all of it by one team.
template <class Data>
INLINED void run_world(const Team auto& team, const Batch& batch, int32_t world, Arena arena) {
  auto&& data = team.template emplace_shared<Data>(batch, world, arena, team.fast());
  team.set(data.status, kRunning);
  const Status status = World<Data>(batch, data).run(team);
  team.set(data.status, status);
}

}  // namespace topoflow::BACKEND
