// The common part of a block and a warp of a GPU as teams (team.h).
#pragma once

#include <new>
#include <type_traits>

#include "lowest.h"

namespace topoflow::BACKEND {

// `Derived` is the team: it has wait(), for_each() and team_for_each_if().
template <class Derived>
class DeviceTeam {
 public:
  static constexpr bool kAlone = false;

  // `shared`: shared memory where emplace_shared() has room; `fast`: more of it, or null.
  __device__ DeviceTeam(std::byte* shared, std::byte* fast) : shared_(shared), fast_(fast) {}

  __device__ std::byte* fast() const { return fast_; }

  // Makes a T that all threads read. They no longer read the one that was made before.
  template <class T, class... Arguments>
  __device__ T& emplace_shared(const Arguments&... arguments) const {
    derived().wait();
    once([&] { new (shared_) T(arguments...); });
    derived().wait();
    return *static_cast<T*>(Shared<T>(reinterpret_cast<T*>(shared_)));
  }

  // Calls f once; the team has seen its effects after the next of its functions that waits.
  template <class F>
  __device__ void once(const F& f) const {
    if (threadIdx.x == 0) f();
  }

  // One value for all threads, which any of them may change afterwards.
  template <class T>
  __device__ void set(T* to, const std::type_identity_t<T>& value) const {
    once([&] { *to = value; });
    derived().wait();
  }

  // Calls f(i), with all threads or with the whole team, for each i < n whose value is at most `limit`. f writes no
  // value of another i.
  template <class F>
  __device__ void for_each_up_to(int32_t n, const double* values, double limit, const F& f) const {
    derived().for_each(n, [&](int32_t i) {
      if (values[i] <= limit) f(i);
    });
  }
  template <class F>
  __device__ void team_for_each_up_to(int32_t n, const double* values, double limit, const F& f) const {
    derived().team_for_each_if(n, [&](int32_t i) { return values[i] <= limit; }, f);
  }

  // These return the previous value.
  __device__ int32_t atomic_add(int32_t* to, int32_t value) const { return atomicAdd(to, value); }
  __device__ int64_t atomic_add(int64_t* to, int64_t value) const {  // unsigned addition is signed addition
    return atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  }
  __device__ int32_t atomic_exchange(int32_t* to, int32_t value) const { return atomicExch(to, value); }

  // For numbers that are not negative: their bits are in the order of the numbers.
  __device__ void atomic_max(double* to, double value) const {
    atomicMax(reinterpret_cast<long long*>(to), __double_as_longlong(value));
  }

 protected:
  static constexpr unsigned kAll = 0xffffffffu;  // lanes of a warp

  __device__ static int32_t lane() { return static_cast<int32_t>(threadIdx.x % 32); }

 private:
  __device__ const Derived& derived() const { return static_cast<const Derived&>(*this); }

  std::byte *shared_, *fast_;
};

}  // namespace topoflow::BACKEND
