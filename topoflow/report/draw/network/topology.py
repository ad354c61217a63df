"""A network drawn: servers that are wired to each other on a circle, switches in tiers above their servers.

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
from topoflow.report.draw.network.layout import in_tiers, on_circle
from topoflow.report.draw.network.tiers import tier_names, tiers
from topoflow.report.draw.style import grid_shape, panels
from topoflow.units import human

MAX_PANELS = 6  # networks in one picture
CURVE_POINTS = 25  # of a curve
MAX_LABELS = 24  # servers of a circle with their number next to them
MAX_ARROWS = 100  # links; with more of them, links have no arrows
NODE = "#4D5B66"
BEND = 0.07  # by how much of its length a link bends to its right, so that both links of a pair are seen

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """One network; ``link_bytes`` [L] is what its links carry, None: they are drawn by their bandwidth."""

    title: str
    fabric: Fabric
    link_bytes: Floats | None = None


def wirings(report: Report) -> list[Result]:
    """The fastest world of every wiring."""
    found: dict[tuple[str, bytes, bytes], Result] = {}
    for outcome in report.ranking:
        ends = (outcome.fabric.source.tobytes(), outcome.fabric.target.tobytes())
        found.setdefault((outcome.settings.fabric, *ends), outcome)
    return list(found.values())


def draw(report: Report) -> Figure:
    """Every wiring of a report once: the fastest world of each."""
    different = wirings(report)
    shown = different[:MAX_PANELS]
    names = wiring_names(report, shown)
    limit = "" if len(shown) == len(different) else f" ({len(shown)} of {len(different)} networks)"
    drawn = [Drawn(name, one.fabric, one.timeline.link_bytes) for name, one in zip(names, shown, strict=True)]
    return draw_networks(f"The networks{limit}", drawn)


def draw_networks(title: str, networks: Sequence[Drawn]) -> Figure:
    """A panel per network."""
    widest = 1 if len(networks) == 1 else 2 if len(networks) in (2, 4) else 3
    rows, columns = grid_shape(len(networks), widest)
    size = {1: 8.0, 2: 6.0, 3: 4.6}[columns]
    figure = Figure(figsize=(columns * size, rows * (size + 0.9) + 0.4), layout="constrained")
    figure.suptitle(title)
    for axes, network in zip(panels(figure, len(networks), widest), networks, strict=True):
        draw_topology(axes, network, size)
    return figure


def draw_topology(axes: Axes, network: Drawn, inches: float = 8.0) -> None:
    """Every link once: coloured by what it is, as wide as what it carries is large."""
    fabric = network.fabric
    direct = not fabric.has_switches
    place = on_circle(fabric.servers) if direct else in_tiers(fabric)
    curves = _curves(place, fabric, direct)
    widest = float(np.clip(3 * inches / max(1, fabric.links) ** 0.5, 0.7, 4.0))
    alpha = float(np.clip(12 / max(1, fabric.links) ** 0.5, 0.3, 0.85))
    width = widest * (0.2 + 0.8 * _shares(network))
    for level, kind in enumerate(found := kinds(fabric)):
        axes.add_collection(
            LineCollection(list(curves[kind.links]), colors=kind.colour, linewidths=width[kind.links].tolist(),
                           alpha=alpha, capstyle="round", zorder=2 + level, label=kind.label)
        )  # fmt: skip
        if direct and fabric.links <= MAX_ARROWS:
            heads = _arrows(curves[kind.links], max(0.02, 0.008 * widest))
            axes.add_collection(PolyCollection(list(heads), facecolors=kind.colour, linewidths=0, zorder=10))
            _count_parallel(axes, curves, fabric, kind)
    (_draw_servers if direct else _draw_tiers)(axes, place, fabric, inches)
    top = float(curves[:, :, 1].max(initial=0.0))  # links within the upper tier bend upwards
    axes.set_ylim(top=max(axes.get_ylim()[1], top + 0.05))
    axes.set_title(f"{network.title}\n{_widest(network)}", fontsize=10)
    axes.axis("off")
    handles = [Line2D([], [], color=kind.colour, linewidth=2.5, label=kind.label) for kind in found]
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2 if inches < 5 else 4,
                    frameon=False, fontsize=8)  # fmt: skip


def _shares(network: Drawn) -> Floats:
    """What every link carries, of the most that one does [L]."""
    amount = network.fabric.bandwidth if network.link_bytes is None else network.link_bytes
    most = float(amount.max(initial=0.0))
    return np.asarray(amount / most if most > 0 else np.zeros(len(amount)), dtype=np.float64)


def _widest(network: Drawn) -> str:
    """What the line width says."""
    fabric = network.fabric
    if not fabric.links:
        return "no links"
    if network.link_bytes is None:
        return f"width: bandwidth, at most {human(8 * float(fabric.bandwidth.max()), 'b/s')}"
    return f"width: carried in one step, at most {human(float(network.link_bytes.max()), 'B')}"


def _curves(place: Floats, fabric: Fabric, direct: bool) -> Floats:
    """Quadratic Bezier curves [L, CURVE_POINTS, 2] from source to target. On a circle longer ones bend inwards more."""
    start, end = place[fabric.source], place[fabric.target]
    along = end - start
    right = np.column_stack((along[:, 1], -along[:, 0]))
    middle = (start + end) / 2
    if direct:
        middle = middle * (1 - 0.12 * (along**2).sum(axis=1))[:, None]
    else:
        level = (along[:, 1] == 0) & (along[:, 0] != 0)  # within a tier: over the nodes between
        middle = middle + np.column_stack((np.zeros(len(level)), 0.3 * level))
    control = middle + BEND * right
    t = np.linspace(0, 1, CURVE_POINTS)[None, :, None]
    curves = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * control[:, None] + t**2 * end[:, None]
    return np.asarray(curves, dtype=np.float64)


def _arrows(curves: Floats, size: float) -> Floats:
    """A triangle [L, 3, 2] on every curve, at two thirds of its length."""
    at = 2 * CURVE_POINTS // 3
    tip = curves[:, at]
    along = tip - curves[:, at - 1]
    along = along * (size / np.maximum(np.hypot(*along.T), 1e-12))[:, None]
    side = np.column_stack((-along[:, 1], along[:, 0])) * 0.5
    return np.stack((tip + along, tip - along + side, tip - along - side), axis=1)


def _count_parallel(axes: Axes, curves: Floats, fabric: Fabric, kind: Kind) -> None:
    """How many circuits a link is, where it is more than one, at a third of its length."""
    count = np.rint(fabric.bandwidth / fabric.interface_bandwidth).astype(int)
    for link in kind.links[count[kind.links] > 1]:
        x, y = curves[link, CURVE_POINTS // 3]
        axes.text(x, y, f"\N{MULTIPLICATION SIGN}{count[link]}", ha="center", va="center", fontsize=8,
                  color=kind.colour, zorder=15, clip_on=True,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})  # fmt: skip


def _draw_servers(axes: Axes, place: Floats, fabric: Fabric, inches: float) -> None:
    size = float(np.clip(15 * inches / max(1, fabric.servers), 1.2, 13))
    axes.plot(*place.T, linestyle="", marker="o", markersize=size, color=NODE, markeredgecolor="white",
              markeredgewidth=min(0.8, size / 8), zorder=20)  # fmt: skip
    for server in range(0, fabric.servers, _step(fabric.servers, MAX_LABELS)):
        axes.text(1.08 * place[server, 0], 1.08 * place[server, 1], str(server), ha="center", va="center", fontsize=8)
    axes.set_xlim(-1.17, 1.17)
    axes.set_ylim(-1.17, 1.17)
    axes.set_aspect("equal")


def _draw_tiers(axes: Axes, place: Floats, fabric: Fabric, inches: float) -> None:
    tier = tiers(fabric)
    for level, name in enumerate(tier_names(fabric)):
        nodes = np.flatnonzero(tier == level)
        size = float(np.clip(36 * inches / len(nodes), 1.0, 9))
        axes.plot(*place[nodes].T, linestyle="", marker="o" if level == 0 else "s", markersize=size, color=NODE,
                  markeredgecolor="white", markeredgewidth=min(0.8, size / 8), zorder=20)  # fmt: skip
        axes.text(-1.06, 0.5 * level, f"{name} ({len(nodes)})", ha="right", va="center", fontsize=8)
    servers = np.flatnonzero(tier == 0)
    for server in servers[:: _step(len(servers), MAX_LABELS)]:
        axes.text(place[server, 0], -0.06, str(server), ha="center", va="top", fontsize=7)
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-0.15, 0.5 * float(tier.max()) + 0.1)


def _step(count: int, most: int) -> int:
    """Every how many-th of ``count`` is named, a round number."""
    step = 1
    while count > step * most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step
