// A kernel of fluid worlds on a GPU, in a file of its own: nvcc compiles several at the same time.
#include "fluid/rounds/rounds_world.h"
