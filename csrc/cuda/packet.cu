// What decides which kernels a batch of packets needs, on a GPU.
#include "packet/packets.h"
