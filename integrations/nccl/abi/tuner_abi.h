// NCCL's tuner plugin interface, versions 4 (NCCL 2.27 and before) and 5 (2.28); later NCCL loads these too.
// Source: NCCL, "NCCL Tuner Plugin Development" (plugins/tuner/README.md); layouts are the interface.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef void (*TunerLog)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

enum { FUNCTION_ALL_REDUCE = 4, ALGORITHM_RING = 1, PROTOCOL_SIMPLE = 2 };
static const float kIgnored = -1.0f;  // the cost of what NCCL cannot or must not use

// Costs are a table [algorithms][protocols] of times.
#define TUNER_GET                                                                                                     \
  int (*get)(void* context, int function, size_t bytes, int operations, float** costs, int algorithms, int protocols, \
             int registered, int* channels);

typedef struct {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, TunerLog log, void** context);
  TUNER_GET
  int (*finalize)(void* context);
} Tuner4;

typedef struct {
  const char* name;
  int (*init)(void** context, uint64_t id, size_t ranks, size_t nodes, TunerLog log, void* domains, void* constants);
  TUNER_GET
  int (*finalize)(void* context);
} Tuner5;
