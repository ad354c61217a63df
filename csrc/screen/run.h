// Chains, one for each team: builds, proposes or accepts.
//
// Source: topoflow/engine/screen/strategy_chains.py asks for the steps.
#pragma once

#include "contention.h"
#include "parallel/launch.h"

namespace topoflow::BACKEND {

struct RunSteps {
  static constexpr int kThreads = 128;  // of a team on a GPU: most of its steps have a server for an item
  static constexpr bool kFast = false;

  ContentionBatch batch;
  double* memory;
  int64_t numbers;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t place, int32_t chain) const {
    const CoflowLoads state(batch, chain);
    double* const kept = memory + place * numbers;
    const Contention model(batch, state, kept + CoflowLoads::kept_numbers(batch));
    if (batch.step == Step::kBuild) {
      state.build(team);
      write(team, batch.makespan, chain, model.makespan(team, kInfinity));
    } else if (batch.step == Step::kAccept) {
      if (batch.mask[chain]) accept(team, state, chain);
    } else {
      propose(team, state, model, chain, kept);
    }
  }

  DEVICE void accept(const Team auto& team, const CoflowLoads& state, int32_t chain) const {
    exchange(team, state, target(chain));
    write(team, batch.makespan, chain, batch.proposed[chain]);
  }

  DEVICE void propose(const Team auto& team, const CoflowLoads& state, const Contention& model, int32_t chain,
                      double* kept) const {
    int32_t* const target = this->target(chain);
    const double limit = batch.limit[chain];
    if (limit < 0) return write(team, batch.proposed, chain, 0);
    int32_t changes = 0, last = -1, choice = -1;
    for (int32_t layer = 0; layer < batch.strategies.layers; ++layer) {
      if (target[layer] == state.choice(layer)) continue;
      ++changes, last = layer;
      if (target[layer] == choice) continue;  // was asked about just before
      choice = target[layer];
      const double least = model.reduces(target, choice);
      if (least > limit) return write(team, batch.proposed, chain, least);
    }
    if (changes == 0) return write(team, batch.proposed, chain, batch.makespan[chain]);
    const auto evaluate = [&] { write(team, batch.proposed, chain, model.makespan(team, limit)); };
    if (changes == 1) return state.call_with(team, last, choice, kept, evaluate);
    exchange(team, state, target);
    evaluate();
    exchange(team, state, target);
  }

  // The placement of the chain and its `target` [Y] change places.
  DEVICE void exchange(const Team auto& team, const CoflowLoads& state, int32_t* target) const {
    for (int32_t layer = 0; layer < batch.strategies.layers; ++layer) {
      const int32_t before = state.choice(layer), after = team.get(&target[layer]);
      if (before == after) continue;
      state.change(team, layer, after);
      team.set(&target[layer], before);
    }
  }

  DEVICE int32_t* target(int32_t chain) const { return batch.target + int64_t{chain} * batch.strategies.layers; }

  DEVICE static void write(const Team auto& team, double* to, int32_t chain, double value) {
    team.for_each(1, [=](int32_t) { to[chain] = value; });
  }
};

void contention(const ContentionBatch& batch) {
  const DeviceGuard guard(batch.device);
  const int64_t numbers = CoflowLoads::kept_numbers(batch) + Contention::numbers(batch);
  const int64_t bytes = numbers * static_cast<int64_t>(sizeof(double));
  const Launch how = launch<RunSteps>(batch.chains, bytes, batch.budget, batch.threads);
  const Array<std::byte> memory(how.teams * bytes);
  const RunSteps run{batch, reinterpret_cast<double*>(memory.data()), numbers};
  for_each_team(batch.chains, how, run, to_stream(batch.stream));
}

}  // namespace topoflow::BACKEND
