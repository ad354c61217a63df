// Chains, one for each team: builds, proposes or accepts. `State` is what is kept of a chain, `Model` its makespan.
//   StrategyState, StrategyBound    the least time (strategy_bound.h)
//   CoflowLoads, Contention         an estimate (contention.h)
//
// Source: topoflow/engine/screen/strategy_chains.py asks for the steps.
#pragma once

#include "parallel/launch.h"
#include "strategies.h"

namespace topoflow::BACKEND {

template <class Batch, class State, class Model>
struct RunSteps {
  static constexpr int kThreads = 128;  // of a team on a GPU: most of its steps have a server for an item
  static constexpr bool kFast = false;

  Batch batch;
  double* memory;
  int64_t numbers;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t place, int32_t chain) const {
    const State state(batch, chain);
    double* const kept = memory + place * numbers;
    const Model model(batch, state, kept + State::kept_numbers(batch));
    if (batch.step == Step::kBuild) {
      state.build(team);
      write(team, batch.makespan, chain, model.makespan(team, kInfinity));
    } else if (batch.step == Step::kAccept) {
      if (batch.mask[chain]) accept(team, state, chain);
    } else {
      propose(team, state, model, chain, kept);
    }
  }

  DEVICE void accept(const Team auto& team, const State& state, int32_t chain) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    if (choice != state.choice(layer)) state.change(team, layer, choice);
    write(team, batch.makespan, chain, batch.proposed[chain]);
  }

  DEVICE void propose(const Team auto& team, const State& state, const Model& model, int32_t chain,
                      double* kept) const {
    const int32_t layer = batch.layer[chain], choice = batch.choice[chain];
    const double limit = batch.limit[chain];
    if (limit < 0) return write(team, batch.proposed, chain, 0);
    if (choice == state.choice(layer)) return write(team, batch.proposed, chain, batch.makespan[chain]);
    const double least = model.reduces(layer, choice);
    if (least > limit) return write(team, batch.proposed, chain, least);
    state.call_with(team, layer, choice, kept,
                    [&] { write(team, batch.proposed, chain, model.makespan(team, limit)); });
  }

  DEVICE static void write(const Team auto& team, double* to, int32_t chain, double value) {
    team.for_each(1, [=](int32_t) { to[chain] = value; });
  }
};

template <class State, class Model, class Batch>
void run_steps(const Batch& batch) {
  using Run = RunSteps<Batch, State, Model>;
  const DeviceGuard guard(batch.device);
  const int64_t numbers = State::kept_numbers(batch) + Model::numbers(batch);
  const int64_t bytes = numbers * static_cast<int64_t>(sizeof(double));
  const Launch how = launch<Run>(batch.chains, bytes, batch.budget, batch.threads);
  const Array<std::byte> memory(how.teams * bytes);
  const Run run{batch, reinterpret_cast<double*>(memory.data()), numbers};
  for_each_team(batch.chains, how, run, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
