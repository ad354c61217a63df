// What the tests call: memory, devices and streams for torch (python/fake_cuda.py).
#include "cuda_emulation.h"
#include "memory.h"

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

EXPORTED void* emulation_allocate(size_t bytes, int device) {
  return emulation::allocate(bytes, emulation::Kind::kDevice, device);
}
EXPORTED void* emulation_allocate_pinned(size_t bytes) {
  return emulation::allocate(bytes, emulation::Kind::kPinned, emulation::kAnyDevice);
}
EXPORTED void emulation_release(void* memory) { emulation::release(memory); }
EXPORTED size_t emulation_memory_left(int device) { return emulation::memory_left(device); }
EXPORTED size_t emulation_memory() { return emulation::memory_of_a_device(); }

// B of the threads of the current device.
EXPORTED size_t emulation_stack() {
  size_t bytes = 0;
  cudaDeviceGetLimit(&bytes, cudaLimitStackSize);
  return bytes;
}
EXPORTED void emulation_set_stack(size_t bytes) { cudaDeviceSetLimit(cudaLimitStackSize, bytes); }

EXPORTED int emulation_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}
EXPORTED void emulation_set_device(int device) { cudaSetDevice(device); }
EXPORTED int emulation_devices() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

EXPORTED void* emulation_create_stream(int device) {
  const int before = emulation_device();
  cudaSetDevice(device);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaSetDevice(before);
  return stream;
}
EXPORTED int emulation_finish(cudaStream_t stream) { return cudaStreamSynchronize(stream) != cudaSuccess; }
// What `stream` does next comes after what the other has to do now.
EXPORTED void emulation_wait(cudaStream_t stream, cudaStream_t other) {
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, other);
  cudaStreamWaitEvent(stream, event);
  cudaEventDestroy(event);
}
}
