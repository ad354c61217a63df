"""The style of pictures: colours that the colour-blind can distinguish, human units, and PNG files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from topoflow.report.draw.colours import FABRICS, fabric_colours
from topoflow.units import prefixed

DPI = 150

COLOURS = tuple(FABRICS.values())[:8]  # also for series that are no fabrics
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 1)), (0, (1, 3)))
HATCHES = ("", "///", "...", "xxx")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

COMPUTE = "#717C88"
HOST = "#C9CED4"  # a GPU that waits for its host
KINDS = {  # colours of sends in a timeline
    "all_reduce": "#D55E00",
    "transfer": "#0072B2",
    "all_to_all": "#3CA284",
    "all_gather": "#CC72B4",
    "reduce_scatter": "#848A48",
    "broadcast": "#0C96F0",
    "send": "#0072B2",
    "recv": "#0C96F0",
}
OTHER_KIND = "#72663C"


@dataclass(frozen=True)
class Look:
    """The look of a fabric, or of a series of a figure, in every picture of a report and on its page."""

    colour: str
    marker: str
    line: Any  # a line style of matplotlib
    number: int  # position in the order of first appearance in a report
    variant: int = 0  # number among the series of one colour

    @property
    def hatch(self) -> str:
        """Return the pattern of bars, which have neither line nor marker."""
        return HATCHES[self.variant % len(HATCHES)]


def fabric_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of each fabric, with the colours of ``fabric_colours``, which are the same in every report.

    Markers and line styles follow the order of first appearance in a report, so that they differ.
    """
    return {name: _look(colour, number) for number, (name, colour) in enumerate(fabric_colours(names).items())}


def series_looks(names: Iterable[str], fabrics: Mapping[str, str] | None = None) -> dict[str, Look]:
    """Return the look of each series of a figure, in the order of first appearance; ``fabrics``: series -> fabric.

    If the series belong to several fabrics, each has the colour of its fabric, and others have the remaining colours.
    Otherwise each series has its own colour; colours repeat after eight, with other lines and markers.
    """
    series = list(dict.fromkeys(names))
    fabric_of = {name: fabrics[name] for name in series if fabrics and name in fabrics}
    several = len(set(fabric_of.values())) > 1 or len(series) == 1
    colours = fabric_colours(fabric_of.values()) if several else {}
    free = [colour for colour in COLOURS if colour not in colours.values()]
    looks, used = dict[str, Look](), Counter[str]()
    for number, name in enumerate(series):
        colour = colours.get(fabric_of.get(name, "")) or free[(number - used.total()) % len(free)]
        looks[name] = _look(colour, number, variant=used[colour])
        used[colour] += name in fabric_of and bool(colours)
    return looks


def _look(colour: str, number: int, variant: int = 0) -> Look:
    turn = number + number // len(COLOURS)
    return Look(colour, MARKERS[turn % len(MARKERS)], LINES[turn % len(LINES)], number, variant)


def kind_colour(kind: str) -> str:
    """Return the colour of a kind of task in every timeline."""
    return COMPUTE if kind == "compute" else KINDS.get(kind, OTHER_KIND)


def scale(values: Iterable[float], unit: str) -> tuple[float, str]:
    """Return (divisor, unit) in which the largest value is at least 1: ``scale([0.02], "s") == (1e-3, "ms")``."""
    return prefixed(max(values, default=0.0), unit)


def grid_shape(panels: int, widest: int) -> tuple[int, int]:
    """Return (rows, columns) for this number of panels."""
    columns = min(panels, widest)
    return -(-panels // columns), columns


def panels(figure: Figure, count: int, widest: int) -> list[Axes]:
    """Return ``count`` axes in a grid; unused cells are not drawn."""
    rows, columns = grid_shape(count, widest)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns of a legend fit into a figure of this width (inches)."""
    longest = max(map(len, labels), default=1)
    return max(1, min(5, len(labels), int(width / (0.085 * longest + 0.7))))


def plain(axes: Axes, grid: Literal["x", "y", "both"] = "x") -> None:
    """Remove the frame at the top and right; draw a light grid below the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """Return the picture as a PNG file, with the bytes of ``figure.savefig``, which draws everything twice."""
    buffer = BytesIO()
    figure.set_dpi(DPI)
    figure.set_facecolor("white")
    FigureCanvasAgg(figure).print_png(buffer)  # type: ignore[no-untyped-call]
    return buffer.getvalue()
