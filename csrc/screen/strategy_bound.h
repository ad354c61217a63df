// The bound of a placement strategy, straight from layers: what bound.h says of the tasks that lowering would make.
//   A -> B, 1 s and 100 B per sample, A on server 0, B on servers 0 and 1, one sample each, links of 100 B/s
//     forward    A@0 0-2, B@0 2-3, 0>1 2-3, B@1 3-4
//     backward   B@0 3-5, B@1 4-6, 1>0 6-7, A@0 7-11    -> 11 s
//     links      0>1 busy from 2 s on, 1>0 from 6 s on  -> 3 s and 7 s
//
// 1. Every server computes its layers in order, forward, then backward. A layer waits for what the samples' inputs need
//    to travel, in the backward pass for the gradients of its outputs.
// 2. A bucket of gradients is reduced after its last layer's backward pass on all holders: inside servers, between
//    them, inside again, each after the same phase of the group's bucket before. The optimizer waits for all of them.
// 3. A link is busy from the first moment that a flow on it can begin, for at least bytes / capacity. Compute is in
//    order, so which flow of a pair is first depends on the placement only: of the forward transfers, the one that
//    waits for the earliest layer; without any, the backward transfer of the last layer. Only links that can end later
//    than all others so far are considered, and only until a flow is found that begins early enough.
//
// Source: topoflow/traffic/lower.py and buckets.py for 1 and 2, bound.h for 3.
#pragma once

#include "strategy_state.h"

namespace topoflow::BACKEND {

class StrategyBound {
 public:
  HD StrategyBound(const StrategyBatch& batch, const StrategyState& state, double* memory)
      : s_(batch.strategies), state_(state) {
    const int32_t n = s_.servers;
    for (double** times : {&forward_, &backward_}) *times = take(memory, int64_t{s_.layers} * n);
    for (double** times : {&clock_, &update_}) *times = take(memory, n);
    for (double** times : {&size_, &begin_, &inside_, &between_, &reduced_}) *times = take(memory, s_.choices);
    bucket_ = take(memory, s_.layers);
    rings_ = take(memory, s_.links);
  }

  // Numbers that one team keeps.
  HD static int64_t numbers(const StrategyBatch& batch) {
    const Strategies& s = batch.strategies;
    return int64_t{2} * s.layers * s.servers + 2 * s.servers + 5 * s.choices + s.layers + s.links;
  }

  // s that the all-reduces of a choice take at least if the layers have the choices of `target` [Y].
  DEVICE double reduces(const int32_t* target, int32_t choice) const {
    const int64_t steepest = s_.line_offsets[choice];
    const double line = steepest < s_.line_offsets[choice + 1] ? s_.line_slope[steepest] : 0;
    const double before = s_.local_before[choice], after = s_.local_after[choice];
    return state_.reduced(target, choice) * (line > 0 ? later_of(line, later_of(before, after)) : before + after);
  }

  // One that is above the limit is only known to be that high.
  DEVICE double makespan(const Team auto& team, double limit) const {
    team.for_each(1, [&](int32_t) { state_.fill_buckets(bucket_, size_, begin_, reduced_); });
    team.for_each(s_.servers, [&](int32_t i) { clock_[i] = update_[i] = 0; });
    for (int32_t layer = 0; layer < s_.layers; ++layer) forward(team, layer);
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer) backward(team, layer);
    const double computed = latest(team, s_.servers, [&](int32_t i) { return clock_[i]; });
    team.for_each(s_.links, [&](int32_t link) { rings_[link] = kInfinity; });
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer)
      if (bucket_[layer] < 0) await(team, state_.choice(layer));
    const double critical = latest(team, s_.servers, [&](int32_t i) { return clock_[i] + update_[i]; });
    if (critical > limit) return critical;
    return last_link(team, critical, computed);
  }

 private:
  DEVICE void forward(const Team auto& team, int32_t layer) const {
    for (int64_t edge = s_.input_offsets[layer]; edge < s_.input_offsets[layer + 1]; ++edge)
      if (state_.crosses(edge))
        arrive(team, s_.source[edge], layer, forward_ + int64_t{s_.source[edge]} * s_.servers,
               state_.activation_seconds(edge));
    const int64_t first = state_.rows(layer), cost = s_.kind[layer] * s_.rows + first;
    const double *seconds = s_.forward + cost, *update = s_.update + cost;
    double *clock = clock_, *updates = update_, *done = forward_ + int64_t{layer} * s_.servers;
    state_.on_holders(team, layer, [=](int32_t i, int32_t server) {
      done[server] = clock[server] += seconds[i];
      updates[server] += update[i];
    });
  }

  DEVICE void backward(const Team auto& team, int32_t layer) const {
    for (int64_t i = s_.output_offsets[layer]; i < s_.output_offsets[layer + 1]; ++i) {
      const int32_t edge = s_.output[i], consumer = s_.consumer[edge];
      if (state_.crosses(edge))
        arrive(team, consumer, layer, backward_ + int64_t{consumer} * s_.servers, state_.gradient_seconds(edge));
    }
    const double* seconds = s_.backward + s_.kind[layer] * s_.rows + state_.rows(layer);
    double *clock = clock_, *done = backward_ + int64_t{layer} * s_.servers;
    state_.on_holders(team, layer, [=](int32_t i, int32_t server) { done[server] = clock[server] += seconds[i]; });
    if (bucket_[layer] != 0) reduce(team, layer);
  }

  // The clocks of the servers that compute `layer` wait for what each server's samples need from those that computed
  // `other`, which were done at `done` [N], and which takes `travels` [N].
  DEVICE void arrive(const Team auto& team, int32_t other, int32_t layer, const double* done,
                     const double* travels) const {
    const int32_t one = state_.choice(other), to = state_.choice(layer), n = s_.servers;
    const int32_t *from = s_.host + int64_t{one} * n, *at = s_.host + int64_t{to} * n;
    if (state_.holders(one) == 1) {
      const double* only = done + from[0];
      arrive_from(team, [=](int32_t) { return *only; }, to, at, travels);
    } else if (state_.holders(one) == n) {
      arrive_from(team, [=](int32_t i) { return done[i]; }, to, at, travels);
    } else {
      arrive_from(team, [=](int32_t i) { return done[from[i]]; }, to, at, travels);
    }
  }

  template <class F>
  DEVICE void arrive_from(const Team auto& team, const F& done, int32_t to, const int32_t* at,
                          const double* travels) const {
    const int32_t n = s_.servers, holders = state_.holders(to);
    double* clock = clock_;
    if (holders == 1) {
      const double last = latest(team, n, [=](int32_t i) { return done(i) + travels[i]; });
      team.for_each(1, [=](int32_t) { clock[at[0]] = later_of(clock[at[0]], last); });
    } else if (holders == n) {
      team.for_each(n, [=](int32_t i) { clock[i] = later_of(clock[i], done(i) + travels[i]); });
    } else {
      team.for_each(n, [=](int32_t i) { team.atomic_max(&clock[at[i]], done(i) + travels[i]); });
    }
  }

  // The bucket that the layer completes.
  DEVICE void reduce(const Team auto& team, int32_t layer) const {
    const int32_t group = state_.choice(layer);
    const int32_t* holder = s_.holder + state_.rows(layer);
    const double* done = backward_ + int64_t{layer} * s_.servers;
    const double computed = latest(team, state_.holders(group), [&](int32_t i) { return done[holder[i]]; });
    team.for_each(1, [&](int32_t) {
      const bool opens = bucket_[layer] < 0;
      const double bytes = opens ? -bucket_[layer] : bucket_[layer];
      if (opens) inside_[group] = between_[group] = reduced_[group] = 0;
      const bool on_links = s_.line_offsets[group] < s_.line_offsets[group + 1];
      const double free = on_links ? inside_[group] : reduced_[group];  // one server: its phases are in one place
      inside_[group] = later_of(computed, free) + s_.local_before[group] * bytes;
      const double start = later_of(inside_[group], between_[group]);
      double longest = 0;
      for (int64_t i = s_.line_offsets[group]; i < s_.line_offsets[group + 1]; ++i)
        longest = later_of(longest, s_.line_seconds[i] + s_.line_slope[i] * bytes);
      if (opens) begin_[group] = start;
      between_[group] = start + longest;
      reduced_[group] = later_of(between_[group], reduced_[group]) + s_.local_after[group] * bytes;
    });
  }

  // The optimizer waits for the group's buckets; their flows are on links.
  DEVICE void await(const Team auto& team, int32_t group) const {
    const int64_t row = s_.row_offsets[group], ring = s_.ring_offsets[group];
    team.for_each(state_.holders(group), [&](int32_t i) {
      double& clock = clock_[s_.holder[row + i]];
      clock = later_of(clock, reduced_[group]);
    });
    team.for_each(static_cast<int32_t>(s_.ring_offsets[group + 1] - ring), [&](int32_t i) {
      double& first = rings_[s_.ring_link[ring + i]];
      const double begin = begin_[group] + s_.ring_wait[ring + i];
      first = begin < first ? begin : first;
    });
  }

  // When the last link can have moved its bytes, or `critical` if that is later. No transfer waits for a computation
  // that is done after `computed`.
  DEVICE double last_link(const Team auto& team, double critical, double computed) const {
    const double longest = latest(team, s_.links, [&](int32_t link) { return moves(link); });
    const int32_t top = team.first(s_.links, [&](int32_t link) { return moves(link) == longest; });
    double best = critical;
    if (longest > 0) best = later_of(best, latest(team, 1, [&](int32_t) { return ends(top, 0); }));
    double later = best;  // each thread has its own
    const double last = latest(team, s_.links, [&](int32_t link) {
      const double begin = rings_[link] < kInfinity ? rings_[link] : computed + s_.link_latency[link];
      const double seconds = moves(link);
      if (seconds > 0 && begin + seconds > later) later = later_of(later, ends(link, later));
      return later;
    });
    return later_of(best, last);
  }

  // s in which the link moves its bytes.
  DEVICE double moves(int32_t link) const { return static_cast<double>(state_.load()[link]) * s_.link_seconds[link]; }

  // When the link can have moved its bytes, if that is later than `enough`; otherwise some time up to `enough`.
  DEVICE double ends(int32_t link, double enough) const {
    const double seconds = moves(link);
    double first = rings_[link];
    const int64_t begin = s_.crossing_offsets[link];
    const auto count = static_cast<int32_t>(s_.crossing_offsets[link + 1] - begin);
    int32_t& cursor = state_.cursor(link);
    for (int32_t i = 0, at = cursor; i < count && first + seconds > enough; ++i, at = at + 1 < count ? at + 1 : 0) {
      const double start = begins(s_.crossing_source[begin + at], s_.crossing_target[begin + at]);
      if (start >= first) continue;
      first = start;
      cursor = at;
    }
    return first + seconds;
  }

  // The first moment at which a flow from one server to another can be on the links between them.
  DEVICE double begins(int32_t from, int32_t to) const {
    const double latency = s_.latency[from * s_.servers + to];
    const int32_t sent = first_forward(from, to);
    if (sent >= 0) return latency + forward_[int64_t{sent} * s_.servers + from];
    const int32_t back = last_backward(from, to);
    return back >= 0 ? latency + backward_[int64_t{back} * s_.servers + from] : kInfinity;
  }

  // A transfer waits for the latest of the inputs that it carries; one without bytes is no flow. -1: none.
  DEVICE int32_t first_forward(int32_t from, int32_t to) const {
    int32_t first = -1, latest = -1, consumer = -1;
    double bytes = 0;
    for (int32_t w = 0; w < s_.edge_words; ++w) {
      for (uint64_t edges = state_.between(from, to, w); edges; edges &= edges - 1) {
        const int32_t edge = w * 64 + lowest_bit(edges);
        if (!state_.meet(edge, from, to)) continue;
        if (s_.consumer[edge] != consumer) {
          if (bytes > 0 && (first < 0 || latest < first)) first = latest;
          bytes = 0;
        }
        consumer = s_.consumer[edge];
        latest = s_.source[edge];
        bytes += s_.edge_bytes[edge];
      }
    }
    return bytes > 0 && (first < 0 || latest < first) ? latest : first;
  }

  DEVICE int32_t last_backward(int32_t from, int32_t to) const {
    for (int32_t w = s_.edge_words - 1; w >= 0; --w) {
      for (uint64_t edges = state_.between(to, from, w); edges;) {
        const int32_t bit = highest_bit(edges);
        const int32_t edge = w * 64 + bit;
        if (s_.edge_bytes[edge] > 0 && state_.meet(edge, to, from)) return s_.consumer[edge];
        edges &= ~(uint64_t{1} << bit);
      }
    }
    return -1;
  }

  Strategies s_;
  StrategyState state_;
  double *forward_, *backward_;           // [Y, N] s, when a layer's pass is done on a server
  double* clock_;                         // [N] s, when a server has computed all so far
  double* update_;                        // [N] s of the optimizer
  double *size_, *begin_;                 // [K] B in the open bucket; s, the first flow
  double *inside_, *between_, *reduced_;  // [K] s, when the latest bucket has done each of its phases
  double* bucket_;                        // [Y] B
  double* rings_;                         // [L] s, the first flow of an all-reduce
};

}  // namespace topoflow::BACKEND
