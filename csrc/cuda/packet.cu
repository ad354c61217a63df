// Chooses the kernels that a batch of packets needs, on a GPU.
#include "packet/packets.h"
