"""Timelines: the computing and sending of each server during a training step.

Shapes: T engine tasks, K traffic tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from topoflow.capture.intervals import Spans, merge
from topoflow.case.base import Result
from topoflow.report.base import Report
from topoflow.report.draw.style import kind_colour, panels, plain, scale

MAX_WORLDS = 6  # worlds
MAX_SHARED_RATIO = 4  # panels have one time scale unless the slowest world takes this many times the fastest
ROWS = 16  # readable rows of a panel

Lanes = Mapping[str, list[Spans]]  # kind -> spans of every server


def lanes(outcome: Result) -> dict[str, list[Spans]]:
    """Return the spans in which each drawn server computes, and sends for each kind of communication.

    A job of many rounds that are listed once has no spans, since the times of each round are not known.
    """
    servers = range(min(outcome.fabric.servers, ROWS))
    timeline, graph, traffic = outcome.timeline, outcome.world.graph, outcome.traffic
    if traffic.rounds > 1:
        return {"compute": [merge(np.zeros((0, 2))) for _ in servers]}
    computes = [np.flatnonzero(traffic.server == server) for server in servers]
    ran = np.column_stack((timeline.task_start, timeline.task_finish))
    spans = {"compute": [merge(ran[tasks]) for tasks in computes]}
    flows = np.flatnonzero((graph.path >= 0) & (graph.bytes > 0))
    sender = graph.source[flows]
    ran = np.column_stack((timeline.start, timeline.finish))
    names, number = traffic.kind_numbers()
    kinds, first = np.unique(number[graph.owner[flows]], return_index=True)
    drawn = sender < len(servers)
    flows, sender = flows[drawn], sender[drawn]
    kind = number[graph.owner[flows]]
    for kind_number in kinds[np.argsort(first)].tolist():
        spans[names[kind_number]] = [
            merge(ran[flows[(kind == kind_number) & (sender == server)]]) for server in servers
        ]
    return spans


def draw(report: Report) -> Figure:
    """Draw one panel per world: a row per server with a lane for computing and one for each kind of sending."""
    shown = report.representatives(MAX_WORLDS)
    ends = [outcome.row.iteration_time for outcome in shown]
    shared = max(ends) <= MAX_SHARED_RATIO * min(ends)
    rows = -(-len(shown) // 2)
    height = max(min(outcome.fabric.servers, ROWS) for outcome in shown)
    figure = Figure(figsize=(12 if len(shown) > 1 else 9, rows * (1.0 + 0.22 * height) + 1.0), layout="constrained")
    kinds: dict[str, None] = {}
    for axes, outcome, name in zip(panels(figure, len(shown), widest=2), shown, report.labels(shown), strict=True):
        factor, unit = scale(ends if shared else [outcome.row.iteration_time], "s")
        spans = lanes(outcome)
        kinds.update(dict.fromkeys(spans))
        draw_lanes(axes, spans, factor, outcome.fabric.endpoint, range(outcome.fabric.servers))
        end = outcome.row.iteration_time / factor
        axes.set_xlim(0, 1.02 * (max(ends) / factor if shared else end) or 1.0)
        axes.axvline(end, color="black", linewidth=1)
        rounds = outcome.traffic.rounds
        hidden = f" ({rounds:,} rounds of the same tasks, not drawn)" if rounds > 1 else ""
        axes.set_title(f"{name}: {end:.4g} {unit}{hidden}", fontsize=10 if len(name + hidden) < 50 else 7)
        axes.set_xlabel(f"time in the step [{unit}]")
    limit = "" if len(shown) == len(report.outcomes) else f" ({len(shown)} of {len(report.outcomes)} worlds)"
    scales = "" if shared else ". Time scales differ!"
    figure.suptitle(f"Computing and communication in one training step{limit}; the black line is its end{scales}")
    legend(figure, kinds, "sending")
    return figure


def draw_lanes(axes: Axes, lanes: Lanes, factor: float, what: str, names: Sequence[int]) -> None:
    """Draw rows of lanes on one axis; ``factor`` is the number of seconds per unit of the axis."""
    shown = min(len(names), ROWS)
    height = 0.84 / len(lanes)
    for lane, (name, by_row) in enumerate(lanes.items()):
        spans = np.concatenate(by_row[:shown]) / factor
        low = np.repeat(np.arange(shown), [len(row) for row in by_row[:shown]]) - 0.42 + lane * height
        (start, end), high = spans.T, low + height
        bars = np.stack([np.stack([start, start, end, end]), np.stack([low, high, high, low])]).T
        axes.add_collection(PolyCollection(bars, color=kind_colour(name), linewidth=0), autolim=len(bars) > 0)
    axes.autoscale_view()
    for row in range(0, shown, 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", zorder=0)
    axes.set_ylim(shown - 0.5, -0.5)
    axes.set_yticks(range(shown), [str(name) for name in names[:shown]])
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlim(left=0)
    axes.set_ylabel(what if shown == len(names) else f"{what} (first {shown} of {len(names)})")
    plain(axes)


def legend(figure: Figure, kinds: Iterable[str], doing: str) -> None:
    """Draw the legend of the lanes' colours."""
    handles = [
        Patch(color=kind_colour(name), label="computing" if name == "compute" else f"{doing}: {name.replace('_', '-')}")
        for name in kinds
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)), frameon=False)
