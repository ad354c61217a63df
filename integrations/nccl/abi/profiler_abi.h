// NCCL's profiler plugin interface: versions 1 (NCCL 2.23), 2 (2.24), 3 (2.26), 4 (2.27), 5 (2.28) and 6 (2.29). NCCL
// takes the highest version that it knows.
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
  PROFILE_KERNEL_CHANNEL = 1 << 6,    // since version 3
  PROFILE_COPY_ENGINE_COLL = 1 << 12  // since version 6: a collective that copy engines run, which has no PROFILE_COLL
};

// Up to version 3, the states of proxy operations, with which NCCL gives the bytes of the operation so far.
enum { STATE_LAST_OF_OPERATIONS = 7 };
// Since version 4, the states of proxy steps with which NCCL gives the bytes of the step.
enum { STATE_SEND_WAIT = 9, STATE_RECV_FLUSH_WAIT = 11 };
// Since version 4, the end of a kernel's channel.
enum { STATE_KERNEL_STOP = 22 };

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
} ProfiledColl;

typedef struct {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
} ProfiledP2p;

// Up to version 3 the communicator's name and hash are in every call. Version 1 has numbers where later ones have
// names.
typedef struct {
  const char* name;
  uint64_t hash;
  uint64_t sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t reduction;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int is_collnet;
  int is_nvls;
} ProfiledColl1;

typedef struct {
  const char* name;
  uint64_t hash;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
} ProfiledP2p1;

typedef struct {
  const char* name;
  uint64_t hash;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
} ProfiledColl2;

typedef struct {
  const char* name;
  uint64_t hash;
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
} ProfiledColl3;

typedef struct {
  const char* name;
  uint64_t hash;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
} ProfiledP2p2;

typedef struct {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
} ProfiledCopyEngineColl;

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

// No layout is larger than NCCL's. Members at the end that nothing reads are left out.
#define PROFILED_EVENT(Name, Type, Coll, P2p, ...) \
  typedef struct {                                 \
    Type type;                                     \
    void* parent;                                  \
    int rank;                                      \
    union {                                        \
      Coll coll;                                   \
      P2p p2p;                                     \
      ProfiledProxyOp proxy_op;                    \
      ProfiledProxyStep proxy_step;                \
      __VA_ARGS__                                  \
    };                                             \
  } Name;

PROFILED_EVENT(ProfiledEvent1, uint8_t, ProfiledColl1, ProfiledP2p1, )
PROFILED_EVENT(ProfiledEvent2, uint8_t, ProfiledColl2, ProfiledP2p2, )
PROFILED_EVENT(ProfiledEvent3, uint8_t, ProfiledColl3, ProfiledP2p2, uint8_t kernel_channel;)
PROFILED_EVENT(ProfiledEvent4, uint8_t, ProfiledColl, ProfiledP2p, ProfiledKernelChannel kernel_channel;)
PROFILED_EVENT(ProfiledEvent5, uint64_t, ProfiledColl, ProfiledP2p, ProfiledKernelChannel kernel_channel;)
PROFILED_EVENT(ProfiledEvent6, uint64_t, ProfiledColl, ProfiledP2p, ProfiledKernelChannel kernel_channel;
               ProfiledCopyEngineColl copy_engine_coll;)

// Arguments of a state, up to version 3 and since version 4.
typedef union {
  struct {
    size_t bytes;  // of the operation so far
    int steps;
  } proxy_op;
} ProfiledState1;

typedef union {
  size_t step_bytes;
  uint64_t timer;
} ProfiledState;

#define PROFILER(Name, Event, State, ...)                           \
  typedef struct {                                                  \
    const char* name;                                               \
    int (*init)(__VA_ARGS__);                                       \
    int (*start_event)(void* context, void** handle, Event* event); \
    int (*stop_event)(void* handle);                                \
    int (*record_state)(void* handle, int state, State* arguments); \
    int (*finalize)(void* context);                                 \
  } Name;

PROFILER(Profiler1, ProfiledEvent1, ProfiledState1, void** context, int* mask)
PROFILER(Profiler2, ProfiledEvent2, ProfiledState1, void** context, int* mask)
PROFILER(Profiler3, ProfiledEvent3, ProfiledState1, void** context, int* mask)
PROFILER(Profiler4, ProfiledEvent4, ProfiledState, void** context, int* mask, const char* name, uint64_t id, int nodes,
         int ranks, int rank, ProfilerLog log)
PROFILER(Profiler5, ProfiledEvent5, ProfiledState, void** context, uint64_t id, int* mask, const char* name, int nodes,
         int ranks, int rank, ProfilerLog log)
PROFILER(Profiler6, ProfiledEvent6, ProfiledState, void** context, uint64_t id, int* mask, const char* name, int nodes,
         int ranks, int rank, ProfilerLog log)
