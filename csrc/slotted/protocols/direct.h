// No detour: a cell waits at its source for the slot of its own destination, as if the source were its intermediate
// node.
#pragma once

#include "slotted/world.h"

namespace topoflow::BACKEND::slotted {

template <Team T>
DEVICE void direct(World<T>& world) {
  State& state = world.state;
  world.team.for_each(world.nodes, [&](int32_t source) {
    for (int32_t target = 0; target < world.nodes && state.node[source].active; ++target) {
      Queue& queue = state.queue[source * world.nodes + target];
      if (queue.reserved || state.local[source * world.nodes + target].head == kNone) continue;
      world.take(source, target, source, 0);
      queue.order = 0;
      queue.reserved = queue.count = 1;
      world.set_waiting(source, target);
    }
  });
}

}  // namespace topoflow::BACKEND::slotted
