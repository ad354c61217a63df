// A block of threads on a GPU as a team (team.h).
#pragma once

#include "device_team.h"

namespace topoflow::BACKEND {

constexpr int kMaxWarps = 8;  // of a team

class BlockTeam : public DeviceTeam<BlockTeam> {
 public:
  static constexpr int kWords = 4;  // of a sum
  static constexpr int kScratch = (2 * kWords + 1) * kMaxWarps;

  // `scratch` [kScratch] is shared by the team.
  __device__ BlockTeam(double* scratch, std::byte* shared, std::byte* fast)
      : DeviceTeam(shared, fast), scratch_(scratch) {}

  // Until all threads are here.
  __device__ void wait() const { __syncthreads(); }

  template <class F>
  __device__ void for_each(int32_t n, F f) const {
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }

  // Calls f(i, i < n) for each i < n, all lanes of a warp together, which may claim places.
  template <class F>
  __device__ void for_each_by_warp(int32_t n, const F& f) const {
    const auto step = static_cast<int32_t>(blockDim.x);
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i - lane() < n; i += step) f(i, i < n);
    __syncthreads();
  }

  // The place that this thread claims, if it wants one, among those that `to` counts.
  __device__ int32_t claim(bool wants, int32_t* to) const {
    const unsigned wanting_lanes = __ballot_sync(kAll, wants);
    if (wanting_lanes == 0) return 0;
    int32_t first = 0;
    if (lane() == 0) first = atomicAdd(to, __popc(wanting_lanes));
    return __shfl_sync(kAll, first, 0) + __popc(wanting_lanes & ((1u << lane()) - 1));
  }

  // Calls f(i) with the whole team for every i < n that is wanted, in order. f does not call this.
  template <class Wanted, class F>
  __device__ void team_for_each_if(int32_t n, const Wanted& wanted, const F& f) const {
    auto* const wanted_lanes = reinterpret_cast<unsigned*>(scratch_ + 2 * kMaxWarps * kWords);
    const auto step = static_cast<int32_t>(blockDim.x), me = static_cast<int32_t>(threadIdx.x);
#pragma unroll 1
    for (int32_t first = 0; first < n; first += step) {
      const unsigned my_lanes = __ballot_sync(kAll, first + me < n && wanted(first + me));
      __syncthreads();  // until all have read the lanes of the last round, and what f writes
      if (lane() == 0) wanted_lanes[me / 32] = my_lanes;
      __syncthreads();
#pragma unroll 1
      for (int32_t begin = first; begin < n && begin < first + step; begin += 32)
#pragma unroll 1
        for (unsigned remaining = wanted_lanes[(begin - first) / 32]; remaining != 0; remaining &= remaining - 1)
          f(begin + __ffs(static_cast<int>(remaining)) - 1);
    }
  }

  template <class F>
  __device__ double min(int32_t n, F f) const {
    double lowest = kInfinity;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
      const double value = f(i);
      lowest = value < lowest ? value : lowest;
    }
    auto* const parts = reinterpret_cast<uint64_t*>(next_scratch());
    const uint64_t lowest_bits = lowest_of_warp(ordered_bits(lowest));
    if (lane() == 0) parts[threadIdx.x / 32] = lowest_bits;
    __syncthreads();
    const auto warps = static_cast<int32_t>(blockDim.x / 32);
    return from_ordered_bits(lowest_of_warp(parts[lane() < warps ? lane() : 0]));
  }

  __device__ double min_of(int32_t n, const double* values) const {
    return min(n, [=](int32_t i) { return values[i]; });
  }

  // Calls put(i, the lowest of row(i)) for i < n.
  template <class Row, class Put>
  __device__ void min_of_rows(int32_t n, const Row& row, const Put& put) const {
    lowest_of_rows(static_cast<int32_t>(threadIdx.x), static_cast<int32_t>(blockDim.x), n, row, put);
    __syncthreads();
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

  // The first i < n for which predicate(i), n when there is none.
  template <class F>
  __device__ int32_t first(int32_t n, F predicate) const {
    const double i = min(n, [&](int32_t j) { return predicate(j) ? static_cast<double>(j) : kInfinity; });
    return i < n ? static_cast<int32_t>(i) : n;
  }

  // g(row, the largest of f(row, 0), .. f(row, n - 1) and 0) for each row < rows, by one thread.
  template <class F, class G>
  __device__ void max_of_rows(int32_t rows, int32_t n, F f, G g) const {
    for (int32_t row = threadIdx.x / 32; row < rows; row += blockDim.x / 32) {
      double largest = 0;
      for (int32_t i = lane(); i < n; i += 32) largest = fmax(largest, f(row, i));
      for (int offset = 16; offset > 0; offset /= 2)
        largest = fmax(largest, __shfl_down_sync(0xffffffffu, largest, offset));
      if (lane() == 0) g(row, largest);
    }
    __syncthreads();
  }

  // Copies n values.
  template <class T>
  __device__ void copy(int32_t n, const T* from, T* to) const {
    for_each(n, [=](int32_t i) { to[i] = from[i]; });
  }

  template <class F>
  __device__ bool any(int32_t n, F f) const {
    int any_true = 0;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) any_true |= f(i);
    return __syncthreads_or(any_true) != 0;
  }

  template <class T>
  __device__ T get(const T* from) const {
    const T value = *from;
    __syncthreads();
    return value;
  }

  // Reads a flag that the host may change at any time.
  __device__ bool poll(const int32_t* from) const {
    return __syncthreads_or(threadIdx.x == 0 && *const_cast<const volatile int32_t*>(from) != 0);
  }

 private:
  // Scratch memory for the results of warps: not that of the last call, which threads may still read.
  __device__ double* next_scratch() const {
    second_ = !second_;
    return scratch_ + second_ * kMaxWarps * kWords;
  }

  double* scratch_;
  mutable bool second_ = false;
};

}  // namespace topoflow::BACKEND
