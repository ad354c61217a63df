"""Experiment: a published figure as a grid of simulations, and how their numbers become that figure.

A *point* is one simulation or count: one combination of the grid, in one series of the figure. Its results are *rows*,
flat records of plain numbers in SI units. The rows of a point are stored when it is done (``points.py``); the figure is
drawn from those of all points.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from topoflow.arrays import Floats
from topoflow.report.draw.style import png
from topoflow.report.page.series import Drawing, panels
from topoflow.study.figures.similar_cost import RULES
from topoflow.units import check_among

if TYPE_CHECKING:
    from topoflow.study.figures.setup import Setup

Value = str | int | float | None
Row = Mapping[str, Value]
Line = Mapping[float, float]  # x -> y
Grid = Mapping[str, object]  # key of a comparison -> value, or values separated by commas

IN_TITLE = re.compile(r"\{([\w.]+)\}")  # a key whose values stand in a title
T = TypeVar("T", bound="Experiment")

SIMILAR_COST = "similar_cost_to"  # key of a series: another series, whose network costs about as much


@dataclass(frozen=True)
class Heading:
    """The title of a column of a summary. ``unit``: "B", "s", "USD", "x" (a ratio) or "%" (a share)."""

    text: str
    unit: str = ""


@dataclass(frozen=True)
class FigurePicture:
    """One PNG of a figure; ``panels`` is what a page draws in its place, None where it shows the PNG."""

    file: str
    caption: str
    png: bytes
    panels: Sequence[Mapping[str, Any]] | None = None

    @classmethod
    def of(cls, file: str, caption: str, figure: Drawing) -> FigurePicture:
        return cls(file, caption, png(figure), panels(figure))


class Figure(Protocol):
    """Pictures and a table of rows, which ``write.write`` turns into a folder."""

    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def headings(self) -> Mapping[str, Heading]: ...
    def summary(self, rows: Sequence[Row]) -> Sequence[Row]: ...
    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]: ...


@dataclass(frozen=True)
class Experiment(ABC):
    """A kind of figure, whose fields a figure's config gives: a module of a paper's room or of ``study/figures/``."""

    title: str
    source: str  # section and figure of the paper
    grid: Grid
    series: Mapping[str, Grid]  # name -> the keys and values that make it
    similar_cost: str  # a key of ``RULES``: how fast a network of similar cost is
    in_place_of: ClassVar[Mapping[str, str]] = {}  # key of a comparison -> the field that says what it would

    def __post_init__(self) -> None:
        """Check the series and the rule of similar cost; a kind of figure checks its own fields after it."""
        for name, fixed in self.series.items():
            if "," in name:
                raise ValueError(f"experiment.series: must have names without a comma, as series=A,B, got {name!r}")
            if (rival := fixed.get(SIMILAR_COST, name)) not in self.series:
                raise ValueError(f"experiment.series.{name}.{SIMILAR_COST}: must be another series, got {rival!r}")
        check_among("experiment.similar_cost", self.similar_cost, RULES)

    def check_keys(self, field: str, *keys: str) -> None:
        """Raise ``ValueError`` unless each of ``keys`` is ``series`` or a key of the grid."""
        known = {"series", *self.grid, *(key for fixed in self.series.values() for key in fixed)}
        for key in keys:
            if key not in known:
                requirement = f"must be series or a key of the grid ({', '.join(sorted(known))})"
                raise ValueError(f"experiment.{field}: {requirement}, got {key!r}")

    def check_series(self, field: str, *names: str) -> None:
        """Raise ``ValueError`` unless each of ``names`` is a series."""
        for name in names:
            if name not in self.series:
                raise ValueError(f"experiment.{field}: must be of the series {', '.join(self.series)}, got {name!r}")

    def titled(self: T, rows: Sequence[Row]) -> T:
        """Replace ``{KEY}`` in the title by the values of that key in the rows: ``128``, ``4, 8``."""

        def values(key: re.Match[str]) -> str:
            return ", ".join(str(value) for value in distinct(rows, key[1]))

        return replace(self, title=IN_TITLE.sub(values, self.title))

    @property
    def fabrics(self) -> Mapping[str, str]:
        """The fabric of each series that chooses one, which gives the series its colour."""
        return {name: str(fixed["fabric"]) for name, fixed in self.series.items() if "fabric" in fixed}

    @property
    def parameters(self) -> Mapping[str, object]:
        """The values that ``measure`` depends on in addition to the setup, by name."""
        return {}

    def check(self, labels: Sequence[Row]) -> None:
        """Raise ``ValueError`` where the points with these ``labels`` (``Setup.label``) make no figure."""
        for key in IN_TITLE.findall(self.title):
            if all(key not in label for label in labels):
                raise ValueError(f"experiment.title: must have keys of the points in braces, got {{{key}}}")

    @abstractmethod
    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return the rows of one point, without the values of ``setup.label``."""

    @abstractmethod
    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the figure in a few numbers, to be compared with those of the paper."""

    @property
    @abstractmethod
    def headings(self) -> Mapping[str, Heading]:
        """Titles and units of the summary's columns; a column that is not here has its key as title."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        """Return the figure's pictures."""


def number(row: Row, key: str) -> float:
    """Return the value of a key, which must be a number; NaN if the row lacks it. Raises ``ValueError`` for text."""
    value = row.get(key)
    if isinstance(value, str):
        raise ValueError(f"row.{key}: must be a number, got {value!r}")
    return float("nan") if value is None else float(value)


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """Return the values of a key, in the order of their first occurrence; None if a row lacks it."""
    return list(dict.fromkeys(row.get(key) for row in rows))


def where(rows: Iterable[Row], **values: Value) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def grouped(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Split rows by the values of a key, in the order of their first occurrence."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get(key), []).append(row)
    return groups


def ratios(line: Line, base: Line) -> Row:
    """Divide a line by the baseline: the mean over all x that both have, and the ratios at the least and greatest x.

    Empty if no x is in both.
    """
    ratio_by_x = {x: line[x] / base[x] for x in sorted(line) if x in base}
    if not ratio_by_x:
        return {}
    values = list(ratio_by_x.values())
    return {"ratio_mean": fmean(values), "ratio_first": values[0], "ratio_last": values[-1]}


def against(lines: Mapping[Any, Mapping[Any, Line]], baseline: str, panel: str, what: str) -> list[Row]:
    """Return a row for each line of each panel: its y at the least and greatest x, and ``ratios`` to the baseline."""
    return [
        {
            panel: value,
            "series": series,
            f"{what}_first": line[min(line)],
            f"{what}_last": line[max(line)],
            **ratios(line, of_panel.get(baseline, {})),
        }
        for value, of_panel in lines.items()
        for series, line in of_panel.items()
    ]


def curves(lines: Mapping[Any, Line]) -> dict[str, tuple[Floats, Floats]]:
    """Return the x and the y of each line as arrays, for ``draw_lines``."""
    return {str(name): (np.array(list(line)), np.array(list(line.values()))) for name, line in lines.items()}


def words(key: str) -> str:
    """Return a key as words: ``workload.batch_per_gpu`` is the batch per GPU."""
    return key.rpartition(".")[2].replace("_gbps", " [Gb/s]").replace("_", " ").replace("gpu", "GPU")
