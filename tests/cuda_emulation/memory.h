// Memory that device code may touch, and who touched it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulation {

enum class Kind : uint8_t { kDevice, kPinned, kShared, kArguments };
constexpr int kAnyDevice = -1;

// Poisoned memory of its own pages, null where `device` has no more (settings: CUDA_EMULATION_MEMORY).
void* allocate(size_t bytes, Kind kind, int device);
// False: it is none of them. Null is fine.
bool release(void* memory);
// Nothing of it has been written.
void poison(void* memory, size_t bytes);

size_t memory_left(int device);
size_t memory_of_a_device();

// Of device code, before it happens. `site` is the code that does it.
enum class Access : uint8_t { kRead, kWrite, kAtomic };
void touch(const void* address, size_t bytes, Access access, const void* site);

}  // namespace emulation
