// What is kept of a strategy, so that the change of one layer is little work.
//   A -> B, A on server 0, B on servers 0 and 1: the samples of server 1 travel 0 -> 1, their gradients 1 -> 0
//   A moves to server 1                        : now those of server 0 travel 1 -> 0, their gradients 0 -> 1
//
// All that one server sends another for the same layer is one transfer: its bytes are the sum over the inputs that the
// one holds. Loads are integers, so that what is added and taken away again leaves no trace.
//
// Source: topoflow/traffic/lower.py; a set of servers as bits of words, Knuth, The Art of Computer Programming
// 4A, 7.1.3.
#pragma once

#include "parallel/bits.h"
#include "placement.h"

namespace topoflow::BACKEND {

class StrategyState : public Placement {
 public:
  HD StrategyState(const StrategyBatch& batch, int32_t chain) : Placement(batch, chain) {
    const TransferState& all = batch.transfers;
    const int64_t i = chain, times = i * s_.edges * s_.servers, sets = i * s_.servers * s_.edge_words;
    activation_seconds_ = all.activation_seconds + times;
    gradient_seconds_ = all.gradient_seconds + times;
    load_ = all.load + i * s_.links;
    outgoing_ = all.outgoing + sets;
    incoming_ = all.incoming + sets;
    crossing_ = all.crossing + i * s_.edge_words;
    cursor_ = all.cursor + i * s_.links;
  }

  DEVICE const double* activation_seconds(int64_t edge) const { return activation_seconds_ + edge * s_.servers; }
  DEVICE const double* gradient_seconds(int64_t edge) const { return gradient_seconds_ + edge * s_.servers; }
  DEVICE int64_t* load() const { return load_; }
  DEVICE int32_t& cursor(int32_t link) const { return cursor_[link]; }

  // The edges over which `from` sends activations to `to`, among those of word w; gradients travel the other way.
  DEVICE uint64_t between(int32_t from, int32_t to, int32_t w) const {
    return static_cast<uint64_t>(outgoing_[int64_t{from} * s_.edge_words + w] &
                                 incoming_[int64_t{to} * s_.edge_words + w] & crossing_[w]);
  }

  // Whether there are samples for which `from` computes the input and `to` the layer.
  DEVICE bool meet(int64_t edge, int32_t from, int32_t to) const {
    const int64_t one = row_of(s_.source[edge], from) * s_.words, other = row_of(s_.consumer[edge], to) * s_.words;
    for (int32_t w = 0; w < s_.words; ++w)
      if (s_.set[one + w] & s_.set[other + w]) return true;
    return false;
  }

  DEVICE void build(const Team auto& team) const {
    team.for_each(s_.links, [&](int32_t link) { load_[link] = 0, cursor_[link] = 0; });
    team.for_each(s_.servers * s_.edge_words, [&](int32_t i) { outgoing_[i] = incoming_[i] = 0; });
    for (int32_t layer = 0; layer < s_.layers; ++layer) hold(team, layer, true);
    team.for_each(s_.edge_words, [&](int32_t w) { crossing_[w] = 0; });
    team.for_each(1, [&](int32_t) { mark(0, s_.edges, [](int64_t i) { return i; }); });
    Undo none{};
    for (int32_t edge = 0; edge < s_.edges; ++edge) {
      load_edge(team, edge, 1);
      travel(team, edge, -1, -1, none);
    }
    for (int32_t layer = 0; layer < s_.layers; ++layer)
      if (first_of_choice(layer)) load_rings(team, choice(layer), held(choice(layer)), 1);
  }

  // The layer has another choice, which is not the one it has.
  DEVICE void change(const Team auto& team, int32_t layer, int32_t choice) const {
    Undo none{};
    change(team, layer, choice, none);
  }

  // Memory that one team needs to undo a change.
  HD static int64_t kept_numbers(const StrategyBatch& batch) {
    const Strategies& s = batch.strategies;
    return s.links + s.edges + int64_t{2} * s.edges * s.servers;
  }

  // Calls f with `layer` moved to `choice`, then undoes the move.
  template <class F>
  DEVICE void call_with(const Team auto& team, int32_t layer, int32_t choice, double* memory, const F& f) const {
    Undo undo{reinterpret_cast<int64_t*>(memory), reinterpret_cast<int64_t*>(memory) + s_.links,
              memory + s_.links + s_.edges, 0};
    const int32_t before = team.get(&placement_[layer]);
    team.for_each(s_.links, [&](int32_t link) { undo.load[link] = load_[link]; });
    change(team, layer, choice, undo);
    f();
    team.for_each(s_.links, [&](int32_t link) { load_[link] = undo.load[link]; });
    for (int32_t i = 0; i < undo.edges; ++i) copy_times(team, undo.edge[i], undo.times + i * 2 * s_.servers, false);
    place(team, layer, before);
  }

 private:
  // What a change overwrites; `load` nullptr: nothing is kept.
  struct Undo {
    int64_t* load;  // [L]
    int64_t* edge;  // [E] whose times are kept
    double* times;  // [E, 2, N] s
    int32_t edges;  // edges whose times are kept
  };

  DEVICE void change(const Team auto& team, int32_t layer, int32_t choice, Undo& undo) const {
    const int32_t before = team.get(&placement_[layer]);
    load_layer(team, layer, before, choice, -1);
    place(team, layer, choice);
    load_layer(team, layer, before, choice, 1);
    travel_layer(team, layer, before, undo);
  }

  DEVICE void place(const Team auto& team, int32_t layer, int32_t choice) const {
    hold(team, layer, false);
    team.set(&placement_[layer], choice);
    hold(team, layer, true);
    mark_layer(team, layer);
  }

  // The times of an edge are copied to [2, N], or back.
  DEVICE void copy_times(const Team auto& team, int64_t edge, double* times, bool there) const {
    const int32_t n = s_.servers;
    double *activations = activation_seconds_ + edge * n, *gradients = gradient_seconds_ + edge * n, *kept = times,
           *also = times + n;
    if (there) return team.for_each(n, [=](int32_t i) { kept[i] = activations[i], also[i] = gradients[i]; });
    team.for_each(n, [=](int32_t i) { activations[i] = kept[i], gradients[i] = also[i]; });
  }

  // The row of the choice of the layer in which `server`, one of its holders, is.
  DEVICE int64_t row_of(int32_t layer, int32_t server) const {
    return s_.row[int64_t{choice(layer)} * s_.servers + server];
  }
  DEVICE bool holds(int32_t choice, int32_t server) const {
    return s_.host[int64_t{choice} * s_.servers + server] == server;
  }

  // The edges of the layer enter the sets of its holders, or leave them.
  DEVICE void hold(const Team auto& team, int32_t layer, bool enter) const {
    const int64_t rows = s_.row_offsets[choice(layer)];
    team.for_each(holders(choice(layer)), [&](int32_t i) {
      const int64_t sets = int64_t{s_.holder[rows + i]} * s_.edge_words;
      for (int64_t j = s_.input_offsets[layer]; j < s_.input_offsets[layer + 1]; ++j) put(incoming_ + sets, j, enter);
      for (int64_t j = s_.output_offsets[layer]; j < s_.output_offsets[layer + 1]; ++j)
        put(outgoing_ + sets, s_.output[j], enter);
    });
  }

  DEVICE static void put(int64_t* set, int64_t edge, bool enter) {
    const auto bit = static_cast<int64_t>(uint64_t{1} << edge % 64);
    set[edge / 64] = enter ? set[edge / 64] | bit : set[edge / 64] & ~bit;
  }

  template <class F>
  DEVICE void mark(int64_t first, int64_t end, const F& edge) const {
    for (int64_t i = first; i < end; ++i) put(crossing_, edge(i), crosses(edge(i)));
  }

  DEVICE void mark_layer(const Team auto& team, int32_t layer) const {
    team.for_each(1, [&](int32_t) {
      mark(s_.input_offsets[layer], s_.input_offsets[layer + 1], [](int64_t i) { return i; });
      mark(s_.output_offsets[layer], s_.output_offsets[layer + 1], [&](int64_t i) { return s_.output[i]; });
    });
  }

  DEVICE bool first_of_choice(int32_t layer) const {
    for (int32_t earlier = 0; earlier < layer; ++earlier)
      if (choice(earlier) == choice(layer)) return false;
    return true;
  }

  // B of gradients of the layers that have the choice.
  DEVICE double held(int32_t choice) const {
    double bytes = 0;
    for (int32_t layer = 0; layer < s_.layers; ++layer)
      if (this->choice(layer) == choice) bytes += s_.gradient[layer];
    return bytes;
  }

  // What the edges of the layer and the rings of both choices put on links, `sign` times.
  DEVICE void load_layer(const Team auto& team, int32_t layer, int32_t one, int32_t other, int64_t sign) const {
    for (int64_t i = s_.input_offsets[layer]; i < s_.input_offsets[layer + 1]; ++i) load_edge(team, i, sign);
    for (int64_t i = s_.output_offsets[layer]; i < s_.output_offsets[layer + 1]; ++i)
      load_edge(team, s_.output[i], sign);
    for (const int32_t choice : {one, other}) load_rings(team, choice, held(choice), sign);
  }

  DEVICE void load_edge(const Team auto& team, int64_t edge, int64_t sign) const {
    if (!crosses(edge)) return;
    const int32_t *from = hosts(s_.source[edge]), *to = hosts(s_.consumer[edge]);
    const double bytes = s_.edge_bytes[edge] * s_.unit;
    team.for_each(s_.servers, [&](int32_t i) {
      if (from[i] == to[i]) return;
      load_path(team, load_, s_.path[from[i] * s_.servers + to[i]], bytes, sign);
      load_path(team, load_, s_.path[to[i] * s_.servers + from[i]], bytes, sign);
    });
  }

  DEVICE void load_rings(const Team auto& team, int32_t choice, double bytes, int64_t sign) const {
    const int64_t first = s_.ring_offsets[choice], count = s_.ring_offsets[choice + 1] - first;
    team.for_each(static_cast<int32_t>(count), [&](int32_t i) {
      load_[s_.ring_link[first + i]] += sign * static_cast<int64_t>(s_.ring_share[first + i] * (bytes * s_.unit));
    });
  }

  // After the layer had another choice `before`: the transfers that it makes, and those it is or was merged with.
  DEVICE void travel_layer(const Team auto& team, int32_t layer, int32_t before, Undo& undo) const {
    for (int64_t i = s_.input_offsets[layer]; i < s_.input_offsets[layer + 1]; ++i) travel(team, i, -1, -1, undo);
    int32_t last = -1;
    for (int64_t i = s_.output_offsets[layer]; i < s_.output_offsets[layer + 1]; ++i) {
      const int32_t consumer = s_.consumer[s_.output[i]];
      if (consumer == last) continue;
      last = consumer;
      for (int64_t j = s_.input_offsets[consumer]; j < s_.input_offsets[consumer + 1]; ++j)
        s_.source[j] == layer ? travel(team, j, -1, -1, undo) : travel(team, j, before, choice(layer), undo);
    }
  }

  // How long the transfers of the edge take alone that come from servers which have one of two choices; -1: from all.
  DEVICE void travel(const Team auto& team, int64_t edge, int32_t one, int32_t other, Undo& undo) const {
    if (!crosses(edge) || (one >= 0 && !overlaps(choice(s_.source[edge]), one, other))) return;
    if (undo.load) {
      team.for_each(1, [&](int32_t) { undo.edge[undo.edges] = edge; });
      copy_times(team, edge, undo.times + undo.edges++ * 2 * s_.servers, true);
    }
    const int32_t *from = hosts(s_.source[edge]), *to = hosts(s_.consumer[edge]);
    double *activations = activation_seconds_ + edge * s_.servers, *gradients = gradient_seconds_ + edge * s_.servers;
    team.for_each(s_.servers, [&](int32_t i) {
      if (one >= 0 && !holds(one, from[i]) && !holds(other, from[i])) return;
      const int32_t there = from[i] * s_.servers + to[i], back = to[i] * s_.servers + from[i];
      const double bytes = from[i] == to[i] ? 0 : sent(s_.consumer[edge], from[i], to[i]);
      activations[i] = s_.latency[there] + bytes * s_.slowness[there];
      gradients[i] = s_.latency[back] + bytes * s_.slowness[back];
    });
  }

  // Whether any holder of a choice has one of two others.
  DEVICE bool overlaps(int32_t choice, int32_t one, int32_t other) const {
    const int64_t *a = s_.member + int64_t{choice} * s_.words, *b = s_.member + int64_t{one} * s_.words,
                  *c = s_.member + int64_t{other} * s_.words;
    for (int32_t w = 0; w < s_.words; ++w)
      if (a[w] & (b[w] | c[w])) return true;
    return false;
  }

  // B that one server sends another for the layer.
  DEVICE double sent(int32_t layer, int32_t from, int32_t to) const {
    const int64_t first = s_.input_offsets[layer], end = s_.input_offsets[layer + 1];
    if (end - first == 1) return shared(first, from, to);
    double bytes = 0;
    for (int64_t w = first / 64; w * 64 < end; ++w) {
      uint64_t edges = between(from, to, static_cast<int32_t>(w));
      if (w == first / 64) edges &= ~uint64_t{0} << first % 64;
      if (end - w * 64 < 64) edges &= (uint64_t{1} << (end - w * 64)) - 1;
      for (; edges; edges &= edges - 1) bytes += shared(w * 64 + lowest_bit(edges), from, to);
    }
    return bytes;
  }

  // B of the edge for the samples of which `from` computes the input and `to` the layer.
  DEVICE double shared(int64_t edge, int32_t from, int32_t to) const {
    const int64_t one = row_of(s_.source[edge], from), other = row_of(s_.consumer[edge], to);
    if (s_.samples[one] == s_.servers) return s_.samples[other] * s_.edge_bytes[edge];
    if (s_.samples[other] == s_.servers) return s_.samples[one] * s_.edge_bytes[edge];
    int32_t count = 0;
    for (int32_t w = 0; w < s_.words; ++w)
      count += count_bits(static_cast<uint64_t>(s_.set[one * s_.words + w] & s_.set[other * s_.words + w]));
    return count * s_.edge_bytes[edge];
  }

  double *activation_seconds_, *gradient_seconds_;
  int64_t *load_, *outgoing_, *incoming_, *crossing_;
  int32_t* cursor_;
};

}  // namespace topoflow::BACKEND
