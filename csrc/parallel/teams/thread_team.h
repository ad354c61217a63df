// One thread as a team (team.h), on a CPU or a GPU.
#pragma once

#include <type_traits>

#include "lowest.h"

namespace topoflow::BACKEND {

class ThreadTeam {
 public:
  static constexpr bool kAlone = true;

  DEVICE std::byte* fast() const { return nullptr; }

  // Makes a T that all threads of the team read.
  template <class T, class... Arguments>
  DEVICE T emplace_shared(const Arguments&... arguments) const {
    return T(arguments...);
  }

  DEVICE void wait() const {}

  template <class F>
  DEVICE void for_each(int32_t n, F f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }

  // Calls f(i, read(i)) for each i < n. What f writes must be nothing that read reads for another i.
  template <class Read, class F>
  DEVICE void for_each(int32_t n, const Read& read, const F& f) const {
    for (int32_t i = 0; i < n; ++i) f(i, read(i));
  }

  template <class F>
  DEVICE double min(int32_t n, F f) const {
    return lowest(n, f);
  }
  DEVICE double min_of(int32_t n, const double* values) const { return lowest_of(n, values); }

  // Calls f once; the team has seen its effects after the next of these functions.
  template <class F>
  DEVICE void once(const F& f) const {
    f();
  }

  // Calls f(i) with the whole team for every i < n that is wanted, in order.
  template <class Wanted, class F>
  DEVICE void team_for_each_if(int32_t n, const Wanted& wanted, const F& f) const {
    for (int32_t i = 0; i < n; ++i)
      if (wanted(i)) f(i);
  }

  // Calls f(i), with all threads or with the whole team, for each i < n whose value is at most `limit`. f writes no
  // value of another i.
  template <class F>
  DEVICE void for_each_up_to(int32_t n, const double* values, double limit, const F& f) const {
    BACKEND::for_each_up_to(n, values, limit, f);
  }
  template <class F>
  DEVICE void team_for_each_up_to(int32_t n, const double* values, double limit, const F& f) const {
    BACKEND::for_each_up_to(n, values, limit, f);
  }

  // Calls put(i, the lowest of row(i)) for i < n.
  template <class Row, class Put>
  DEVICE void min_of_rows(int32_t n, const Row& row, const Put& put) const {
    for (int32_t i = 0; i < n; ++i) {
      const auto values = row(i);
      put(i, lowest_of(values.size, values.first));
    }
  }

  // The sum of n values of a type that is made of integers and has +.
  template <class F>
  DEVICE auto sum(int32_t n, F f) const {
    decltype(f(0)) total{};
    for (int32_t i = 0; i < n; ++i) total = total + f(i);
    return total;
  }

  // The sum of f(i, read(i)), numbers of 32 bits, as for_each().
  template <class Read, class F>
  DEVICE int32_t sum(int32_t n, const Read& read, const F& f) const {
    int32_t total = 0;
    for (int32_t i = 0; i < n; ++i) total += f(i, read(i));
    return total;
  }

  // The first i < n for which predicate(i), n when there is none.
  template <class F>
  DEVICE int32_t first(int32_t n, F predicate) const {
    int32_t i = 0;
    while (i < n && !predicate(i)) ++i;
    return i;
  }

  // The first i < n whose value is at most `limit`, n when there is none.
  DEVICE int32_t first_up_to(int32_t n, const double* values, double limit) const {
    return BACKEND::first_up_to(n, values, limit);
  }

  // Copies n values.
  template <class T>
  DEVICE void copy(int32_t n, const T* from, T* to) const {
    memcpy(to, from, n * sizeof(T));
  }

  // Writes the wanted ones of n items into `list`, in order, and calls f for each. Returns how many there are.
  template <class Item, class Wanted, class F>
  DEVICE int32_t pick(int32_t n, const Item& item, int32_t* list, const Wanted& wanted, const F& f) const {
    int32_t* end = list;
#ifndef TOPOFLOW_ON_GPU
#pragma GCC unroll 4
#endif
    for (int32_t i = 0; i < n; ++i) {
      *end = item(i);
      end += wanted(*end);  // no branch: which way it takes is hard to predict
    }
    const auto size = static_cast<int32_t>(end - list);
    for (int32_t i = 0; i < size; ++i) f(list[i]);
    return size;
  }

  // Keeps the wanted ones of n items, in order. Returns how many they are.
  template <class Wanted>
  DEVICE int32_t retain(int32_t n, int32_t* items, const Wanted& wanted) const {
    int32_t size = 0;
    for (int32_t i = 0; i < n; ++i)
      if (wanted(items[i])) items[size++] = items[i];
    return size;
  }

  template <class F>
  DEVICE bool any(int32_t n, F f) const {
    bool any_true = false;
    for (int32_t i = 0; i < n; ++i) any_true |= f(i);
    return any_true;
  }

  template <class T>
  DEVICE void set(T* to, const std::type_identity_t<T>& value) const {
    *to = value;
  }
  template <class T>
  DEVICE T get(const T* from) const {
    return *from;
  }

  // Reads a flag that the caller may change at any time.
  DEVICE bool poll(const int32_t* from) const { return *const_cast<const volatile int32_t*>(from) != 0; }

  // These return the previous value.
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

  // For numbers that are not negative.
  DEVICE void atomic_max(double* to, double value) const { *to = value > *to ? value : *to; }

  // n keys, none negative, and the lowest of them; no two are equal, unless they are infinite. Blocks of
  // about sqrt(n) keys have their lowest in `winner` [blocks].
  class Keys {
   public:
    // The keys are first(i).
    template <class F>
    DEVICE Keys(const ThreadTeam&, int32_t n, double* key, double* winner, int32_t blocks, const F& first)
        : key_(key), winner_(winner), n_(n) {
      while (int64_t{1} << 2 * log_ < n || n >> log_ >= blocks) ++log_;
      blocks_ = (n >> log_) + 1;
      for (int32_t i = 0; i < n; ++i) key[i] = first(i);
      for (int32_t block = 0; block < blocks_; ++block) winner[block] = lowest_of(size(block), key + (block << log_));
    }

    DEVICE double lowest() const { return lowest_of(blocks_, winner_); }

    // The lowest of the others, where key `place` is the lowest, `low`.
    DEVICE double others(int32_t place, double low) {
      block_ = place >> log_;
      others_in_block_ = lowest_above(size(block_), key_ + (block_ << log_), low);
      const double other_blocks = lowest_above(blocks_, winner_, low);
      return others_in_block_ < other_blocks ? others_in_block_ : other_blocks;
    }

    // After others().
    DEVICE void replace(int32_t place, double key) {
      key_[place] = key;
      winner_[block_] = key < others_in_block_ ? key : others_in_block_;
    }

   private:
    DEVICE int32_t size(int32_t block) const {
      return n_ - (block << log_) < 1 << log_ ? n_ - (block << log_) : 1 << log_;
    }

    double *key_, *winner_;
    double others_in_block_ = kInfinity;
    int32_t n_, log_ = 2, blocks_, block_ = 0;
  };
};

}  // namespace topoflow::BACKEND
