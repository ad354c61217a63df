// Placement strategies of one workload on one fabric, as their bound is found without making tasks of them.
//
// A choice is a set of servers that may hold a layer. The samples of each server are computed by one of the holders; a
// row is a choice and one of its holders. An edge is a layer and one of its inputs; edges are sorted by the layer, then
// by the input. Pairs are (server, other server) = server * N + other.
//
// Shapes: N servers, Y layers, K choices, R rows, W words of a set of servers, E edges, V words of a set of edges,
// G kinds of layers (which take the same time), P paths, H hops, L links, X crossings (a pair that sends over a link),
// I lines, J ring links (a link and a choice whose rings cross it), C chains.
//
// Source: topoflow/engine/screen/strategy_arrays.py makes them; the model is that of topoflow/traffic/lower.py.
#pragma once

#include <cstdint>

namespace topoflow {

struct Strategies {
  int32_t servers, layers, choices, edges, links, words, edge_words;
  int64_t rows;
  // Choices.
  const int64_t* row_offsets;  // [K+1]
  const int32_t* holder;       // [R] server
  const int64_t* member;       // [K, W] the holders
  const int64_t* set;          // [R, W] servers whose samples it computes
  const int32_t* samples;      // [R] how many these are
  const int32_t* row;          // [K, N] the row that computes the samples of a server
  const int32_t* host;         // [K, N] its holder
  // Layers.
  const int32_t* kind;            // [Y] which of G
  const double* forward;          // [G, R] s
  const double* backward;         // [G, R] s
  const double* update;           // [G, R] s
  const double* gradient;         // [Y] B
  const int32_t* inside;          // [Y] 1: its gradient is reduced inside a server, too
  const int64_t* input_offsets;   // [Y+1] edges into a layer
  const int32_t* source;          // [E] layer
  const int32_t* consumer;        // [E] layer
  const int64_t* output_offsets;  // [Y+1]
  const int32_t* output;          // [E] edges out of a layer
  const double* edge_bytes;       // [E] B, of the samples of one server
  // The network, for transfers.
  const double* latency;            // [N, N] s
  const double* slowness;           // [N, N] s/B
  const int32_t* path;              // [N, N] 0 from a server to itself
  const int64_t* path_offsets;      // [P+1]
  const int32_t* path_links;        // [H]
  const double* path_weight;        // [H] nullptr: 1
  const double* link_seconds;       // [L] s per unit of load
  const double* link_latency;       // [L] s, the longest of the paths that cross it
  const int64_t* crossing_offsets;  // [L+1]
  const int32_t* crossing_source;   // [X] server
  const int32_t* crossing_target;   // [X] server
  // All-reduces of a group of holders: before * S, then the longest of its lines at S, then behind * S.
  const double* before;         // [K] s/B
  const double* behind;         // [K] s/B
  const int64_t* line_offsets;  // [K+1]
  const double* line_seconds;   // [I] s
  const double* line_slope;     // [I] s/B, the steepest of a choice first
  const int64_t* ring_offsets;  // [K+1]
  const int32_t* ring_link;     // [J] each link once for a choice
  const double* ring_share;     // [J] of S
  const double* ring_wait;      // [J] s from the beginning of the rings until a flow can be on the link
  double bucket_bytes, first_bucket_bytes;
  double unit;  // loads are counted in 1/unit B
};

enum class Step : int32_t { kBuild, kPropose, kAccept };

// One step of all chains, each of which has one strategy.
struct StepBatch {
  Strategies strategies;
  int32_t chains;
  int32_t* placement;  // [C, Y] choice of each layer
  double* makespan;    // [C] s
  Step step;
  const int32_t* layer;   // [C] what a step changes; not read by kBuild
  const int32_t* choice;  // [C]
  const double* limit;    // [C] s, what is above is not worked out further by kPropose; below 0, nothing is
  const int32_t* mask;    // [C] which chains kAccept changes
  double* proposed;       // [C] s, out of kPropose
  int64_t budget;
  int32_t threads;
  int device;
  int64_t stream;
};

// What is kept of a strategy so that a change of one layer is little work. All of it but `cursor`, which only says
// where to look first, follows from the placement.
struct Travels {
  double* forth;      // [C, E, N] s that the activations of a server's samples travel
  double* back;       // [C, E, N] s that their gradients travel
  int64_t* load;      // [C, L] 1/unit B
  int64_t* outgoing;  // [C, N, V] edges whose input the server holds
  int64_t* incoming;  // [C, N, V] edges whose layer the server holds
  int64_t* crossing;  // [C, V] edges between layers of different choices
  int32_t* cursor;    // [C, L] crossing that was early before
};

struct StrategyBatch : StepBatch {
  Travels travels;
};

namespace cpu {
void strategies(const StrategyBatch& batch);
}
namespace cuda {
void strategies(const StrategyBatch& batch);
}

}  // namespace topoflow
