// Fast optical switches without buffers: an output accepts one of the packets that meet there; the switch refuses the
// others (NACK), and their transceivers send them again in the next slot. What finds the buffers of a server full
// waits, or is lost.
//
//   server (i, j) of rack i    sends to the others of rack i with `intra` transceivers,
//                              and to the servers (k, j) of other racks k with `inter` ones
//   (0, 0) to (1, 1)           over (0, 1) or (1, 0), which forwards with a transceiver of the other kind
//
// Source: FOSquare (Yan et al., Photonics 2021), 2; tests/twins/slotted_ack_nack.py says what it leaves open.
#pragma once

#include "parallel/random.h"
#include "slotted/world.h"

namespace topoflow::BACKEND::slotted {

constexpr uint32_t kPath = 2;  // purpose of random numbers, as those of requests.h

enum Kind : int32_t { kIntra = 0, kInter = 1 };
enum Ring : int32_t { kInjected = 0, kForwarded = 1 };

template <Team T>
struct Switches {
  World<T>& world;
  Transceivers& state = world.state.transceivers;
  const int32_t radix = world.batch.radix[world.world];  // servers of a rack
  const int32_t racks = world.nodes / radix;
  const int32_t intra = world.batch.intra[world.world];
  const int32_t count = intra + world.batch.inter[world.world];  // transceivers of a node
  const int32_t room = world.batch.room[world.world];
  const bool drops = world.batch.drops[world.world];
  const int32_t injected_room = drops ? room : room - 1;  // a place is reserved for forwarded packets, where these wait
  const int32_t words = static_cast<int32_t>(Transceivers::words(world.batch, world.world, world.nodes));
  int32_t* const refused = world.batch.refused + 2 * world.first_node;
  const int64_t* const arrive = world.batch.arrive + 2 * world.world;  // ps from the beginning of a slot, by kind
  const int32_t* const pause = world.batch.pause + 2 * world.world;    // slots until it can be sent on, by kind

  DEVICE int32_t kind_of(int32_t transceiver) const { return transceiver < intra ? kIntra : kInter; }
  DEVICE int32_t target_of(const Cell& cell) const { return world.state.flow[cell.task].target; }
  DEVICE int32_t member(int32_t node, int32_t kind) const { return kind == kIntra ? node % radix : node / radix; }
  DEVICE int32_t node_of(int32_t member, int32_t kind, int32_t other) const {
    return kind == kIntra ? other / radix * radix + member : member * radix + other % radix;
  }
  DEVICE Waiting& place(int32_t at, int32_t ring, int32_t i) const {
    int32_t slot = state.buffer[at].first[ring] + i;
    if (slot >= room) slot -= room;
    return state.waiting[(2 * at + ring) * room + slot];
  }

  // Returns the kind of transceiver by which a packet leaves its source.
  DEVICE int32_t first_kind(const Cell& cell, int32_t node, int32_t target) const {
    if (node / radix == target / radix) return kIntra;
    if (node % radix == target % radix) return kInter;
    const Words random_words = philox(
        {{static_cast<uint32_t>(cell.number), static_cast<uint32_t>(cell.task), 0, kPath}}, world.key[0], world.key[1]);
    return below(random_words.word[0], 2);
  }

  // Returns the transceiver of a kind with the fewest packets, if they are fewer than `limit`; else kNobody.
  DEVICE int32_t shortest(int32_t node, int32_t kind, int32_t limit) const {
    int32_t best = kNobody, shortest_length = limit;
    for (int32_t t = kind == kIntra ? 0 : intra; t < (kind == kIntra ? intra : count); ++t) {
      const Buffer& buffer = state.buffer[node * count + t];
      const int32_t length = buffer.count[kInjected] + buffer.count[kForwarded] + buffer.claimed;
      if (length < shortest_length) best = t, shortest_length = length;
    }
    return best;
  }

  DEVICE void push(int32_t at, int32_t ring, const Waiting& packet) const {
    place(at, ring, state.buffer[at].count[ring]) = packet;
    ++state.buffer[at].count[ring];
  }

  // Tasks of a server take turns to put a packet into a buffer, as fast as its cable is.
  DEVICE void fill(int32_t node, Server& server) const {
    server.surplus += world.epoch_time;
    for (int32_t misses = 0; server.surplus >= 0 && server.queue.head != kNone && misses < count;) {
      const int32_t task = server.queue.head;
      Flow& flow = world.state.flow[task];
      const Cell cell{task, flow.number};
      const bool has_left = leave(node, flow.target, cell);
      server.queue.head = flow.next_server;
      if (has_left)
        ++flow.number, --flow.unsent, server.surplus -= world.pace;
      else
        ++misses;
      if (flow.unsent) world.append(server.queue, task, &Flow::next_server, world.state.flow);
    }
    if (server.surplus > 0) server.surplus = 0;
  }

  // Returns whether a packet leaves its server: it is for the same node, finds room in a buffer, or is dropped.
  DEVICE bool leave(int32_t node, int32_t target, const Cell& cell) const {
    if (target == node) {
      world.deliver(cell, node, int64_t{world.epoch} * world.epoch_time);
      return true;
    }
    const int32_t at = shortest(node, first_kind(cell, node, target), injected_room);
    if (at == kNobody) {
      if (drops) world.drop(cell);
      return drops;
    }
    push(node * count + at, kInjected, {cell, world.epoch});
    ++world.state.node[node].queued;
    return true;
  }

  DEVICE void fill_at(int32_t node) const {
    for (int32_t i = world.first_server_of(node); i < world.first_server_of(node + 1); ++i)
      if (world.state.server[i].queue.head != kNone) fill(node, world.state.server[i]);
    world.note_fullest(node);
  }

  // Every transceiver sends the packet whose turn it is, with its label.
  DEVICE void offer_at(int32_t node) const {
    for (int32_t t = 0; t < count; ++t) {
      const int32_t at = node * count + t, kind = kind_of(t);
      const Buffer& buffer = state.buffer[at];
      state.offered[at] = kNobody;
      if (buffer.count[kForwarded] && place(at, kForwarded, 0).ready <= world.epoch)
        state.offered[at] = kForwarded;
      else if (buffer.count[kInjected])
        state.offered[at] = kInjected;
      else
        continue;
      const int32_t target = target_of(place(at, state.offered[at], 0).cell);
      const int32_t next = node_of(member(target, kind), kind, node);
      world.set_bit(state.senders + (next * count + t) * words, member(node, kind));
    }
  }

  // Each output of `node` accepts the packet of the next sender in turn for which there is room, and refuses the
  // others.
  DEVICE void answer_at(int32_t node) const {
    for (int32_t t = 0; t < count; ++t) {
      const int32_t at = node * count + t, kind = kind_of(t), members = kind == kIntra ? radix : racks;
      uint64_t* const senders = state.senders + at * words;
      state.incoming[at].from = kNobody;
      int32_t number = 0;
      for (int32_t word = 0; word < words; ++word) number += bits(senders[word]);
      if (!number) continue;
      World<T>::for_bits_from(senders, words, state.turn[at], [&](int32_t sender) {
        if (!accept(node, t, node_of(sender, kind, node))) return false;
        state.turn[at] = sender + 1 == members ? 0 : sender + 1;
        return true;
      });
      for (int32_t word = 0; word < words; ++word) senders[word] = 0;
      refused[2 * node + kind] += number - (state.incoming[at].from != kNobody);
    }
  }

  // Returns whether a packet of `source` can come by transceiver t: it is for `node`, there is room to forward it, or
  // it is dropped there, as the switch does not know that room.
  DEVICE bool accept(int32_t node, int32_t t, int32_t source) const {
    const int32_t from = source * count + t;
    const Cell cell = place(from, state.offered[from], 0).cell;
    int32_t next = kNobody;
    if (target_of(cell) != node) {
      next = shortest(node, 1 - kind_of(t), room);
      if (next != kNobody)
        ++state.buffer[node * count + next].claimed;
      else if (!drops)
        return false;
      else
        world.drop(cell), next = kDropped;
    }
    state.incoming[node * count + t] = {cell, source, next};
    state.accepted[from] = 1;
    return true;
  }

  // Accepted packets leave the buffers of their senders, and come to their receivers.
  DEVICE void move_at(int32_t node) const {
    for (int32_t t = 0; t < count; ++t) {
      const int32_t at = node * count + t;
      if (!state.accepted[at]) continue;
      state.accepted[at] = 0;
      Buffer& buffer = state.buffer[at];
      uint8_t& first = buffer.first[state.offered[at]];
      first = static_cast<uint8_t>(first + 1 == room ? 0 : first + 1);
      --buffer.count[state.offered[at]];
      --world.state.node[node].queued;
      ++world.state.node[node].hops;
    }
    for (int32_t t = 0; t < count; ++t) {
      const IncomingPacket& incoming = state.incoming[node * count + t];
      if (incoming.from == kNobody) continue;
      const int32_t kind = kind_of(t);
      if (world.batch.through) world.record(incoming.cell, incoming.from, 0);
      if (incoming.next == kDropped) continue;
      if (incoming.next == kNobody) {  // the cable to a server adds nothing but where several packets meet
        world.deliver(incoming.cell, node, int64_t{world.epoch} * world.epoch_time + arrive[kind] - world.pace);
      } else {
        push(node * count + incoming.next, kForwarded, {incoming.cell, world.epoch + pause[kind]});
        ++world.state.node[node].queued;
      }
    }
    for (int32_t t = 0; t < count; ++t) state.buffer[node * count + t].claimed = 0;
    world.note_fullest(node);
  }
};

struct AckNack {
  static constexpr int32_t kNumber = kAckNack;

  // Before the first slot: nothing waits.
  template <Team T>
  DEVICE static void begin(World<T>& world) {
    const Switches<T> switches{world};
    const int32_t all = world.nodes * switches.count;
    world.team.for_each(all, [&](int32_t at) {
      switches.state.buffer[at] = {{0, 0}, {0, 0}, 0};
      switches.state.accepted[at] = switches.state.turn[at] = 0;
      switches.state.incoming[at].from = kNobody;
    });
    world.team.for_each(all * switches.words, [&](int32_t at) { switches.state.senders[at] = 0; });
    world.team.for_each(2 * world.nodes, [&](int32_t at) { switches.refused[at] = 0; });
  }

  // One slot.
  template <Team T>
  DEVICE static void advance(World<T>& world) {
    const Switches<T> switches{world};
    world.team.for_each(world.nodes, [&](int32_t node) { switches.fill_at(node); });
    world.team.for_each(world.nodes, [&](int32_t node) { switches.offer_at(node); });
    world.team.for_each(world.nodes, [&](int32_t node) { switches.answer_at(node); });
    world.team.for_each(world.nodes, [&](int32_t node) { switches.move_at(node); });
  }
};

}  // namespace topoflow::BACKEND::slotted
