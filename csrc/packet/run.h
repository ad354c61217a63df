// Worlds of packets, one for each team. Source: world.h has the physics.
#pragma once

#include "parallel/worlds.h"
#include "world.h"

namespace topoflow::BACKEND {
namespace packet {

struct StateBytes {
  PacketBatch batch;
  HD int64_t operator()(int32_t world) const { return State(Memory(nullptr), batch, world).bytes; }
};

struct Run {
  static constexpr int kThreads = 32;       // of a team on a GPU
  static constexpr int32_t kWindows = 256;  // between two looks at `cancel`

  PacketBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t place, int32_t i) const {
    const int32_t world = batch.order[i];
    std::byte* const own = memory + place * bytes;
    const bool by_turns = !batch.by_age && !batch.by_arrival;
    if (batch.output_queues && by_turns && batch.routing[world] == kByPaths && !batch.transport.is_on) {
      run(team, world, World<true>(batch, world, own));
    } else {
      run(team, world, World<false>(batch, world, own));
    }
  }

 private:
  template <bool kUsual>
  DEVICE void run(const Team auto& team, int32_t world, World<kUsual> one) const {
    team.set(&batch.status[world], kRunning);
    team.for_each(1, [&](int32_t) { one.begin(); });
    while (team.get(&batch.status[world]) == kRunning) {
      if (team.poll(batch.cancel)) {
        team.set(&batch.status[world], kCancelled);
      } else {
        team.for_each(1, [&](int32_t) { batch.status[world] = one.advance(kWindows); });
      }
    }
    team.for_each(1, [&](int32_t) { one.end(); });
  }
};

}  // namespace packet

int64_t packets(const PacketBatch& batch) { return run_worlds<packet::Run, packet::StateBytes>(batch); }

}  // namespace topoflow::BACKEND
