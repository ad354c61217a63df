"""Drawings of networks: nodes at the places of ``layout``, links coloured by kind, with the width of their load.

Shapes: L links, N nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from topoflow.case.base import Result
from topoflow.fabric.base import Fabric
from topoflow.report.base import Report
from topoflow.report.draw.cdf import wiring_names
from topoflow.report.draw.network.circuits import Kind, kinds
from topoflow.report.draw.network.layout import TIER, NetworkLayout, curves, layout
from topoflow.report.draw.network.tiers import tier_names, tiers
from topoflow.report.draw.style import grid_shape, panels
from topoflow.units import human

MAX_PANELS = 6  # networks in one picture
CURVE_POINTS, FEWER_POINTS = 25, 9  # of a curve
MAX_LABELS = 24  # servers of a circle with their number next to them
MAX_ARROWS = 100  # links with arrows; with more links there are no arrows
NODE = "#4D5B66"
MARK = 0.4  # size of nodes, as a share of the distance between two
FEW_LINKS = 5000  # with more links, curves have fewer points and thin lines
INK = 1.0  # lines of a kind that would cover more than this share of their area are drawn fainter
FAINTEST = 0.05
MAX_GROUPS = 40  # groups with their name among their switches

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """A network to draw; ``link_bytes`` [L] are carried by its links; None: widths show the bandwidth."""

    title: str
    fabric: Fabric
    link_bytes: Floats | None = None


def wirings(report: Report) -> list[Result]:
    """Return the fastest world of every wiring."""
    fastest: dict[tuple[str, bytes, bytes], Result] = {}
    for outcome in report.choices_first:
        ends = (outcome.fabric.source.tobytes(), outcome.fabric.target.tobytes())
        fastest.setdefault((outcome.settings.fabric, *ends), outcome)
    return list(fastest.values())


def draw(report: Report) -> Figure:
    """Draw every wiring of a report once, with the loads of its fastest world."""
    different = wirings(report)
    shown = different[:MAX_PANELS]
    names = wiring_names(report, shown)
    limit = "" if len(shown) == len(different) else f" ({len(shown)} of {len(different)} networks)"
    labelled = zip(names, shown, strict=True)
    drawn = [Drawn(name, outcome.fabric, outcome.timeline.link_bytes) for name, outcome in labelled]
    return draw_networks(f"The networks{limit}", drawn)


def draw_networks(title: str, networks: Sequence[Drawn]) -> Figure:
    """Draw a panel per network."""
    widest = 1 if len(networks) == 1 else 2 if len(networks) in (2, 4) else 3
    rows, columns = grid_shape(len(networks), widest)
    size = {1: 8.0, 2: 6.0, 3: 4.6}[columns]
    figure = Figure(figsize=(columns * size, rows * (size + 0.9) + 0.4), layout="constrained")
    figure.suptitle(title)
    for axes, network in zip(panels(figure, len(networks), widest), networks, strict=True):
        draw_topology(axes, network, size)
    return figure


def draw_topology(axes: Axes, network: Drawn, inches: float = 8.0) -> None:
    """Draw every link once, coloured by its kind, with a width in proportion to its load."""
    fabric, places = network.fabric, layout(network.fabric)
    few = fabric.links <= FEW_LINKS
    lines = curves(places, fabric, CURVE_POINTS if few else FEWER_POINTS)
    widest = float(np.clip(3 * inches / max(1, fabric.links) ** 0.5, 0.7 if few else 0.4, 4.0))
    alpha = float(np.clip(12 / max(1, fabric.links) ** 0.5, 0.3, 0.85))
    width = widest * (0.2 + 0.8 * _shares(network))
    for level, kind in enumerate(of_kinds := kinds(fabric)):
        faint = INK / max(INK, _covered(lines[kind.links], width[kind.links] / _points(inches)))
        axes.add_collection(
            LineCollection(list(lines[kind.links]), colors=kind.colour, linewidths=width[kind.links].tolist(),
                           alpha=max(FAINTEST, alpha * faint), capstyle="round", zorder=2 + level, label=kind.label)
        )  # fmt: skip
        if not fabric.has_switches and fabric.links <= MAX_ARROWS:
            heads = _arrows(lines[kind.links], max(0.02, 0.008 * widest))
            axes.add_collection(PolyCollection(list(heads), facecolors=kind.colour, linewidths=0, zorder=10))
            _count_parallel(axes, lines, fabric, kind)
    _draw_nodes(axes, places, fabric, inches)
    _name_nodes(axes, places, fabric, inches)
    _frame(axes, places, lines)
    axes.set_title(f"{network.title}\n{_widest(network)}", fontsize=10)
    axes.axis("off")
    handles = [Line2D([], [], color=kind.colour, linewidth=2.5, label=kind.label) for kind in of_kinds]
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2 if inches < 5 else 4,
                    frameon=False, fontsize=8)  # fmt: skip


def _points(inches: float) -> float:
    """Return the points per unit of a panel, which shows places from -1.15 to 1.15."""
    return 72 * inches / 2.3


def _covered(lines: Floats, width: Floats) -> float:
    """Return the share of their bounding rectangle that lines [K, points, 2] of these widths [K] would cover."""
    if not len(lines):
        return 0.0
    length = np.hypot(*np.diff(lines, axis=1).T).sum(axis=0)
    area = np.prod(np.ptp(lines.reshape(-1, 2), axis=0))
    return float((length * width).sum() / max(area, 1e-12))


def _shares(network: Drawn) -> Floats:
    """Return [L] the load of every link relative to the largest."""
    amount = network.fabric.bandwidth if network.link_bytes is None else network.link_bytes
    most = float(amount.max(initial=0.0))
    return np.asarray(amount / most if most > 0 else np.zeros(len(amount)), dtype=np.float64)


def _widest(network: Drawn) -> str:
    """Describe the meaning of the line width."""
    fabric = network.fabric
    if not fabric.links:
        return "no links"
    if network.link_bytes is None:
        return f"width: bandwidth, at most {human(8 * float(fabric.bandwidth.max()), 'b/s')}"
    return f"width: carried in one step, at most {human(float(network.link_bytes.max()), 'B')}"


def _arrows(curves: Floats, size: float) -> Floats:
    """Return a triangle [L, 3, 2] on every curve, at two thirds of its length."""
    at = 2 * CURVE_POINTS // 3
    tip = curves[:, at]
    along = tip - curves[:, at - 1]
    along = along * (size / np.maximum(np.hypot(*along.T), 1e-12))[:, None]
    side = np.column_stack((-along[:, 1], along[:, 0])) * 0.5
    return np.stack((tip + along, tip - along + side, tip - along - side), axis=1)


def _count_parallel(axes: Axes, curves: Floats, fabric: Fabric, kind: Kind) -> None:
    """Write the number of parallel circuits on links with several, at a third of their length."""
    count = np.rint(fabric.bandwidth / fabric.interface_bandwidth).astype(int)
    for link in kind.links[count[kind.links] > 1]:
        x, y = curves[link, CURVE_POINTS // 3]
        axes.text(x, y, f"\N{MULTIPLICATION SIGN}{count[link]}", ha="center", va="center", fontsize=8,
                  color=kind.colour, zorder=15, clip_on=True,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})  # fmt: skip


def _draw_nodes(axes: Axes, places: NetworkLayout, fabric: Fabric, inches: float) -> None:
    """Draw servers as circles and switches as squares, smaller if they are closer to each other."""
    tier = tiers(fabric)
    levels = [np.flatnonzero(tier == level) for level in range(int(tier.max()) + 1)]
    spacing = [float(np.hypot(*np.diff(places.place[nodes], axis=0).T).min(initial=1.0)) for nodes in levels]
    unit = _points(inches)
    for level, nodes in enumerate(levels):
        near = spacing[level] if places.shape == "tiers" else min(spacing)
        size = float(np.clip(MARK * unit * near, 1.2, 12))
        axes.plot(*places.place[nodes].T, linestyle="", marker="s" if level else "o", markersize=size, color=NODE,
                  markeredgecolor="white", markeredgewidth=min(0.8, size / 8), zorder=20)  # fmt: skip


def _name_nodes(axes: Axes, places: NetworkLayout, fabric: Fabric, inches: float) -> None:
    """Write the numbers of some servers, and the names of tiers and of groups."""
    place, most = places.place, MAX_LABELS if inches > 5 else MAX_LABELS // 2
    numbered = range(0, fabric.servers, _every(fabric.servers, most))
    if places.shape == "circle":
        for server in numbered:
            x, y = 1.08 * place[server]
            axes.text(x, y, str(server), ha="center", va="center", fontsize=8)
    elif places.shape == "grid" and not fabric.has_switches and fabric.servers <= MAX_LABELS:
        for server, at in enumerate(place.tolist()):
            axes.annotate(str(server), at, (6, -6), textcoords="offset points", ha="left", va="top", fontsize=8)
    elif places.shape == "tiers":
        tier = tiers(fabric)
        for level, name in enumerate(tier_names(fabric)):
            axes.text(-1.06, TIER * level, f"{name} ({(tier == level).sum()})", ha="right", va="center", fontsize=8)
        for server in numbered:
            axes.text(place[server, 0], -0.06, str(server), ha="center", va="top", fontsize=7)
    elif places.group is not None:
        switches = place[fabric.servers :]
        for number in range(0, int(places.group.max()) + 1, _every(int(places.group.max()) + 1, MAX_GROUPS)):
            x, y = switches[places.group == number].mean(axis=0)
            name = fabric.nodes[fabric.servers + int(np.argmax(places.group == number))]
            axes.text(x, y, name.rpartition(" ")[2].rpartition(".")[0], ha="center", va="center", fontsize=8, zorder=21,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.7})  # fmt: skip


def _frame(axes: Axes, places: NetworkLayout, lines: Floats) -> None:
    """Set limits around all nodes, lines and numbers."""
    points = np.concatenate((places.place, lines.reshape(-1, 2)))
    low, high = points.min(axis=0), points.max(axis=0)
    if places.shape == "tiers":  # names of tiers are left of -1, also where all nodes are in one column
        low[0], high[0] = min(low[0], -1), max(high[0], 1)
    room = 0.17 if places.shape == "circle" else 0.08
    axes.set_xlim(low[0] - room, high[0] + room)
    axes.set_ylim(low[1] - room, high[1] + room)
    if places.keeps_proportions:
        axes.set_aspect("equal")


def _every(count: int, most: int) -> int:
    """Return a round step with which at most ``most`` of ``count`` items are named."""
    step = 1
    while count > step * most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step
