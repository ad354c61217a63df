"""Traffic heat maps as in TopoOpt's Figure 1: bytes between servers in one training step."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from topoflow.case.base import Result
from topoflow.demand import Demand
from topoflow.report.base import Report
from topoflow.report.draw.style import grid_shape, panels
from topoflow.units import human

MAX_PANELS = 6  # panels
MAX_BLOCKS = 256  # rows, at least a pixel each in any panel; with more servers, a row is a block of servers
NOTHING = "#F2F2F2"


def draw(report: Report) -> Figure:
    """Draw one panel per traffic: ring orders differ between fabrics, so the same job may differ."""
    Panel = tuple[str, bytes, bytes, bytes]  # job and how, traffic
    panels_of: dict[Panel, dict[str, Result]] = {}  # -> fabric -> its first world
    for outcome in report.outcomes:
        row = outcome.row
        job_text = f"{row.workload}, {row.strategy}, {row.all_reduce.replace('_', '-')} all-reduce"
        sent = outcome.flows
        key = job_text, sent.source.tobytes(), sent.target.tobytes(), np.round(sent.bytes).tobytes()
        same = panels_of.setdefault(key, {})
        same.setdefault(row.fabric, outcome)
    titles = []
    for (job_text, *_), worlds in panels_of.items():
        names = []
        for fabric, outcome in worlds.items():
            rivals = [other[fabric] for (also, *_), other in panels_of.items() if also == job_text and fabric in other]
            names.append(report.labels(rivals)[rivals.index(outcome)])
        titles.append(f"{job_text}\non {_listed(names)}")
    first = [next(iter(worlds.values())) for worlds in panels_of.values()]
    shown = [outcome.flows for outcome in first]
    endpoint = first[0].fabric.endpoint
    return draw_matrices(titles, [by_block(sent) for sent in shown], endpoint, [sent.servers for sent in shown])


def by_block(sent: Demand) -> NDArray[np.float64]:
    """Return the bytes between blocks of neighbouring servers; up to ``MAX_BLOCKS`` servers are a block each."""
    blocks = min(sent.servers, MAX_BLOCKS)
    total = np.zeros((blocks, blocks))
    np.add.at(total, tuple(end * blocks // sent.servers for end in (sent.source, sent.target)), sent.bytes)
    return total


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def draw_matrices(
    titles: Sequence[str], matrices: Sequence[NDArray[np.float64]], what: str, counts: Sequence[int] | None = None
) -> Figure:
    """Draw matrices [n, n] of bytes from row to column on one colour scale.

    A side of a matrix has ``counts`` (None: n) of ``what``.
    """
    sides = list(map(len, matrices)) if counts is None else counts
    shown = list(zip(titles, matrices, sides, strict=True))[:MAX_PANELS]
    widest = 2 if len(shown) in (2, 4) else 3
    norm = _norm(np.concatenate([matrix[matrix > 0] for _, matrix, _ in shown]))
    images = [SquareImage(title, np.ma.masked_equal(matrix, 0), size, what) for title, matrix, size in shown]
    figure, axes_list = draw_squares(images, widest, norm, label="in one step (grey: nothing)", format=bytes_text)
    for axes, (_, _, size) in zip(axes_list, shown, strict=True):
        named = range(0, size, 2 ** ceil(log2(size / (16 if size < 100 else 8))) if size > 16 else 1)
        axes.set_xticks(named)
        axes.set_yticks(named)
    limit = "" if len(shown) == len(titles) else f" ({len(shown)} of {len(titles)} shown)"
    figure.suptitle(f"Traffic between {what}s{limit}")
    return figure


class SquareImage(NamedTuple):
    """The image of a matrix from row to column."""

    title: str
    matrix: np.ma.MaskedArray[tuple[int, int], np.dtype[np.float64]]
    size: int  # how many of ``what`` a side stands for
    what: str


def draw_squares(
    images: Sequence[SquareImage], widest: int, norm: Normalize, **colorbar: Any
) -> tuple[Figure, list[Axes]]:
    """Draw images in a grid on one colour scale, and what is masked in grey; ``colorbar`` says what colours mean."""
    rows, columns = grid_shape(len(images), widest)
    figure = Figure(figsize=(max(6.0, 4.1 * columns + 0.8), 4.0 * rows + 0.7), layout="constrained")
    colours = colormaps["viridis"].with_extremes(bad=NOTHING)
    axes_list = panels(figure, len(images), widest)
    for axes, (title, matrix, size, what) in zip(axes_list, images, strict=True):
        extent = (-0.5, size - 0.5, size - 0.5, -0.5)
        image = axes.imshow(matrix, norm=norm, cmap=colours, interpolation="nearest", extent=extent)
        axes.set_xlabel(f"to {what}")
        axes.set_ylabel(f"from {what}")
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes_list, shrink=0.85, **colorbar)
    return figure, axes_list


def bytes_text(value: float, _: int) -> str:
    """Return the name of a tick of a scale of bytes."""
    return human(value, "B")


def _norm(sent: NDArray[np.float64]) -> Normalize:
    """Return a logarithmic scale if the bytes differ by more than a factor of ten, otherwise a linear one."""
    low, high = float(sent.min(initial=np.inf)), float(sent.max(initial=0.0))
    if not sent.size:
        return Normalize(0.0, 1.0)
    return LogNorm(low, high) if high > 10 * low else Normalize(0.0, high)
