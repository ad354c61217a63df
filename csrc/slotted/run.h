// Worlds of slots, one for each team. Source: world.h has the physics.
#pragma once

#include <algorithm>

#include "parallel/worlds.h"
#include "protocols/ack_nack.h"
#include "protocols/direct.h"
#include "protocols/ideal.h"
#include "protocols/opera.h"
#include "protocols/request_grant.h"
#include "protocols/rotor.h"

namespace topoflow::BACKEND {
namespace slotted {

struct StateBytes {
  SlottedBatch batch;
  DEVICE int64_t operator()(int32_t i) const { return State(Memory(nullptr), batch, batch.order[i]).bytes; }
};

// Worlds of one protocol. Each has a kernel of its own, so that none needs the registers of another.
template <class P>
struct Run {
  static constexpr int kThreads = 128;     // of a team on a GPU: the racks of the paper's network
  static constexpr int kTeams = 4;         // that a multiprocessor has registers for
  static constexpr int32_t kEpochs = 256;  // between two looks at `cancel` and at progress

  SlottedBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  template <Team T>
  DEVICE void operator()(const T& team, int32_t team_index, int32_t i) const {
    const int32_t index = batch.order[i];
    World<T> world(team, batch, index, memory + team_index * bytes);
    world.begin();
    P::begin(world);
    int32_t status = kRunning;
    team.set(&batch.status[index], kRunning);
    for (int32_t epoch = 0; status == kRunning; epoch = (epoch + 1) % kEpochs) {
      if (!epoch && team.poll(batch.cancel)) {
        status = kCancelled;
      } else if (!epoch && world.is_stuck()) {
        status = kStarved;
      } else {
        status = world.begin_epoch();
        if (status != kRunning) break;
        P::advance(world);
        world.end_epoch();
      }
    }
    world.end();
    team.set(&batch.status[index], status);
  }
};

// The worlds of this protocol, which are the next ones in `order`; the batch is what is left.
template <class P>
int64_t run_next(SlottedBatch& batch) {
  SlottedBatch part = batch;
  part.worlds = batch.counts[P::kNumber];
  batch.order += part.worlds;
  return part.worlds ? run_worlds<Run<P>, StateBytes>(part) : 0;
}

template <class... P>
int64_t run_all(SlottedBatch batch) {
  return std::max({run_next<P>(batch)...});
}

}  // namespace slotted

int64_t slots(const SlottedBatch& batch) {
  using namespace slotted;  // in the order of their numbers
  return run_all<RequestGrant, Ideal, Direct, AckNack, RotorLB, Opera>(batch);
}

}  // namespace topoflow::BACKEND
