"""The points of a figure: composed from its grid and its series, and measured unless they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topoflow.engine.base import Run, Unfinished
from topoflow.engine.executor.base import ItemFunction, do_all
from topoflow.engine.observer import Observer, PartialObserver, Silent
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.point import Point
from topoflow.study.figures.base import SIMILAR_COST, Experiment, Grid, Row, Value
from topoflow.study.figures.points import PointFile
from topoflow.study.figures.setup import Setup

NO_END = "has no end"  # no identifier, so no key of a figure: in place of the rows of a point, why its world has none


def setups(experiment: Experiment, chosen: Sequence[str], arguments: Sequence[str]) -> Iterator[Setup]:
    """Yield every point of the chosen series, in the order of the grid."""
    for series in chosen:
        fixed = experiment.series[series]
        composed = series_points(experiment, series, arguments)
        rivals: Sequence[Point | None] = [None] * len(composed)
        if SIMILAR_COST in fixed:
            rivals = series_points(experiment, str(fixed[SIMILAR_COST]), arguments)
        keys = dict.fromkeys([*experiment.grid, *fixed, *composed[0].swept])
        keys.pop(SIMILAR_COST, None)
        for point, priced in zip(composed, rivals, strict=True):
            label = {"series": series, **{key: value_of(point, key) for key in keys}}
            yield Setup(label, point, priced, experiment.similar_cost)


def series_points(experiment: Experiment, series: str, arguments: Sequence[str]) -> list[Point]:
    """Return the points of one series, composed as a comparison is."""
    fixed = {key: value for key, value in experiment.series[series].items() if key != SIMILAR_COST}
    others = {key for other in experiment.series.values() for key in other} - {*fixed, *experiment.grid}
    series_arguments = [argument for argument in arguments if argument.partition("=")[0] not in others]
    return grid([*overrides(experiment.grid), *overrides(fixed), *series_arguments], check)


def overrides(grid: Grid) -> list[str]:
    """A grid as arguments of the command line."""
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in grid.items()]


def value_of(point: Point, key: str) -> Value:
    """The value of a key of the grid at this point: the name of the chosen file of a group, or a number or text."""
    if key in point.choices:
        return point.choices[key]
    value: Any = point.config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int | float) else None


def identified(experiment: Experiment, todo: Sequence[Setup], observer: Observer) -> list[tuple[str, Setup]]:
    """Return each point with its id. Raises ``ValueError`` for a point that cannot be, before any is simulated."""
    with_ids, parameters = [], experiment.parameters
    for done, setup in enumerate(todo, start=1):
        with_ids.append(
            (replace(setup).id(parameters), setup)
        )  # a copy, so that what it builds does not stay in memory
        observer.advance(done, len(todo))
    return with_ids


def measure(
    experiment: Experiment, todo: Sequence[tuple[str, Setup]], stored: PointFile, run: Run, observer: Observer
) -> list[Row]:
    """The rows of all points. Points that are stored are not measured again.

    Raises ``Unfinished`` that names the points whose worlds come to no end, once all others are stored.
    """
    missing: dict[str, Setup] = {}
    for point, setup in todo:
        if point not in stored:
            missing.setdefault(point, setup)
    points = [*missing]
    earlier = len(todo) - len(points)
    part = replace(run, observer=PartialObserver(observer, earlier, len(todo)))
    unfinished: list[str] = []
    for number, rows in do_all(Measuring(experiment), [*missing.values()], part):
        if why := [str(row[NO_END]) for row in rows if NO_END in row]:
            unfinished += why
        else:
            stored.add(points[number], missing[points[number]].label, rows)
    if unfinished:
        others = f", and {len(unfinished) - 1} more" if len(unfinished) > 1 else ""
        raise Unfinished(f"{unfinished[0]}{others}; what comes to an end is stored")
    observer.advance(len(todo), len(todo))
    return [{**setup.label, **row} for point, setup in todo for row in stored[point]]


@dataclass(frozen=True)
class Measuring(ItemFunction[Setup, Sequence[Row]]):
    """Points of a figure as work for an executor; answers are their rows."""

    experiment: Experiment

    def name(self, item: Setup) -> str:
        return ", ".join(str(value) for value in item.label.values())

    def do(self, items: Sequence[Setup], run: Run) -> list[Sequence[Row]]:
        """Return the rows of each setup, which is copied, so that what it builds does not stay in memory."""
        rows_of_setups = []
        for done, setup in enumerate(items):
            run.observer.advance(done, len(items))
            try:
                rows_of_setups.append(self.experiment.measure(replace(setup, run=replace(run, observer=Silent()))))
            except Unfinished as error:
                rows_of_setups.append([{NO_END: f"series={setup.label['series']}: {error}"}])
        return rows_of_setups
