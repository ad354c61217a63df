// This kernel on a GPU, in a file of its own: nvcc compiles several at the same time.
#include "gradient/run.h"
