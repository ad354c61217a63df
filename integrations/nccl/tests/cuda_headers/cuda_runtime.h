// What nccl.h needs of CUDA to be read by a compiler.
#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;  // of configurations, since NCCL 2.32
