"""Pictures of packet-level worlds: time of ports, busy links, queues, latencies.

Shapes: L links, n blocks of nodes.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from topoflow.arrays import Floats
from topoflow.case.base import Result
from topoflow.engine.base import Histogram, Ports
from topoflow.report.base import Report
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import Lines, draw_cdf, draw_lines, draw_steps
from topoflow.report.draw.heat_map import NOTHING, SquareImage, bytes_text, draw_squares
from topoflow.report.draw.slots import completion
from topoflow.report.draw.style import grid_shape, panels
from topoflow.report.draw.ternary import TimeShares, draw_ternary
from topoflow.report.packets import Depths, fullest_queues, group_completion, groups, kinds

MAX_PANELS = 6  # worlds that are drawn side by side
MAX_BLOCKS = 128  # rows of a heat map; with more nodes, a row is a block of nodes
STEPS = 50  # resolution of an axis of a ternary plot


def has_ports(report: Report) -> bool:
    return bool(_shown(report))


def has_messages(report: Report) -> bool:
    return any(completion(outcome) for outcome, _ in _shown(report))


def has_groups(report: Report) -> bool:
    return any(map(_has_groups, (outcome for outcome, _ in _shown(report))))


def has_queues(report: Report) -> bool:
    return bool(with_queues(report))


def with_queues(report: Report) -> list[tuple[Result, Depths]]:
    """Return the worlds with waiting packets, and their fullest queues over time."""
    queues = [(outcome, fullest_queues(outcome)) for outcome, _ in _shown(report)]
    return [(outcome, depths) for outcome, depths in queues if depths is not None]


def worlds(report: Report) -> list[tuple[Result, Ports]]:
    """Return the packet-level worlds whose ports sent anything, with the statistics of their ports."""
    outcomes = [(outcome, outcome.timeline.ports) for outcome in report.outcomes]
    return [(outcome, ports) for outcome, ports in outcomes if ports is not None and ports.packets.any()]


def draw_time(report: Report) -> Figure:
    """Draw a triangle per world with a colour per kind of port: the shares of the step in each state."""
    shown = _shown(report)
    names = report.labels([outcome for outcome, _ in shown])
    parts = {name: _points(outcome, ports) for name, (outcome, ports) in zip(names, shown, strict=True)}
    return draw_ternary(_titled("What ports do during the step", len(shown), report), parts)


def draw_use(report: Report) -> Figure:
    """Draw a panel per world: the share of the step in which links between nodes send (the busiest of several)."""
    shown = _shown(report)
    names = report.labels([outcome for outcome, _ in shown])
    images = [SquareImage(name, *use(outcome, ports)) for name, (outcome, ports) in zip(names, shown, strict=True)]
    figure, axes_list = draw_squares(images, 3, Normalize(0, 100), label="of the step [%] (grey: no link)")
    for side in (side for axes in axes_list for side in (axes.xaxis, axes.yaxis)):
        side.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(_titled("How busy links are", len(shown), report))
    return figure


def draw_queues(report: Report) -> Figure:
    """Draw a panel per world with a row for each of its fullest ports: the waiting bytes over time."""
    shown = with_queues(report)
    rows, columns = grid_shape(len(shown), 2)
    figure = Figure(figsize=(max(7.5, 6.5 * columns), 2.6 * rows + 0.9), layout="constrained")
    colours = colormaps["viridis"].with_extremes(under=NOTHING)
    deepest = max(float(depths.depth.max()) for _, depths in shown)
    names = report.labels([outcome for outcome, _ in shown])
    axes_list = panels(figure, len(shown), 2)
    for axes, name, (_, depths) in zip(axes_list, names, shown, strict=True):
        count, intervals = depths.depth.shape
        time = Axis("time", "s")
        end = np.array([intervals * depths.interval])
        extent = (0.0, float(end[0] / time.factor([end])), count - 0.5, -0.5)
        image = axes.imshow(
            depths.depth, vmin=1, vmax=deepest, cmap=colours, interpolation="nearest", extent=extent, aspect="auto"
        )
        axes.set_yticks(range(count), depths.names)
        axes.set_xlabel(time.text([end]))
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes_list, label="most in the interval (grey: nothing)", shrink=0.85, format=bytes_text)
    figure.suptitle(_titled("How much waits at the fullest ports", len(shown), report))
    return figure


def draw_latency(report: Report) -> Figure:
    """Draw the distribution of the latencies of packets and of messages, a curve per world."""
    shown = _shown(report)
    names = report.labels([outcome for outcome, _ in shown])
    parts: dict[str, Lines] = {}
    for place, unit in enumerate(("packets", "messages")):
        latencies = {name: ports.latencies()[place][1] for name, (_, ports) in zip(names, shown, strict=True)}
        if lines := {name: _cumulative(latency) for name, latency in latencies.items() if len(latency.count)}:
            parts[unit] = lines
    axes = Axis("latency", "s", log=True), Axis("share [%]")
    fabrics = {name: outcome.settings.fabric for name, (outcome, _) in zip(names, shown, strict=True)}
    title = _titled("How long packets and messages take", len(shown), report)
    return draw_steps(title, parts, *axes, fabrics)


def draw_completion(report: Report) -> Figure:
    """Draw a panel per world with a curve per size: from when a message was ready until its last byte arrived."""
    shown = [outcome for outcome, _ in _shown(report) if completion(outcome)]
    parts = {name: completion(outcome) for name, outcome in zip(report.labels(shown), shown, strict=True)}
    title = _titled("How long messages take", len(shown), report)
    return draw_cdf(title, parts, Axis("completion of a message", "s", log=True), "messages")


def draw_groups(report: Report) -> Figure:
    """Draw a panel per world: when half of, and all, messages to each group of servers had arrived."""
    shown = [outcome for outcome, _ in _shown(report) if _has_groups(outcome)]
    parts: dict[str, Lines] = {}
    for name, outcome in zip(report.labels(shown), shown, strict=True):
        group, half, last = group_completion(outcome)
        across = group.astype(np.float64)
        parts[name] = {"half of its messages": (across, half), "all of its messages": (across, last)}
    title = _titled("When groups of servers have what they receive", len(shown), report)
    return draw_lines(title, parts, Axis("group"), Axis("completion", "s"))


def use(outcome: Result, ports: Ports) -> tuple[np.ma.MaskedArray[tuple[int, int], np.dtype[np.float64]], int, str]:
    """Return [n, n] % of the step (masked where there is no link), the number of nodes, and their name.

    In a network with switches the nodes are switches, since most links of a server lead to one switch.
    """
    fabric, step = outcome.fabric, outcome.timeline.makespan or np.inf
    first, what = (fabric.servers, "switch") if fabric.has_switches else (0, "server")
    nodes = len(fabric.nodes) - first
    blocks = min(nodes, MAX_BLOCKS)
    source, target = (side.astype(np.int64) - first for side in (fabric.source, fabric.target))
    between = (source >= 0) & (target >= 0)
    busy = np.full((blocks, blocks), -1.0)
    at = source[between] * blocks // nodes, target[between] * blocks // nodes
    np.maximum.at(busy, at, 100 * ports.active[between] / step)
    return np.ma.masked_less(busy, 0.0), nodes, what


def _shown(report: Report) -> list[tuple[Result, Ports]]:
    """Return the worlds to draw, in the order of the grid: one of each job, one of each fabric, then others.

    Each time, worlds whose busiest port sends or stalls for the largest share of the step are preferred.
    """
    idlest_first = sorted(worlds(report), key=_busy)
    of_job = {outcome.comparable: (outcome, ports) for outcome, ports in idlest_first}  # the last, which is the busiest
    of_fabric = {outcome.settings.fabric: (outcome, ports) for outcome, ports in idlest_first}
    passes = of_job.values(), of_fabric.values(), idlest_first
    chosen = dict.fromkeys(outcome for group in passes for outcome, _ in sorted(group, key=_busy, reverse=True))
    shown = list(chosen)[:MAX_PANELS]
    return [(outcome, ports) for outcome, ports in worlds(report) if outcome in shown]


def _busy(world: tuple[Result, Ports]) -> float:
    """Return the largest share of the step for which a port of the world sends or stalls."""
    outcome, ports = world
    return float((ports.active + ports.stalled).max()) / (outcome.timeline.makespan or np.inf)


def _titled(title: str, shown: int, report: Report) -> str:
    """Return the title, with the number of drawn worlds if there are too many for all."""
    total = len(worlds(report))
    return title if total <= MAX_PANELS else f"{title} ({shown} of {total} worlds, the busiest)"


def _has_groups(outcome: Result) -> bool:
    return len(np.unique(groups(outcome.fabric))) > 1 and len(group_completion(outcome)[0]) > 0


def _points(outcome: Result, ports: Ports) -> dict[str, TimeShares]:
    """Return for each kind of port how many have which shares of the step, rounded to 1 / ``STEPS``."""
    step = outcome.timeline.makespan or np.inf
    shares = np.rint(np.stack([ports.active, ports.stalled]) / step * STEPS)
    points = {}
    for kind, links in kinds(outcome.fabric).items():
        cell, count = np.unique(shares[:, links], axis=1, return_counts=True)
        points[kind] = TimeShares(cell[0] / STEPS, cell[1] / STEPS, count.astype(np.float64))
    return points


def _cumulative(latency: Histogram) -> tuple[Floats, Floats]:
    """Return the ends of the ranges (at most the longest), and % of the values up to there, from 0 %."""
    ends, count = np.minimum(latency.high, latency.largest), np.concatenate(([0], latency.count))
    return np.concatenate((ends[:1], ends)), 100 * np.cumsum(count) / count.sum()
