"""A sweep as a dataset: points are composed, simulated and written in parts, in memory that does not grow with them.

A point that cannot be built is a row with an ``error``: a sweep of a million need not begin again for one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from topoflow.case.base import Case, Result
from topoflow.digest import digest, program
from topoflow.engine.base import Run
from topoflow.engine.observer import Silent
from topoflow.report.dataset.base import Dataset
from topoflow.study.builder import Builder, PointCases
from topoflow.study.compare import simulate, simulate_alone
from topoflow.study.configure.grid import Grid, swept_values
from topoflow.study.configure.keys import each_of
from topoflow.study.configure.point import Point
from topoflow.units import counted

BATCH = 256  # points that are simulated at once, or more
ROOM = 2**26  # B of their worlds and timelines; those of jobs on 1,000 servers take MB each
MOST_TRIED = 256  # values of a key

Row = dict[str, Any]


def dataset_of(points: Sequence[Point], command: str, out: Path) -> Dataset:
    """Return the dataset that ``points`` are written to. Raises ``ValueError`` for what only a report has."""
    first = points[0]
    if each_of(first.config["fail"]) or "fail.each" in first.swept:
        raise ValueError("fail.each: must be null where out is a dataset, whose points have a row each")
    values = swept_values(points)
    if isinstance(points, Grid):
        points.compose(list(_each_value_once(values)))  # what is wrong with one is known before the work
    if len(values) and any(key in values for key in ("device", "threads", "out", "executor")):
        raise ValueError("device, threads, executor, out: must be one for all points of a dataset, got several")
    config = {key: value for key, value in first.config.items() if key not in ("out", "device", "threads", "executor")}
    identity = digest([program(), {key: list(key_values) for key, key_values in values.items()}, config, len(points)])
    numbers = frozenset(key for key, key_values in values.items() if all(map(_is_number, key_values)))
    return Dataset(out, len(points), tuple(values), numbers, command, identity)


def _each_value_once(values: Mapping[str, Sequence[str]]) -> Iterator[int]:
    """Yield points that have each value of each key with the first values of others; of many values some."""
    step = 1
    for key_values in reversed([*values.values()]):
        yield from range(0, len(key_values) * step, step * (1 + len(key_values) // MOST_TRIED))
        step *= len(key_values)


def write_dataset(points: Sequence[Point], dataset: Dataset, missing: Sequence[range], run: Run) -> None:
    """Simulate the points of the files that are ``missing``, and write these.

    Raises ``ValueError`` in one line where no point of a first batch can be built, before a file is written.
    """
    done, builder = dataset.points - sum(map(len, missing)), Builder()
    run.observer.stage("worlds")
    run.observer.size(f"{sum(map(len, missing)):,} of {counted(dataset.points, 'point')}")
    for part in missing:
        rows: list[Row] = []
        while len(rows) < len(part):
            first = len(rows)
            rows += _rows(points, part[first:], dataset, builder, run)
            if done == 0 == first and all("error" in row for row in rows):
                raise ValueError(rows[0]["error"])
            run.observer.advance(done + len(rows), dataset.points)
        dataset.write(part, rows)
        done += len(rows)


def _rows(points: Sequence[Point], numbers: range, dataset: Dataset, builder: Builder, run: Run) -> Iterator[Row]:
    """Yield a row for each of the first of these numbers, as many as there is room for."""
    cases_by_number: dict[int, PointCases] = {}
    errors: dict[int, str] = {}
    for count in range(0, len(numbers), BATCH):
        if sum(_size(case) for built in cases_by_number.values() for case in built.cases) > ROOM:
            numbers = numbers[:count]
            break
        _build({number: points[number] for number in numbers[count : count + BATCH]}, builder, cases_by_number, errors)
    results, refused = _simulated(cases_by_number, run)
    builder.forget()
    for number in numbers:
        row = {"point": number, **dataset.swept(_swept(points, number))}
        if number in results:
            yield {**row, **_columns(results[number])}
        else:
            yield {**row, "error": errors.get(number) or refused[number]}


def _build(
    points: Mapping[int, Point], builder: Builder, cases_by_number: dict[int, PointCases], errors: dict[int, str]
) -> None:
    """Add the cases of each point, or the error of one that cannot be built."""
    with suppress(ValueError):
        built = builder.build([*points.values()])
        if len(built) == len(points):
            cases_by_number.update(zip(points, built, strict=True))
            return
    for number, point in points.items():
        try:
            (cases_by_number[number],) = builder.build([point])
        except ValueError as error:
            errors[number] = str(error)


def _size(case: Case) -> int:
    """Return the bytes of the numbers of a world's links, and of the times of its tasks."""
    return 16 * (case.world.graph.links + case.world.graph.tasks)


def _simulated(cases_by_number: dict[int, PointCases], run: Run) -> tuple[dict[int, Result], dict[int, str]]:
    """Return the results, and the errors of other points. Where the batch fails, points are simulated one by one."""
    silent = Run(run.device, run.threads, Silent(), run.workers)
    outcomes: Iterable[Result | ValueError]
    try:
        outcomes = simulate([*cases_by_number.values()], silent)
    except ValueError:
        outcomes = simulate_alone(cases_by_number.values(), silent)
    outcome_by_number = dict(zip(cases_by_number, outcomes, strict=True))
    return (
        {number: outcome for number, outcome in outcome_by_number.items() if isinstance(outcome, Result)},
        {number: str(outcome) for number, outcome in outcome_by_number.items() if isinstance(outcome, ValueError)},
    )


def _columns(result: Result) -> Row:
    row = {key: value for key, value in vars(result.row).items() if key != "world"}
    return {**row, "fits": result.fits, "is_ideal": result.fabric.is_ideal}


def _swept(points: Sequence[Point], number: int) -> dict[str, str]:
    """Return the keys and values of a point, without composing it."""
    if not isinstance(points, Grid):
        return dict(points[number].swept)
    return {key.lstrip("+"): value for key, value in points.product.swept(number).items()}


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
