// The lowest of an array of numbers, and those up to a limit, read once and in order.
#pragma once

#include "parallel/backend.h"
#include "parallel/bits.h"

#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
#include <emmintrin.h>
#endif

namespace topoflow::BACKEND {

// The lowest of n values: four at once, since each comparison waits for the one before.
template <class F>
DEVICE double lowest(int32_t n, const F& f) {
  double low[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int32_t lane = 0; lane < 4; ++lane) {
      const double value = f(i + lane);
      low[lane] = value < low[lane] ? value : low[lane];
    }
  }
  for (; i < n; ++i) {
    const double value = f(i);
    low[0] = value < low[0] ? value : low[0];
  }
  low[0] = low[1] < low[0] ? low[1] : low[0];
  low[2] = low[3] < low[2] ? low[3] : low[2];
  return low[2] < low[0] ? low[2] : low[0];
}

DEVICE double lowest_of(int32_t n, const double* values) {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)  // compilers do not see that no value is NaN
  __m128d low[4] = {_mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity)};
  int32_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int32_t lane = 0; lane < 4; ++lane) low[lane] = _mm_min_pd(low[lane], _mm_loadu_pd(values + i + 2 * lane));
  for (; i < n; ++i) low[0] = _mm_min_sd(low[0], _mm_load_sd(values + i));
  low[0] = _mm_min_pd(_mm_min_pd(low[0], low[1]), _mm_min_pd(low[2], low[3]));
  return _mm_cvtsd_f64(_mm_min_sd(low[0], _mm_unpackhi_pd(low[0], low[0])));
#else
  return lowest(n, [=](int32_t i) { return values[i]; });
#endif
}

// The lowest of n values above `floor`, which is none of infinity or less than 0.
DEVICE double lowest_above(int32_t n, const double* values, double floor) {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
  const __m128d infinity = _mm_set1_pd(kInfinity), low = _mm_set1_pd(floor);
  // Not a number where it is not above, and then minpd takes the other.
  const auto above = [=](__m128d x) { return _mm_or_pd(x, _mm_cmple_pd(x, low)); };
  __m128d lowest[2] = {infinity, infinity};
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    lowest[0] = _mm_min_pd(above(_mm_loadu_pd(values + i)), lowest[0]);
    lowest[1] = _mm_min_pd(above(_mm_loadu_pd(values + i + 2)), lowest[1]);
  }
  for (; i < n; ++i) lowest[0] = _mm_min_pd(above(_mm_load1_pd(values + i)), lowest[0]);
  lowest[0] = _mm_min_pd(lowest[0], lowest[1]);
  return _mm_cvtsd_f64(_mm_min_sd(lowest[0], _mm_unpackhi_pd(lowest[0], lowest[0])));
#else
  return lowest(n, [=](int32_t i) { return values[i] > floor ? values[i] : kInfinity; });
#endif
}

#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
// Bit i is set where value i of eight is at most the limit, which both numbers of `limits` are.
inline uint32_t eight_up_to(const double* values, __m128d limits) {
  const auto two = [=](int32_t i) { return _mm_movemask_pd(_mm_cmple_pd(_mm_loadu_pd(values + i), limits)) << i; };
  return static_cast<uint32_t>(two(0) | two(2) | two(4) | two(6));
}
#endif

// Calls f(i), in order, for each i < n whose value is at most `limit`. f writes no value of another i.
template <class F>
DEVICE void for_each_up_to(int32_t n, const double* values, double limit, const F& f) {
  int32_t i = 0;
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
  const __m128d limits = _mm_set1_pd(limit);
  for (; i + 8 <= n; i += 8)
    for (uint32_t mask = eight_up_to(values + i, limits); mask != 0; mask &= mask - 1) f(i + lowest_bit(mask));
#endif
  for (; i < n; ++i)
    if (values[i] <= limit) f(i);
}

// The first i < n whose value is at most `limit`, n when there is none.
DEVICE int32_t first_up_to(int32_t n, const double* values, double limit) {
  int32_t i = 0;
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
  const __m128d limits = _mm_set1_pd(limit);
  for (; i + 8 <= n; i += 8)
    if (const uint32_t mask = eight_up_to(values + i, limits)) return i + lowest_bit(mask);
#endif
  while (i < n && !(values[i] <= limit)) ++i;
  return i;
}

#ifdef TOPOFLOW_ON_GPU
// The lowest of the 64-bit values of a warp's lanes, whose halves are compared one after the other.
__device__ inline uint64_t lowest_of_warp(uint64_t value) {
  constexpr unsigned kAll = 0xffffffffu;
  const auto high = static_cast<unsigned>(value >> 32), low = static_cast<unsigned>(value);
  const unsigned min_high = __reduce_min_sync(kAll, high);
  const unsigned min_low = __reduce_min_sync(kAll, high == min_high ? low : kAll);
  return uint64_t{min_high} << 32 | min_low;
}
// Bits in the order of the numbers, which may be negative.
__device__ inline uint64_t ordered_bits(double value) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}
__device__ inline double from_ordered_bits(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits >> 63 ? bits & ~(uint64_t{1} << 63) : ~bits));
}
__device__ inline double lowest_number(double value) {  // not negative
  return __longlong_as_double(
      static_cast<long long>(lowest_of_warp(static_cast<uint64_t>(__double_as_longlong(value)))));
}

// Calls put(i, the lowest of row(i)) for i < n, by the threads of whole warps. Four lanes read a row, so that a warp
// reads whole sectors of memory.
template <class Row, class Put>
__device__ void lowest_of_rows(int32_t thread, int32_t threads, int32_t n, const Row& row, const Put& put) {
  constexpr int32_t width = 4;
#pragma unroll 1
  for (int32_t first = 0; first < n; first += threads / width) {
    const int32_t i = first + thread / width;
    double lowest = kInfinity;
    if (i < n) {
      const auto values = row(i);
#pragma unroll 8
      for (int32_t j = thread % width; j < values.size; j += width)
        lowest = values.first[j] < lowest ? values.first[j] : lowest;
    }
    for (int32_t step = width / 2; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(0xffffffffu, lowest, step);
      lowest = other < lowest ? other : lowest;
    }
    if (i < n && thread % width == 0) put(i, lowest);
  }
}
#endif

}  // namespace topoflow::BACKEND
