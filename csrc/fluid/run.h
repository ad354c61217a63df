// Worlds of a batch, one for each team, after what all worlds of a graph share has been prepared.
//
// Source: world.h has the physics.
#pragma once

#include "parallel/worlds.h"
#include "world.h"
#ifdef TOPOFLOW_ON_GPU
#include "rounds/by_rounds.h"
#endif

namespace topoflow::BACKEND {

// The dependencies the other way round: the followers of each task, in order.
class Followers {
 public:
  Followers(const Graphs& graphs, Stream stream) : offsets_(graphs.tasks + 1), tasks_(graphs.dependencies) {
    transpose(graphs.after_offsets, graphs.after, graphs.tasks, graphs.dependencies, offsets_.data(), tasks_.data(),
              stream);
  }

  const int64_t* offsets() const { return offsets_.data(); }
  const int32_t* tasks() const { return tasks_.data(); }

 private:
  Array<int64_t> offsets_;
  Array<int32_t> tasks_;
};

struct StateBytes {
  Batch batch;
  DEVICE int64_t operator()(int32_t world) const { return WorldData::bytes(WorldData::sizes_of(batch, world)); }
};

struct HotBytes {
  Batch batch;
  DEVICE int64_t operator()(int32_t world) const { return Hot::bytes(WorldData::sizes_of(batch, world).links); }
};

struct RunWorld {
  static constexpr int kThreads = 32;  // of a team on a GPU: most of its steps have 10 to 100 items
  static constexpr int kTeams = 16;    // that a multiprocessor has registers for: most of the time they wait for memory
  static constexpr int64_t kShared = sizeof(WorldData);

  Batch batch;
  const int64_t* rounds;  // [W] not 0: a block has run the world; null: none
  std::byte* memory;
  int64_t bytes;  // of one team

  // (A call would put the team into local memory.)
  INLINED void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    const int32_t world = batch.order[i];
    if (rounds && rounds[world] != 0) return;
    run_world<WorldData>(team, batch, world, Arena(memory + team_index * bytes));
  }
};

int64_t simulate(const Batch& input) {
  const DeviceGuard guard(input.device);
  const Stream stream = to_stream(input.stream);
  const Followers followers(input.graphs, stream);
  Batch batch = input;
  batch.graphs.follower_offsets = followers.offsets();
  batch.graphs.followers = followers.tasks();

  const int64_t bytes = max_bytes<StateBytes>(batch);
  const int64_t* rounds = nullptr;
#ifdef TOPOFLOW_ON_GPU
  const ByRounds blocks(batch);
  blocks.run(batch, bytes);
  if (blocks.all()) return bytes;
  rounds = blocks.needs();
#endif
  const int64_t hot = max_bytes<HotBytes>(batch);
  const Launch config = launch<RunWorld>(batch.worlds, bytes, batch.budget, batch.threads, hot);
  const Array<std::byte> memory(config.teams * bytes);
  for_each_team(batch.worlds, config, RunWorld{batch, rounds, memory.data(), bytes}, stream);
  return bytes;
}

}  // namespace topoflow::BACKEND
