// A block of threads on a GPU as a team (team.h).
#pragma once

#include "lowest.h"

namespace topoflow::BACKEND {

constexpr int kMostWarps = 8;  // of a team

class BlockTeam {
 public:
  static constexpr bool kAlone = false;
  static constexpr int kWords = 4;  // of a sum
  static constexpr int kScratch = 2 * kMostWarps * kWords;

  // `scratch` [kScratch] is shared by the team.
  __device__ explicit BlockTeam(double* scratch) : scratch_(scratch) {}

  // Until all threads are here.
  __device__ void wait() const { __syncthreads(); }

  template <class F>
  __device__ void for_each(int32_t n, F f) const {
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }

  template <class F>
  __device__ double min(int32_t n, F f) const {
    double lowest = kInfinity;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) lowest = fmin(lowest, f(i));
    for (int offset = 16; offset > 0; offset /= 2) lowest = fmin(lowest, __shfl_down_sync(0xffffffffu, lowest, offset));
    double* const parts = next_scratch();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = lowest;
    __syncthreads();
    lowest = parts[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) lowest = fmin(lowest, parts[warp]);
    return lowest;
  }

  __device__ double min_of(int32_t n, const double* values) const {
    return min(n, [=](int32_t i) { return values[i]; });
  }
  // The sum of n values of a type that is made of integers and has +.
  template <class F>
  __device__ auto sum(int32_t n, F f) const {
    decltype(f(0)) total{};
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) total = total + f(i);
    constexpr int words = sizeof(total) / sizeof(int64_t);
    static_assert(words <= kWords && words * sizeof(int64_t) == sizeof(total));
    long long word[words];
    memcpy(word, &total, sizeof(total));
    auto* const parts = reinterpret_cast<long long*>(next_scratch());
    for (int j = 0; j < words; ++j) {
      for (int offset = 16; offset > 0; offset /= 2) word[j] += __shfl_down_sync(0xffffffffu, word[j], offset);
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32 * words + j] = word[j];
    }
    __syncthreads();
    for (int j = 0; j < words; ++j) {
      word[j] = parts[j];
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) word[j] += parts[warp * words + j];
    }
    memcpy(&total, word, sizeof(total));
    return total;
  }

  // The first i < n for which found(i), n when there is none.
  template <class F>
  __device__ int32_t first(int32_t n, F found) const {
    const double i = min(n, [&](int32_t j) { return found(j) ? static_cast<double>(j) : kInfinity; });
    return i < n ? static_cast<int32_t>(i) : n;
  }

  // g(row, the largest of f(row, 0), .. f(row, n - 1) and 0) for each row < rows, by one thread.
  template <class F, class G>
  __device__ void largest_of_each(int32_t rows, int32_t n, F f, G g) const {
    const int32_t lane = threadIdx.x % 32;
    for (int32_t row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
      double largest = 0;
      for (int32_t i = lane; i < n; i += 32) largest = fmax(largest, f(row, i));
      for (int offset = 16; offset > 0; offset /= 2)
        largest = fmax(largest, __shfl_down_sync(0xffffffffu, largest, offset));
      if (lane == 0) g(row, largest);
    }
    __syncthreads();
  }

  // What is at `from` is at `to` as well.
  template <class T>
  __device__ void copy(int32_t n, const T* from, T* to) const {
    for_each(n, [=](int32_t i) { to[i] = from[i]; });
  }

  template <class F>
  __device__ bool any(int32_t n, F f) const {
    int found = 0;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) found |= f(i);
    return __syncthreads_or(found) != 0;
  }

  // One number for all threads, which any of them may change afterwards.
  __device__ void set(int32_t* to, int32_t value) const {
    if (threadIdx.x == 0) *to = value;
    __syncthreads();
  }
  __device__ int32_t get(const int32_t* from) const {
    const int32_t value = *from;
    __syncthreads();
    return value;
  }

  // What the host may change at any time.
  __device__ bool poll(const int32_t* from) const {
    return __syncthreads_or(threadIdx.x == 0 && *const_cast<const volatile int32_t*>(from) != 0);
  }

  // These return what was there before.
  __device__ int32_t atomic_add(int32_t* to, int32_t value) const { return atomicAdd(to, value); }
  __device__ int64_t atomic_add(int64_t* to, int64_t value) const {  // unsigned addition is signed addition
    return atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  }
  __device__ int32_t atomic_exchange(int32_t* to, int32_t value) const { return atomicExch(to, value); }

  // Of numbers that are not negative: their bits are in the order of the numbers.
  __device__ void atomic_max(double* to, double value) const {
    atomicMax(reinterpret_cast<long long*>(to), __double_as_longlong(value));
  }

 private:
  // For what warps found: another one than the last time, which threads may still read.
  __device__ double* next_scratch() const {
    second_ = !second_;
    return scratch_ + second_ * kMostWarps * kWords;
  }

  double* scratch_;
  mutable bool second_ = false;
};

}  // namespace topoflow::BACKEND
