// Both models of placement strategies. Source: strategy_bound.h and contention.h have the physics.
#pragma once

#include "contention.h"
#include "strategy_bound.h"
#include "strategy_steps.h"

namespace topoflow::BACKEND {

void strategies(const StrategyBatch& batch) { run_steps<StrategyState, StrategyBound>(batch); }

void contention(const ContentionBatch& batch) { run_steps<CoflowLoads, Contention>(batch); }

}  // namespace topoflow::BACKEND
