#include "parallel/architectures.h"
#include "parallel/device.h"

namespace topoflow::cuda {
namespace {

__global__ void probe() {}

}  // namespace

std::vector<int> architectures() { return {__CUDA_ARCH_LIST__}; }

bool has_kernels_for(int device) {
  const DeviceGuard guard(device);
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, probe);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();  // forgets it
    return false;
  }
  check(error);
  return true;
}

}  // namespace topoflow::cuda
