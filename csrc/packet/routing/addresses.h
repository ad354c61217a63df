// Next hops by address, and which of two routes a packet takes.
//
// A packet is for an endpoint, and may first be routed to a middle: a group, or inside a group a router. Its `step`
// says which middle that is and which of the cables between two groups it takes next. A router looks up the port
// towards the middle, or else towards the endpoint; the port of another group leads to the router with the cable, then
// over it. A table has a port, or a set of equally good ones: the router draws one of them.
//
//   a dragonfly's levels of links  up  local global local  down      up < local < global < down
//   virtual channel                0   0     0      1                one more wherever the level does not rise
//
// (channel, level) rises along every route, so buffers never wait for each other in a circle.
//
// Source: Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, 4 (routes and
// their virtual channels); topoflow/fabric/routing/next_hops.py says what the tables are.
#pragma once

#include "packet/state.h"
#include "parallel/random.h"

namespace topoflow::BACKEND::packet {

constexpr int32_t kCables = 256;         // at most between two groups: a step is the cable and kCables * (middle + 1)
constexpr int32_t kUp = 0, kDown = 127;  // levels; those of links between routers lie between them
constexpr int32_t kBetweenGroups = 2;    // of a dragonfly

// Returns the channel of a packet after an input and an output of a router; kNone: it has arrived.
DEVICE int32_t channel_after(const Input& input, const Output& output) {
  if (output.level == kDown) return kNone;
  const bool rises = input.level != kUp && output.level <= input.level;
  return output.first_channel + input.virtual_channel + rises;
}

// The steps of a packet from its first router to its target or to a middle; kNone: there is no middle.
struct Steps {
  int32_t direct, around;
};

class Addresses {
 public:
  DEVICE Addresses(const PacketBatch& batch, int32_t world)
      : routing(batch.address.routing[world]),
        groups(batch.address.groups[world]),
        routers(batch.address.routers[world]),
        cables(batch.address.cables[world]),
        endpoint_(batch.address.endpoint_offsets[world]),
        b_(batch),
        inside_(batch.address.inside + batch.address.inside_offsets[world]),
        outside_(batch.address.outside + batch.address.outside_offsets[world]),
        group_(batch.address.router_group + batch.address.router_offsets[world]),
        set_(batch.address.set_begin + batch.address.set_offsets[world]),
        port_(batch.ports.port_offsets[world]) {}

  DEVICE int32_t router_of(int32_t endpoint) const { return b_.address.endpoint_router[endpoint_ + endpoint]; }
  DEVICE int32_t level(int32_t port) const { return b_.address.level[port_ + port]; }
  DEVICE int32_t end(int32_t port) const { return b_.address.end[port_ + port]; }  // router where the link ends

  // Return the entry towards a group, or towards a router of the same group.
  DEVICE const int32_t* towards(int32_t router, int32_t group, int32_t cable) const {
    return outside_ + (int64_t{router} * groups + group) * cables + cable;
  }
  DEVICE const int32_t* across(int32_t router, int32_t place) const {
    return inside_ + int64_t{router} * routers + place;
  }

  DEVICE static int32_t step_by(int32_t middle, int32_t cable) { return kCables * (middle + 1) + cable; }
  DEVICE static int32_t middle(int32_t step) { return step / kCables - 1; }  // group, or groups + place of a router
  DEVICE static int32_t cable(int32_t step) { return step % kCables; }
  DEVICE int32_t by_next_cable(int32_t step) const { return step_by(middle(step), (cable(step) + 1) % cables); }

  // Returns whether the packet has reached its middle.
  DEVICE bool is_at_middle(int32_t router, int32_t step) const {
    const int32_t to = middle(step);
    if (to < 0) return false;
    return to >= groups ? router == group_[router] * routers + to - groups : group_[router] == to;
  }

  // Returns the port, or set of ports, by which a router sends packets for an endpoint.
  DEVICE int32_t next(int32_t router, int32_t endpoint, int32_t step) const {
    return *next(router, endpoint, router_of(endpoint), step);
  }
  // Returns the place of that entry.
  INLINED_ON_CPU const int32_t* next(int32_t router, int32_t endpoint, int32_t target, int32_t step) const {
    const int32_t to = middle(step), group = target / routers;
    if (to >= groups) return across(router, to - groups);
    if (to >= 0) return towards(router, to, cable(step));
    if (router == target) return b_.address.down + endpoint_ + endpoint;
    return group_[router] == group ? across(router, target % routers) : towards(router, group, cable(step));
  }

  // Return the ports of a table's entry: how many, and one of them.
  DEVICE int32_t count(int32_t entry) const {
    return entry >= 0 ? 1 : static_cast<int32_t>(set_[-1 - entry] - set_[-2 - entry]);
  }
  DEVICE int32_t port(int32_t entry, int32_t place) const {
    return entry >= 0 ? entry : b_.address.set_links[set_[-2 - entry] + place];
  }

  // Returns the middle of Valiant's route: a third group, or inside a group a third router; kNone: there is none.
  DEVICE int32_t draw_middle(int32_t router, int32_t target, uint32_t word) const {
    const int32_t source_group = router / routers, target_group = target / routers;
    return source_group == target_group ? plus(groups, other(router % routers, target % routers, routers, word))
                                        : other(source_group, target_group, groups, word);
  }

  DEVICE int32_t draw_direct(const Words& words) const { return step_by(kNone, below(words.word[0], cables)); }

  // Returns what a packet draws at its first router.
  DEVICE Steps draw_steps(int32_t router, int32_t target, const Words& words) const {
    const int32_t direct = draw_direct(words);
    if (routing == kMinimal || router == target) return {direct, kNone};
    const int32_t middle = draw_middle(router, target, words.word[1]);
    return {direct, middle == kNone ? kNone : step_by(middle, below(words.word[2], cables))};
  }

  // Returns the number of links between routers on the route to an endpoint.
  DEVICE int32_t hops(int32_t router, int32_t endpoint, int32_t step) const {
    int32_t count = 0;
    for (;; ++count) {
      if (is_at_middle(router, step)) step = step_by(kNone, cable(step));
      const int32_t out = port(next(router, endpoint, step), 0);
      if (level(out) == kDown) return count;
      router = end(out);
    }
  }

  const int32_t routing, groups, routers, cables;

 private:
  DEVICE static int32_t plus(int32_t first, int32_t place) { return place == kNone ? kNone : first + place; }

  // Returns a number below n that is neither of two others; kNone: there is none.
  DEVICE static int32_t other(int32_t one, int32_t two, int32_t n, uint32_t word) {
    if (n < 3) return kNone;
    const int32_t low = one < two ? one : two, high = one < two ? two : one;
    int32_t number = below(word, n - 2);
    number += number >= low;
    return number + (number >= high);
  }

  int64_t endpoint_;
  const PacketBatch& b_;
  const int32_t *inside_, *outside_, *group_;
  const int64_t* set_;  // where each set begins
  int64_t port_;
};

}  // namespace topoflow::BACKEND::packet
