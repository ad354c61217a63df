// What nccl.h needs of CUDA to be read by a compiler.
#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st* cudaStream_t;
