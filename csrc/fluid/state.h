// The memory that a team needs to run one world. Source: what world.h, maxmin.h and tournament.h ask for.
#pragma once

#include <cstddef>

#include "covered.h"
#include "flows.h"
#include "maxmin.h"

namespace topoflow::BACKEND {

// Hands out arrays from one block of memory, or only counts their bytes.
class Arena {
 public:
  HD explicit Arena(std::byte* memory) : memory_(memory) {}

  template <class T>
  HD T* take(int64_t n) {
    T* const array = memory_ ? reinterpret_cast<T*>(memory_ + taken_) : nullptr;
    taken_ += (n * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    return array;
  }

  HD List list(int64_t n) {
    int32_t* const items = take<int32_t>(n + 2);  // append_if writes one too many; behind it the size
    return {items, items ? items + n + 1 : nullptr};
  }

  HD Tournament tournament(int64_t n) {
    const int64_t blocks = Tournament::blocks(n);
    return {take<double>(n), take<double>(blocks),    take<int32_t>(blocks),
            list(blocks),    static_cast<int32_t>(n), Tournament::log_block(n)};
  }

  HD int64_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  int64_t taken_ = 0;
};

struct Sizes {
  int64_t tasks, paths, hops, links;  // the last two with those of the paths' limits
};

// What a team keeps while it runs a world of T tasks, P paths, H hops and L links, limits counted as in Sizes.
struct State {
  Link* link;           // [L]
  Share* share;         // [L]
  Held* held;           // [L]
  double* before;       // [P] B/s
  Tournament queue;     // links by B/s
  List touched;         // links
  int32_t* fills;       // [L] links
  double* rate;         // [P] B/s, see MaxMin
  int32_t* bottleneck;  // [P] links
  int32_t* counted;     // [P] flows
  int32_t* hops;        // [H] links
  Row* rows;            // [P]
  int32_t* left;        // [P] events
  List candidates;      // paths
  List others;          // paths
  int32_t* members;     // [H] paths
  Flows* flows;         // [P]
  Tournament ends;      // paths by s
  List changed;         // paths
  Flow* flow;           // [T]
  int32_t* pending;     // [T] tasks in `after` that are not over
  Tournament waits;     // tasks by s
  List due, over;       // tasks

  HD State(Arena& arena, const Sizes& n)
      : link(arena.take<Link>(n.links)),
        share(arena.take<Share>(n.links)),
        held(arena.take<Held>(n.links)),
        before(arena.take<double>(n.paths)),
        queue(arena.tournament(n.links)),
        touched(arena.list(n.links)),
        fills(arena.take<int32_t>(n.links)),
        rate(arena.take<double>(n.paths)),
        bottleneck(arena.take<int32_t>(n.paths)),
        counted(arena.take<int32_t>(n.paths)),
        hops(arena.take<int32_t>(n.hops)),
        rows(arena.take<Row>(n.paths)),
        left(arena.take<int32_t>(n.paths)),
        candidates(arena.list(n.paths)),
        others(arena.list(n.paths)),
        members(arena.take<int32_t>(n.hops)),
        flows(arena.take<Flows>(n.paths)),
        ends(arena.tournament(n.paths)),
        changed(arena.list(n.paths)),
        flow(arena.take<Flow>(n.tasks)),
        pending(arena.take<int32_t>(n.tasks)),
        waits(arena.tournament(n.tasks)),
        due(arena.list(n.tasks)),
        over(arena.list(n.tasks)) {}

  HD static int64_t bytes(const Sizes& n) {
    Arena arena(nullptr);
    State(arena, n);
    return arena.taken();
  }
};

}  // namespace topoflow::BACKEND
