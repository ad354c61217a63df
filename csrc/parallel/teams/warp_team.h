// A warp of a GPU as a team (team.h): it waits for none but its own lanes, and keeps what it can in their registers.
#pragma once

#include "device_team.h"

namespace topoflow::BACKEND {

class WarpTeam : public DeviceTeam<WarpTeam> {
 public:
  static constexpr int32_t kLanes = 32;
  static constexpr int32_t kAhead = 4;  // items that a lane reads before it uses the first: memory answers them at once
  static constexpr int32_t kPicked = 2 * kLanes;  // items that pick() looks at at once

  // B of shared memory that a team has for itself.
  static constexpr int64_t kScratchBytes = 2 * kPicked * sizeof(int32_t);

  // `scratch`: kScratchBytes of shared memory, and after them what emplace_shared() makes. `fast`: more of it, or null.
  __device__ WarpTeam(std::byte* scratch, std::byte* fast)
      : DeviceTeam(scratch + kScratchBytes, fast), picked_(reinterpret_cast<int32_t*>(scratch)) {}

  // The number of the next job of a launch.
  __device__ int32_t take(int32_t* next) const { return __shfl_sync(kAll, lane() == 0 ? atomicAdd(next, 1) : 0, 0); }

  // Until all lanes are here.
  __device__ void wait() const { __syncwarp(); }

  template <class F>
  __device__ void for_each(int32_t n, const F& f) const {
#pragma unroll 1
    for (int32_t i = lane(); i < n; i += kLanes) f(i);
    __syncwarp();
  }

  // Calls f(i, read(i)) for each i < n. What f writes must be nothing that read reads for another i.
  template <class Read, class F>
  __device__ void for_each(int32_t n, const Read& read, const F& f) const {
#pragma unroll 1
    for (int32_t first = lane(); first < n; first += kLanes * kAhead) {
      decltype(read(0)) values[kAhead];
#pragma unroll
      for (int32_t k = 0; k < kAhead; ++k) values[k] = read(first + k * kLanes < n ? first + k * kLanes : first);
#pragma unroll
      for (int32_t k = 0; k < kAhead; ++k)
        if (first + k * kLanes < n) f(first + k * kLanes, values[k]);
    }
    __syncwarp();
  }

  // Calls f(i) with the whole team for every i < n that is wanted, in order.
  template <class Wanted, class F>
  __device__ void team_for_each_if(int32_t n, const Wanted& wanted, const F& f) const {
#pragma unroll 1
    for (int32_t first = 0; first < n; first += kLanes) {
      const int32_t i = first + lane();
      unsigned wanted_lanes = __ballot_sync(kAll, i < n && wanted(i));
      if (wanted_lanes != 0) __syncwarp();  // until no lane reads what f writes
#pragma unroll 1
      for (; wanted_lanes != 0; wanted_lanes &= wanted_lanes - 1) f(first + __ffs(static_cast<int>(wanted_lanes)) - 1);
    }
  }

  template <class F>
  __device__ double min(int32_t n, const F& f) const {
    double lowest = kInfinity;
#pragma unroll 1
    for (int32_t i = lane(); i < n; i += kLanes) lowest = lower_of(lowest, f(i));
    return from_ordered_bits(lowest_of_warp(ordered_bits(lowest)));
  }
  __device__ double min_of(int32_t n, const double* values) const {
    double lowest = kInfinity;
#pragma unroll 4
    for (int32_t i = lane(); i < n; i += kLanes) lowest = lower_of(lowest, values[i]);
    return from_ordered_bits(lowest_of_warp(ordered_bits(lowest)));
  }

  // Calls put(i, the lowest of row(i)) for i < n.
  template <class Row, class Put>
  __device__ void min_of_rows(int32_t n, const Row& row, const Put& put) const {
    lowest_of_rows(lane(), kLanes, n, row, put);
    __syncwarp();
  }

  // The sum of n values: int32_t, or a type that is made of int64_t and has +.
  template <class F>
  __device__ auto sum(int32_t n, const F& f) const {
    decltype(f(0)) total{};
#pragma unroll 1
    for (int32_t i = lane(); i < n; i += kLanes) total = total + f(i);
    if constexpr (sizeof(total) == sizeof(int32_t)) {
      total = __reduce_add_sync(kAll, total);
    } else {
      long long word[sizeof(total) / sizeof(long long)];
      memcpy(word, &total, sizeof(total));
      for (long long& number : word)
        for (int32_t step = kLanes / 2; step > 0; step /= 2) number += __shfl_xor_sync(kAll, number, step);
      memcpy(&total, word, sizeof(total));
    }
    return total;
  }

  // The sum of f(i, read(i)), numbers of 32 bits, as for_each().
  template <class Read, class F>
  __device__ int32_t sum(int32_t n, const Read& read, const F& f) const {
    int32_t total = 0;
    for_each(n, read, [&](int32_t i, const auto& value) { total += f(i, value); });
    return __reduce_add_sync(kAll, total);
  }

  // The first i < n for which predicate(i), n when there is none.
  template <class F>
  __device__ int32_t first(int32_t n, const F& predicate) const {
    int32_t at = n;
#pragma unroll 1
    for (int32_t first = 0; first < n && at == n; first += kLanes) {
      const int32_t i = first + lane();
      const unsigned wanted_lanes = __ballot_sync(kAll, i < n && predicate(i));
      if (wanted_lanes != 0) at = first + __ffs(static_cast<int>(wanted_lanes)) - 1;
    }
    return at;
  }

  __device__ int32_t first_up_to(int32_t n, const double* values, double limit) const {
    return first(n, [=](int32_t i) { return values[i] <= limit; });
  }

  template <class F>
  __device__ bool any(int32_t n, const F& f) const {
    return first(n, f) < n;
  }

  // Copies n values.
  template <class T>
  __device__ void copy(int32_t n, const T* from, T* to) const {
    for_each(n, [=](int32_t i) { return from[i]; }, [=](int32_t i, const T& value) { to[i] = value; });
  }

  // Writes the wanted ones of n items into `list`, in order, and calls f for each. Returns how many there are. What f
  // writes must be nothing that item or wanted reads for another.
  template <class Item, class Wanted, class F>
  __device__ int32_t pick(int32_t n, const Item& item, int32_t* list, const Wanted& wanted, const F& f) const {
    int32_t* picked = picked_;
    int32_t size = 0;
#pragma unroll 1
    for (int32_t i = lane(); i - lane() < n; i += kPicked) {
      __builtin_assume(__isShared(picked));
      const int32_t j = i + kLanes;  // both are read before either is looked at: memory answers them at once
      const int32_t one = item(smaller_of(i, n - 1)), two = item(smaller_of(j, n - 1));
      const bool take_one = wanted(one) & (i < n), take_two = wanted(two) & (j < n);
      const unsigned ones = __ballot_sync(kAll, take_one), twos = __ballot_sync(kAll, take_two);
      const int32_t before = __popc(ones), count = before + __popc(twos);
      if (count == 0) continue;
      if (take_one) picked[below(ones)] = one;
      if (take_two) picked[before + below(twos)] = two;
      __syncwarp();  // also until no lane reads what f writes
#pragma unroll 1
      for (int32_t k = lane(); k < count; k += kLanes) {  // mostly once
        const int32_t picked_item = picked[k];
        list[size + k] = picked_item;
        f(picked_item);
      }
      size += count;
      picked = picked == picked_ ? picked_ + kPicked : picked_;  // others may still read what was picked
    }
    __syncwarp();
    return size;
  }

  // Keeps the wanted ones of n items, in order. Returns how many they are.
  template <class Wanted>
  __device__ int32_t retain(int32_t n, int32_t* items, const Wanted& wanted) const {
    int32_t size = 0;
#pragma unroll 1
    for (int32_t i = lane(); i - lane() < n; i += kLanes) {
      const int32_t item = i < n ? items[i] : 0;
      const bool take = i < n && wanted(item);
      const unsigned wanted_lanes = __ballot_sync(kAll, take);
      __syncwarp();  // all have read what is written now
      if (take) items[size + below(wanted_lanes)] = item;
      size += __popc(wanted_lanes);
    }
    __syncwarp();
    return size;
  }

  template <class T>
  __device__ T get(const T* from) const {
    return *from;
  }

  // Reads a flag that the host may change at any time.
  __device__ bool poll(const int32_t* from) const {
    return __any_sync(kAll, lane() == 0 && *const_cast<const volatile int32_t*>(from) != 0);
  }

  // n keys, none negative, and the lowest of them; no two are equal, unless they are infinite. Each lane has some of
  // them, which no other writes, and the lowest of these in a register.
  class Keys {
   public:
    // The keys are first(i).
    template <class F>
    __device__ Keys(const WarpTeam&, int32_t n, double* key, double*, int32_t, const F& first)
        : key_(key), shared_(n > kAlone * kLanes), n_(n) {
      if (shared_)
        while (n > kLanes << log_) ++log_;
      const int32_t from = lane() << log_, step = shared_ ? 1 : kLanes;
      const int32_t end = shared_ ? smaller_of(from + (1 << log_), n) : n;
#pragma unroll 1
      for (int32_t i = from; i < end; i += step) {
        key_[i] = first(i);
        winner_ = lower_of(winner_, key_[i]);
      }
    }

    __device__ double lowest() const { return lowest_number(winner_); }

    // The lowest of the others, where key `place` is the lowest, `low`.
    __device__ double others(int32_t place, double low) {
      is_owner_ = (place >> log_ & (kLanes - 1)) == lane();
      others_lowest_ = kInfinity;
      if (shared_) return others_of_shared(place);
#pragma unroll 1
      for (int32_t first = lane(); first - lane() < n_; first += kAhead * kLanes) {
        double keys[kAhead];
#pragma unroll
        for (int32_t k = 0; k < kAhead; ++k) keys[k] = first + k * kLanes < n_ ? key_[first + k * kLanes] : kInfinity;
#pragma unroll
        for (int32_t k = 0; k < kAhead; ++k)
          if (keys[k] > low) others_lowest_ = lower_of(others_lowest_, keys[k]);
      }
      return lowest_number(others_lowest_);
    }

    // After others().
    __device__ void replace(int32_t place, double key) {
      if (!is_owner_) return;
      key_[place] = key;
      winner_ = lower_of(key, others_lowest_);
    }

   private:
    // Keys of a lane at most, where each lane reads its own only, every 32nd of all. If there are more, a lane's keys
    // are a block, and all lanes read the block of one of them.
    static constexpr int32_t kAlone = 8;

    __device__ double others_of_shared(int32_t place) {
      const int32_t from = place >> log_ << log_, end = smaller_of(from + (1 << log_), n_);
      __syncwarp();  // until its lane has written. Of what others read now, it writes nothing before they come here
                     // again
#pragma unroll 1
      for (int32_t i = from + lane(); i < end; i += kLanes)
        if (i != place) others_lowest_ = lower_of(others_lowest_, key_[i]);
      others_lowest_ = lowest_number(others_lowest_);
      return lowest_number(is_owner_ ? others_lowest_ : winner_);
    }

    double* key_;
    double winner_ = kInfinity, others_lowest_ = kInfinity;
    int32_t log_ = 0;
    bool shared_, is_owner_ = false;
    int32_t n_;
  };

 private:
  __device__ static int32_t smaller_of(int32_t a, int32_t b) { return a < b ? a : b; }
  __device__ static double lower_of(double a, double b) { return a < b ? a : b; }  // fmin() asks if one is not a number

  __device__ static int32_t below(unsigned lanes) { return __popc(lanes & ((1u << lane()) - 1)); }  // this one

  int32_t* picked_;  // [kPicked] shared
};

}  // namespace topoflow::BACKEND
