#include "settings.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1 << 16 };
// Below it an all-reduce takes as long as its messages' latencies, which more rings do not shorten. 1 MiB is the size
// that no measurement of ours has contradicted, nothing more: set TOPOFLOW_NCCL_THRESHOLD where yours does.
static const size_t kThreshold = 1 << 20;

void say_once(int* said, const char* format, ...) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED)) return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  for (char* c = line; *c; ++c)
    if ((unsigned char)*c < ' ') *c = '?';
  fprintf(stderr, "topoflow: %s\n", line);
}

// A whole number at *text, which is moved past it; -1 if there is none or it is above `most`.
static long number(const char** text, long most) {
  if (**text < '0' || **text > '9') return -1;
  char* end;
  errno = 0;
  const long value = strtol(*text, &end, 10);
  *text = end;
  return errno || value > most ? -1 : value;
}

static long whole_number(const char* text, long most) {
  const long value = number(&text, most);
  return *text ? -1 : value;
}

static bool is_permutation(const int* order, int nodes) {
  bool* seen = calloc((size_t)nodes, sizeof *seen);
  bool valid = seen != NULL;
  for (int i = 0; valid && i < nodes; ++i) {
    valid = order[i] < nodes && !seen[order[i]];
    if (valid) seen[order[i]] = true;
  }
  free(seen);
  return valid;
}

// One ring at *text: "3" is a stride, "0-3-1-2" an order. Returns what is wrong with it, or NULL.
static const char* parse_ring(const char** text, Ring* ring) {
  int* order = NULL;
  int nodes = 0;
  for (;; ++*text) {
    const long node = number(text, MAX_NODES - 1);
    int* grown = node < 0 || nodes == MAX_NODES ? NULL : realloc(order, sizeof *order * (size_t)(nodes + 1));
    if (!grown) {
      free(order);
      return "must be strides as 1,3 or orders of nodes as 0-2-1-3";
    }
    order = grown;
    order[nodes++] = (int)node;
    if (**text != '-') break;
  }
  if (nodes > 1) {
    const bool valid = is_permutation(order, nodes);
    if (!valid) free(order);
    *ring = (Ring){.nodes = nodes, .order = valid ? order : NULL};
    return valid ? NULL : "an order must name every node from 0 on once";
  }
  *ring = (Ring){.stride = order[0]};
  free(order);
  return ring->stride ? NULL : "a stride must be at least 1";
}

static const char* parse_rings(const char* text, Settings* out) {
  while (out->rings < MAX_RINGS) {
    const char* wrong = parse_ring(&text, &out->ring[out->rings]);
    if (wrong) return wrong;
    ++out->rings;
    if (!*text) return NULL;
    if (*text++ != ',') return "must be separated by commas";
  }
  return "must be at most 16";
}

static const char* parse_weights(const char* text, Settings* out) {
  double sum = 0;
  for (int r = 0; r < out->rings; ++r) {
    if (!text) {
      out->weight[r] = 1.0 / out->rings;
      continue;
    }
    char* end;
    out->weight[r] = strtod(text, &end);
    if (end == text || !(out->weight[r] > 0) || !isfinite(out->weight[r])) return "must be positive numbers";
    if (*end != (r + 1 < out->rings ? ',' : '\0')) return "must be as many as there are rings";
    text = end + 1;
    sum += out->weight[r];
  }
  return text && fabs(sum - 1) > 1e-6 ? "must sum to 1" : NULL;
}

bool parse_settings(const char* rings, const char* weights, const char* threshold, const char* ranks_per_node,
                    Settings* out, char* error, size_t error_size) {
  *out = (Settings){.threshold = kThreshold, .ranks_per_node = 1};
  const char* name = "TOPOFLOW_NCCL_RINGS";
  const char* value = rings;
  const char* wrong = parse_rings(rings, out);
  if (!wrong) {
    name = "TOPOFLOW_NCCL_WEIGHTS", value = weights;
    wrong = parse_weights(weights, out);
  }
  if (!wrong && threshold) {
    const long bytes = whole_number(threshold, 1L << 62);
    name = "TOPOFLOW_NCCL_THRESHOLD", value = threshold;
    wrong = bytes < 0 ? "must be a whole number of bytes" : NULL;
    out->threshold = (size_t)bytes;
  }
  if (!wrong && ranks_per_node) {
    const long ranks = whole_number(ranks_per_node, MAX_NODES);
    name = "TOPOFLOW_NCCL_RANKS_PER_NODE", value = ranks_per_node;
    wrong = ranks < 1 ? "must be a whole number of at least 1" : NULL;
    out->ranks_per_node = (int)ranks;
  }
  if (wrong) snprintf(error, error_size, "%s: %s, got %.200s", name, wrong, value);
  out->on = !wrong;
  return !wrong;
}

static const char* const setting_names[SETTINGS] = {
    "TOPOFLOW_NCCL_RINGS",    "TOPOFLOW_NCCL_WEIGHTS",  "TOPOFLOW_NCCL_THRESHOLD", "TOPOFLOW_NCCL_RANKS_PER_NODE",
    "TOPOFLOW_NCCL_PROTOCOL", "TOPOFLOW_NCCL_CHANNELS", "NCCL_TUNER_PLUGIN"};

const char* name_of_setting(int setting) { return setting_names[setting]; }

// FNV-1a (Fowler, Noll and Vo), of 64 bits.
static uint64_t hashed(uint64_t hash, const void* data, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ ((const unsigned char*)data)[i]) * 0x100000001b3u;
  return hash;
}

static uint64_t hashed_rings(uint64_t hash, const Settings* settings) {
  for (int r = 0; r < settings->rings; ++r) {
    const Ring* ring = &settings->ring[r];
    hash = hashed(hash, &ring->stride, sizeof ring->stride);
    hash = hashed(hash, &ring->nodes, sizeof ring->nodes);
    hash = hashed(hash, ring->order, sizeof *ring->order * (size_t)ring->nodes);
  }
  return hash;
}

uint64_t number_of_setting(const Settings* settings, int setting) {
  const uint64_t empty = 0xcbf29ce484222325u;
  const char* text = getenv(setting_names[setting]);
  if (!settings->on) return 0;
  if (setting == 0) return hashed_rings(empty, settings);
  if (setting == 1) return hashed(empty, settings->weight, sizeof *settings->weight * (size_t)settings->rings);
  if (setting == 2) return hashed(empty, &settings->threshold, sizeof settings->threshold);
  if (setting == 3) return hashed(empty, &settings->ranks_per_node, sizeof settings->ranks_per_node);
  if (setting == 6) return text && strstr(text, "topoflow");  // the paths of the plugin may differ
  return text ? hashed(empty, text, strlen(text)) : 0;
}

int ring_position(const Ring* ring, int nodes, int node) {
  if (!ring->stride && ring->nodes != nodes) return -1;
  if (ring->stride >= nodes) return -1;
  int position = -1;
  for (int i = 0, at = 0; i < nodes; ++i) {
    const int here = ring->stride ? at : ring->order[i];
    if (ring->stride && i && here == 0) return -1;  // back at the start before all nodes were visited
    if (here == node) position = i;
    at = (at + ring->stride) % nodes;
  }
  return position;
}

bool is_natural(const Ring* ring) {
  if (ring->stride) return ring->stride == 1;
  for (int i = 0; i < ring->nodes; ++i)
    if (ring->order[i] != i) return false;
  return true;
}

static Settings read;

static void read_environment(void) {
  const char* rings = getenv("TOPOFLOW_NCCL_RINGS");
  if (!rings) return;
  char error[400];
  static int said;
  if (!parse_settings(rings, getenv("TOPOFLOW_NCCL_WEIGHTS"), getenv("TOPOFLOW_NCCL_THRESHOLD"),
                      getenv("TOPOFLOW_NCCL_RANKS_PER_NODE"), &read, error, sizeof error))
    say_once(&said, "%s; all-reduces stay as they are", error);
}

const Settings* settings(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_environment);
  return &read;
}
