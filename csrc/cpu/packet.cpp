// This kernel on a CPU, in a file of its own: compilers work on several at the same time.
#include "packet/packets.h"
