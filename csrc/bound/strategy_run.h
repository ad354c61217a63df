// Chains, one for each team: builds, proposes or accepts. Source: strategy_bound.h has the physics.
#pragma once

#include "strategy_bound.h"

namespace topoflow::BACKEND {

struct RunStrategy {
  static constexpr int kThreads = 128;  // of a team on a GPU: most of its steps have a server for an item
  static constexpr bool kFast = false;

  StrategyBatch batch;
  double* memory;
  int64_t numbers;  // of one team

  HD static int64_t numbers_of(const Strategies& s) {
    return StrategyBound::numbers(s) + StrategyState::kept_numbers(s);
  }

  DEVICE void operator()(const Team& team, int32_t place, int32_t chain) const {
    const StrategyState state(batch, chain);
    double* const start = memory + place * numbers;
    const StrategyBound bound(batch.strategies, state, start + StrategyState::kept_numbers(batch.strategies));
    if (batch.step == Step::kBuild) {
      state.build(team);
      write(team, batch.chains.makespan, chain, bound.makespan(team, kInfinity));
    } else if (batch.step == Step::kAccept) {
      if (batch.mask[chain]) accept(team, state, chain);
    } else {
      propose(team, state, bound, chain, start);
    }
  }

  DEVICE void accept(const Team& team, const StrategyState& state, int32_t chain) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    if (choice != state.choice(layer)) state.change(team, layer, choice);
    write(team, batch.chains.makespan, chain, batch.proposed[chain]);
  }

  DEVICE void propose(const Team& team, const StrategyState& state, const StrategyBound& bound, int32_t chain,
                      double* kept) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    const double limit = batch.limit[chain];
    if (limit < 0) return write(team, batch.proposed, chain, 0);
    if (choice == state.choice(layer)) return write(team, batch.proposed, chain, batch.chains.makespan[chain]);
    const double least = bound.reduces(layer, choice);
    if (least > limit) return write(team, batch.proposed, chain, least);
    state.with(team, layer, choice, kept, [&] { write(team, batch.proposed, chain, bound.makespan(team, limit)); });
  }

  DEVICE static void write(const Team& team, double* to, int32_t chain, double value) {
    team.for_each(1, [=](int32_t) { to[chain] = value; });
  }
};

void strategies(const StrategyBatch& batch) {
  const DeviceGuard guard(batch.device);
  const int64_t numbers = RunStrategy::numbers_of(batch.strategies);
  const int64_t bytes = numbers * static_cast<int64_t>(sizeof(double));
  const int32_t chains = batch.chains.chains;
  const Launch how = launch<RunStrategy>(chains, bytes, batch.budget, batch.threads);
  const Memory memory(how.teams * bytes);
  const RunStrategy run{batch, reinterpret_cast<double*>(memory.start()), numbers};
  for_each_team(chains, how, run, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
