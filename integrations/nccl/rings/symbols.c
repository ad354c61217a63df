#define _GNU_SOURCE
#include "symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static Nccl real_nccl;
static Cuda real_cuda;
static bool has_cuda;

// Frameworks load NCCL without making its names global, so it is looked up by its file name; a program that is linked
// with NCCL under another name has it after us in the search order.
static void find_nccl(void) {
  const char* file = getenv("TOPOFLOW_NCCL_LIBRARY");
  void* library = dlopen(file ? file : "libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) library = RTLD_NEXT;
#define FIND(name, parameters) *(void**)&real_nccl.name = dlsym(library, #name);
  NCCL_FUNCTIONS(FIND)
#undef FIND
}

static void find_cuda(void) {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  has_cuda = library != NULL;
#define FIND(name, symbol, parameters) has_cuda = has_cuda && (*(void**)& real_cuda.name = dlsym(library, symbol));
  CUDA_FUNCTIONS(FIND)
#undef FIND
}

const Nccl* nccl(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_nccl);
  return &real_nccl;
}

const Cuda* cuda(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_cuda);
  return has_cuda ? &real_cuda : NULL;
}
