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

from topoflow.report.draw.style import png
from topoflow.report.page.series import Drawing, panels
from topoflow.study.figures.similar_cost import RULES

if TYPE_CHECKING:
    from topoflow.study.figures.setup import Setup

Value = str | int | float | None
Row = Mapping[str, Value]
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
class Picture:
    """One PNG of a figure; ``panels`` is what a page draws in its place, None where it shows the PNG."""

    file: str
    caption: str
    png: bytes
    panels: Sequence[Mapping[str, Any]] | None = None

    @classmethod
    def of(cls, file: str, caption: str, figure: Drawing) -> Picture:
        return cls(file, caption, png(figure), panels(figure))


class Figure(Protocol):
    """Pictures and a table of rows, as ``write.write`` makes a folder of them."""

    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def headings(self) -> Mapping[str, Heading]: ...
    def summary(self, rows: Sequence[Row]) -> Sequence[Row]: ...
    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]: ...


@dataclass(frozen=True)
class Experiment(ABC):
    """A kind of figure: a frozen dataclass in a file of ``study/figures/``, whose fields a figure's config gives."""

    title: str
    source: str  # section and figure of the paper
    grid: Grid
    series: Mapping[str, Grid]  # name -> the keys and values that make it
    similar_cost: str  # a key of ``RULES``: how fast a network of similar cost is
    in_place_of: ClassVar[Mapping[str, str]] = {}  # key of a comparison -> the field that says what it would

    def titled(self: T, rows: Sequence[Row]) -> T:
        """The same with ``{KEY}`` in its title replaced by the values of that key in the rows: ``128``, ``4, 8``."""

        def values(key: re.Match[str]) -> str:
            return ", ".join(str(value) for value in distinct(rows, key[1]))

        return replace(self, title=IN_TITLE.sub(values, self.title))

    @property
    def fabrics(self) -> Mapping[str, str]:
        """Series -> its fabric, of those that choose one: it gives them their colour."""
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
        """The rows of one point, without the values of ``setup.label``."""

    @abstractmethod
    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The figure in a few numbers, to be compared with those of the paper."""

    @property
    @abstractmethod
    def headings(self) -> Mapping[str, Heading]:
        """Titles and units of the summary's columns; a column that is not here has its key as title."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        """The figure's pictures."""


def check_roles(where: str, experiment: Experiment, *keys: str) -> None:
    """Raise ``ValueError`` unless the series are valid and each of ``keys`` is ``series`` or a key of the grid."""
    for name in experiment.series:
        if "," in name:
            raise ValueError(f"experiment.series: must have names without a comma, as series=A,B, got {name!r}")
    for name, fixed in experiment.series.items():
        if fixed.get(SIMILAR_COST, name) not in experiment.series:
            rival = fixed[SIMILAR_COST]
            raise ValueError(f"experiment.series.{name}.{SIMILAR_COST}: must be another series, got {rival!r}")
    if experiment.similar_cost not in RULES:
        raise ValueError(f"experiment.similar_cost: must be one of {', '.join(RULES)}, got {experiment.similar_cost!r}")
    known = {"series", *experiment.grid, *(key for fixed in experiment.series.values() for key in fixed)}
    for key in keys:
        if key not in known:
            raise ValueError(f"{where}: must be series or a key of the grid ({', '.join(sorted(known))}), got {key!r}")


def number(row: Row, key: str) -> float:
    """The value of a key, which must be a number; NaN where the row lacks it. Raises ``ValueError`` for text."""
    value = row.get(key)
    if isinstance(value, str):
        raise ValueError(f"row.{key}: must be a number, got {value!r}")
    return float("nan") if value is None else float(value)


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """The values of a key, in the order of their first occurrence; None where a row lacks it."""
    return list(dict.fromkeys(row.get(key) for row in rows))


def where(rows: Iterable[Row], **values: Value) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def ratios(line: Mapping[float, float], base: Mapping[float, float]) -> Row:
    """A line over the baseline's: the mean over all x that both have, and at the least and the greatest of these.

    ``line``, ``base``: x -> y. Nothing where no x is in both.
    """
    found = {x: line[x] / base[x] for x in sorted(line) if x in base}
    if not found:
        return {}
    each = list(found.values())
    return {"ratio_mean": fmean(each), "ratio_first": each[0], "ratio_last": each[-1]}


def words(key: str) -> str:
    """A key as words: ``workload.batch_per_gpu`` is the batch per GPU."""
    return key.rpartition(".")[2].replace("_gbps", " [Gb/s]").replace("_", " ").replace("gpu", "GPU")
