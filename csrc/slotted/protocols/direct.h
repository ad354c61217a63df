// No detour: a cell waits at its source for the slot of its own destination, as if the source were its intermediate
// node.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 4.1, "simple direct routing".
#pragma once

#include "slotted/world.h"

namespace topoflow::BACKEND::slotted {

struct Direct : Scheduled {
  static constexpr int32_t kNumber = kDirect;

  template <Team T>
  DEVICE static void advance(World<T>& world) {
    world.inject();
    State& state = world.state;
    world.team.for_each(world.nodes, [&](int32_t source) {
      for (int32_t target = 0; target < world.columns && state.node[source].active; ++target) {
        const int32_t at = source * world.columns + target;
        if (state.queue[at].reserved || state.local[at].head == kNone) continue;
        if (!world.sends_to(source, state.node_at[target])) continue;
        state.queue[at].reserved = 1;
        world.relay(source, target, world.take(source, target));
      }
    });
    world.send();
  }
};

}  // namespace topoflow::BACKEND::slotted
