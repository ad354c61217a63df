// Placement strategies of one workload on one fabric, as they are estimated without making tasks of them.
//
// A choice is a set of servers that may hold a layer. The samples of each server are computed by one of the holders; a
// row is a choice and one of its holders. An edge is a layer and one of its inputs; edges are sorted by the layer, then
// by the input. An all-reduce of S bytes among a choice's holders takes local_before * S inside servers, then crosses
// links, then takes local_after * S.
//
// Shapes: N servers, Y layers, K choices, R rows, E edges, G kinds of layers (which take the same time), P paths, H
// hops, L links, J ring links (a link and a choice whose rings cross it), C chains.
//
// Source: topoflow/engine/screen/strategy_arrays.py makes them; the model is that of topoflow/traffic/lower.py.
#pragma once

#include "fields.h"

namespace topoflow {

struct Strategies {
  int32_t servers, layers, choices, edges, links;
  int64_t rows;
  // Choices.
  const int64_t* row_offsets;
  const int32_t *holder, *host;
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
  const double* latency;
  const int32_t* path;
  const int64_t* path_offsets;
  const int32_t* path_links;
  const double *path_weight, *link_seconds;
  // All-reduces.
  const double *local_before, *local_after;
  const int64_t* ring_offsets;
  const int32_t* ring_link;
  double bucket_bytes, first_bucket_bytes;
  double unit;  // loads are counted in 1/unit B
};

constexpr Field<Strategies> kStrategiesFields[] = {
    array("row_offsets", &Strategies::row_offsets, "K+1", "first row of each choice"),
    array("holder", &Strategies::holder, "R", "server"),
    array("host", &Strategies::host, "K,N", "holder that computes the samples of a server"),
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
    array("path", &Strategies::path, "N,N", "0 from a server to itself"),
    array("path_offsets", &Strategies::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &Strategies::path_links, "H", "link of every hop"),
    optional("path_weight", &Strategies::path_weight, "H", "share of the bytes that the hop carries; none: all"),
    array("link_seconds", &Strategies::link_seconds, "L", "s per unit of load"),
    array("local_before", &Strategies::local_before, "K", "s/B"),
    array("local_after", &Strategies::local_after, "K", "s/B"),
    array("ring_offsets", &Strategies::ring_offsets, "K+1", "first ring link of each choice"),
    array("ring_link", &Strategies::ring_link, "J", "link, each once for a choice"),
    count('N', &Strategies::servers),
    count('Y', &Strategies::layers),
    count('K', &Strategies::choices),
    count('R', &Strategies::rows),
    count('E', &Strategies::edges),
    count('L', &Strategies::links)};

}  // namespace topoflow
