// A libcuda.so.1 for tests: streams are threads that run what is queued on them in order, events order streams, and a
// stream that is captured keeps what is queued until the graph is launched. Memory is the host's.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock.h"

typedef struct Work {
  void (*run)(void*);
  void* argument;
  struct Work* next;
} Work;

typedef struct Graph {
  Work *first, **last;
  int open;  // streams that were forked from the captured one and have not been joined
} Graph;

struct CUstream_st {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Work *first, **last;
  bool busy, closing;
  Graph* capture;
  bool forked;  // captured since it waited for an event of a captured stream
};

// Waiting for an event that is recorded again later means its record at the time of the call, as on a GPU.
struct CUevent_st {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  long recorded, reached;
  atomic_int users;  // a GPU keeps a destroyed event until nothing waits for it
  Graph* capture;
  CUstream from;
};

static atomic_int fail_next[MOCK_CUDA_CALLS];
atomic_int mock_cuda_live;

void mock_fail_cuda(MockCudaCall call, int nth) { fail_next[call] = nth; }

static bool fails(MockCudaCall call) {
  int left = atomic_load(&fail_next[call]);
  while (left > 0)
    if (atomic_compare_exchange_weak(&fail_next[call], &left, left - 1)) return left == 1;
  return false;
}

static void append(Work*** last, void (*run)(void*), void* argument) {
  Work* work = malloc(sizeof *work);
  *work = (Work){run, argument, NULL};
  **last = work;
  *last = &work->next;
}

static void* serve(void* argument) {
  CUstream stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->closing) pthread_cond_wait(&stream->changed, &stream->lock);
    Work* work = stream->first;
    if (!work) break;
    stream->first = work->next;
    if (!stream->first) stream->last = &stream->first;
    stream->busy = true;
    pthread_mutex_unlock(&stream->lock);
    work->run(work->argument);
    free(work);
    pthread_mutex_lock(&stream->lock);
    stream->busy = false;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

void mock_queue(CUstream stream, void (*run)(void*), void* argument) {
  pthread_mutex_lock(&stream->lock);
  append(stream->capture ? &stream->capture->last : &stream->last, run, argument);
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
}

void mock_synchronize(CUstream stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->busy) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
}

MOCK CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  (void)flags;
  if (fails(MOCK_STREAM_CREATE)) return 2;
  CUstream made = calloc(1, sizeof *made);
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  made->last = &made->first;
  pthread_create(&made->thread, NULL, serve, made);
  ++mock_cuda_live;
  *stream = made;
  return 0;
}

MOCK CUresult cuStreamDestroy_v2(CUstream stream) {
  pthread_mutex_lock(&stream->lock);
  stream->closing = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_destroy(&stream->lock);
  pthread_cond_destroy(&stream->changed);
  free(stream);
  --mock_cuda_live;
  return 0;
}

MOCK CUresult cuEventCreate(CUevent* event, unsigned flags) {
  (void)flags;
  if (fails(MOCK_EVENT_CREATE)) return 2;
  *event = calloc(1, sizeof **event);
  pthread_mutex_init(&(*event)->lock, NULL);
  pthread_cond_init(&(*event)->changed, NULL);
  (*event)->users = 1;
  ++mock_cuda_live;
  return 0;
}

typedef struct {
  CUevent event;
  long record;
} Mark;

static void leave(CUevent event) {
  if (--event->users) return;
  pthread_mutex_destroy(&event->lock);
  pthread_cond_destroy(&event->changed);
  free(event);
}

static Mark* mark(CUevent event, long record) {
  Mark* made = malloc(sizeof *made);
  *made = (Mark){event, record};
  ++event->users;
  return made;
}

static void reach(void* argument) {
  Mark* mark = argument;
  pthread_mutex_lock(&mark->event->lock);
  if (mark->event->reached < mark->record) mark->event->reached = mark->record;
  pthread_cond_broadcast(&mark->event->changed);
  pthread_mutex_unlock(&mark->event->lock);
  leave(mark->event);
  free(mark);
}

static void wait_for(void* argument) {
  Mark* mark = argument;
  pthread_mutex_lock(&mark->event->lock);
  while (mark->event->reached < mark->record) pthread_cond_wait(&mark->event->changed, &mark->event->lock);
  pthread_mutex_unlock(&mark->event->lock);
  leave(mark->event);
  free(mark);
}

MOCK CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (fails(MOCK_EVENT_RECORD)) return 700;
  pthread_mutex_lock(&event->lock);
  event->capture = stream->capture;
  event->from = stream;
  const long record = stream->capture ? 0 : ++event->recorded;
  pthread_mutex_unlock(&event->lock);
  if (record) mock_queue(stream, reach, mark(event, record));
  return 0;
}

// Within a capture, a graph of the mock runs in the order in which it was captured; only forks and joins are counted.
MOCK CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  if (fails(MOCK_STREAM_WAIT)) return 700;
  pthread_mutex_lock(&event->lock);
  const long record = event->recorded;
  Graph* capture = event->capture;
  CUstream from = event->from;
  pthread_mutex_unlock(&event->lock);
  if (capture && !stream->capture) {
    stream->capture = capture;
    stream->forked = true;
    ++capture->open;
  } else if (capture && from->forked) {
    from->forked = false;
    from->capture = NULL;
    --capture->open;
  } else if (record && !capture) {
    mock_queue(stream, wait_for, mark(event, record));
  }
  return 0;
}

MOCK CUresult cuEventDestroy_v2(CUevent event) {
  leave(event);
  --mock_cuda_live;
  return 0;
}

MOCK CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  *status = stream->capture != NULL;
  return 0;
}

void mock_begin_capture(CUstream stream) {
  stream->capture = calloc(1, sizeof *stream->capture);
  stream->capture->last = &stream->capture->first;
}

MockGraph mock_end_capture(CUstream stream) {
  Graph* graph = stream->capture;
  stream->capture = NULL;
  if (graph->open) fprintf(stderr, "mock: %d streams were not joined\n", graph->open), abort();
  return graph;
}

void mock_launch(MockGraph graph, CUstream stream) {
  for (Work* work = ((Graph*)graph)->first; work; work = work->next) mock_queue(stream, work->run, work->argument);
}

void mock_free_graph(MockGraph graph) {
  for (Work *work = ((Graph*)graph)->first, *next; work; work = next) {
    next = work->next;
    free(work);
  }
  free(graph);
}

MOCK CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, 0; }
MOCK CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  (void)device;
  if (fails(MOCK_CONTEXT)) return 2;
  static char some;
  ++mock_cuda_live;
  return *context = (CUcontext)(void*)&some, 0;
}
MOCK CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  (void)device;
  --mock_cuda_live;
  return 0;
}
MOCK CUresult cuCtxPushCurrent_v2(CUcontext context) { return (void)context, 0; }
MOCK CUresult cuCtxPopCurrent_v2(CUcontext* context) { return *context = NULL, 0; }

MOCK CUresult cuStreamQuery(CUstream stream) {
  pthread_mutex_lock(&stream->lock);
  const bool busy = stream->first || stream->busy;
  pthread_mutex_unlock(&stream->lock);
  return busy ? CUDA_ERROR_NOT_READY : 0;
}
MOCK CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  if (fails(MOCK_ALLOCATE)) return 2;
  *memory = (CUdeviceptr)(uintptr_t)malloc(bytes);
  ++mock_cuda_live;
  return 0;
}
MOCK CUresult cuMemFree_v2(CUdeviceptr memory) {
  free((void*)(uintptr_t)memory);
  --mock_cuda_live;
  return 0;
}

typedef struct {
  void* to;
  const void* from;
  size_t bytes;
} Copy;

static void copy(void* argument) {
  const Copy* one = argument;
  memcpy(one->to, one->from, one->bytes);
  free(argument);
}

static CUresult queue_copy(void* to, const void* from, size_t bytes, CUstream stream) {
  if (fails(MOCK_COPY)) return 700;
  Copy* made = malloc(sizeof *made);
  *made = (Copy){to, from, bytes};
  mock_queue(stream, copy, made);
  return 0;
}

MOCK CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return queue_copy((void*)(uintptr_t)to, from, bytes, stream);
}
MOCK CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return queue_copy(to, (const void*)(uintptr_t)from, bytes, stream);
}
