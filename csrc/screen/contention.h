// An estimate of the iteration time of a placement that sees transfers hold each other up.
//   A -> B, 1 s and 100 B per sample, A on server 0, B on servers 0, 1 and 2, one sample each, links of 100 B/s
//     forward    A@0 0-3, then 200 B on 0's link to the switch: 0>1 3-5, 0>2 3-5, B@0 3-4, B@1 5-6, B@2 5-6
//     backward   B@0 4-6, B@1 6-8, B@2 6-8, 200 B on the link to 0: 1>0 8-10, 2>0 8-10, A@0 10-16   -> 16 s
//   If transfers did not hold each other up, both of a pass would take 1 s each: 14 s.
//
// 1. Every server computes its layers in order, forward, then backward.
// 2. What travels into a layer is a coflow, and so are the gradients that travel out of it: each takes as long as the
//    fullest of its links needs for all bytes of the coflow on it.
// 3. So does an all-reduce between servers, which waits on every link for what other groups, or gradients of
//    activations, began there before it. Its phases inside servers, before and after, overlap with other buckets'.
//    Gradients of activations that meet earlier ones on a link get half of it.
//
// Source: Chowdhury, Zhong and Stoica, "Efficient coflow scheduling with Varys", SIGCOMM 2014, 5.1 (the bottleneck of a
// coflow); topoflow/traffic/lower.py for 1; topoflow/engine/screen/contention.py says what the estimate is for.
#pragma once

#include "coflow_loads.h"

namespace topoflow::BACKEND {

class Contention {
 public:
  HD Contention(const ContentionModel& model, const CoflowLoads& loads, double* memory)
      : s_(model.strategies),
        trees_(model.trees),
        ring_latency_(model.ring_latency),
        ring_slowness_(model.ring_slowness),
        ring_busy_(model.ring_busy),
        loads_(loads) {
    const int32_t n = s_.servers;
    for (double** times : {&done_, &awaited_}) *times = take(memory, int64_t{s_.layers} * n);
    for (double** times : {&clock_, &update_, &remaining_}) *times = take(memory, n);
    for (double** times : {&size_, &opened_, &inside_, &between_, &reduced_}) *times = take(memory, s_.choices);
    bucket_ = take(memory, s_.layers);
    for (double** times : {&busy_, &free_}) *times = take(memory, s_.links);
    longest_ = take(memory, trees_.largest);
  }

  // Numbers that one team keeps.
  HD static int64_t numbers(const ContentionModel& model) {
    const Strategies& s = model.strategies;
    return int64_t{2} * s.layers * s.servers + 3 * s.servers + 5 * s.choices + s.layers + 2 * s.links +
           model.trees.largest;
  }

  // s that the all-reduces of a choice take at least if the layers have the choices of `target` [Y].
  DEVICE double reduces(const int32_t* target, int32_t choice) const {
    const bool between = s_.ring_offsets[choice] < s_.ring_offsets[choice + 1];
    const double inside = between ? s_.local_before[choice] + s_.local_after[choice] : 0;
    return loads_.reduced(target, choice) * (ring_slowness_[choice] - inside);
  }

  // One that is above the limit is only known to be that high.
  DEVICE double makespan(const Team auto& team, double limit) const {
    loads_.fill_buckets(team, bucket_, size_, opened_, reduced_);
    team.for_each(s_.servers, [&](int32_t i) { clock_[i] = update_[i] = remaining_[i] = 0; });
    team.for_each(s_.links, [&](int32_t link) { free_[link] = 0; });
    for (int32_t layer = 0; layer < s_.layers; ++layer) forward(team, layer);
    double lower_bound = this->lower_bound(team);
    const double cutoff = limit * (1 + kRounding);
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer) {
      if (lower_bound > cutoff) return lower_bound;
      backward(team, layer);
      if (layer % kLimitInterval == 0) lower_bound = this->lower_bound(team);
    }
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer)
      if (bucket_[layer] < 0) await(team, layer);
    return latest(team, s_.servers, [&](int32_t i) { return clock_[i] + update_[i]; });
  }

 private:
  static constexpr int32_t kLimitInterval = 4;  // backward passes from one look at the limit to the next
  static constexpr double kRounding = 1e-9;     // of sums that are made in another order

  // s that the iteration takes at least, by what has been computed and what is left to compute.
  DEVICE double lower_bound(const Team auto& team) const {
    return latest(team, s_.servers, [&](int32_t i) { return clock_[i] + remaining_[i]; });
  }

  DEVICE double* done(int32_t layer) const { return done_ + int64_t{layer} * s_.servers; }
  DEVICE double* awaited(int32_t layer) const { return awaited_ + int64_t{layer} * s_.servers; }

  DEVICE void forward(const Team auto& team, int32_t layer) const {
    if (loads_.travels(layer)) {
      const int64_t* load = loads_.load(layer, false);
      team.for_each(s_.links, [&](int32_t link) { busy_[link] = seconds(load, link); });
      move_activations(team, layer);
    }
    const int64_t first = loads_.rows(layer), cost = s_.kind[layer] * s_.rows + first;
    const double *seconds = s_.forward + cost, *backward_seconds = s_.backward + cost, *update = s_.update + cost;
    double *clock = clock_, *updates = update_, *remaining = remaining_, *done = this->done(layer),
           *awaited = this->awaited(layer);
    loads_.on_holders(team, layer, [=](int32_t i, int32_t server) {
      done[server] = clock[server] += seconds[i];
      updates[server] += update[i];
      remaining[server] += backward_seconds[i] + update[i];
      awaited[server] = 0;
    });
  }

  DEVICE void backward(const Team auto& team, int32_t layer) const {
    const double* seconds = s_.backward + s_.kind[layer] * s_.rows + loads_.rows(layer);
    double *clock = clock_, *remaining = remaining_, *awaited = this->awaited(layer);
    loads_.on_holders(team, layer, [=](int32_t i, int32_t server) {
      clock[server] = later_of(clock[server], awaited[server]) + seconds[i];
      remaining[server] -= seconds[i];
    });
    if (loads_.travels(layer)) {
      share(team, layer);
      move_gradients(team, layer);
    }
    if (bucket_[layer] != 0) reduce(team, layer);
  }

  // s in which a link moves its load.
  DEVICE double seconds(const int64_t* load, int32_t link) const {
    return static_cast<double>(load[link]) * s_.link_seconds[link];
  }

  // The gradients that travel out of the layer meet what is on their links.
  DEVICE void share(const Team auto& team, int32_t layer) const {
    const double began = team.min_of(s_.servers, clock_);
    const int64_t* load = loads_.load(layer, true);
    team.for_each(s_.links, [&](int32_t link) {
      const double alone = seconds(load, link);
      busy_[link] = free_[link] > began ? 2 * alone : alone;
      if (alone > 0) free_[link] = later_of(free_[link], began) + alone;
    });
  }

  // Activations travel into the layer: its hosts have them at clock_.
  template <Team T>
  DEVICE void move_activations(const T& team, int32_t layer) const {
    const int64_t first = s_.input_offsets[layer], end = s_.input_offsets[layer + 1];
    if constexpr (T::kAlone) {
      for (int64_t edge = first; edge < end; ++edge)
        if (loads_.crosses(edge)) move(team, s_.source[edge], done(s_.source[edge]), layer, clock_);
    } else {  // a thread follows a server's samples along all edges
      const int32_t* to = loads_.hosts(layer);
      arrive(team, layer, clock_, [=, this](int32_t i) {
        double last = 0;
        for (int64_t edge = first; edge < end; ++edge) {
          if (!loads_.crosses(edge)) continue;
          const int32_t from = loads_.hosts(s_.source[edge])[i];
          last = later_of(last, done(s_.source[edge])[from] + transfer_seconds(from, to[i]));
        }
        return last;
      });
    }
  }

  // Gradients travel out of the layer: the hosts of its inputs have them at awaited().
  template <Team T>
  DEVICE void move_gradients(const T& team, int32_t layer) const {
    const int64_t first = s_.input_offsets[layer], end = s_.input_offsets[layer + 1];
    if constexpr (T::kAlone) {
      for (int64_t edge = first; edge < end; ++edge)
        if (loads_.crosses(edge)) move(team, layer, clock_, s_.source[edge], awaited(s_.source[edge]));
    } else {  // a warp follows all samples along an edge
      const int32_t* from = loads_.hosts(layer);
      team.max_of_rows(
          static_cast<int32_t>(end - first), s_.servers,
          [=, this, &team](int32_t row, int32_t i) {
            const int32_t source = s_.source[first + row];
            if (!loads_.crosses(first + row)) return 0.0;
            const int32_t to = loads_.hosts(source)[i];
            const double arrival = clock_[from[i]] + transfer_seconds(from[i], to);
            if (loads_.holders(loads_.choice(source)) == 1) return arrival;
            team.atomic_max(&awaited(source)[to], arrival);
            return 0.0;
          },
          [=, this, &team](int32_t row, double last) {
            const int32_t source = s_.source[first + row];
            if (last > 0) team.atomic_max(&awaited(source)[loads_.hosts(source)[0]], last);
          });
    }
  }

  // The samples of each server travel from the hosts of one layer, who had them at `departure` [N], to those of
  // another; `arrival` [N] becomes the latest arrival. By one thread, which climbs a tree once for all of them.
  DEVICE void move(const Team auto& team, int32_t source, const double* departure, int32_t target,
                   double* arrival) const {
    const int32_t *from = loads_.hosts(source), *to = loads_.hosts(target);
    if (loads_.holders(loads_.choice(source)) == 1) {
      const Climbed tree = climb(team, false, from[0]);
      const double* first_departure = departure + from[0];
      arrive(team, target, arrival, [=](int32_t i) { return *first_departure + tree.seconds(to[i]); });
    } else if (loads_.holders(loads_.choice(target)) == 1) {
      const Climbed tree = climb(team, true, to[0]);
      arrive(team, target, arrival, [=](int32_t i) { return departure[from[i]] + tree.seconds(from[i]); });
    } else {
      arrive(team, target, arrival, [&](int32_t i) { return departure[from[i]] + transfer_seconds(from[i], to[i]); });
    }
  }

  template <class F>
  DEVICE void arrive(const Team auto& team, int32_t target, double* arrival, const F& when) const {
    const int32_t* to = loads_.hosts(target);
    const int32_t n = s_.servers, holders = loads_.holders(loads_.choice(target));
    if (holders == 1) {
      const double last = latest(team, n, when);
      team.for_each(1, [=](int32_t) { arrival[to[0]] = later_of(arrival[to[0]], last); });
    } else if (holders == n) {
      team.for_each(n, [=](int32_t i) { arrival[i] = later_of(arrival[i], when(i)); });
    } else {
      team.for_each(n, [=](int32_t i) { team.atomic_max(&arrival[to[i]], when(i)); });
    }
  }

  // The times of transfers between one server and the others.
  struct Climbed {
    const double *longest, *latency;
    const int32_t* leaf;

    DEVICE double seconds(int32_t other) const { return longest[leaf[other]] + latency[other]; }
  };

  // longest_ becomes s of the fullest link between a server and each node of the tree of paths from it, or `to` it.
  DEVICE Climbed climb(const Team auto& team, bool to, int32_t server) const {
    const int64_t* tree = trees_.tree + to * (int64_t{s_.servers} + 1) + server;
    const int32_t *parent = trees_.parent + tree[0], *link = trees_.link + tree[0];
    const auto nodes = static_cast<int32_t>(tree[1] - tree[0]);
    const double* busy = busy_;
    double* longest = longest_;
    team.for_each(1, [=](int32_t) {
      longest[0] = 0;
      for (int32_t i = 1; i < nodes; ++i) longest[i] = later_of(longest[parent[i]], busy[link[i]]);
    });
    const int64_t row = (int64_t{to} * s_.servers + server) * s_.servers;
    return {longest_, trees_.latency + row, trees_.leaf + row};
  }

  // Returns the s of one transfer.
  DEVICE double transfer_seconds(int32_t from, int32_t to) const {
    if (from == to) return 0;
    const int64_t pair = int64_t{from} * s_.servers + to;
    const int32_t path = s_.path[pair];
    double longest = 0;
    for (int64_t hop = s_.path_offsets[path]; hop < s_.path_offsets[path + 1]; ++hop)
      longest = later_of(longest, busy_[s_.path_links[hop]]);
    return longest + s_.latency[pair];
  }

  // The bucket that the layer completes.
  DEVICE void reduce(const Team auto& team, int32_t layer) const {
    const int32_t group = loads_.choice(layer);
    const int32_t* holder = s_.holder + loads_.rows(layer);
    const double computed = latest(team, loads_.holders(group), [&](int32_t i) { return clock_[holder[i]]; });
    const bool opens = bucket_[layer] < 0;
    const double bytes = opens ? -bucket_[layer] : bucket_[layer];
    const int64_t first = s_.ring_offsets[group];
    const auto count = static_cast<int32_t>(s_.ring_offsets[group + 1] - first);
    const double before = s_.local_before[group] * bytes, after = s_.local_after[group] * bytes;
    team.for_each(1, [&](int32_t) {
      if (opens) inside_[group] = between_[group] = reduced_[group] = 0;
      inside_[group] = later_of(computed, count ? inside_[group] : reduced_[group]) + before;
      between_[group] = later_of(inside_[group], between_[group]);
    });
    const double ready = between_[group];
    team.for_each(count, [&](int32_t i) {
      double& free = free_[s_.ring_link[first + i]];
      free = later_of(free, ready) + ring_busy_[first + i] * bytes;
    });
    const double last = latest(team, count, [&](int32_t i) { return free_[s_.ring_link[first + i]]; });
    team.for_each(1, [&](int32_t) {
      between_[group] = later_of(last, ready + ring_latency_[group] + ring_slowness_[group] * bytes - before - after);
      reduced_[group] = later_of(between_[group], reduced_[group]) + after;
    });
  }

  // The optimizer waits for the group's buckets.
  DEVICE void await(const Team auto& team, int32_t layer) const {
    const double reduced = reduced_[loads_.choice(layer)];
    double* clock = clock_;
    loads_.on_holders(team, layer, [=](int32_t, int32_t server) { clock[server] = later_of(clock[server], reduced); });
  }

  const Strategies& s_;
  const PathTrees& trees_;
  const double *ring_latency_, *ring_slowness_, *ring_busy_;  // [K] s, [K] s/B, [J] s/B
  CoflowLoads loads_;
  double *done_, *awaited_;               // [Y, N] s, when a server has a layer, and what its backward pass waits for
  double* clock_;                         // [N] s, when a server has computed all so far
  double *update_, *remaining_;           // [N] s of the optimizer; of all that comes after the forward passes
  double *size_, *opened_;                // [K] B in the open bucket; whether there was one
  double *inside_, *between_, *reduced_;  // [K] s, when the latest bucket has done each of its phases
  double* bucket_;                        // [Y] B
  double *busy_, *free_;                  // [L] s of a coflow on a link; s, when it has moved all gradients so far
  double* longest_;                       // [nodes of the largest tree] s
};

}  // namespace topoflow::BACKEND
