// Rotor switches that turn one after another: cells of low latency take a shortest path of the slot, all of it within
// the slot; what they leave is for bulk, by RotorLB.
//
//   K = 4 times of a slot, 0 joined to 1 and 1 to 2; two cells of low latency from 0 to 2
//     time    0   1   2   3
//     0 -> 1  a   b   .   .     . is free for bulk
//     1 -> 2  .   a   b   .
//
// Source: Opera (Mellette et al., NSDI 2020); tests/twins/slotted_opera.py says what it leaves open.
#pragma once

#include "slotted/protocols/rotor.h"

namespace topoflow::BACKEND::slotted {

// Whom switches join in a slot: drawn matchings of both directions. The times of the slot at which a link sends a cell
// are bits: cells of low latency have some, and those of bulk the first free ones.
template <Team T>
struct Staggered {
  const World<T>& world;
  const RotorTables& tables = world.state.rotors;
  const int32_t switches = world.batch.switches[world.world];
  const int32_t cycle = world.nodes;
  const int32_t slot = world.epoch % cycle;
  const int32_t link_capacity = world.batch.carries[2 * world.world];
  const int32_t words = (link_capacity + kWordBits - 1) / kWordBits;
  const int32_t turning = world.batch.carries[2 * world.world + 1];
  const int32_t matchings = world.nodes / switches;  // of a switch
  const int32_t* const low_latency = world.batch.low_latency + world.first_task;
  const uint8_t* const drawn = reinterpret_cast<const uint8_t*>(world.batch.drawn + world.batch.drawn_at[world.world]);
  const uint8_t* const routes = drawn + int64_t{world.nodes} * world.nodes * (slot + 1);

  DEVICE int32_t joined_to(int32_t node, int32_t rotor) const {
    return drawn[(rotor * matchings + (slot + rotor) / switches % matchings) * world.nodes + node];
  }

  // kNone: no other, or a part on the way failed.
  DEVICE int32_t target_of(int32_t node, int32_t rotor) const {
    const int32_t to = joined_to(node, rotor);
    return to != node && world.sends_to(node, to) ? to : kNone;
  }

  DEVICE int32_t source_of(int32_t node, int32_t rotor) const { return target_of(node, rotor); }

  DEVICE int32_t carries(int32_t rotor) const {
    return (slot + rotor) % switches == switches - 1 ? turning : link_capacity;
  }

  DEVICE bool is_prompt(int32_t task) const { return low_latency[task]; }

  // The first time of a slot from `time` on in which a link sends nothing; `link_capacity`: there is none.
  DEVICE int32_t free_from(int64_t link, int32_t time) const {
    for (int32_t word = time >> kWordLog; word < words; ++word, time = 0) {
      const uint64_t free = ~tables.busy[link * words + word] & ~(World<T>::bit(time) - 1);
      const int32_t free_time = free ? word * kWordBits + lowest_bit(free) : link_capacity;
      if (free) return free_time < link_capacity ? free_time : link_capacity;
    }
    return link_capacity;
  }

  DEVICE int32_t free_of(int64_t link) const {
    const int32_t count = tables.count[link];
    return count == tables.end[link] ? count : free_from(link, 0);  // no time before is free
  }

  DEVICE int32_t end_of(int64_t link) const { return tables.end[link]; }

  DEVICE bool is_busy(int64_t link, int32_t time) const {
    return tables.busy[link * words + (time >> kWordLog)] & World<T>::bit(time);
  }

  DEVICE void take(int64_t link, int32_t time) const {
    World<T>::set_private_bit(tables.busy + link * words, time);
    if (time >= tables.end[link]) tables.end[link] = time + 1;
  }

  DEVICE void clear(int64_t link) const {
    tables.end[link] = 0;
    for (int32_t word = 0; word < words; ++word) tables.busy[link * words + word] = 0;
  }
};

template <Team T>
struct LowLatency {
  const Links<T, Staggered<T>>& links;
  World<T>& world = links.world;
  State& state = world.state;
  const RotorTables& tables = links.tables;
  const int32_t nodes = world.nodes;
  const int32_t pause = world.batch.pause[2 * world.world];  // times from a hop to the next

  // Nodes take turns for a cell each, beginning with another one in each slot; at a node flows do.
  DEVICE void send() const {
    const int32_t first = world.epoch % nodes;
    for (bool any = true; any;) {
      any = false;
      for (int32_t i = 0; i < nodes; ++i) any |= send_one(first + i < nodes ? first + i : first + i - nodes);
    }
    for (int32_t node = 0; node < nodes; ++node) {
      tables.prompt[node] = tables.blocked[node];
      tables.blocked[node] = {kNone, kNone};
    }
  }

  // Sends a cell of the next flow whose path has a time left on each link. Other flows send nothing more in this slot.
  DEVICE bool send_one(int32_t node) const {
    Ends& list = tables.prompt[node];
    while (list.head != kNone) {
      const int32_t task = list.head, target = state.flow[task].target;
      if (follow(node, target, [](int32_t, int64_t, int32_t) {})) {
        const Cell cell = world.take(node, list);
        --state.node[node].queued;
        follow(node, target, [&](int32_t at, int64_t link, int32_t time) { links.send_at(at, link, time, cell); });
        return true;
      }
      list.head = state.flow[task].next_local;
      World<T>::append(tables.blocked[node], task, &Flow::next_local, state.flow);
    }
    return false;
  }

  // Calls send(node, link, time) for each hop of a path. Returns false if there is no path, or no time is left on one
  // of its links.
  template <class F>
  DEVICE bool follow(int32_t node, int32_t target, const F& send) const {
    for (int32_t time = 0; node != target; time += pause) {
      const int32_t rotor = links.joined.routes[node * nodes + target];
      if (rotor == kNowhere) return false;
      const int64_t link = links.link_of(node, rotor);
      time = time < links.link_capacity ? links.joined.free_from(link, time) : links.link_capacity;
      if (time == links.link_capacity) return false;
      send(node, link, time);
      node = links.joined.joined_to(node, rotor);
    }
    return true;
  }

  static constexpr int32_t kNowhere = 255;
};

struct Opera {
  static constexpr int32_t kNumber = kOpera;

  template <Team T>
  DEVICE static void begin(World<T>& world) {
    const RotorTables& tables = world.state.rotors;
    world.team.for_each(world.nodes,
                        [&](int32_t node) { tables.prompt[node] = tables.blocked[node] = {kNone, kNone}; });
  }

  // One slot.
  template <Team T>
  DEVICE static void advance(World<T>& world) {
    const Links<T, Staggered<T>> links{world};
    world.inject([&](int32_t task, const Flow& flow) -> Ends& {
      return links.joined.is_prompt(task) ? links.tables.prompt[flow.source] : world.local_of(flow);
    });
    const LowLatency<T> low_latency{links};
    world.team.for_each(world.nodes, [&](int32_t node) { links.clear(node); });
    world.team.for_each(1, [&](int32_t) { low_latency.send(); });
    world.team.for_each(world.nodes, [&](int32_t node) { links.send_direct(node); });
    links.balance();
  }
};

}  // namespace topoflow::BACKEND::slotted
