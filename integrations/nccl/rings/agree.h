// Agreement of the ranks of a communicator on the settings: each rank sends a row of numbers to all others.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "settings.h"
#include "symbols.h"

enum { FEWEST_RANKS = 3 };  // two ranks have one ring, whatever the settings: they compare nothing

typedef struct {
  uint64_t number[SETTINGS];  // of each setting; see number_of_setting
} Row;

// An all-gather of one row per rank, on a stream of its own. All members but `comm` are set by open_exchange.
typedef struct {
  ncclComm_t comm;
  int rank, ranks;
  bool blocking;  // false: the communicator has answered ncclInProgress
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr memory;  // [1 + ranks] rows on the GPU: that of this rank, then those of all
  Row mine;
  Row* rows;  // [ranks] what all ranks have sent
} Exchange;

// Finds the ranks of the communicator and allocates what an exchange between at least FEWEST_RANKS needs. Returns an
// error if there is no memory, or NCCL or CUDA fails.
ncclResult_t open_exchange(Exchange* exchange);
// Frees it, whether open_exchange has succeeded or not. The communicator has ended: an exchange that hangs would be
// waited for.
void close_exchange(Exchange* exchange);

// Sends the settings of this rank and receives those of all. Every rank of the communicators must call it at the same
// place; communicators of one thread must come in one call. The call waits until all ranks have taken part.
ncclResult_t exchange_settings(Exchange** exchanges, int count);

bool settings_agree(const Exchange* exchange);
// Writes one line to stderr, on rank 0: a setting that differs, and the first rank that has another value. Tells the
// tuner plugin of this process to leave NCCL's costs as they are.
void report_difference(const Exchange* exchange);

// Whether NCCL has what rings need and the settings ask for them.
bool rings_are_on(void);

// Waits until a communicator that does not block has another answer than ncclInProgress.
ncclResult_t settled(ncclComm_t comm, ncclResult_t result);
