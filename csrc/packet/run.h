// Worlds of packets, one for each team. Source: world.h has the physics.
#pragma once

#include "parallel/worlds.h"
#include "world.h"

namespace topoflow::BACKEND {
namespace packet {

struct StateBytes {
  PacketBatch batch;
  HD int64_t operator()(int32_t world) const { return (State(Memory(nullptr), batch, world).bytes + 63) / 64 * 64; }
};

template <bool kUsual>
struct Run {
  static constexpr int kThreads = 32;       // of a team on a GPU
  static constexpr int32_t kWindows = 256;  // between two looks at `cancel`

  PacketBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t place, int32_t i) const {
    const int32_t world = batch.order[i];
    World<kUsual> one(batch, world, memory + place * bytes);
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

int64_t packets(const PacketBatch& batch) {
  const bool usual = batch.output_queues && !batch.by_age;
  return usual ? run_worlds<packet::Run<true>, packet::StateBytes>(batch)
               : run_worlds<packet::Run<false>, packet::StateBytes>(batch);
}

}  // namespace topoflow::BACKEND
