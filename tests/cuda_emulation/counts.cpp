#include "counts.h"

namespace emulation {

Counts counts;

}  // namespace emulation
