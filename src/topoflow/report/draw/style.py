"""How pictures look: colours that the colour-blind can distinguish, units a person reads, and saving."""

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

DPI = 150

COLOURS = tuple(FABRICS.values())[:8]  # of what is not a fabric, too
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 1)), (0, (1, 3)))
HATCHES = ("", "///", "...", "xxx")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

COMPUTE = "#717C88"
KINDS = {  # what a server sends, in a timeline
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
    """What a fabric, or a series of a figure, looks like in every picture of a report and on its page."""

    colour: str
    marker: str
    line: Any  # a line style of matplotlib
    number: int  # in the order in which a report first names them
    variant: int = 0  # among series of one colour

    @property
    def hatch(self) -> str:
        """The pattern of bars, which have neither line nor marker."""
        return HATCHES[self.variant % len(HATCHES)]


def fabric_looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each fabric. Colours are those of ``fabric_colours``, the same in every report.

    Markers and line styles follow the order in which a report first names the fabrics, so that they differ.
    """
    return {name: _look(colour, number) for number, (name, colour) in enumerate(fabric_colours(names).items())}


def series_looks(names: Iterable[str], fabrics: Mapping[str, str] | None = None) -> dict[str, Look]:
    """The look of each series of a figure, in the order in which they are first named; ``fabrics``: series -> fabric.

    Where the series are of several fabrics, each has the colour of its fabric, and others have what is left.
    Otherwise colours tell the series from each other, and repeat after eight; line and marker then differ.
    """
    series = list(dict.fromkeys(names))
    of = {name: fabrics[name] for name in series if fabrics and name in fabrics}
    own = fabric_colours(of.values()) if len(set(of.values())) > 1 or len(series) == 1 else {}
    free = [colour for colour in COLOURS if colour not in own.values()]
    looks, seen = dict[str, Look](), Counter[str]()
    for number, name in enumerate(series):
        colour = own.get(of.get(name, "")) or free[(number - seen.total()) % len(free)]
        looks[name] = _look(colour, number, variant=seen[colour])
        seen[colour] += name in of and bool(own)
    return looks


def _look(colour: str, number: int, variant: int = 0) -> Look:
    turn = number + number // len(COLOURS)
    return Look(colour, MARKERS[turn % len(MARKERS)], LINES[turn % len(LINES)], number, variant)


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
    """The picture as a PNG file: the bytes that ``figure.savefig`` writes, which draws everything twice."""
    buffer = BytesIO()
    figure.set_dpi(DPI)
    figure.set_facecolor("white")
    FigureCanvasAgg(figure).print_png(buffer)  # type: ignore[no-untyped-call]
    return buffer.getvalue()
