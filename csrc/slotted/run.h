// Worlds of slots, one for each team. Source: world.h has the physics.
#pragma once

#include "parallel/worlds.h"
#include "protocols/ack_nack.h"
#include "protocols/direct.h"
#include "protocols/ideal.h"
#include "protocols/request_grant.h"
#include "protocols/rotor.h"

namespace topoflow::BACKEND {
namespace slotted {

struct StateBytes {
  SlottedBatch batch;
  HD int64_t operator()(int32_t world) const { return State(Memory(nullptr), batch, world).bytes; }
};

struct Run {
  static constexpr int kThreads = 128;     // of a team on a GPU: the racks of the paper's network
  static constexpr int32_t kEpochs = 256;  // between two looks at `cancel` and at progress

  SlottedBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  template <Team T>
  DEVICE void operator()(const T& team, int32_t place, int32_t i) const {
    const int32_t index = batch.order[i];
    World<T> world(team, batch, index, memory + place * bytes);
    world.begin();
    if (batch.protocol[index] == kAckNack) begin_ack_nack(world);
    int32_t status = kRunning;
    team.set(&batch.status[index], kRunning);
    for (int32_t epoch = 0; status == kRunning; epoch = (epoch + 1) % kEpochs) {
      if (!epoch && team.poll(batch.cancel))
        status = kCancelled;
      else if (!epoch && world.is_stuck())
        status = kStarved;
      else
        status = advance(world);
    }
    world.end();
    team.set(&batch.status[index], status);
  }

  // One epoch. Returns a Status.
  template <Team T>
  DEVICE int32_t advance(World<T>& world) const {
    const int32_t status = world.begin_epoch();
    if (status != kRunning) return status;
    if (batch.protocol[world.world] == kAckNack)
      ack_nack(world);
    else
      follow_schedule(world);
    world.end_epoch();
    return kRunning;
  }

  template <Team T>
  DEVICE void follow_schedule(World<T>& world) const {
    world.inject();
    switch (batch.protocol[world.world]) {
      case kRotorLB:
        rotor_lb(world);
        return;
      case kIdeal:
        ideal(world);
        break;
      case kDirect:
        direct(world);
        break;
      default:
        request_grant(world);
    }
    world.send();
  }
};

}  // namespace slotted

int64_t slots(const SlottedBatch& batch) { return run_worlds<slotted::Run, slotted::StateBytes>(batch); }

}  // namespace topoflow::BACKEND
