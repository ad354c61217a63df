// A *team* runs one world: one thread, or a block or a warp of threads of a GPU. Kernels take it as a template
// parameter. (A warp and a thread also offer what only csrc/fluid needs.)
//
// All threads of a team call the same team functions in the same order, so what decides which one comes next must be
// the same for all of them. Functions after which memory is another (for_each, set, pick, ...; not once) end with the
// whole team having seen their effects. Those that only read (min, sum, first, any, get, ...) return the same to all
// threads, but a warp does not wait in them: no thread may write what another still reads since the last function that
// waits.
#pragma once

#include <concepts>

#include "teams/thread_team.h"
#ifdef TOPOFLOW_ON_GPU
#include "teams/block_team.h"
#include "teams/warp_team.h"
#endif

namespace topoflow::BACKEND {

template <class T>
concept Team = requires(const T& team, int32_t* integer, int64_t* wide, double* number, double (*value)(int32_t)) {
  { T::kAlone } -> std::convertible_to<bool>;  // one thread: no other touches the world's state
  team.wait();
  team.for_each(int32_t{}, value);
  { team.min(int32_t{}, value) } -> std::same_as<double>;
  { team.get(integer) } -> std::same_as<int32_t>;
  { team.poll(integer) } -> std::same_as<bool>;
  team.set(integer, int32_t{});
  { team.atomic_add(integer, int32_t{}) } -> std::same_as<int32_t>;
  { team.atomic_add(wide, int64_t{}) } -> std::same_as<int64_t>;
  { team.atomic_exchange(integer, int32_t{}) } -> std::same_as<int32_t>;
  team.atomic_max(number, double{});
};

// A growing list in memory that the team shares. Its order depends on the schedule of the threads, so nothing may
// depend on it.
struct List {
  Global<int32_t> items;  // one more than it will ever have
  Global<int32_t> size;

  DEVICE int32_t operator[](int32_t i) const { return items[i]; }
  DEVICE int32_t count(const Team auto& team) const { return team.get(static_cast<const int32_t*>(size)); }
  DEVICE void clear(const Team auto& team) const { team.set(static_cast<int32_t*>(size), 0); }
  // Like clear(), but the team sees it only after the next function that waits.
  DEVICE void forget(const Team auto& team) const {
    team.once([&] { *static_cast<int32_t*>(size) = 0; });
  }
  DEVICE void append(const Team auto& team, int32_t item) const { items[team.atomic_add(size, 1)] = item; }

  template <Team T>
  DEVICE void append_if(const T& team, bool condition, int32_t item) const {
    if constexpr (T::kAlone) {  // no branch: which way it takes is hard to predict
      int32_t* const count = size;
      items[*count] = item;
      *count += condition;
    } else if (condition) {
      append(team, item);
    }
  }
};

}  // namespace topoflow::BACKEND
