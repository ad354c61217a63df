// Requests and grants, as Sirius' protocol and its ideal have them: for cells in LOCAL random nodes are asked to send
// one on, which they promise as long as they have room.
//
// Source: Sirius (Ballani et al., SIGCOMM 2020), 4.3 and Figure 15; tests/twins/slotted.py says what these leave open.
#pragma once

#include "parallel/random.h"
#include "slotted/world.h"

namespace topoflow::BACKEND::slotted {

enum Purpose : uint32_t { kRequest = 0, kGrant = 1 };  // of random numbers

// Figure 15, lines 1 to 12: for random cells of LOCAL a request to a random node for each.
template <Team T>
DEVICE void request_from(World<T>& world, int32_t source) {
  State& state = world.state;
  const auto epoch = static_cast<uint32_t>(world.epoch);
  Active* const flows = world.active_of(source);
  uint16_t* const candidates = state.candidate + source * world.pairs;
  uint16_t* const requests = state.request + source * world.pairs;
  const int32_t destinations = state.node[source].destinations;
  int32_t count = state.node[source].active;
  constexpr int32_t kBlocks = T::kAlone ? 4 : 1;  // of words that are drawn together
  Words words[kBlocks];
  for (int32_t number = 0; number < destinations && count; ++number) {
    const int32_t within = number % (4 * kBlocks), remaining = destinations - number;
    if (!within) {
      const Words first{{static_cast<uint32_t>(number / 4), static_cast<uint32_t>(source), epoch, kRequest}};
      philox<kBlocks>(first, world.key[0], world.key[1], words);
    }
    const auto [place, index] = below(words[within / 4].word[within % 4], count, remaining);
    const uint16_t node = candidates[index];
    candidates[index] = candidates[remaining - 1];
    candidates[remaining - 1] = node;
    Active& flow = flows[place];
    if (world.forwards(node, flow.target)) {
      requests[node] = flow.target;
      world.set_bit(state.requested + node * world.words, source);
    }
    flow.num_requests = static_cast<uint16_t>((flow.epoch == world.epoch) * flow.num_requests + 1);
    flow.epoch = world.epoch;
    if (flow.num_requests < flow.local) continue;
    const Active last = flows[--count];  // the flow is no longer in the set, which is those before
    flows[count] = flow;
    flow = last;
    state.flow[flows[count].task].place = count;
    state.flow[last.task].place = place;
  }
}

// Figure 15, lines 14 to 22: requests are granted as long as there is room.
template <Team T>
DEVICE void grant_at(World<T>& world, int32_t node) {
  State& state = world.state;
  uint64_t* const requested = state.requested + node * world.words;
  uint16_t* const grants = state.grant + node * world.pairs;
  const int32_t column = world.column_of(node);
  const Words words = philox({{0, static_cast<uint32_t>(node), static_cast<uint32_t>(world.epoch), kGrant}},
                             world.key[0], world.key[1]);
  World<T>::for_bits_from(requested, world.words, below(words.word[0], world.nodes), [&](int32_t source) {
    const uint16_t target = state.request[source * world.pairs + node];
    Queue& queue = state.queue[node * world.columns + target];
    if (queue.reserved >= static_cast<uint32_t>(world.room)) return false;
    ++queue.reserved;
    grants[source] = target;
    world.set_bit(state.answered + source * world.column_words, column);
    return false;
  });
  for (int32_t at = 0; at < world.words; ++at) requested[at] = 0;
}

// A cell that is granted leaves LOCAL for the queue of the node that granted it.
template <Team T>
DEVICE void receive_grants_at(World<T>& world, int32_t source) {
  State& state = world.state;
  uint64_t* const answered = state.answered + source * world.column_words;
  World<T>::for_bits(answered, world.column_words, [&](int32_t column) {
    const int32_t node = state.node_at[column];
    const uint16_t target = state.grant[node * world.pairs + source];
    if (state.local[source * world.columns + target].head == kNone) {
      state.unused[source * world.pairs + node] = target;
      world.set_bit(state.declined + node * world.words, source);
      return;
    }
    world.send_to(source, column, world.take(source, target), target);
  });
  for (int32_t at = 0; at < world.column_words; ++at) answered[at] = 0;
}

template <Team T>
DEVICE void compute_requests(World<T>& world) {
  world.team.for_each(world.nodes, [&](int32_t node) {
    if (world.state.node[node].active) request_from(world, node);
  });
}

template <Team T>
DEVICE void compute_grants(World<T>& world) {
  world.team.for_each(world.nodes, [&](int32_t node) {
    uint64_t any = 0;
    for (int32_t at = 0; at < world.words; ++at) any |= world.state.requested[node * world.words + at];
    if (any) grant_at(world, node);
  });
}

template <Team T>
DEVICE void receive_grants(World<T>& world) {
  world.team.for_each(world.nodes, [&](int32_t node) { receive_grants_at(world, node); });
}

}  // namespace topoflow::BACKEND::slotted
