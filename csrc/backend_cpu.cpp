// The kernels of this backend. Plain pointers in, exceptions out.
#include "bound/run.h"
#include "circuits/piece.h"
#include "fluid/run.h"
#include "gradient/run.h"
#include "packet/run.h"
#include "parallel/thrust.h"
#include "screen/run.h"
#include "slotted/run.h"
