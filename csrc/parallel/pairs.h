// An array of pairs of sums to which the threads of a team add both at once, as cheaply as they can: on a CPU two
// 64-bit words that are read and written together, on a GPU words of 32 bits, since only these are added atomically in
// the memory of a multiprocessor without trying again (CUDA C++ Programming Guide, atomic functions).
#pragma once

#include "team.h"

namespace topoflow::BACKEND {

struct Pair {
  int64_t first;
  int64_t second;  // has to fit in 31 bits
};

#ifdef TOPOFLOW_ON_GPU

class Pairs {
 public:
  static constexpr int64_t kBytes = 12;  // of a pair

  __device__ Pairs(void* memory, int32_t n)
      : low_(static_cast<unsigned*>(memory)), high_(low_ + n), second_(reinterpret_cast<int32_t*>(high_ + n)) {}

  __device__ Pair operator[](int32_t i) const {
    return {static_cast<int64_t>(uint64_t{high_[i]} << 32 | low_[i]), second_[i]};
  }
  __device__ void set(int32_t i, const Pair& value) const {
    low_[i] = static_cast<unsigned>(value.first);
    high_[i] = static_cast<unsigned>(static_cast<uint64_t>(value.first) >> 32);
    second_[i] = static_cast<int32_t>(value.second);
  }

  // Each carry is added once, whichever lane sees it: when all have added, the sum is right.
  __device__ void add(const Team auto& team, int32_t i, const Pair& value) const {
    add_first(i, value.first);
    add_second(team, i, value.second);
  }
  __device__ void add_first(int32_t i, int64_t value) const {
    const auto low = static_cast<unsigned>(value);
    const unsigned before = atomicAdd(low_ + i, low);
    const unsigned carry = before + low < low;
    atomicAdd(high_ + i, static_cast<unsigned>(static_cast<uint64_t>(value) >> 32) + carry);
  }
  __device__ void add_second(const Team auto&, int32_t i, int64_t value) const {
    atomicAdd(second_ + i, static_cast<int32_t>(value));
  }
  __device__ void set_second(int32_t i, int32_t value) const { second_[i] = value; }

  // All n of them.
  __device__ void copy(const Team auto& team, int32_t n, const Pairs& to) const { team.copy(3 * n, low_, to.low_); }

 private:
  unsigned *low_, *high_;  // [n] of the first
  int32_t* second_;        // [n]
};

#else

class Pairs {
 public:
  static constexpr int64_t kBytes = sizeof(Pair);

  Pairs(void* memory, int32_t) : pair_(static_cast<Pair*>(memory)) {}

  const Pair& operator[](int32_t i) const { return pair_[i]; }
  void set(int32_t i, const Pair& value) const { pair_[i] = value; }

  void add(const Team auto&, int32_t i, const Pair& value) const {
    Pair* const to = &pair_[static_cast<uint32_t>(i)];
#ifdef __SSE2__
    __m128i* const both = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(both, _mm_add_epi64(_mm_loadu_si128(both), _mm_set_epi64x(value.second, value.first)));
#else
    to->first += value.first;
    to->second += value.second;
#endif
  }
  void add_second(const Team auto&, int32_t i, int64_t value) const { pair_[i].second += value; }

  void copy(const Team auto& team, int32_t n, const Pairs& to) const { team.copy(n, pair_, to.pair_); }

 private:
  Pair* pair_;
};

#endif

}  // namespace topoflow::BACKEND
