// Placement strategies of one workload on one fabric, as their bound is found without making tasks of them.
//
// A choice is a set of servers that may hold a layer. The samples of each server are computed by one of the holders; a
// row is a choice and one of its holders. An edge is a layer and one of its inputs; edges are sorted by the layer, then
// by the input. A pair is (server, other server) = server * N + other. An all-reduce of S bytes among a choice's
// holders takes local_before * S, then the longest of its lines at S, then local_after * S.
//
// Shapes: N servers, Y layers, K choices, R rows, W words of a set of servers, E edges, V words of a set of edges,
// G kinds of layers (which take the same time), P paths, H hops, L links, X crossings (a pair that sends over a link),
// I lines, J ring links (a link and a choice whose rings cross it), C chains.
//
// Source: topoflow/engine/screen/strategy_arrays.py makes them; the model is that of topoflow/traffic/lower.py.
#pragma once

#include "fields.h"

namespace topoflow {

struct Strategies {
  int32_t servers, layers, choices, edges, links, words, edge_words;
  int64_t rows;
  // Choices.
  const int64_t* row_offsets;
  const int32_t* holder;
  const int64_t *member, *set;
  const int32_t *samples, *row, *host;
  // Layers.
  const int32_t* kind;
  const double *forward, *backward, *update, *gradient;
  const int32_t* inside;
  const int64_t* input_offsets;
  const int32_t *source, *consumer;
  const int64_t* output_offsets;
  const int32_t* output;
  const double* edge_bytes;
  // The network, for transfers.
  const double *latency, *slowness;
  const int32_t* path;
  const int64_t* path_offsets;
  const int32_t* path_links;
  const double *path_weight, *link_seconds, *link_latency;
  const int64_t* crossing_offsets;
  const int32_t *crossing_source, *crossing_target;
  // All-reduces.
  const double *local_before, *local_after;
  const int64_t* line_offsets;
  const double *line_seconds, *line_slope;
  const int64_t* ring_offsets;
  const int32_t* ring_link;
  const double *ring_share, *ring_wait;
  double bucket_bytes, first_bucket_bytes;
  double unit;  // loads are counted in 1/unit B
};

constexpr std::tuple kStrategiesFields{
    array("row_offsets", &Strategies::row_offsets, "K+1", "first row of each choice"),
    array("holder", &Strategies::holder, "R", "server"),
    array("member", &Strategies::member, "K,W", "set of the holders"),
    array("set", &Strategies::set, "R,W", "set of the servers whose samples the holder computes"),
    array("samples", &Strategies::samples, "R", "how many these are"),
    array("row", &Strategies::row, "K,N", "row that computes the samples of a server"),
    array("host", &Strategies::host, "K,N", "its holder"),
    array("kind", &Strategies::kind, "Y", "which of G"),
    array("forward", &Strategies::forward, "G,R", "s"),
    array("backward", &Strategies::backward, "G,R", "s"),
    array("update", &Strategies::update, "G,R", "s"),
    array("gradient", &Strategies::gradient, "Y", "B"),
    array("inside", &Strategies::inside, "Y", "1: the gradient is reduced inside a server, too"),
    array("input_offsets", &Strategies::input_offsets, "Y+1", "first edge into each layer"),
    array("source", &Strategies::source, "E", "layer"),
    array("consumer", &Strategies::consumer, "E", "layer"),
    array("output_offsets", &Strategies::output_offsets, "Y+1", "where the row of each layer begins in `output`"),
    array("output", &Strategies::output, "E", "edges out of a layer"),
    array("edge_bytes", &Strategies::edge_bytes, "E", "B, of the samples of one server"),
    array("latency", &Strategies::latency, "N,N", "s"),
    array("slowness", &Strategies::slowness, "N,N", "s/B"),
    array("path", &Strategies::path, "N,N", "0 from a server to itself"),
    array("path_offsets", &Strategies::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &Strategies::path_links, "H", "link of every hop"),
    optional("path_weight", &Strategies::path_weight, "H", "share of the bytes that the hop carries; none: all"),
    array("link_seconds", &Strategies::link_seconds, "L", "s per unit of load"),
    array("link_latency", &Strategies::link_latency, "L", "s, the longest of the paths that cross it"),
    array("crossing_offsets", &Strategies::crossing_offsets, "L+1", "first crossing of each link"),
    array("crossing_source", &Strategies::crossing_source, "X", "server"),
    array("crossing_target", &Strategies::crossing_target, "X", "server"),
    array("local_before", &Strategies::local_before, "K", "s/B"),
    array("local_after", &Strategies::local_after, "K", "s/B"),
    array("line_offsets", &Strategies::line_offsets, "K+1", "first line of each choice"),
    array("line_seconds", &Strategies::line_seconds, "I", "s"),
    array("line_slope", &Strategies::line_slope, "I", "s/B, the steepest of a choice first"),
    array("ring_offsets", &Strategies::ring_offsets, "K+1", "first ring link of each choice"),
    array("ring_link", &Strategies::ring_link, "J", "link, each once for a choice"),
    array("ring_share", &Strategies::ring_share, "J", "of S"),
    array("ring_wait", &Strategies::ring_wait, "J", "s from the begin of the rings until a flow can be on the link"),
    count('N', &Strategies::servers),
    count('Y', &Strategies::layers),
    count('K', &Strategies::choices),
    count('R', &Strategies::rows),
    count('W', &Strategies::words),
    count('E', &Strategies::edges),
    count('L', &Strategies::links)};

enum class Step : int32_t { kBuild, kPropose, kAccept };

// One step of all chains. Every chain has one strategy.
struct StepBatch {
  Strategies strategies;
  int32_t chains;
  int32_t* placement;
  double* makespan;
  Step step;
  int32_t* target;
  const double* limit;
  const int32_t* mask;
  double* proposed;
  int64_t budget;
  int32_t threads;
  int device;
  int64_t stream;
};

constexpr std::tuple kStepFields{
    array("makespan", &StepBatch::makespan, "C", "out of build and accept, s"),
    array("placement", &StepBatch::placement, "C,Y", "in and out, choice of each layer"),
    array("target", &StepBatch::target, "C,Y", "placement that propose evaluates and accept takes"),
    array("limit", &StepBatch::limit, "C", "s, propose finds no makespan above it; below 0, none at all"),
    array("mask", &StepBatch::mask, "C", "which chains accept changes"),
    array("proposed", &StepBatch::proposed, "C", "out of propose, s"),
    count('C', &StepBatch::chains)};

// What is kept of a strategy so that the change of one layer is little work. All of it but `cursor`, which only says
// where to look first, follows from the placement.
struct TransferState {
  double *activation_seconds, *gradient_seconds;
  int64_t *load, *outgoing, *incoming, *crossing;
  int32_t* cursor;
};

constexpr std::tuple kTransferStateFields{
    array("activation_seconds", &TransferState::activation_seconds, "C,E,N", "s that a server's activations travel"),
    array("gradient_seconds", &TransferState::gradient_seconds, "C,E,N", "s that their gradients travel"),
    array("load", &TransferState::load, "C,L", "1/unit B"),
    array("outgoing", &TransferState::outgoing, "C,N,V", "set of edges whose input the server holds"),
    array("incoming", &TransferState::incoming, "C,N,V", "set of edges whose layer the server holds"),
    array("crossing", &TransferState::crossing, "C,V", "set of edges between layers of different choices"),
    array("cursor", &TransferState::cursor, "C,L", "crossing that was early before")};

struct StrategyBatch : StepBatch {
  TransferState transfers;
};

namespace cpu {
void strategies(const StrategyBatch& batch);
}
namespace cuda {
void strategies(const StrategyBatch& batch);
}

}  // namespace topoflow
