// The architectures that the kernels were compiled for.
#pragma once

#include <vector>

namespace topoflow::cuda {

std::vector<int> architectures();  // 900 is sm_90
bool has_kernels_for(int device);

}  // namespace topoflow::cuda
