"""Circuits that follow the demand while a job runs."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.fabric.base import LinkControl


@dataclass(frozen=True)
class DemandDriven(LinkControl):
    """A control that chooses circuits by ``circuits.heuristic`` every ``interval``; a change stops flows for ``pause``.

    Source: TopoOpt (Wang et al., NSDI 2023), E.4; ``engine.dynamic.reconfigure`` lists what it leaves open.
    """

    interval: float  # s between two measurements of the demand
    pause: float  # s that a reconfiguration takes, less than the interval
    forwarding: bool  # whether hosts forward; otherwise a pair of servers without a circuit waits for one
    discount: float  # value of a pair's next circuit relative to the previous one
    paths: int  # shortest paths that a pair may use
    iterations: int  # consecutive iterations that are simulated; the last one is reported
