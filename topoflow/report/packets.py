"""What packets and ports saw, a line for each world that was simulated packet by packet."""

from __future__ import annotations

import numpy as np

from topoflow.case.base import Result
from topoflow.engine.base import Histogram
from topoflow.report.base import Report
from topoflow.units import human

COLUMNS = (
    *("world", "ports active", "stalled", "idle", "most stalled port", "fullest buffer"),
    *("packet latency: mean", "median", "99 %", "longest", "message latency: mean", "median", "99 %", "longest"),
)
ABOUT = (
    "Of the ports that sent anything, the mean share of the step in which one sends (active), in which packets wait "
    "and all of them for room in the next buffer (stalled), and the rest (idle). Latencies are to a 16th. "
    "ports.parquet has every port, latencies.parquet how latencies are distributed."
)


def lines(report: Report) -> list[tuple[str, ...]]:
    """The cells of ``COLUMNS``, world by world."""
    return [_line(outcome) for outcome in report.outcomes if outcome.timeline.ports is not None]


def _line(outcome: Result) -> tuple[str, ...]:
    ports, step = outcome.timeline.ports, outcome.timeline.makespan or np.inf
    assert ports is not None, "the caller asks for worlds with packets only"
    sent = ports.packets > 0
    active, stalled = (float(each[sent].mean()) / step if sent.any() else 0.0 for each in (ports.active, ports.stalled))
    worst = int(np.argmax(ports.stalled)) if ports.stalled.any() else None
    return (
        outcome.settings.world,
        *(f"{share:.1%}" for share in (active, stalled, max(1 - active - stalled, 0.0))),
        "-" if worst is None else f"{_port(outcome, worst)} ({ports.stalled[worst] / step:.1%})",
        human(float(ports.fullest.max(initial=0.0)), "B"),
        *_latency(ports.latency),
        *_latency(ports.message_latency),
    )


def _port(outcome: Result, link: int) -> str:
    fabric = outcome.fabric
    return f"{fabric.nodes[fabric.source[link]]} to {fabric.nodes[fabric.target[link]]}"


def _latency(latency: Histogram) -> tuple[str, ...]:
    values = latency.mean, latency.quantile(0.5), latency.quantile(0.99), latency.largest
    return tuple(human(value, "s") for value in values)
