// The CUDA runtime. The device has the numbers of an H100 but for few multiprocessors.
//
// Source: NVIDIA, CUDA Runtime API 13.0; CUDA C++ Programming Guide 13.0, "Compute Capabilities", 9.0.
#include <algorithm>
#include <cstring>
#include <utility>

#include "counts.h"
#include "cuda_emulation.h"
#include "machine.h"
#include "memory.h"
#include "settings.h"

namespace emulation {

struct Stream {
  int device;
};
struct Event {};

namespace {

constexpr size_t kSharedOfProcessor = 228 << 10, kSharedOfBlock = 227 << 10, kReserved = 1 << 10;  // B
constexpr int kThreadsOfProcessor = 2048, kBlocksOfProcessor = 32;

thread_local int device = 0;
thread_local cudaError_t last = cudaSuccess;
size_t stack = 1 << 10;            // B that each thread of a GPU has
cudaError_t broken = cudaSuccess;  // after a fault every call fails

int devices() { return static_cast<int>(setting("CUDA_EMULATION_DEVICES", 2)); }

int architecture() { return static_cast<int>(setting("CUDA_EMULATION_ARCHITECTURE", 90)); }

cudaError_t result(cudaError_t error) {
  if (broken != cudaSuccess) error = broken;
  if (error != cudaSuccess) last = error;
  return error;
}

}  // namespace

cudaError_t allocate_device(void** memory, size_t bytes) {
  if (broken != cudaSuccess) return result(broken);
  *memory = bytes ? allocate(bytes, Kind::kDevice, device) : nullptr;
  return result(bytes && !*memory ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t allocate_host(void** memory, size_t bytes) {
  *memory = allocate(bytes, Kind::kPinned, kAnyDevice);
  return result(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

int blocks_per_processor(int threads, size_t shared) {
  const int by_threads = kThreadsOfProcessor / threads,
            by_shared = static_cast<int>(kSharedOfProcessor / (shared + kReserved));
  const int limit = static_cast<int>(setting("CUDA_EMULATION_BLOCKS", 2));
  return std::min({by_threads, by_shared, kBlocksOfProcessor, limit});
}

void launch(const char* name, int blocks, int threads, size_t shared, cudaStream_t stream, void (*body)(const void*),
            const void* arguments, size_t bytes) {
  if (blocks < 1 || threads < 1 || threads > 1024 || shared > kSharedOfBlock) {
    result(cudaErrorInvalidValue);
    return;
  }
  if (result(cudaSuccess) != cudaSuccess) return;
  void* const copied = allocate(bytes, Kind::kArguments, kAnyDevice);
  std::memcpy(copied, arguments, bytes);
  const Kernel kernel{name, static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, body, copied};
  if (!run(kernel, stream ? stream->device : device)) broken = cudaErrorLaunchFailure;
  release(copied);
}

void finish(cudaStream_t) {}

cudaError_t find_kernels() {
  return result(architecture() < __CUDA_ARCH_LIST__ / 10 ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}

}  // namespace emulation

using emulation::Event;
using emulation::result;
using emulation::Stream;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulation::devices();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulation::device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulation::devices()) return result(cudaErrorInvalidDevice);
  emulation::device = device;
  return result(cudaSuccess);
}
// A fiber has a stack of its own size: this only keeps what is asked for.
cudaError_t cudaDeviceGetLimit(size_t* bytes, cudaLimit) {
  *bytes = emulation::stack;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t bytes) {
  emulation::stack = bytes;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = static_cast<int>(emulation::setting("CUDA_EMULATION_PROCESSORS", 2));
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = emulation::kSharedOfProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = emulation::kSharedOfBlock;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = emulation::kReserved;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = emulation::architecture() / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = emulation::architecture() % 10;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return result(cudaSuccess); }
cudaError_t cudaGetLastError() { return std::exchange(emulation::last, emulation::broken); }
cudaError_t cudaPeekAtLastError() { return emulation::last; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

cudaError_t cudaFree(void* memory) {
  if (emulation::broken != cudaSuccess) return result(emulation::broken);
  return result(emulation::release(memory) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
  *left = emulation::memory_left(emulation::device);
  *total = emulation::memory_of_a_device();
  return result(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) {
  std::memset(to, byte, bytes);
  return result(cudaSuccess);
}
cudaError_t cudaMemset(void* to, int byte, size_t bytes) { return cudaMemsetAsync(to, byte, bytes, nullptr); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return result(cudaSuccess);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new Stream{emulation::device};
  return result(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return result(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return result(cudaSuccess); }
cudaError_t cudaStreamQuery(cudaStream_t) { return result(cudaSuccess); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return result(cudaSuccess); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event;
  return result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return result(cudaSuccess); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return result(cudaSuccess); }
cudaError_t cudaEventQuery(cudaEvent_t) { return result(cudaSuccess); }

// As if the process had been started anew; returns whether there was a fault.
__attribute__((visibility("default"))) int emulation_reset() {
  emulation::last = cudaSuccess;
  return std::exchange(emulation::broken, cudaSuccess) != cudaSuccess;
}
}
