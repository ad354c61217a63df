"""Circuits that follow the demand while a job runs."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.fabric.base import Control


@dataclass(frozen=True)
class DemandDriven(Control):
    """Circuits are chosen by ``circuits.heuristic`` every ``interval``; changing any stops all flows for ``pause``.

    Source: TopoOpt (Wang et al., NSDI 2023), E.4; ``engine.dynamic.reconfigure`` says what it leaves open.
    """

    interval: float  # s between two looks at the demand
    pause: float  # s that a reconfiguration takes, less than the interval
    forwarding: bool  # hosts forward; else servers without a circuit between them wait for one
    discount: float  # what a pair's next circuit is worth, relative to the one before
    paths: int  # shortest paths that a pair may use
    iterations: int  # that are run one after the other; the last one is reported
