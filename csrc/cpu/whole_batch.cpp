// Thrust on a CPU, in a file of its own: no other has to parse it.
#include "parallel/thrust.h"
