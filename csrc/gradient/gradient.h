// How the loss changes with the capacities and latencies of a world that has run: the adjoint of fluid/world.h,
// event by event from the last to the first.
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

#include "batch.h"
#include "fluid/world.h"

namespace topoflow::BACKEND {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Where everything lies, which does not change during a run. A warp keeps it in the memory that its lanes share.
struct GradientData {
  Graphs graph;
  int64_t base;  // this graph's first task
  Sizes sizes;
  int32_t links;                           // without those of the paths' limits
  Global<const double> start, finish;      // [T] s
  Global<const double> of_start;           // [T] what a second is worth
  Global<double> of_finish;                // [T]
  Global<double> of_capacity, of_latency;  // [L]
  Global<const double> time;               // [2T] s, ascending
  Global<const int32_t> event;             // [2T] twice the task, and 1 more where it ends
  int32_t first;                           // the first event of the world
  const int32_t* cancel;                   // not 0: stop
  Paths paths;                             // with links that are left out
  Rates rates;
  State state;
  List flowing;                 // paths with flows
  List limiting;                // links that limit them
  Tournament levels;            // these, the highest level first
  Global<int32_t> place;        // [P] in `flowing`
  Global<int32_t> limit;        // [P] the link that limits it
  Global<int32_t> is_limiting;  // [L] 1: in `limiting`
  Global<double> level;         // [L] B/s
  Global<double> byte;          // [T] what a byte of the flow is worth
  Global<double> bytes_worth;   // [P] the sum of its flows
  Global<double> before;        // [P] B/s
  Global<double> of_rate;       // [P] what 1 B/s for all its flows is worth

  // `arena`: bytes(sizes).
  DEVICE GradientData(const GradientBatch& batch, int32_t world, Arena arena)
      : graph(batch.graphs),
        base(graph.task_offsets[batch.graph[world]]),
        sizes(WorldData::sizes_of(batch, world)),
        links(static_cast<int32_t>(batch.link_offsets[world + 1] - batch.link_offsets[world])),
        start(batch.start + batch.task_offsets[world]),
        finish(batch.finish + batch.task_offsets[world]),
        of_start(batch.of_start + batch.task_offsets[world]),
        of_finish(batch.of_finish + batch.task_offsets[world]),
        of_capacity(batch.of_capacity + batch.link_offsets[world]),
        of_latency(batch.of_latency + batch.link_offsets[world]),
        time(batch.time + 2 * batch.task_offsets[world]),
        event(batch.event + 2 * batch.task_offsets[world]),
        first(static_cast<int32_t>(2 * batch.task_offsets[world])),
        cancel(batch.cancel),
        paths(WorldData::paths_of(batch, world)),
        rates(arena, sizes, nullptr),
        state(arena, sizes),
        flowing(arena.list(sizes.paths)),
        limiting(arena.list(sizes.links)),
        levels(arena.tournament(sizes.links)),
        place(arena.take<int32_t>(sizes.paths)),
        limit(arena.take<int32_t>(sizes.paths)),
        is_limiting(arena.take<int32_t>(sizes.links)),
        level(arena.take<double>(sizes.links)),
        byte(arena.take<double>(sizes.tasks)),
        bytes_worth(arena.take<double>(sizes.paths)),
        before(arena.take<double>(sizes.paths)),
        of_rate(arena.take<double>(sizes.paths)) {
    rates.paths = WorldData::paths_of(batch, world);
    rates.capacities = batch.capacity + batch.link_offsets[world];
  }

  // B of memory that it needs.
  HD static int64_t bytes(const Sizes& n) {
    Arena arena(nullptr);
    const Rates rates(arena, n, nullptr);
    const State state(arena, n);
    for (int64_t list : {n.paths, n.links}) arena.list(list);
    arena.tournament(n.links);
    for (int64_t numbers : {n.paths, n.paths, n.links}) arena.take<int32_t>(numbers);
    for (int64_t numbers : {n.links, n.tasks, n.paths, n.paths, n.paths}) arena.take<double>(numbers);
    return arena.taken();
  }
};

class Gradient {
 public:
  DEVICE explicit Gradient(GradientData& data)
      : data_(data), rates_(data.rates), state_(data.state), max_min_(data.rates) {}

  // Returns false where rates were not found.
  DEVICE bool run(const Team auto& team) {
    begin(team);
    double now = kInfinity;
    for (int64_t i = 2 * data_.sizes.tasks - 1; i >= 0; --i) {
      if (i % kPoll == 0 && team.poll(data_.cancel)) return true;
      if (data_.time[i] == kInfinity) continue;
      if (now < kInfinity && now > data_.time[i] && worth_ > 0) add_interval(team, now - data_.time[i]);
      now = data_.time[i];
      const int32_t event = data_.event[i] - data_.first;
      if (!process_event(team, event / 2, event % 2 != 0)) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kPoll = 64;  // events between two looks at `cancel`

  DEVICE void begin(const Team auto& team) {
    max_min_.begin(team);
    for (const List& list : {state_.changed, data_.flowing, data_.limiting}) list.clear(team);
    data_.levels.clear(team);
    Layout{rates_, state_}(team);
    team.for_each(static_cast<int32_t>(data_.sizes.links), [&](int32_t l) { data_.is_limiting[l] = 0; });
    team.for_each(static_cast<int32_t>(data_.sizes.paths), [&](int32_t p) { data_.bytes_worth[p] = 0; });
    team.for_each(data_.links, [&](int32_t l) { data_.of_capacity[l] = data_.of_latency[l] = 0; });
  }

  // The task ends, or begins to send, seen from what comes after that.
  DEVICE bool process_event(const Team auto& team, int32_t task, bool ends) {
    if (!WorldData::sends(data_.graph, data_.paths, data_.base + task)) {
      if (ends) pass(team, task, data_.of_finish[task]);
      return true;
    }
    const int32_t p = data_.graph.path[data_.base + task];
    const double rate_after = rates_.rate[p], byte_worth = ends ? 0 : data_.byte[task];
    if (!ends) count(team, p, -1, byte_worth);
    double worth = 0;
    if (!change(team, p, ends ? 1 : -1, worth)) return false;
    if (!ends) {
      pass(team, task, byte_worth * rate_after + worth);
      return true;
    }
    const double rate = rates_.rate[p], byte = rate > 0 ? (data_.of_finish[task] + worth) / rate : 0;
    team.for_each(1, [&](int32_t) { data_.byte[task] = byte; });
    count(team, p, 1, byte);
    return true;
  }

  // A flow whose bytes are worth `byte` each joins (1) or leaves (-1) those that are worth something.
  DEVICE void count(const Team auto& team, int32_t p, int32_t sign, double byte) {
    if (byte == 0) return;
    worth_ += sign;
    team.for_each(1, [&](int32_t) { data_.bytes_worth[p] += sign * byte; });
  }

  // The path gets or loses a flow. `worth` becomes what it is worth that this happens later, to all other flows.
  DEVICE bool change(const Team auto& team, int32_t p, int32_t more, double& worth) {
    const int32_t n = data_.flowing.count(team);
    team.for_each(n, [&](int32_t i) { data_.before[data_.flowing[i]] = rates_.rate[data_.flowing[i]]; });
    team.for_each(1, [&](int32_t) {
      state_.flows[p].count += more;
      state_.changed.items[0] = p;
      *state_.changed.size = 1;
    });
    const auto flows = [&](int32_t path) { return state_.flows[path].count; };
    if (!max_min_(team, state_.changed, flows, [](int32_t, double) {})) return false;
    state_.changed.clear(team);
    worth = worth_ > 0 ? sum(team, n,
                             [&](int32_t i) {
                               const int32_t q = data_.flowing[i];
                               const bool flows_on = state_.flows[q].count > 0;
                               return flows_on ? data_.bytes_worth[q] * (data_.before[q] - rates_.rate[q]) : 0;
                             })
                       : 0;
    team.wait();  // until all have read which paths flow
    team.for_each(1, [&](int32_t) { list(p, more); });
    return true;
  }

  // `flowing_` are the paths with flows.
  DEVICE void list(int32_t p, int32_t more) const {
    const int32_t flows = state_.flows[p].count;
    if (more > 0 && flows == 1) {
      data_.place[p] = *data_.flowing.size;
      data_.flowing.items[(*data_.flowing.size)++] = p;
    } else if (flows == 0) {
      const int32_t last = data_.flowing[--*data_.flowing.size];
      data_.flowing.items[data_.place[p]] = last;
      data_.place[last] = data_.place[p];
      data_.bytes_worth[p] = 0;  // 0 except for rounding
    }
  }

  // When the task has waited is worth `worth`: so are the latencies on its way, and the last of those that it waits
  // for.
  DEVICE void pass(const Team auto& team, int32_t task, double worth) const {
    const int64_t first = data_.graph.after_offsets[data_.base + task],
                  end = data_.graph.after_offsets[data_.base + task + 1];
    const int32_t p = data_.graph.path[data_.base + task];
    team.for_each(1, [&](int32_t) {
      if (p >= 0)
        data_.paths.for_each_hop(p, [&](int32_t l, double weight) {
          if (l < data_.links) data_.of_latency[l] += weight * worth;
        });
      int32_t last = 0;
      for (int64_t i = first; i < end; ++i)
        last += data_.finish[data_.graph.after[i] - data_.base] == data_.start[task];
      if (data_.graph.release[data_.base + task] == data_.start[task]) ++last;
      const double share = (worth + data_.of_start[task]) / (last > 0 ? last : 1);
      for (int64_t i = first; i < end; ++i)
        if (const auto earlier = data_.graph.after[i] - data_.base; data_.finish[earlier] == data_.start[task])
          data_.of_finish[earlier] += share;
    });
  }

  // All rates are constant for this time (s): the value of a higher rate is added to the gradient of the capacities.
  DEVICE void add_interval(const Team auto& team, double seconds) const {
    const int32_t n = data_.flowing.count(team);
    team.for_each(n, [&](int32_t i) {
      const int32_t p = data_.flowing[i], l = rates_.bottleneck[p];
      data_.of_rate[p] = -data_.bytes_worth[p] * seconds;
      if (team.atomic_exchange(&data_.is_limiting[l], 1) != 0) return;
      data_.limiting.append(team, l);
      data_.level[l] = rates_.rate[p];
      data_.levels.set(team, l, -rates_.rate[p]);
    });
    team.for_each(n, [&](int32_t i) { data_.limit[data_.flowing[i]] = lowest_limit(data_.flowing[i]); });
    double key;
    for (int32_t l; (l = data_.levels.pop(team, key)) >= 0;) settle(team, l);
    team.for_each(data_.limiting.count(team), [&](int32_t i) { data_.is_limiting[data_.limiting[i]] = 0; });
    data_.limiting.clear(team);
  }

  // Returns the link that is filled first among those on the path that limit some path: it limits this one.
  DEVICE int32_t lowest_limit(int32_t p) const {
    int32_t lowest = rates_.bottleneck[p];
    rates_.paths.for_each_hop(p, [&](int32_t l, double) {
      if (data_.is_limiting[l] == 0) return;
      if (data_.level[l] < data_.level[lowest] || (data_.level[l] == data_.level[lowest] && l > lowest)) lowest = l;
    });
    return lowest;
  }

  // Settles a link, the last filled of those that are left.
  DEVICE void settle(const Team auto& team, int32_t l) const {
    const LinkInfo& k = rates_.info[l];
    const int32_t first = k.first, n = k.num_members;
    const auto limited = [&](int32_t p) { return state_.flows[p].count > 0 && data_.limit[p] == l; };
    const double weight = sum(team, n, [&](int32_t i) {
      const int32_t p = rates_.members[first + i];
      return limited(p) ? weigh(p, l) * state_.flows[p].count : 0;
    });
    const double worth = sum(team, n, [&](int32_t i) {
      const int32_t p = rates_.members[first + i];
      return limited(p) ? static_cast<double>(data_.of_rate[p]) : 0;
    });
    const double worth_per_weight = weight > 0 ? worth / weight : 0;
    if (worth_per_weight == 0 || l >= data_.links) return;
    team.for_each(1, [&](int32_t) { data_.of_capacity[l] += worth_per_weight; });
    team.for_each(n, [&](int32_t i) {
      const int32_t p = rates_.members[first + i], flows = state_.flows[p].count;
      if (flows > 0 && data_.limit[p] != l) data_.of_rate[p] -= worth_per_weight * weigh(p, l) * flows;
    });
  }

  // The share of a flow's rate that the link carries; 1 on the virtual link of its limit.
  DEVICE double weigh(int32_t p, int32_t l) const {
    const double weight = rates_.paths.weight_on(p, l);
    return weight == Paths::kPerFlow ? 1 : weight;
  }

  // The same in all threads, and for any order of the values: in fixed point (link.h).
  template <class F>
  DEVICE double sum(const Team auto& team, int32_t n, const F& value) const {
    const double largest = -team.min(n, [&](int32_t i) {
      const double one = value(i);
      return one < 0 ? one : one >= 0 ? -one : -kInfinity;
    });
    if (!(largest > 0)) return 0;
    if (largest == kInfinity) return kUnknown;
    const double scale = static_cast<double>(kWhole) / largest,
                 per_unit = scale < Unit::kMaxPerUnit ? scale : Unit::kMaxPerUnit;
    return team.sum(n, [&](int32_t i) { return Amount::of(value(i) * per_unit); }).units() / per_unit;
  }

  GradientData& data_;
  Rates& rates_;
  const State& state_;
  MaxMin max_min_;
  int32_t worth_ = 0;  // flows whose bytes are worth something; the same in all threads
};

}  // namespace topoflow::BACKEND
