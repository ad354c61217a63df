// The load of every layer's coflows on links, so that the change of one layer is little work.
//   A -> B, A on server 0, B on servers 0 and 1, 100 B for each sample, links of 100 B/s
//     activations of B: 100 B on the links of 0 -> 1     gradients of B: 100 B on those of 1 -> 0
//
// Loads are integers, so that what is added and taken away again leaves no trace.
//
// Source: topoflow/traffic/lower.py: who computes what for whose samples.
#pragma once

#include "coflows.h"
#include "placement.h"

namespace topoflow::BACKEND {

class CoflowLoads : public Placement {
 public:
  // `load` [Y, 2, L]: of build(), or of a team that had the same memory.
  HD CoflowLoads(const Strategies& strategies, int32_t* placement, int64_t* load)
      : Placement(strategies, placement), load_(load) {}

  // Returns the loads that one placement takes.
  HD static int64_t numbers(const Strategies& strategies) { return int64_t{2} * strategies.layers * strategies.links; }

  // [L] of the activations that travel into the layer, or of their gradients.
  DEVICE int64_t* load(int32_t layer, bool gradients) const {
    return load_ + (int64_t{layer} * 2 + gradients) * s_.links;
  }

  // Returns whether any activation travels into the layer.
  DEVICE bool travels(int32_t layer) const {
    for (int64_t edge = s_.input_offsets[layer]; edge < s_.input_offsets[layer + 1]; ++edge)
      if (crosses(edge)) return true;
    return false;
  }

  DEVICE void build(const Team auto& team) const {
    for (int32_t layer = 0; layer < s_.layers; ++layer) {
      int64_t* load = this->load(layer, false);
      team.for_each(2 * s_.links, [=](int32_t i) { load[i] = 0; });
    }
    for (int32_t edge = 0; edge < s_.edges; ++edge) load_edge(team, edge, 1);
  }

  // The layer has another choice.
  DEVICE void change(const Team auto& team, int32_t layer, int32_t choice) const {
    for (const int64_t sign : {-1, 1}) {  // one copy in a GPU's code
      load_layer(team, layer, sign);
      if (sign > 0) break;
      team.wait();  // all have read the placement
      team.set(&placement_[layer], choice);
    }
  }

  // Numbers that one team needs to undo a change.
  HD static int64_t undo_numbers(const ContentionModel& model) {
    return int64_t{2} * model.coflows * model.strategies.links;
  }

  // `undo` becomes what a change of the layer will overwrite.
  DEVICE void save(const Team auto& team, int32_t layer, int64_t* undo) const {
    const int32_t both = 2 * s_.links;
    on_coflows(layer, [&](int32_t consumer) {
      team.copy(both, load(consumer, false), undo);
      undo += both;
    });
  }

  // The layer has the choice and the loads that it had when they were saved.
  DEVICE void restore(const Team auto& team, int32_t layer, int32_t choice, const int64_t* undo) const {
    const int32_t both = 2 * s_.links;
    on_coflows(layer, [&](int32_t consumer) {
      team.copy(both, undo, load(consumer, false));
      undo += both;
    });
    team.set(&placement_[layer], choice);
  }

 private:
  // f(consumer) for each layer that has coflows which a change of this one changes.
  template <class F>
  DEVICE void on_coflows(int32_t layer, const F& f) const {
    if (s_.input_offsets[layer] < s_.input_offsets[layer + 1]) f(layer);
    int32_t last = -1;  // consumers ascend
    for (int64_t i = s_.output_offsets[layer]; i < s_.output_offsets[layer + 1]; ++i)
      if (const int32_t consumer = s_.consumer[s_.output[i]]; consumer != last) f(last = consumer);
  }

  DEVICE void load_layer(const Team auto& team, int32_t layer, int64_t sign) const {
    const int64_t first = s_.input_offsets[layer], outputs = s_.output_offsets[layer];
    const int64_t inputs = s_.input_offsets[layer + 1] - first, edges = inputs + s_.output_offsets[layer + 1] - outputs;
    for (int64_t i = 0; i < edges; ++i) load_edge(team, i < inputs ? first + i : s_.output[outputs + i - inputs], sign);
  }

  DEVICE void load_edge(const Team auto& team, int64_t edge, int64_t sign) const {
    if (!crosses(edge)) return;
    const int32_t *from = hosts(s_.source[edge]), *to = hosts(s_.consumer[edge]);
    const double bytes = s_.edge_bytes[edge] * s_.unit;
    int64_t *activations = load(s_.consumer[edge], false), *gradients = load(s_.consumer[edge], true);
    team.for_each(s_.servers, [&](int32_t i) {
      if (from[i] == to[i]) return;
      load_path(team, activations, s_.path[from[i] * s_.servers + to[i]], bytes, sign);
      load_path(team, gradients, s_.path[to[i] * s_.servers + from[i]], bytes, sign);
    });
  }

  int64_t* load_;
};

}  // namespace topoflow::BACKEND
