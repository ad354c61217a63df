// One thread as a team (team.h), on a CPU or a GPU.
#pragma once

#include "lowest.h"

namespace topoflow::BACKEND {

class ThreadTeam {
 public:
  static constexpr bool kAlone = true;

  DEVICE std::byte* fast() const { return nullptr; }

  DEVICE void wait() const {}

  template <class F>
  DEVICE void for_each(int32_t n, F f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  DEVICE double min(int32_t n, F f) const {
    return lowest(n, f);
  }
  DEVICE double min_of(int32_t n, const double* values) const { return lowest_of(n, values); }
  DEVICE double min_above(int32_t n, const double* values, double floor) const {
    return lowest_above(n, values, floor);
  }

  // The sum of n values of a type that is made of integers and has +.
  template <class F>
  DEVICE auto sum(int32_t n, F f) const {
    decltype(f(0)) total{};
    for (int32_t i = 0; i < n; ++i) total = total + f(i);
    return total;
  }

  // The first i < n for which found(i), n when there is none.
  template <class F>
  DEVICE int32_t first(int32_t n, F found) const {
    int32_t i = 0;
    while (i < n && !found(i)) ++i;
    return i;
  }

  // What is at `from` is at `to` as well.
  template <class T>
  DEVICE void copy(int32_t n, const T* from, T* to) const {
    memcpy(to, from, n * sizeof(T));
  }

  // The list becomes those i < n that are wanted.
  template <class List, class F>
  DEVICE void select(int32_t n, const List& list, F wanted) const {
    int32_t* end = list.items;
    for (int32_t i = 0; i < n; ++i) {
      *end = i;
      end += wanted(i);
    }
    const auto size = static_cast<int32_t>(end - list.items);
    *list.size = size;
  }

  // The list becomes those of n items that are wanted.
  template <class List, class F>
  DEVICE void filter(int32_t n, const int32_t* items, const List& list, F wanted) const {
    int32_t* end = list.items;
#ifndef TOPOFLOW_ON_GPU
#pragma GCC unroll 4
#endif
    for (int32_t i = 0; i < n; ++i) {
      *end = items[i];
      end += wanted(items[i]);
    }
    const auto size = static_cast<int32_t>(end - list.items);
    *list.size = size;
  }

  template <class F>
  DEVICE bool any(int32_t n, F f) const {
    bool found = false;
    for (int32_t i = 0; i < n; ++i) found |= f(i);
    return found;
  }

  DEVICE void set(int32_t* to, int32_t value) const { *to = value; }
  DEVICE int32_t get(const int32_t* from) const { return *from; }

  // What the caller may change at any time.
  DEVICE bool poll(const int32_t* from) const { return *const_cast<const volatile int32_t*>(from) != 0; }

  // These return what was there before.
  template <class T>
  DEVICE T atomic_add(T* to, T value) const {
    const T before = *to;
    *to += value;
    return before;
  }
  DEVICE int32_t atomic_exchange(int32_t* to, int32_t value) const {
    const int32_t before = *to;
    *to = value;
    return before;
  }

  DEVICE void atomic_add_both(int64_t* to, int64_t first, int64_t second) const {
#if defined(__SSE2__) && !defined(TOPOFLOW_ON_GPU)
    __m128i* const both = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(both, _mm_add_epi64(_mm_loadu_si128(both), _mm_set_epi64x(second, first)));
#else
    to[0] += first;
    to[1] += second;
#endif
  }

  // Of numbers that are not negative.
  DEVICE void atomic_max(double* to, double value) const { *to = value > *to ? value : *to; }
};

}  // namespace topoflow::BACKEND
