// The functions of the real NCCL and of CUDA's driver, found when they are first needed.
#pragma once

#include "../abi/cuda_abi.h"
#include "../abi/nccl_abi.h"

typedef struct {
#define MEMBER(name, parameters) ncclResult_t(*name) parameters;
  NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
} Nccl;

typedef struct {
#define MEMBER(name, symbol, parameters) CUresult(*name) parameters;
  CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
} Cuda;

// NCCL's own functions; a member is NULL where this NCCL has none of that name.
const Nccl* nccl(void);

// CUDA's driver, or NULL if the process has not loaded it or one of the functions is missing.
const Cuda* cuda(void);

static inline ncclResult_t first_error(ncclResult_t a, ncclResult_t b) { return a != ncclSuccess ? a : b; }
