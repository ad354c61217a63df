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

static const int kEvents = PROFILE_COLL | PROFILE_P2P | PROFILE_PROXY_OP | PROFILE_PROXY_STEP | PROFILE_KERNEL_CHANNEL;

static uint64_t new_number(void) { return atomic_fetch_add(&numbers, 1) << SLOT_BITS; }
static int comm_of(const void* context) { return (int)(uintptr_t)context; }

static void copy_text(char* to, size_t size, const char* from) {
  if (!from) from = "";
  const size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

static int open_comm(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank) {
  *context = NULL;
  *mask = 0;
  if (!open_writer()) return 0;
  const int comm = atomic_fetch_add(&communicators, 1) + 1;
  Record record = {.kind = COMM_OPENED, .comm = comm, .start = now()};
  record.opened = (CommRecord){.hash = hash, .nodes = nodes, .ranks = ranks, .rank = rank};
  copy_text(record.opened.name, sizeof record.opened.name, name);
  leave_record(&record);
  *context = (void*)(uintptr_t)comm;
  *mask = kEvents;
  return 0;
}

static int init4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                 ProfilerLog log) {
  (void)log;
  return open_comm(context, mask, name, hash, nodes, ranks, rank);
}

static int init5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                 ProfilerLog log) {
  (void)log;
  return open_comm(context, mask, name, hash, nodes, ranks, rank);
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

// Puts an operation into a slot; 0 if all that were looked at are taken, and then it is not recorded.
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
    if (type == PROFILE_KERNEL_CHANNEL) made = start_kernel(comm_of(context), above, kernel);
    if (type == PROFILE_PROXY_STEP && slot_of(above)) made = above | STEP_TAG;
  }
  *handle = (void*)(uintptr_t)made;
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

// NCCL gives a step's bytes when it hands the step to the network, and when they have arrived.
static int record_state(void* handle, int state, ProfiledState* arguments) {
  const uint64_t value = (uint64_t)(uintptr_t)handle;
  Slot* slot = slot_of(value);
  if (!slot || !arguments || atomic_load(&slot->handle) != operation_of(value)) return 0;
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
EXPORT const Profiler4 ncclProfiler_v4 = {"topoflow", init4, start4, stop, record_state, finalize};
EXPORT const Profiler5 ncclProfiler_v5 = {"topoflow", init5, start5, stop, record_state, finalize};
