// NCCL's profiler plugin interface, versions 4 (NCCL 2.27) and 5 (2.28); later NCCL loads these too.
// Source: NCCL, "Profiler Plugin Documentation" (plugins/profiler/README.md); layouts are the interface.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef void (*ProfilerLog)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// Bits of the activation mask, and types of events.
enum {
  PROFILE_COLL = 1 << 1,
  PROFILE_P2P = 1 << 2,
  PROFILE_PROXY_OP = 1 << 3,
  PROFILE_PROXY_STEP = 1 << 4,
  PROFILE_KERNEL_CHANNEL = 1 << 6
};

// States of proxy steps with which NCCL gives the bytes of the step, and the end of a kernel's channel.
enum { STATE_SEND_WAIT = 9, STATE_RECV_FLUSH_WAIT = 11, STATE_KERNEL_STOP = 22 };

typedef struct {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;  // version 5 only
} ProfiledColl;

typedef struct {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;  // version 5 only
} ProfiledP2p;

typedef struct {
  pid_t process;  // which made the operation; its parent's handle is of that process
  uint8_t channel;
  int peer;  // rank of the communicator
  int steps;
  int chunk_size;  // B
  int is_send;
} ProfiledProxyOp;

typedef struct {
  int step;
} ProfiledProxyStep;

typedef struct {
  uint8_t channel;
  uint64_t timer;  // ns of the GPU's global timer
} ProfiledKernelChannel;

// The union is as large as that of every version: only what an event of its type needs is read.
#define PROFILED_DETAILS                  \
  union {                                 \
    ProfiledColl coll;                    \
    ProfiledP2p p2p;                      \
    ProfiledProxyOp proxy_op;             \
    ProfiledProxyStep proxy_step;         \
    ProfiledKernelChannel kernel_channel; \
  }

typedef struct {
  uint8_t type;
  void* parent;
  int rank;
  PROFILED_DETAILS;
} ProfiledEvent4;

typedef struct {
  uint64_t type;
  void* parent;
  int rank;
  PROFILED_DETAILS;
} ProfiledEvent5;

typedef union {
  size_t step_bytes;
  uint64_t timer;
} ProfiledState;

#define PROFILER_TAIL(Event)                                      \
  int (*start_event)(void* context, void** handle, Event* event); \
  int (*stop_event)(void* handle);                                \
  int (*record_state)(void* handle, int state, ProfiledState*);   \
  int (*finalize)(void* context);

typedef struct {
  const char* name;
  int (*init)(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks, int rank,
              ProfilerLog log);
  PROFILER_TAIL(ProfiledEvent4)
} Profiler4;

typedef struct {
  const char* name;
  int (*init)(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
              ProfilerLog log);
  PROFILER_TAIL(ProfiledEvent5)
} Profiler5;
