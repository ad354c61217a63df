// What changes of the paths while a world runs, and the links of short ones: on a CPU an array of each, so that a loop
// over one of them reads nothing else; on a GPU all of a path in one sector of 32 B, which is what its memory moves at
// once (CUDA C++ Best Practices Guide, coalesced access), so that whoever has read one of them has them all.
//
// Source: what rates.h and link_store.h ask for.
#pragma once

#include "arena.h"
#include "paths.h"

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

struct alignas(32) PathState {
  static constexpr int32_t kLinks = 8;
  static constexpr uint16_t kNone = 0xFFFF, kMany = 0xFFFE;

  struct Links {
    uint16_t link[kLinks];

    DEVICE bool many() const { return link[0] == kMany; }
    // How many there are before `none`.
    DEVICE int32_t count(int32_t none) const {
      int32_t n = 0;
      for (const uint16_t l : link) n += !many() & (l != none);
      return n;
    }
  };

  double rate;
  int32_t bottleneck, counted_flows;
  uint16_t link[kLinks];  // kNone after the last; kMany: more than that, or links with larger numbers

  DEVICE void set_links(const int32_t* links, int32_t n) {
    bool fit = n <= kLinks;
    for (int32_t i = 0; i < n && fit; ++i) fit = links[i] < kMany;
    for (int32_t i = 0; i < kLinks; ++i) link[i] = !fit ? kMany : i < n ? static_cast<uint16_t>(links[i]) : kNone;
  }
};

// One member of each of them, as an array.
template <auto kMember>
class PathField {
 public:
  PathField() = default;
  HD explicit PathField(PathState* state) : state_(state) {}

  DEVICE auto& operator[](int32_t p) const {
    PathState* const state = state_;
    return state[p].*kMember;
  }

 private:
  Global<PathState> state_;
};

struct PathStates {
  Global<PathState> state;           // [P]
  PathField<&PathState::rate> rate;  // [P] as in the struct of a CPU
  PathField<&PathState::bottleneck> bottleneck;
  PathField<&PathState::counted_flows> counted_flows;

  HD PathStates(Arena& arena, int64_t paths)
      : state(arena.take<PathState>(paths)), rate(state), bottleneck(state), counted_flows(state) {}

  DEVICE void set_links(int32_t p, const int32_t* links, int32_t n) const { state[p].set_links(links, n); }

  DEVICE PathState::Links links(int32_t p) const {
    PathState::Links all;
    memcpy(&all, state[p].link, sizeof(all));
    return all;
  }
  DEVICE uint16_t link(int32_t p, int32_t k) const { return state[p].link[k]; }
  // `none` in place of kNone, as the number of a link that nothing has.
  DEVICE void end_links(int32_t p, int32_t none) const {
    for (uint16_t& l : state[p].link) l = l == PathState::kNone ? static_cast<uint16_t>(none) : l;
  }

  // Calls f(link, link) for the path's links, two at once, and alone(link) for the last where their number is odd.
  template <class F, class Alone>
  DEVICE void for_each_two(const Row* rows, const int32_t* hops, int32_t p, const F& f, const Alone& alone) const {
    const PathState& path_state = state[p];
    uint32_t both[PathState::kLinks / 2];
    memcpy(both, path_state.link, sizeof(both));
    if (both[0] == (uint32_t{PathState::kMany} << 16 | PathState::kMany)) {
      const Row row = rows[p];
      for (int32_t i = 0; i < row.hops; ++i) alone(hops[row.first + i]);
      return;
    }
#pragma unroll
    for (const uint32_t two : both) {
      const auto first = static_cast<int32_t>(two & 0xFFFF), second = static_cast<int32_t>(two >> 16);
      if (first == PathState::kNone) return;
      if (second == PathState::kNone) return alone(first);
      f(first, second);
    }
  }
};

#else

struct PathStates {
  double* rate;            // [P] B/s of each flow, or kOpen: to be found, or kIdle: no flows
  int32_t* bottleneck;     // [P] the link that limits the path, kNoLink: to be found, kNoFlows
  int32_t* counted_flows;  // [P] flows that the links know of

  PathStates(Arena& arena, int64_t paths)
      : rate(arena.take<double>(paths)),
        bottleneck(arena.take<int32_t>(paths)),
        counted_flows(arena.take<int32_t>(paths)) {}

  void set_links(int32_t, const int32_t*, int32_t) const {}

  // Calls f(link, link) for the path's links, two at once, and alone(link) for the last where their number is odd.
  template <class F, class Alone>
  void for_each_two(const Row* rows, const int32_t* hops, int32_t p, const F& f, const Alone& alone) const {
    const Row row = rows[p];
    const int32_t* hop = hops + row.first;
    const int32_t *const end = hop + row.hops, *const last = end - 1;
    for (; hop < last; hop += 2) {
      const int32_t one = hop[0], other = hop[1];
      f(one, other);
    }
    if (hop < end) alone(*hop);
  }
};

#endif

}  // namespace topoflow::BACKEND
