// What the plugin records, and the buffers in which threads leave it: each thread has a buffer of its own that one
// other thread, the writer, empties, so that no thread of NCCL ever waits.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum { COMM_OPENED, COMM_CLOSED, COLL, P2P, CALL_STOPPED, PROXY_OP, KERNEL } RecordKind;

typedef struct {
  uint64_t hash;
  int nodes, ranks, rank;
  char name[40];
} CommRecord;

typedef struct {
  uint64_t sequence, count;
  int other;  // root of a collective, peer of a message
  uint8_t channels, warps;
  char function[20], type[20], algorithm[20], protocol[12];
} CallRecord;

typedef struct {
  int64_t process;
  int peer, steps, chunk;
  uint8_t channel;
  bool is_send;
  uint64_t bytes;  // that its steps reported
} ProxyRecord;

typedef struct {
  uint8_t channel;
  uint64_t timer_start, timer_stop;  // ns of the GPU's global timer
} KernelRecord;

typedef struct {
  RecordKind kind;
  int comm;  // number of the communicator in this process
  uint64_t id, parent;
  uint64_t start, stop;  // ns of the host's monotonic clock; stop 0: see kind
  union {
    CommRecord opened;
    CallRecord call;
    ProxyRecord proxy;
    KernelRecord kernel;
  };
} Record;

// Leaves a record for the writer; counts it as lost if this thread's buffer is full or there is no memory for one.
void leave_record(const Record* record);
// Counts a record as lost.
void count_lost(void);
// Hands every record that was left to `take`, one caller at a time, and adds up what was lost since the previous call.
uint64_t take_records(void (*take)(const Record*));
