"""All-reduces that follow a schedule, as if each were alone: how long one takes is a line in its bytes.

Steps of halving-doubling wait for each other, and chunks follow each other up and down trees: how long that takes on a
fabric where some of them share links, a simulation says. Two sizes make the line. Rings as flows need none of this, as
``strategy_arrays`` has them in closed form.

Shapes: K groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoflow.engine.base import Floats, Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.fabric.base import Fabric
from topoflow.traffic.base import Collective, Traffic
from topoflow.workload.base import LayerGraph

MERGE = 0.01  # of the simulation, as that of candidates: configs/search.yaml, search.coarse


def alone(
    workload: LayerGraph,
    fabric: Fabric,
    groups: Sequence[tuple[int, ...]],
    lowering: Lowering,
    sizes: tuple[float, float],
) -> tuple[Floats, Floats]:
    """s [K] and s/B [K] of the line through the times that all-reduces of each group take with two ``sizes`` (B)."""
    placer = Placer(fabric, lowering)

    def world(group: tuple[int, ...], bytes: float) -> World:
        task = Collective("all_reduce", bytes, group, local=workload.gpus_per_server)
        return placer.place(
            Traffic.from_tasks("alone", fabric.servers, [task], workload.gpu.exchange_bandwidth), "alone"
        )

    def times(bytes: float) -> Floats:
        worlds = [world(group, bytes) for group in groups]
        return np.array([timeline.makespan for timeline in Fluid(MERGE).simulate(worlds, Run(threads=1))])

    small, large = (times(size) for size in sizes)
    slowness = np.maximum((large - small) / (sizes[1] - sizes[0]), 0.0)
    return np.maximum(small - slowness * sizes[0], 0.0), slowness
