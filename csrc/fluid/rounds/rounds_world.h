// Worlds whose rates a block of a GPU's threads finds by rounds: those that fit in a multiprocessor's shared memory and
// have neither weights nor limits.
//
// Source: rounds.h.
#pragma once

#include "by_rounds.h"
#include "fluid/world.h"
#include "parallel/worlds.h"
#include "rounds.h"

namespace topoflow::BACKEND {

struct RoundsData : WorldData {
  using Solver = Rounds;
  using Ends = const Rounds::Ends;

  std::byte* fast;

  DEVICE RoundsData(const Batch& batch, int32_t world, Arena arena, std::byte* fast)
      : WorldData(batch, world, arena, nullptr), fast(fast) {}

  DEVICE Rounds solver() { return {rates, state.ends.key, fast}; }
  DEVICE Rounds::Ends ends(const Rounds& rounds) const { return rounds.ends(); }
};

struct RunByRounds {
  static constexpr int kThreads = 128;  // of a team
  static constexpr int kTeams = 8;      // that a multiprocessor has registers for, and memory for 3,000 paths of each
  static constexpr int64_t kShared = sizeof(RoundsData);

  Batch batch;
  const int64_t* needs;  // [W] B of shared memory; 0: it is not run by rounds
  std::byte* memory;
  int64_t bytes;  // of one team

  INLINED void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    const int32_t world = batch.order[i];
    if (needs[world] != 0) run_world<RoundsData>(team, batch, world, Arena(memory + team_index * bytes));
  }
};

// Returns the bytes that a world needs of `room`; 0 if it does not fit, or rounds cannot run it.
struct RoundsBytes {
  Batch batch;
  int64_t room;

  DEVICE int64_t operator()(int32_t world) const {
    const Paths paths = WorldData::paths_of(batch, world);
    const int64_t count = WorldData::sizes_of(batch, world).paths, bytes = Rounds::bytes(count, paths.world_links);
    const bool fits = count <= Rounds::kMaxCount && paths.world_links <= Rounds::kMaxCount && bytes <= room;
    return fits && has_similar_links(world, paths.world_links) && neutral(paths, static_cast<int32_t>(count)) ? bytes
                                                                                                              : 0;
  }

 private:
  // No link has much less than another.
  DEVICE bool has_similar_links(int32_t world, int32_t links) const {
    const double* const bandwidth = batch.capacity + batch.link_offsets[world];
    double min_bandwidth = kInfinity, max_bandwidth = 0;
    for (int32_t l = 0; l < links; ++l) {
      max_bandwidth = bandwidth[l] > max_bandwidth ? bandwidth[l] : max_bandwidth;
      min_bandwidth = bandwidth[l] > 0 && bandwidth[l] < min_bandwidth ? bandwidth[l] : min_bandwidth;
    }
    return max_bandwidth >= Rounds::kMinBandwidth && min_bandwidth >= max_bandwidth * Rounds::kSpread;
  }

  // All weights are one, and there are no limits, whatever the other graphs of the batch have.
  DEVICE static bool neutral(const Paths& paths, int32_t count) {
    bool neutral = true;
    for (int64_t hop = paths.offsets[0]; paths.weight && neutral && hop < paths.offsets[count]; ++hop)
      neutral = paths.weight[hop] == 1;
    for (int32_t p = 0; paths.limit && neutral && p < count; ++p) neutral = paths.limit[p] == kInfinity;
    return neutral;
  }
};

struct IsZero {
  const int64_t* values;
  DEVICE int64_t operator()(int32_t i) const { return values[i] == 0; }
};

ByRounds::ByRounds(const Batch& batch) : needs_(batch.worlds), stream_(to_stream(batch.stream)) {
  const int64_t room = max_shared_bytes<RunByRounds>() - kSharedBytes<RunByRounds>;
  tabulate(batch.worlds, RoundsBytes{batch, room}, needs_.data(), batch.threads, stream_);
  max_bytes_ = max_of(needs_.data(), batch.worlds, stream_);
  const Array<int64_t> not_by_rounds(batch.worlds);
  tabulate(batch.worlds, IsZero{needs_.data()}, not_by_rounds.data(), batch.threads, stream_);
  all_ = max_of(not_by_rounds.data(), batch.worlds, stream_) == 0;
}

void ByRounds::run(const Batch& batch, int64_t bytes) const {
  if (max_bytes_ == 0) return;
  const Launch config = launch<RunByRounds>(batch.worlds, bytes, batch.budget, batch.threads, max_bytes_);
  const Array<std::byte> memory(config.teams * bytes);
  for_each_team(batch.worlds, config, RunByRounds{batch, needs_.data(), memory.data(), bytes}, stream_);
}

}  // namespace topoflow::BACKEND
