"""The bound of many placement strategies of one workload on one fabric, without making tasks of each.

    lower -> place -> Bound.simulate    any strategy: 40 million tasks of a DLRM on 128 servers, some seconds
    StrategyBound                       strategies that choose holders for each layer from a list: tens of microseconds

Both say the same, up to rounding: the critical path, and for each link the first moment at which a flow on it can
begin plus bytes / capacity (``topoflow.engine.bound``), of the tasks that ``topoflow.traffic.lower`` would make, with
rings as flows (``place(.., rings="flows")``). ``csrc/screen/strategy_bound.h`` runs; lowering is its oracle.

A search proposes to change one layer. What that changes is computed again: the transfers into and out of the layer,
what they and the rings of both groups put on links. The pass over the layers is made anew. Nothing of this is done
where the all-reduces of the layer's new group alone take longer than the proposal's limit.
"""

from __future__ import annotations

from typing import Any

from topoflow import _C
from topoflow.engine.lowering.algorithms import following
from topoflow.engine.screen.strategy_arrays import StrategyArrays
from topoflow.engine.screen.strategy_chains import Steps, StrategyModel
from topoflow.fabric.base import Fabric


class StrategyBound(StrategyModel):
    """The model that no simulation is faster than."""

    algorithms = following("rings")

    def read(self, strategies: StrategyArrays, fabric: Fabric) -> StrategyArrays:
        return strategies

    def state(self, chains: int) -> dict[str, Any]:
        strategies, where = self.strategies, self.where
        times = chains * strategies.edges * strategies.servers
        words = -(-strategies.edges // 64)
        sets = chains * strategies.servers * words
        return {
            **{name: where.zeros(times) for name in ("activation_seconds", "gradient_seconds")},
            **{name: where.zeros(sets, dtype="int64") for name in ("outgoing", "incoming")},
            "crossing": where.zeros(chains * words, dtype="int64"),
            "load": where.zeros(chains * strategies.links, dtype="int64"),
            "cursor": where.zeros(chains * strategies.links, dtype="int32"),
        }

    def steps(self, arrays: dict[str, Any], **numbers: Any) -> Steps:
        return _C.strategies(arrays, **numbers)
