// How the loss changes with the capacities and latencies of a world that has run: the adjoint of world.h, event by
// event from the last to the first.
//   one flow of 100 B on a link of 10 B/s: finish = 100 / 10      -> d finish / d capacity = -100 / 10^2 = -1 s per B/s
//   two such flows on it, which end together: finish = 200 / 10   -> -200 / 10^2 = -2
//
// A flow f of B bytes that begins at b and ends at e has sent sum over intervals of rate * length = B. So if its end is
// worth E to the loss, l = E / (its last rate) is what a byte that it has sent earlier is worth, and
//   d loss = l * (rate at b) db  -  sum over events between of l * (rate before - rate after) d(time of the event)
//            - sum over intervals of l * length * d(rate)
// An event is the beginning or the end of another flow, which gets its part of the second sum. In an interval the rate
// of all flows that a link limits is (capacity - what its other flows have) / their weight, so d(rate) goes to the
// capacity, and to the links that limit the others, which are lower: links are taken from the highest to the lowest.
// When a task begins is the finish of the last that it waits for: of several that are last, each gets an equal part (as
// in torch.amax).
//
// Where events or levels coincide, there is no gradient, and this is the one for a small change of the capacities after
// which they come one after the other: of tasks by their numbers, of links by theirs.
//
// Source: reverse accumulation (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 3); the rates
// are those of Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2.
#pragma once

#include "gradient_batch.h"
#include "world.h"

namespace topoflow::BACKEND {

class Gradient {
 public:
  DEVICE Gradient(const GradientBatch& batch, int32_t world, Arena arena)
      : graph_(batch.graphs),
        base_(graph_.task_offsets[batch.graph[world]]),
        sizes_(WorldData::sizes_of(batch, world)),
        links_(static_cast<int32_t>(batch.link_offsets[world + 1] - batch.link_offsets[world])),
        start_(batch.start + batch.task_offsets[world]),
        finish_(batch.finish + batch.task_offsets[world]),
        of_start_(batch.of_start + batch.task_offsets[world]),
        of_finish_(batch.of_finish + batch.task_offsets[world]),
        of_capacity_(batch.of_capacity + batch.link_offsets[world]),
        of_latency_(batch.of_latency + batch.link_offsets[world]),
        time_(batch.time + 2 * batch.task_offsets[world]),
        event_(batch.event + 2 * batch.task_offsets[world]),
        first_(static_cast<int32_t>(2 * batch.task_offsets[world])),
        paths_(WorldData::paths_of(batch, world)),
        rates_(arena, sizes_, nullptr),
        max_min_(rates_),
        state_(arena, sizes_),
        flowing_(arena.list(sizes_.paths)),
        limiting_(arena.list(sizes_.links)),
        levels_(arena.tournament(sizes_.links)),
        place_(arena.take<int32_t>(sizes_.paths)),
        limit_(arena.take<int32_t>(sizes_.paths)),
        listed_(arena.take<int32_t>(sizes_.links)),
        level_(arena.take<double>(sizes_.links)),
        worth_of_(arena.take<double>(sizes_.links)),
        total_(arena.take<double>(1)),
        byte_(arena.take<double>(sizes_.tasks)),
        bytes_(arena.take<double>(sizes_.paths)),
        before_(arena.take<double>(sizes_.paths)),
        of_rate_(arena.take<double>(sizes_.paths)) {
    rates_.paths = paths_;
    rates_.capacities = batch.capacity + batch.link_offsets[world];
  }

  // B of memory that it needs.
  HD static int64_t bytes(const Sizes& n) {
    Arena arena(nullptr);
    const Rates rates(arena, n, nullptr);
    const State state(arena, n);
    for (int64_t list : {n.paths, n.links}) arena.list(list);
    arena.tournament(n.links);
    for (int64_t numbers : {n.paths, n.paths, n.links}) arena.take<int32_t>(numbers);
    for (int64_t numbers : {n.links, n.links, int64_t{1}, n.tasks, n.paths, n.paths, n.paths})
      arena.take<double>(numbers);
    return arena.taken();
  }

  // Returns false where rates were not found.
  DEVICE bool run(const Team auto& team) {
    begin(team);
    double now = kInfinity;
    int32_t number = 0;
    for (int64_t i = 2 * sizes_.tasks - 1; i >= 0; --i) {
      if (time_[i] == kInfinity) continue;
      if (now < kInfinity && now > time_[i] && worth_ > 0) rest(team, now - time_[i]);
      now = time_[i];
      const int32_t event = event_[i] - first_;
      if (!happen(team, event / 2, event % 2 != 0, ++number)) return false;
    }
    return true;
  }

 private:
  DEVICE void begin(const Team auto& team) {
    max_min_.clear(team);
    for (const List* list : {&state_.changed, &flowing_, &limiting_}) list->clear(team);
    levels_.clear(team);
    Layout{rates_, state_}(team);
    team.for_each(static_cast<int32_t>(sizes_.links), [&](int32_t l) { listed_[l] = 0; });
    team.for_each(static_cast<int32_t>(sizes_.paths), [&](int32_t p) { bytes_[p] = 0; });
    team.for_each(links_, [&](int32_t l) { of_capacity_[l] = of_latency_[l] = 0; });
  }

  // The task ends, or begins to send, seen from what comes after that.
  DEVICE bool happen(const Team auto& team, int32_t task, bool ends, int32_t number) {
    if (!World::sends(graph_, paths_, base_ + task)) {
      if (ends) pass(team, task, of_finish_[task]);
      return true;
    }
    const int32_t p = graph_.path[base_ + task];
    const double rate_after = rates_.rate[p], mine = ends ? 0 : byte_[task];
    if (!ends) count(team, p, -1, mine);
    double worth = 0;
    if (!change(team, p, ends ? 1 : -1, number, worth)) return false;
    if (!ends) {
      pass(team, task, mine * rate_after + worth);
      return true;
    }
    const double rate = rates_.rate[p], byte = rate > 0 ? (of_finish_[task] + worth) / rate : 0;
    team.for_each(1, [&](int32_t) { byte_[task] = byte; });
    count(team, p, 1, byte);
    return true;
  }

  // A flow whose bytes are worth `byte` each joins (1) or leaves (-1) those that are worth something.
  DEVICE void count(const Team auto& team, int32_t p, int32_t sign, double byte) {
    if (byte == 0) return;
    worth_ += sign;
    team.for_each(1, [&](int32_t) { bytes_[p] += sign * byte; });
  }

  // The path gets or loses a flow. `worth` becomes what it is worth that this happens later, to all other flows.
  DEVICE bool change(const Team auto& team, int32_t p, int32_t more, int32_t number, double& worth) {
    const int32_t n = flowing_.count(team);
    team.for_each(n, [&](int32_t i) { before_[flowing_[i]] = rates_.rate[flowing_[i]]; });
    team.for_each(1, [&](int32_t) {
      state_.flows[p].count += more;
      state_.changed.items[0] = p;
      *state_.changed.size = 1;
    });
    const auto flows = [&](int32_t path) { return state_.flows[path].count; };
    if (!max_min_(team, state_.changed, number, flows, [](int32_t, double) {})) return false;
    team.set(state_.changed.size, 0);
    worth = worth_ > 0 ? sum(team, n,
                             [&](int32_t i) {
                               const int32_t q = flowing_[i];
                               const bool flows_on = state_.flows[q].count > 0;
                               return flows_on ? bytes_[q] * (before_[q] - rates_.rate[q]) : 0;
                             })
                       : 0;
    team.for_each(1, [&](int32_t) { list(p, more); });
    return true;
  }

  // `flowing_` are the paths with flows.
  DEVICE void list(int32_t p, int32_t more) const {
    const int32_t flows = state_.flows[p].count;
    if (more > 0 && flows == 1) {
      place_[p] = *flowing_.size;
      flowing_.items[(*flowing_.size)++] = p;
    } else if (flows == 0) {
      const int32_t last = flowing_[--*flowing_.size];
      flowing_.items[place_[p]] = last;
      place_[last] = place_[p];
      bytes_[p] = 0;  // but for rounding it is
    }
  }

  // When the task has waited is worth `worth`: so are the latencies on its way, and the last of those that it waits
  // for.
  DEVICE void pass(const Team auto& team, int32_t task, double worth) const {
    const int64_t first = graph_.after_offsets[base_ + task], end = graph_.after_offsets[base_ + task + 1];
    const int32_t p = graph_.path[base_ + task];
    team.for_each(1, [&](int32_t) {
      if (p >= 0)
        paths_.for_each_hop(p, [&](int32_t l, double weight) {
          if (l < links_) of_latency_[l] += weight * worth;
        });
      int32_t last = 0;
      for (int64_t i = first; i < end; ++i) last += finish_[graph_.after[i] - base_] == start_[task];
      if (graph_.release[base_ + task] == start_[task]) ++last;
      const double each = (worth + of_start_[task]) / (last > 0 ? last : 1);
      for (int64_t i = first; i < end; ++i)
        if (const auto earlier = graph_.after[i] - base_; finish_[earlier] == start_[task]) of_finish_[earlier] += each;
    });
  }

  // All rates are constant for this time (s): the value of a higher rate is added to the gradient of the capacities.
  DEVICE void rest(const Team auto& team, double seconds) const {
    const int32_t n = flowing_.count(team);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = flowing_[i], l = rates_.bottleneck[p];
      of_rate_[p] = -bytes_[p] * seconds;
      if (team.atomic_exchange(&listed_[l], 1) != 0) return;
      limiting_.append(team, l);
      level_[l] = rates_.rate[p];
      levels_.set(team, l, -rates_.rate[p]);
    });
    team.for_each(n, [&](int32_t i) { limit_[flowing_[i]] = lowest_limit(flowing_[i]); });
    double key;
    for (int32_t l; (l = levels_.pop(team, key)) >= 0;) settle(team, l);
    team.for_each(limiting_.count(team), [&](int32_t i) { listed_[limiting_[i]] = 0; });
    limiting_.clear(team);
  }

  // Of the links on the path that limit some path, the one that is filled first: it limits this one.
  DEVICE int32_t lowest_limit(int32_t p) const {
    int32_t lowest = rates_.bottleneck[p];
    rates_.paths.for_each_hop(p, [&](int32_t l, double) {
      if (listed_[l] == 0) return;
      if (level_[l] < level_[lowest] || (level_[l] == level_[lowest] && l > lowest)) lowest = l;
    });
    return lowest;
  }

  // Of the links that are left, this is filled last.
  DEVICE void settle(const Team auto& team, int32_t l) const {
    const LinkInfo& k = rates_.info[l];
    team.for_each(1, [&](int32_t) {
      double weight = 0, worth = 0;
      for (int32_t i = k.first; i < k.first + k.listed; ++i) {
        const int32_t p = rates_.members[i], flows = state_.flows[p].count;
        if (flows == 0 || limit_[p] != l) continue;
        weight += weigh(p, l) * flows;
        worth += of_rate_[p];
      }
      worth_of_[l] = weight > 0 ? worth / weight : 0;
      if (l < links_) of_capacity_[l] += worth_of_[l];
    });
    const double each = worth_of_[l];
    if (each == 0 || l >= links_) return;
    team.for_each(k.listed, [&](int32_t i) {
      const int32_t p = rates_.members[k.first + i], flows = state_.flows[p].count;
      if (flows > 0 && limit_[p] != l) of_rate_[p] -= each * weigh(p, l) * flows;
    });
  }

  // The share of a flow's rate that the link carries; 1 on the virtual link of its limit.
  DEVICE double weigh(int32_t p, int32_t l) const {
    const double weight = rates_.paths.weight_on(p, l);
    return weight == Paths::kPerFlow ? 1 : weight;
  }

  // The same in all threads, and for any number of them.
  template <class F>
  DEVICE double sum(const Team auto& team, int32_t n, const F& value) const {
    team.for_each(1, [&](int32_t) {
      *total_ = 0;
      for (int32_t i = 0; i < n; ++i) *total_ += value(i);
    });
    return *total_;
  }

  Graphs graph_;
  int64_t base_;  // this graph's first task
  Sizes sizes_;
  int32_t links_;                      // without those of the paths' limits
  const double *start_, *finish_;      // [T] s
  const double* of_start_;             // [T] what a second is worth
  double* of_finish_;                  // [T]
  double *of_capacity_, *of_latency_;  // [L]
  const double* time_;                 // [2T] s, ascending
  const int32_t* event_;               // [2T] twice the task, and 1 more where it ends
  int32_t first_;                      // the first event of the world
  Paths paths_;                        // with links that are left out
  Rates rates_;
  MaxMin max_min_;
  State state_;
  List flowing_;       // paths with flows
  List limiting_;      // links that limit them
  Tournament levels_;  // these, the highest level first
  int32_t* place_;     // [P] in `flowing_`
  int32_t* limit_;     // [P] the link that limits it
  int32_t* listed_;    // [L] 1: in `limiting_`
  double* level_;      // [L] B/s
  double* worth_of_;   // [L] what 1 B/s more of capacity is worth in an interval
  double* total_;      // [1]
  double* byte_;       // [T] what a byte of the flow is worth
  double* bytes_;      // [P] the sum of its flows
  double* before_;     // [P] B/s
  double* of_rate_;    // [P] what 1 B/s for all its flows is worth
  int32_t worth_ = 0;  // flows whose bytes are worth something; the same in all threads
};

}  // namespace topoflow::BACKEND
