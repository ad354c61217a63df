#include "agree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// Read by the tuner plugin (tuner/tuner.c).
__attribute__((visibility("default"))) _Atomic int topoflow_nccl_settings_differ;

bool rings_are_on(void) {
  const Nccl* real = nccl();
  static int said;
  if (!settings()->on) return false;
  const bool able = cuda() && real->ncclAllReduce && real->ncclAllGather && real->ncclGroupStart &&
                    real->ncclGroupEnd && real->ncclCommSplit && real->ncclCommCount && real->ncclCommUserRank &&
                    real->ncclCommCuDevice && real->ncclCommDestroy && real->ncclCommAbort &&
                    real->ncclCommGetAsyncError;
  if (!able) say_once(&said, "NCCL or CUDA's driver lacks a function that rings need; all-reduces stay as they are");
  return able;
}

ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  const struct timespec pause = {.tv_nsec = 1000000};
  while (result == ncclInProgress) {
    nanosleep(&pause, NULL);
    ncclResult_t state = ncclSuccess;
    result = nccl()->ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess) result = state;
  }
  return result;
}

static CUresult allocate(Exchange* exchange) {
  const Cuda* driver = cuda();
  CUcontext popped;
  CUresult failed = driver->cuCtxPushCurrent(exchange->context);
  if (failed) return failed;
  failed = driver->cuStreamCreate(&exchange->stream, CU_STREAM_NON_BLOCKING);
  if (!failed) failed = driver->cuMemAlloc(&exchange->memory, sizeof(Row) * ((size_t)exchange->ranks + 1));
  driver->cuCtxPopCurrent(&popped);
  return failed;
}

ncclResult_t open_exchange(Exchange* exchange) {
  const Cuda* driver = cuda();
  int device;
  *exchange = (Exchange){.comm = exchange->comm, .blocking = true};
  ncclResult_t result = nccl()->ncclCommCount(exchange->comm, &exchange->ranks);
  if (!result) result = nccl()->ncclCommUserRank(exchange->comm, &exchange->rank);
  if (!result) result = nccl()->ncclCommCuDevice(exchange->comm, &device);
  if (result || exchange->ranks < FEWEST_RANKS) return result;
  exchange->rows = calloc((size_t)exchange->ranks, sizeof *exchange->rows);
  if (!exchange->rows) return ncclSystemError;
  if (driver->cuDeviceGet(&exchange->device, device)) return ncclUnhandledCudaError;
  if (driver->cuDevicePrimaryCtxRetain(&exchange->context, exchange->device)) return ncclUnhandledCudaError;
  return allocate(exchange) ? ncclUnhandledCudaError : ncclSuccess;
}

void close_exchange(Exchange* exchange) {
  const Cuda* driver = cuda();
  CUcontext popped;
  free(exchange->rows);
  if (!driver || !exchange->context) return;
  if (!driver->cuCtxPushCurrent(exchange->context)) {
    if (exchange->stream) driver->cuStreamDestroy(exchange->stream);
    if (exchange->memory) driver->cuMemFree(exchange->memory);  // waits for what still uses it
    driver->cuCtxPopCurrent(&popped);
  }
  driver->cuDevicePrimaryCtxRelease(exchange->device);
}

#ifndef TOPOFLOW_NCCL_PATIENCE
#define TOPOFLOW_NCCL_PATIENCE 60  // s after which a rank that waits for others says so
#endif

static CUresult wait_for_stream(CUstream stream) {
  enum { SHORTEST = 20000, LONGEST = 10000000 };  // ns between two looks
  static int said;
  struct timespec pause = {.tv_nsec = SHORTEST};
  double waited = 0;
  CUresult result;
  while ((result = cuda()->cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
    nanosleep(&pause, NULL);
    waited += (double)pause.tv_nsec * 1e-9;
    if (pause.tv_nsec < LONGEST) pause.tv_nsec *= 2;
    if (waited > TOPOFLOW_NCCL_PATIENCE)
      say_once(&said,
               "not all ranks of a communicator have compared their settings for %d s: is this library preloaded on "
               "all of them?",
               TOPOFLOW_NCCL_PATIENCE);
  }
  return result;
}

// Copies the row of this rank to the GPU, or the rows of all ranks from it, which waits for them.
static ncclResult_t copy_rows(Exchange* exchange, bool to_gpu) {
  const Cuda* driver = cuda();
  CUcontext popped;
  if (driver->cuCtxPushCurrent(exchange->context)) return ncclUnhandledCudaError;
  CUresult failed;
  if (to_gpu) {
    failed = driver->cuMemcpyHtoDAsync(exchange->memory, &exchange->mine, sizeof(Row), exchange->stream);
  } else {
    const size_t bytes = sizeof(Row) * (size_t)exchange->ranks;
    failed = driver->cuMemcpyDtoHAsync(exchange->rows, exchange->memory + sizeof(Row), bytes, exchange->stream);
    const CUresult waited = wait_for_stream(exchange->stream);
    failed = failed ? failed : waited;
  }
  driver->cuCtxPopCurrent(&popped);
  return failed ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t gather(Exchange** exchanges, int count) {
  const bool grouped = count > 1;
  ncclResult_t result = grouped ? nccl()->ncclGroupStart() : ncclSuccess;
  if (result) return result;
  for (int i = 0; i < count; ++i) {
    Exchange* one = exchanges[i];
    void* own = (void*)(uintptr_t)one->memory;
    void* all = (void*)(uintptr_t)(one->memory + sizeof(Row));
    const ncclResult_t added = nccl()->ncclAllGather(own, all, sizeof(Row), ncclUint8, one->comm, one->stream);
    if (added == ncclInProgress) one->blocking = false;
    if (grouped && added == ncclInProgress) continue;
    result = first_error(result, settled(one->comm, added));
  }
  const ncclResult_t closed = grouped ? nccl()->ncclGroupEnd() : ncclSuccess;
  for (int i = 0; i < count; ++i) {
    if (closed == ncclInProgress) exchanges[i]->blocking = false;
    result = first_error(result, settled(exchanges[i]->comm, closed));
  }
  return result;
}

ncclResult_t exchange_settings(Exchange** exchanges, int count) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count && !result; ++i) {
    for (int s = 0; s < SETTINGS; ++s)
      exchanges[i]->mine.number[s] = rings_are_on() ? number_of_setting(settings(), s) : 0;
    result = copy_rows(exchanges[i], true);
  }
  if (!result) result = gather(exchanges, count);
  for (int i = 0; i < count && !result; ++i) {
    ncclResult_t state = ncclSuccess;  // of an all-gather that was ended before it had all rows
    result = copy_rows(exchanges[i], false);
    if (!result) result = nccl()->ncclCommGetAsyncError(exchanges[i]->comm, &state);
    result = first_error(result, state);
  }
  return result;
}

static bool is_same(const Row* a, const Row* b) { return memcmp(a, b, sizeof *a) == 0; }

bool settings_agree(const Exchange* exchange) {
  for (int r = 1; r < exchange->ranks; ++r)
    if (!is_same(&exchange->rows[0], &exchange->rows[r])) return false;
  return true;
}

void report_difference(const Exchange* exchange) {
  static int said;
  topoflow_nccl_settings_differ = 1;
  if (exchange->rank) return;
  int differing = 0, other = 0, setting = 0;
  for (int r = exchange->ranks - 1; r > 0; --r)
    if (!is_same(&exchange->rows[0], &exchange->rows[r])) other = r, ++differing;
  while (exchange->rows[0].number[setting] == exchange->rows[other].number[setting]) ++setting;
  const char* value = getenv(name_of_setting(setting));
  say_once(&said,
           "%s: must be the same on all ranks of a communicator, got %.60s on rank 0 and %s on rank %d (%d of %d ranks "
           "differ from rank 0); all-reduces stay as they are",
           name_of_setting(setting), value ? value : "none",
           exchange->rows[other].number[setting] ? "another value" : "none", other, differing, exchange->ranks);
}
