"""Screening: estimates of the times of very many strategies of one job on one fabric; the best are then simulated.

The energy of the chains is an estimate that includes contention (``topoflow.engine.screen.contention``). It takes some
50 us for a DLRM on 128 servers, or less than 1 us if the all-reduces alone are too slow.
"""

from __future__ import annotations

from topoflow.engine.base import Run
from topoflow.engine.screen.contention import Contention
from topoflow.fabric.base import Fabric
from topoflow.search.placements import Choices
from topoflow.search.problem import Problem
from topoflow.strategy.placement import Placement
from topoflow.workload.base import layer_graph


def screen(problem: Problem, fabric: Fabric, choices: Choices, run: Run = Run()) -> Contention:
    """Return the estimate of a problem's strategies, on the device of ``run``."""
    start = problem.start
    assert isinstance(start, Placement)
    return Contention(
        layer_graph(problem.workload),
        fabric,
        choices.holders,
        all_reduce=problem.all_reduce,
        routing=problem.routing,
        seed=problem.seed,
        bucket_bytes=start.bucket_bytes,
        first_bucket_bytes=start.first_bucket_bytes,
        threads=run.threads,
        device=run.device,
    )
