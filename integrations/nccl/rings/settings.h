// What the environment asks for: ring orders, their shares, and from which size on all-reduces are spread over them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RINGS = 16 };

typedef struct {
  int stride;        // > 0: node i sends to node i + stride; 0: the order is listed
  int nodes;         // length of `order`
  const int* order;  // [nodes] nodes in the order of the ring; for listed orders only
} Ring;

typedef struct {
  bool on;                   // false: everything is passed on to NCCL
  int rings;                 // how many
  Ring ring[MAX_RINGS];      // [rings]
  double weight[MAX_RINGS];  // [rings] share of the bytes, sums to 1
  size_t threshold;          // B; smaller all-reduces are passed on
  int ranks_per_node;        // consecutive ranks of a communicator that are one node
} Settings;

// The settings of this process, read from the environment once. What is wrong is said in one line on stderr; then `on`
// is false.
const Settings* settings(void);

// Parses `rings`, `weights`, `threshold` and `ranks_per_node` as the environment variables spell them (NULL: the
// default) into *out. Returns false and writes one line (field, law, value) to `error` if one of them is wrong.
bool parse_settings(const char* rings, const char* weights, const char* threshold, const char* ranks_per_node,
                    Settings* out, char* error, size_t error_size);

// The settings that decide what is sent. Ranks that have other numbers for one of them must not use rings together.
enum { SETTINGS = 7 };
const char* name_of_setting(int setting);
// A hash of the value; 0 if the rings are off, or for an optional setting that is not given.
uint64_t number_of_setting(const Settings* settings, int setting);

// Where a node stands in the ring, among `nodes` nodes; -1 if the ring is none of theirs: a stride that shares a factor
// with `nodes` or reaches it, or an order of another length.
int ring_position(const Ring* ring, int nodes, int node);

// Whether the ring is 0, 1, 2, ...: the order that NCCL gives the communicator itself.
bool is_natural(const Ring* ring);

// Writes "topoflow: " and the message to stderr, once per process for each `*said`.
void say_once(int* said, const char* format, ...) __attribute__((format(printf, 2, 3)));
