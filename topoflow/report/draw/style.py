"""How pictures look: colours that the colour-blind can distinguish, units a person reads, and saving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

DPI = 150

# Okabe & Ito, "Color Universal Design" (2008), darker tones first; line styles and markers repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

COMPUTE = "#4D5B66"
KINDS = {  # what a server sends, in a timeline
    "all_reduce": "#D55E00",
    "transfer": "#0072B2",
    "all_to_all": "#009E73",
    "all_gather": "#CC79A7",
    "reduce_scatter": "#E69F00",
    "broadcast": "#56B4E9",
    "send": "#0072B2",
    "recv": "#56B4E9",
}
OTHER_KIND = "#000000"


@dataclass(frozen=True)
class Look:
    """What one fabric looks like in every picture of a report."""

    colour: str
    marker: str
    line: Any  # a line style of matplotlib


def fabric_looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each fabric, in the order in which a report first names them: pictures and the page have no other.

    Colours repeat after eight fabrics; line and marker then differ.
    """
    return {
        name: Look(
            COLOURS[number % len(COLOURS)],
            MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            LINES[(number + number // len(COLOURS)) % len(LINES)],
        )
        for number, name in enumerate(dict.fromkeys(names))
    }


def kind_colour(kind: str) -> str:
    """The colour of a kind of task in every timeline."""
    return COMPUTE if kind == "compute" else KINDS.get(kind, OTHER_KIND)


_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def scale(values: Iterable[float], unit: str) -> tuple[float, str]:
    """(divisor, unit) in which the largest value is at least 1: ``scale([0.02], "s") == (1e-3, "ms")``."""
    largest = max(values, default=0.0)
    lowest = 1e-9 if unit == "s" else 1.0
    highest = 1.0 if unit == "s" else 1e12
    for factor, prefix in _PREFIXES:
        if lowest <= factor <= highest and largest >= factor:
            return factor, prefix + unit
    return 1.0, unit


def grid_shape(panels: int, widest: int) -> tuple[int, int]:
    """(rows, columns) for this number of panels."""
    columns = min(panels, widest)
    return -(-panels // columns), columns


def panels(figure: Figure, count: int, widest: int) -> list[Axes]:
    """``count`` axes in a grid; the cells left over are not drawn."""
    rows, columns = grid_shape(count, widest)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit into a figure of this width (inches)."""
    longest = max(map(len, labels), default=1)
    return max(1, min(5, len(labels), int(width / (0.085 * longest + 0.7))))


def plain(axes: Axes, grid: Literal["x", "y", "both"] = "x") -> None:
    """No frame at the top and right, a light grid below the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """The picture as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()
