// NCCL's calls of a profiler plugin, turned into records. A handle that NCCL keeps is a number, never an address: a
// stop that comes late, twice, or after the communicator was finalized finds nothing and does nothing.
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "../abi/profiler_abi.h"
#include "records.h"
#include "writer.h"

// A handle is number << 16 | slot << 2 | tag. Calls have no slot: they end when they are queued, while their children
// still run.
typedef enum { CALL_TAG = 1, OPERATION_TAG = 2, STEP_TAG = 3 } Tag;
enum { SLOTS = 1 << 13, SEARCHED = 64, TAG_BITS = 2, SLOT_BITS = 16 };
enum { EMPTY = 0, TAKEN = 1 };  // of a slot, else the handle of its operation

// Proxy operations and kernels that have started and not stopped.
typedef struct {
  _Atomic uint64_t handle;
  _Atomic uint64_t bytes, timer_stop;  // what states have reported
  Record record;
} Slot;

static Slot slots[SLOTS];
static _Atomic uint64_t numbers = 1, searched_from;
static atomic_int communicators;

// The activation masks of versions 1 and 2, of 3 to 5, and of 6.
enum {
  EVENTS_1 = PROFILE_COLL | PROFILE_P2P | PROFILE_PROXY_OP | PROFILE_PROXY_STEP,
  EVENTS_3 = EVENTS_1 | PROFILE_KERNEL_CHANNEL,
  EVENTS_6 = EVENTS_3 | PROFILE_COPY_ENGINE_COLL
};

static uint64_t new_number(void) { return atomic_fetch_add(&numbers, 1) << SLOT_BITS; }
static int comm_of(const void* context) { return (int)(uintptr_t)context; }

static void copy_text(char* to, size_t size, const char* from) {
  if (!from) from = "";
  const size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

static void leave_comm(int comm, const char* name, uint64_t hash, int nodes, int ranks, int rank) {
  Record record = {.kind = COMM_OPENED, .comm = comm, .start = now()};
  record.opened = (CommRecord){.hash = hash, .nodes = nodes, .ranks = ranks, .rank = rank};
  copy_text(record.opened.name, sizeof record.opened.name, name);
  leave_record(&record);
}

// The number of a new communicator; 0 if nothing is recorded.
static int open_comm(void** context, int* mask, int events) {
  const int comm = open_writer() ? atomic_fetch_add(&communicators, 1) + 1 : 0;
  *context = (void*)(uintptr_t)comm;
  *mask = comm ? events : 0;
  return comm;
}

static int init1(void** context, int* mask) { return open_comm(context, mask, EVENTS_1), 0; }
static int init3(void** context, int* mask) { return open_comm(context, mask, EVENTS_3), 0; }

static int init4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                 ProfilerLog log) {
  (void)log;
  const int comm = open_comm(context, mask, EVENTS_3);
  if (comm) leave_comm(comm, name, hash, nodes, ranks, rank);
  return 0;
}

static int init5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                 ProfilerLog log) {
  return init4(context, mask, name, hash, nodes, ranks, rank, log);
}

static int init6(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                 ProfilerLog log) {
  init4(context, mask, name, hash, nodes, ranks, rank, log);
  if (*mask) *mask = EVENTS_6;
  return 0;
}

// Up to version 3 a communicator is known by its first call, and its number of ranks is not. A number beyond those that
// are remembered is told with every call.
static void leave_comm_of_call(void* context, uint64_t type, const char* name, uint64_t hash, int rank) {
  enum { REMEMBERED = 1 << 12 };
  static atomic_bool told[REMEMBERED];
  const int comm = comm_of(context);
  if (!comm || !is_writing() || (type != PROFILE_COLL && type != PROFILE_P2P)) return;
  if (comm >= REMEMBERED || !atomic_exchange(&told[comm], true)) leave_comm(comm, name, hash, 0, 0, rank);
}

static uint64_t start_coll(int comm, const ProfiledColl* coll) {
  Record record = {.kind = COLL, .comm = comm, .id = new_number() | CALL_TAG, .start = now()};
  CallRecord* call = &record.call;
  *call = (CallRecord){.sequence = coll->sequence, .count = coll->count, .other = coll->root};
  call->channels = coll->channels;
  call->warps = coll->warps;
  copy_text(call->function, sizeof call->function, coll->function);
  copy_text(call->type, sizeof call->type, coll->datatype);
  copy_text(call->algorithm, sizeof call->algorithm, coll->algorithm);
  copy_text(call->protocol, sizeof call->protocol, coll->protocol);
  leave_record(&record);
  return record.id;
}

static uint64_t start_p2p(int comm, const ProfiledP2p* p2p) {
  Record record = {.kind = P2P, .comm = comm, .id = new_number() | CALL_TAG, .start = now()};
  CallRecord* call = &record.call;
  *call = (CallRecord){.count = p2p->count, .other = p2p->peer, .channels = p2p->channels};
  copy_text(call->function, sizeof call->function, p2p->function);
  copy_text(call->type, sizeof call->type, p2p->datatype);
  leave_record(&record);
  return record.id;
}

// Puts an operation into a slot; 0 if all that were looked at are taken, and then it is lost.
static uint64_t start_operation(const Record* record) {
  const uint64_t from = atomic_fetch_add_explicit(&searched_from, 1, memory_order_relaxed);
  for (uint64_t i = 0; i < SEARCHED; ++i) {
    const uint64_t at = (from + i) % SLOTS;
    uint64_t empty = EMPTY;
    if (!atomic_compare_exchange_strong(&slots[at].handle, &empty, TAKEN)) continue;
    const uint64_t handle = new_number() | at << TAG_BITS | OPERATION_TAG;
    slots[at].record = *record;
    slots[at].record.id = handle;
    atomic_store(&slots[at].bytes, 0);
    atomic_store(&slots[at].timer_stop, 0);
    atomic_store(&slots[at].handle, handle);
    return handle;
  }
  count_lost();
  return 0;
}

static uint64_t start_proxy_op(int comm, uint64_t parent, const ProfiledProxyOp* operation) {
  Record record = {.kind = PROXY_OP, .comm = comm, .start = now()};
  record.parent = operation->process == getpid() ? parent : 0;  // another process numbers its own calls
  record.proxy = (ProxyRecord){.process = operation->process, .peer = operation->peer, .steps = operation->steps};
  record.proxy.chunk = operation->chunk_size;
  record.proxy.channel = operation->channel;
  record.proxy.is_send = operation->is_send != 0;
  return start_operation(&record);
}

static uint64_t start_kernel(int comm, uint64_t parent, const ProfiledKernelChannel* kernel) {
  Record record = {.kind = KERNEL, .comm = comm, .parent = parent, .start = now()};
  record.kernel = (KernelRecord){.channel = kernel->channel, .timer_start = kernel->timer};
  return start_operation(&record);
}

static Slot* slot_of(uint64_t handle) {
  const uint64_t tag = handle & (((uint64_t)1 << TAG_BITS) - 1);
  if (tag != OPERATION_TAG && tag != STEP_TAG) return NULL;
  return &slots[(handle >> TAG_BITS) % SLOTS];
}

static uint64_t operation_of(uint64_t handle) { return (handle & ~(uint64_t)STEP_TAG) | OPERATION_TAG; }

static void start(void* context, void** handle, uint64_t type, void* parent, const ProfiledColl* coll,
                  const ProfiledP2p* p2p, const ProfiledProxyOp* operation, const ProfiledKernelChannel* kernel) {
  const uint64_t above = (uint64_t)(uintptr_t)parent;
  uint64_t made = 0;
  if (context && is_writing()) {
    if (type == PROFILE_COLL) made = start_coll(comm_of(context), coll);
    if (type == PROFILE_P2P) made = start_p2p(comm_of(context), p2p);
    if (type == PROFILE_PROXY_OP) made = start_proxy_op(comm_of(context), above, operation);
    if (type == PROFILE_KERNEL_CHANNEL && kernel) made = start_kernel(comm_of(context), above, kernel);
    if (type == PROFILE_PROXY_STEP && slot_of(above)) made = above | STEP_TAG;
  }
  *handle = (void*)(uintptr_t)made;
}

static const char* name_of(const char* const* names, size_t count, uint8_t number) {
  return number < count ? names[number] : "";
}
#define NAME_OF(names, number) name_of(names, sizeof(names) / sizeof *(names), number)

// Calls of versions 1 to 3 in the layout of later ones.
#define COLL_OF(c, function_name, type_name, algorithm_name, protocol_name)                                           \
  (ProfiledColl) {                                                                                                    \
    .sequence = (c).sequence, .function = function_name, .count = (c).count, .root = (c).root, .datatype = type_name, \
    .channels = (c).channels, .warps = (c).warps, .algorithm = algorithm_name, .protocol = protocol_name              \
  }
#define P2P_OF(p, function_name, type_name) \
  (ProfiledP2p) { .function = function_name, .datatype = type_name, .count = (p).count, .peer = (p).peer }

static int start1(void* context, void** handle, ProfiledEvent1* event) {
  static const char* const functions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                          "AllReduce", "SendRecv", "Send",      "Recv"};
  static const char* const types[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                      "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  static const char* const algorithms[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                           "NVLS_TREE", "PAT"};
  static const char* const protocols[] = {"LL", "LL128", "SIMPLE"};
  const ProfiledColl1* c = &event->coll;
  const ProfiledP2p1* p = &event->p2p;
  const ProfiledColl coll = COLL_OF(*c, NAME_OF(functions, c->function), NAME_OF(types, c->datatype),
                                    NAME_OF(algorithms, c->algorithm), NAME_OF(protocols, c->protocol));
  const ProfiledP2p p2p = P2P_OF(*p, NAME_OF(functions, p->function), NAME_OF(types, p->datatype));
  leave_comm_of_call(context, event->type, c->name, c->hash, event->rank);
  start(context, handle, event->type, event->parent, &coll, &p2p, &event->proxy_op, NULL);
  return 0;
}

static int start2(void* context, void** handle, ProfiledEvent2* event) {
  const ProfiledColl2* c = &event->coll;
  const ProfiledColl coll = COLL_OF(*c, c->function, c->datatype, c->algorithm, c->protocol);
  const ProfiledP2p p2p = P2P_OF(event->p2p, event->p2p.function, event->p2p.datatype);
  leave_comm_of_call(context, event->type, c->name, c->hash, event->rank);
  start(context, handle, event->type, event->parent, &coll, &p2p, &event->proxy_op, NULL);
  return 0;
}

static int start3(void* context, void** handle, ProfiledEvent3* event) {
  const ProfiledColl3* c = &event->coll;
  const ProfiledColl coll = COLL_OF(*c, c->function, c->datatype, c->algorithm, c->protocol);
  const ProfiledP2p p2p = P2P_OF(event->p2p, event->p2p.function, event->p2p.datatype);
  const ProfiledKernelChannel kernel = {.channel = event->kernel_channel};
  leave_comm_of_call(context, event->type, c->name, c->hash, event->rank);
  start(context, handle, event->type, event->parent, &coll, &p2p, &event->proxy_op, &kernel);
  return 0;
}

static int start4(void* context, void** handle, ProfiledEvent4* event) {
  start(context, handle, event->type, event->parent, &event->coll, &event->p2p, &event->proxy_op,
        &event->kernel_channel);
  return 0;
}

static int start5(void* context, void** handle, ProfiledEvent5* event) {
  start(context, handle, event->type, event->parent, &event->coll, &event->p2p, &event->proxy_op,
        &event->kernel_channel);
  return 0;
}

static int start6(void* context, void** handle, ProfiledEvent6* event) {
  const ProfiledCopyEngineColl* c = &event->copy_engine_coll;
  if (event->type == PROFILE_COPY_ENGINE_COLL) {
    const ProfiledColl coll = {c->sequence, c->function, NULL, NULL, c->count, c->root, c->datatype, .algorithm = "CE"};
    start(context, handle, PROFILE_COLL, event->parent, &coll, NULL, NULL, NULL);
  } else {
    start(context, handle, event->type, event->parent, &event->coll, &event->p2p, &event->proxy_op,
          &event->kernel_channel);
  }
  return 0;
}

static void stop_operation(Slot* slot, uint64_t handle) {
  uint64_t expected = handle;
  if (!atomic_compare_exchange_strong(&slot->handle, &expected, TAKEN)) return;
  Record record = slot->record;
  record.stop = now();
  if (record.kind == PROXY_OP) record.proxy.bytes = atomic_load(&slot->bytes);
  if (record.kind == KERNEL) record.kernel.timer_stop = atomic_load(&slot->timer_stop);
  atomic_store(&slot->handle, EMPTY);
  leave_record(&record);
}

static int stop(void* handle) {
  const uint64_t value = (uint64_t)(uintptr_t)handle;
  const uint64_t tag = value & (((uint64_t)1 << TAG_BITS) - 1);
  if (tag == OPERATION_TAG) stop_operation(slot_of(value), value);
  if (tag == CALL_TAG && is_writing()) leave_record(&(Record){.kind = CALL_STOPPED, .id = value, .start = now()});
  return 0;
}

// The slot of the operation of a handle; NULL if it has ended.
static Slot* running_slot(uint64_t handle) {
  Slot* slot = slot_of(handle);
  return slot && atomic_load(&slot->handle) == operation_of(handle) ? slot : NULL;
}

// Up to version 3, NCCL gives the bytes of an operation so far, and none of its steps.
static int record_state1(void* handle, int state, ProfiledState1* arguments) {
  const uint64_t value = (uint64_t)(uintptr_t)handle;
  Slot* slot = running_slot(value);
  if (!slot || !arguments || (value & STEP_TAG) == STEP_TAG || state > STATE_LAST_OF_OPERATIONS) return 0;
  uint64_t before = atomic_load(&slot->bytes);
  const uint64_t bytes = arguments->proxy_op.bytes;
  while (before < bytes && !atomic_compare_exchange_weak(&slot->bytes, &before, bytes)) continue;
  return 0;
}

// Since version 4, NCCL gives a step's bytes when it hands the step to the network, and when they have arrived.
static int record_state(void* handle, int state, ProfiledState* arguments) {
  const uint64_t value = (uint64_t)(uintptr_t)handle;
  Slot* slot = running_slot(value);
  if (!slot || !arguments) return 0;
  const bool is_step = (value & STEP_TAG) == STEP_TAG;
  if (is_step && (state == STATE_SEND_WAIT || state == STATE_RECV_FLUSH_WAIT))
    atomic_fetch_add(&slot->bytes, arguments->step_bytes);
  if (!is_step && state == STATE_KERNEL_STOP) atomic_store(&slot->timer_stop, arguments->timer);
  return 0;
}

static int finalize(void* context) {
  if (!context) return 0;
  leave_record(&(Record){.kind = COMM_CLOSED, .comm = comm_of(context), .start = now()});
  close_writer();
  return 0;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT const Profiler1 ncclProfiler_v1 = {"topoflow", init1, start1, stop, record_state1, finalize};
EXPORT const Profiler2 ncclProfiler_v2 = {"topoflow", init1, start2, stop, record_state1, finalize};
EXPORT const Profiler3 ncclProfiler_v3 = {"topoflow", init3, start3, stop, record_state1, finalize};
EXPORT const Profiler4 ncclProfiler_v4 = {"topoflow", init4, start4, stop, record_state, finalize};
EXPORT const Profiler5 ncclProfiler_v5 = {"topoflow", init5, start5, stop, record_state, finalize};
EXPORT const Profiler6 ncclProfiler_v6 = {"topoflow", init6, start6, stop, record_state, finalize};
