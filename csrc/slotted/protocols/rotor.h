// RotorLB: links that carry K cells in a slot send what is stored for the other node, then what is for it, then what
// the other node accepts to send on. An epoch is one slot, so that columns are nodes.
//
//   K = 4, LOCAL of 0 has 9 cells for 2, in a slot in which it is joined to 1, which has none
//     -> 1 accepts 4, which its next link to 2 can carry; in the slot in which 0 is joined to 2 it sends 4 others
//
// Source: RotorNet (Mellette et al., SIGCOMM 2017), RotorLB; tests/twins/slotted_rotor.py says what it leaves open.
#pragma once

#include "slotted/world.h"

namespace topoflow::BACKEND::slotted {

// Whom switches join in a slot: node i and i + 0, i + 1, ... A link sends its cells at the first times of the slot. A
// protocol has such a type.
template <Team T>
struct Shifts {
  const World<T>& world;
  const RotorTables& tables = world.state.rotors;
  const int32_t switches = world.batch.switches[world.world];
  const int32_t cycle = (world.nodes + switches - 1) / switches;
  const int32_t slot = world.epoch % cycle;
  // Cells of a link in a slot: as many as a node stores for another one (Rotors.stored), a number that all code here
  // needs anyway. Reading it again takes 40 B of a GPU's stack.
  const int32_t link_capacity = world.room;

  // The node that a switch joins `node` to, for what it sends; kNone: no other, or a part on the way failed.
  DEVICE int32_t target_of(int32_t node, int32_t rotor) const {
    const int32_t shift = rotor * cycle + slot, end = node + shift, to = end < world.nodes ? end : end - world.nodes;
    return shift && shift < world.nodes && world.sends_to(node, to) ? to : kNone;
  }

  DEVICE int32_t source_of(int32_t node, int32_t rotor) const {
    const int32_t shift = rotor * cycle + slot, end = node - shift, from = end < 0 ? end + world.nodes : end;
    return shift && shift < world.nodes && world.sends_to(from, node) ? from : kNone;
  }

  // Cells of a link of a switch.
  DEVICE int32_t carries(int32_t) const { return link_capacity; }

  // Returns whether cells of a task do not wait for their link.
  DEVICE bool is_prompt(int32_t) const { return false; }

  // The first time in which a link sends nothing, and the one after its last cell.
  DEVICE int32_t free_of(int64_t link) const { return tables.count[link]; }
  DEVICE int32_t end_of(int64_t link) const { return tables.count[link]; }

  // Returns whether a link sends a cell at this time, which lies before end_of().
  DEVICE bool is_busy(int64_t, int32_t) const { return true; }

  // Marks a free time as used, and all times as free: here the count of cells says so.
  DEVICE void take(int64_t, int32_t) const {}
  DEVICE void clear(int64_t) const {}
};

template <Team T, class Joined>
struct Links {
  World<T>& world;
  const Joined joined{world};
  State& state = world.state;
  const RotorTables& tables = world.state.rotors;
  const int32_t nodes = world.nodes;
  const int32_t switches = joined.switches;
  const int32_t link_capacity = joined.link_capacity;                  // K
  const int64_t* const arrive = world.batch.arrive + 2 * world.world;  // ps: the first cell, and each further one

  DEVICE int64_t link_of(int32_t node, int32_t rotor) const { return int64_t{node} * switches + rotor; }

  // Returns the row of a receiver's link in `offered` and `accepted`.
  DEVICE int64_t row_of(int32_t node, int32_t rotor) const { return node * tables.row + rotor * nodes; }

  // A link of `node` sends a cell at a time of the slot that is free.
  DEVICE void send_at(int32_t node, int64_t link, int32_t time, const Cell& cell) const {
    tables.sent[link * link_capacity + time] = cell;
    ++tables.count[link];
    joined.take(link, time);
    ++state.node[node].hops;
    if (world.batch.through) world.record(cell, node, 0);
  }

  DEVICE void send(int32_t node, int64_t link, const Cell& cell) const {
    --state.node[node].queued;
    send_at(node, link, joined.free_of(link), cell);
  }

  // A slot begins: links of `node` have sent nothing.
  DEVICE void clear(int32_t node) const {
    for (int64_t link = link_of(node, 0); link < link_of(node + 1, 0); ++link) {
      tables.count[link] = 0;
      joined.clear(link);
    }
  }

  // Sends the cells that are stored for the nodes that `node` is joined to, then those in LOCAL for them.
  DEVICE void send_direct(int32_t node) const {
    int32_t free = 0;
    for (int32_t rotor = 0; rotor < switches; ++rotor) {
      const int32_t to = joined.target_of(node, rotor);
      if (to == kNone) continue;
      const int64_t link = link_of(node, rotor);
      const int32_t limit = joined.carries(rotor);
      while (tables.count[link] < limit && state.queue[node * nodes + to].count)
        send(node, link, world.next_relayed(node, to));
      while (tables.count[link] < limit && state.local[node * nodes + to].head != kNone)
        send(node, link, world.take(node, to));
      free += tables.count[link] < limit;
    }
    tables.free[node] = free;
    int32_t* const backlog = tables.backlog + node * nodes;
    for (int32_t to = 0; to < nodes; ++to) backlog[to] = 0;
    const Active* const flows = world.active_of(node);
    for (int32_t i = 0; i < state.node[node].active; ++i)
      if (!joined.is_prompt(flows[i].task)) backlog[flows[i].target] += flows[i].local;
  }

  // Links take turns to bring a cell, and each goes round the destinations.
  DEVICE void accept_at(int32_t node) const {
    int32_t* const space = tables.space + node * nodes;
    for (int32_t to = 0; to < nodes; ++to) {
      const int32_t at = node * nodes + to;
      space[to] = world.room - tables.backlog[at] - static_cast<int32_t>(state.queue[at].count);
      if (to == node || !world.sends_to(node, to)) space[to] = 0;
    }
    for (int32_t rotor = 0; rotor < switches; ++rotor) compute_offers(node, rotor);
    const int32_t first = world.epoch % switches;
    for (bool any = true; any;) {
      any = false;
      for (int32_t i = 0; i < switches; ++i)
        any |= accept_one(node, first + i < switches ? first + i : first + i - switches);
    }
  }

  // Cells that come by a link may be sent on: their sender splits those left for each destination evenly over its free
  // links. The remainder goes to another link in each cycle, as a cell may have to take a certain one.
  DEVICE void compute_offers(int32_t node, int32_t rotor) const {
    const int32_t from = joined.source_of(node, rotor);
    const int64_t link = link_of(node, rotor);
    tables.share[link] = {0, node + 1 == nodes ? 0 : node + 1};
    const int64_t row = row_of(node, rotor);
    uint8_t *const offered = tables.offered + row, *const accepted = tables.accepted + row;
    for (int32_t to = 0; to < nodes; ++to) accepted[to] = 0;
    if (from == kNone) return;
    const int32_t* const count = tables.count + from * switches;
    const int32_t unused_capacity = joined.carries(rotor) - count[rotor];
    tables.share[link].capacity = unused_capacity;
    if (!unused_capacity) return;
    const int32_t free = tables.free[from];
    int32_t rank = world.epoch / joined.cycle % free;
    for (int32_t other = 0; other < rotor; ++other)
      rank += joined.target_of(from, other) != kNone && count[other] < joined.carries(other);
    uint64_t* const open = tables.open + link * world.words;
    for (int32_t word = 0; word < world.words; ++word) open[word] = 0;
    for (int32_t to = 0; to < nodes; ++to) {
      const int32_t cells = (tables.backlog[from * nodes + to] + (rank + to) % free) / free;
      offered[to] = static_cast<uint8_t>(cells < link_capacity ? cells : link_capacity);
      if (cells && tables.space[node * nodes + to] > 0) world.set_private_bit(open, to);
    }
  }

  // The next cell of a link, if there is one for which there is room. A link that has none is asked no more.
  DEVICE bool accept_one(int32_t node, int32_t rotor) const {
    const int64_t link = link_of(node, rotor), row = row_of(node, rotor);
    Share& share = tables.share[link];
    if (!share.capacity) return false;
    uint64_t* const open = tables.open + link * world.words;
    bool has_room = false;
    World<T>::for_bits_from(open, world.words, share.next, [&](int32_t to) {
      int32_t& space = tables.space[node * nodes + to];
      uint8_t& offered = tables.offered[row + to];
      has_room = space > 0;
      if (has_room) {
        --space;
        ++tables.accepted[row + to];
        share.next = to + 1 == nodes ? 0 : to + 1;
      }
      if (!has_room || !--offered) open[to >> kWordLog] &= ~World<T>::bit(to);
      return has_room;
    });
    share.capacity = has_room ? share.capacity - 1 : 0;
    return has_room;
  }

  // Sends the cells that were accepted.
  DEVICE void send_accepted(int32_t node) const {
    for (int32_t rotor = 0; rotor < switches; ++rotor) {
      const int32_t receiver = joined.target_of(node, rotor);
      if (receiver == kNone) continue;
      const uint8_t* const accepted = tables.accepted + row_of(receiver, rotor);
      for (int32_t to = 0; to < nodes; ++to)
        for (int32_t i = 0; i < accepted[to]; ++i) send(node, link_of(node, rotor), world.take(node, to));
    }
  }

  // Cells come: the first of all links, by switch, then the second. Those of low latency have been sent on.
  DEVICE void receive_at(int32_t node) const {
    int64_t time = world.epoch * world.epoch_time + arrive[0];
    bool any = true;
    for (int32_t number = 0; any; ++number, time += arrive[1]) {
      any = false;
      for (int32_t rotor = 0; rotor < switches; ++rotor) {
        const int32_t from = joined.source_of(node, rotor);
        const int64_t link = link_of(from, rotor);
        if (from == kNone || number >= joined.end_of(link)) continue;
        any = true;
        if (!joined.is_busy(link, number)) continue;
        const Cell cell = tables.sent[link * link_capacity + number];
        const int32_t to = state.flow[cell.task].target;
        if (to == node) {
          world.deliver(cell, node, time);
        } else if (!joined.is_prompt(cell.task)) {
          ++state.queue[node * nodes + to].reserved;
          world.relay(node, to, cell);
          ++state.node[node].queued;
        }
      }
    }
    world.note_fullest(node);
    world.serve_cables(node);
  }

  // Runs the rest of a slot by RotorLB, after send_direct.
  DEVICE void balance() const {
    world.team.for_each(nodes, [&](int32_t node) { accept_at(node); });
    world.team.for_each(nodes, [&](int32_t node) { send_accepted(node); });
    world.team.for_each(nodes, [&](int32_t node) { receive_at(node); });
  }
};

struct RotorLB : Scheduled {
  static constexpr int32_t kNumber = kRotorLB;

  // One slot.
  template <Team T>
  DEVICE static void advance(World<T>& world) {
    world.inject();
    const Links<T, Shifts<T>> links{world};
    world.team.for_each(world.nodes, [&](int32_t node) {
      links.clear(node);
      links.send_direct(node);
    });
    links.balance();
  }
};

}  // namespace topoflow::BACKEND::slotted
