"""Experiment: a published figure as a grid of simulations, and how their numbers become that figure.

A *point* is one simulation or count: one combination of the grid, in one series of the figure. What it yields are
*rows*, flat records of plain numbers, in SI units. Rows are stored as soon as there are any (``points.py``), and a
figure is drawn from all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from topoflow.study.figures.similar_cost import RULES

if TYPE_CHECKING:
    from topoflow.study.figures.setup import Setup

Value = str | int | float | None
Row = Mapping[str, Value]
Grid = Mapping[str, object]  # key of a comparison -> value, or values separated by commas

T = TypeVar("T", bound="Experiment")

SIMILAR_COST = "similar_cost_to"  # key of a series: another series, whose price it has about


@dataclass(frozen=True)
class Heading:
    """What a column of a summary is, for a person. ``unit``: "B", "s", "x" (times as much) or "%" (of a share)."""

    text: str
    unit: str = ""


@dataclass(frozen=True)
class Picture:
    """One PNG of a figure."""

    file: str
    caption: str
    png: bytes


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
    series: Mapping[str, Grid]  # name -> what of the grid it fixes
    similar_cost: str = field(default="authors", kw_only=True)  # how fast what has the price of another is: ``RULES``

    def titled(self: T, rows: Sequence[Row]) -> T:
        """The same, its title with the number of servers that were simulated."""
        servers = ", ".join(str(count) for count in distinct(rows, "servers"))
        return replace(self, title=self.title.replace("{servers}", servers))

    @property
    def parameters(self) -> Mapping[str, object]:
        """What ``measure`` depends on in addition to the setup."""
        return {}

    @abstractmethod
    def measure(self, setup: Setup) -> Sequence[Row]:
        """What one point yields, without what ``setup.label`` says already."""

    @abstractmethod
    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The figure in a few numbers, to be compared with those of the paper."""

    @property
    @abstractmethod
    def headings(self) -> Mapping[str, Heading]:
        """Of the summary's columns, those whose key alone does not say what they are."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        """The figure's pictures."""


def check_roles(where: str, experiment: Experiment, *keys: str) -> None:
    """Raise ``ValueError`` unless every key that the figure needs has values in the grid, or is ``series``."""
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
    """A value that is a number; nan where there is none. Raises ``ValueError`` for text."""
    value = row.get(key)
    if isinstance(value, str):
        raise ValueError(f"row.{key}: must be a number, got {value!r}")
    return float("nan") if value is None else float(value)


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """The values of a key, in the order in which they are first seen; None where a row has none."""
    return list(dict.fromkeys(row.get(key) for row in rows))


def where(rows: Iterable[Row], **values: Value) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]
