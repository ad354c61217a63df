// Chains, one for each team: builds, proposes or accepts. Source: contention.h has the physics.
#pragma once

#include "contention.h"

namespace topoflow::BACKEND {

struct RunContention {
  static constexpr int kThreads = 128;  // of a team on a GPU: most of its steps have a server for an item
  static constexpr bool kFast = false;

  ContentionBatch batch;
  double* memory;
  int64_t numbers;  // of one team

  HD static int64_t numbers_of(const ContentionBatch& batch) {
    return CoflowLoads::kept_numbers(batch.strategies, batch.ways.coflows) +
           Contention::numbers(batch.strategies, batch.ways);
  }

  DEVICE void operator()(const Team& team, int32_t place, int32_t chain) const {
    const CoflowLoads loads(batch, chain);
    double* const start = memory + place * numbers;
    const Contention contention(batch.strategies, batch.ways, loads,
                                start + CoflowLoads::kept_numbers(batch.strategies, batch.ways.coflows));
    if (batch.step == Step::kBuild) {
      loads.build(team);
      write(team, batch.coflows.makespan, chain, contention.makespan(team, kInfinity));
    } else if (batch.step == Step::kAccept) {
      if (batch.mask[chain]) accept(team, loads, chain);
    } else {
      propose(team, loads, contention, chain, start);
    }
  }

  DEVICE void accept(const Team& team, const CoflowLoads& loads, int32_t chain) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    if (choice != loads.choice(layer)) loads.change(team, layer, choice);
    write(team, batch.coflows.makespan, chain, batch.proposed[chain]);
  }

  DEVICE void propose(const Team& team, const CoflowLoads& loads, const Contention& contention, int32_t chain,
                      double* kept) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    if (batch.limit[chain] < 0) return write(team, batch.proposed, chain, 0);
    if (choice == loads.choice(layer)) return write(team, batch.proposed, chain, batch.coflows.makespan[chain]);
    const double limit = batch.limit[chain], least = contention.reduces(layer, choice);
    if (least > limit) return write(team, batch.proposed, chain, least);
    loads.with(team, layer, choice, kept,
               [&] { write(team, batch.proposed, chain, contention.makespan(team, limit)); });
  }

  DEVICE static void write(const Team& team, double* to, int32_t chain, double value) {
    team.for_each(1, [=](int32_t) { to[chain] = value; });
  }
};

void contention(const ContentionBatch& batch) {
  const DeviceGuard guard(batch.device);
  const int64_t numbers = RunContention::numbers_of(batch);
  const int64_t bytes = numbers * static_cast<int64_t>(sizeof(double));
  const int32_t chains = batch.coflows.chains;
  const Launch how = launch<RunContention>(chains, bytes, batch.budget, batch.threads);
  const Memory memory(how.teams * bytes);
  const RunContention run{batch, reinterpret_cast<double*>(memory.start()), numbers};
  for_each_team(chains, how, run, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
