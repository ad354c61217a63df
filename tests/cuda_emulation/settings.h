// How device code is run, from the environment. tests/cuda_emulation/README.md lists the variables.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace emulation {

inline int64_t setting(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

// 0: threads run in order, each until it waits. Other seeds: in random order, interrupted at random accesses.
inline uint64_t seed() {
  static const auto value = static_cast<uint64_t>(setting("CUDA_EMULATION_SEED", 0));
  return value;
}

constexpr uint32_t kPoison = 0xA5A5A5A5;  // as double -1.2e-126, as int32 negative: nobody computes it by chance

}  // namespace emulation
