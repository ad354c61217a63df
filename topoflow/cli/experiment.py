"""``topoflow experiment``: the figures of papers, one command each."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from rich.box import SIMPLE_HEAD
from rich.table import Table

from topoflow.cli.output import Output
from topoflow.cli.stages import Terminal
from topoflow.engine.base import Run
from topoflow.engine.observer import Observer, Silent
from topoflow.report.files import check_folder
from topoflow.search.problem import Settings
from topoflow.study.builder import DEFAULT_SERVERS, workload_of
from topoflow.study.configure.grid import (
    Point,
    build,
    check_fields,
    checked_parser,
    fidelity_of,
    grid,
    one_line,
    run_of,
)
from topoflow.study.configure.hints import suggest
from topoflow.study.configure.keys import GROUPS, KEYS, check
from topoflow.study.configure.options import options
from topoflow.study.figures.base import SIMILAR_COST, Experiment, Grid, Row, Setup, Value, distinct
from topoflow.study.figures.points import Points, identity
from topoflow.study.figures.write import columns, headed, write

GROUP = "experiment"
CHECKPOINT = "checkpoint.jsonl"
OWN = "experiment."  # fields of the experiment itself
SEARCH = "search."  # keys of configs/search.yaml
NOT_OF_FIGURES = ("fail",)  # keys of a comparison
HOW = ("device", "threads")  # keys on which no answer depends
OF_FIGURES = (
    *(key for key in (*GROUPS, *KEYS, *options("fidelity")) if key not in NOT_OF_FIGURES),
    *("series", "search", "experiment"),
)


def run(arguments: argparse.Namespace) -> None:
    """Compose, measure what is not stored yet, write, print."""
    experiment = load(arguments.name, arguments.overrides)
    out, chosen, given = split(arguments.overrides, experiment)
    check_folder(out, "experiment")
    stored = Points(out / CHECKPOINT)
    command = shlex.join(["topoflow", "experiment", arguments.name, *arguments.overrides])
    with Terminal() as terminal:
        planned = list(points(experiment, chosen, given))
        how = run_of([each.point for each in planned], Silent())
        terminal.stage("composing")
        todo = identified(experiment, planned, terminal)
        if done := sum(point in stored for point, _ in todo):
            print(f"Going on from {done} of {len(todo)} points in {stored.path}.", flush=True)
        terminal.stage("simulating")
        rows = measure(experiment, todo, stored, how, terminal)
    experiment = titled(experiment, rows)
    write(experiment, rows, command, out)
    console = Output()
    if not console.is_terminal:
        console.width = 200
    console.print(summary_table(experiment, experiment.summary(rows)))
    console.print(f"Open {out / 'report.html'}; numbers are in result.json and rows.csv next to it.", highlight=False)


def titled(experiment: Experiment, rows: Sequence[Row]) -> Experiment:
    """With the number of servers that were simulated in its title."""
    figure: Any = experiment
    servers = ", ".join(str(count) for count in distinct(rows, "servers"))
    changed: Experiment = replace(figure, title=experiment.title.replace("{servers}", servers))
    return changed


def load(name: str, arguments: Sequence[str] = ()) -> Experiment:
    """The experiment of a config, its fields changed by ``experiment.KEY=VALUE`` among the arguments.

    ``search.KEY=VALUE`` lets every point search its strategy.

    Raises ``ValueError`` for an experiment that there is not, and for a field that is wrong.
    """
    if name not in options(GROUP):
        raise ValueError(f"experiment: must be one of {', '.join(options(GROUP))}, got {name!r}")
    given = [argument for argument in arguments if argument.startswith((OWN, SEARCH))]
    own = [argument for argument in given if argument.startswith(OWN)]
    searched = [f"++{GROUP}.{argument}" for argument in given if argument.startswith(SEARCH)]
    if searched:
        searched.append(f"++{GROUP}.{SEARCH}_target_={Settings.__module__}.{Settings.__qualname__}")
    file = f"{GROUP}/{name}"
    with initialize_config_module("topoflow.configs", version_base="1.3"), one_line(given, file):
        checked_parser(given)
        config = OmegaConf.to_container(compose(file, overrides=[*own, *searched]), resolve=True)
    assert isinstance(config, dict)
    if searched:
        if SEARCH.rstrip(".") not in {field.name for field in fields(resolve_name(config[GROUP]["_target_"]))}:
            key = next(argument for argument in given if argument.startswith(SEARCH)).partition("=")[0]
            raise ValueError(f"{key}: must be left out, as {name} searches no strategies")
        check_fields(SEARCH.rstrip("."), Settings, config[GROUP][SEARCH.rstrip(".")])
    experiment: Experiment = build(Point({}, {}, {str(key): value for key, value in config.items()}), GROUP)
    return experiment


def split(arguments: Sequence[str], experiment: Experiment) -> tuple[Path, list[str], list[str]]:
    """Where to write, which series, and what is left for the grid. Raises ``ValueError`` where one is wrong."""
    own = {key: value for key, _, value in (argument.partition("=") for argument in arguments)}
    _check_keys(own, experiment)
    if not own.get("out"):
        raise ValueError("out: must be given, the folder for points and figure, e.g. out=runs/figure")
    chosen = own["series"].split(",") if "series" in own else list(experiment.series)
    for series in chosen:
        if series not in experiment.series:
            raise ValueError(f"series: must be of {', '.join(experiment.series)}, got {series!r}")
    taken = ("out=", "series=", OWN, SEARCH)
    return Path(own["out"]), chosen, [argument for argument in arguments if not argument.startswith(taken)]


def _check_keys(keys: Iterable[str], experiment: Experiment) -> None:
    for key in keys:
        group = key.lstrip("+~").partition(".")[0]
        if group in NOT_OF_FIGURES:
            raise ValueError(f"{key}: must be left out, as figures are of whole networks")
        if group not in OF_FIGURES:
            raise ValueError(f"{key}: no such key{suggest(group, OF_FIGURES, '')}")
        if all(key in series for series in experiment.series.values()):
            raise ValueError(f"{key}: differs between the series of the figure; choose among them with series=NAME")


@dataclass(frozen=True)
class Planned:
    """A point of the figure, not built yet."""

    label: Row
    point: Point
    rival: Point | None
    similar_cost: str  # by which rule it has the price of the rival

    def id(self, setup: Setup, parameters: Mapping[str, object]) -> str:
        """Strategies that come to the same are one point: hybrid is data parallel where there is nothing to split."""
        strategy = setup.rule.place(setup.workload, setup.servers)
        config = {key: value for key, value in self.point.config.items() if key not in ("strategy", *HOW)}
        configuration: dict[str, object] = {"point": config, "strategy": {**strategy.to_json(), "name": ""}}
        if self.rival is not None:
            configuration |= {"rival": self.rival.config["fabric"], "similar_cost": self.similar_cost}
        return identity({**configuration, **parameters})


def points(experiment: Experiment, chosen: Sequence[str], given: Sequence[str]) -> Iterator[Planned]:
    """Every point of the chosen series, in the order of the grid."""
    for series in chosen:
        fixed = experiment.series[series]
        composed = series_points(experiment, series, given)
        rivals: Sequence[Point | None] = [None] * len(composed)
        if SIMILAR_COST in fixed:
            rivals = series_points(experiment, str(fixed[SIMILAR_COST]), given)
        keys = dict.fromkeys([*experiment.grid, *fixed, *composed[0].swept])
        keys.pop(SIMILAR_COST, None)
        for point, priced in zip(composed, rivals, strict=True):
            label = {"series": series, **{key: value_of(point, key) for key in keys}}
            yield Planned(label, point, priced, experiment.similar_cost)


def series_points(experiment: Experiment, series: str, given: Sequence[str]) -> list[Point]:
    """The points of one series, composed as a comparison is."""
    fixed = {key: value for key, value in experiment.series[series].items() if key != SIMILAR_COST}
    others = {key for other in experiment.series.values() for key in other} - {*fixed, *experiment.grid}
    asked = [argument for argument in given if argument.partition("=")[0] not in others]
    return grid([*overrides(experiment.grid), *overrides(fixed), *asked], check)


def overrides(grid: Grid) -> list[str]:
    """A grid as arguments of the command line."""
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in grid.items()]


def value_of(point: Point, key: str) -> Value:
    """What a key of the grid is at this point: the name that was chosen, or the number that was set."""
    if key in point.choices:
        return point.choices[key]
    value: Any = point.config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int | float) else None


def identified(experiment: Experiment, todo: Sequence[Planned], observer: Observer) -> list[tuple[str, Planned]]:
    """Each point with its identity; what cannot be of any of them is known before the first is simulated."""
    found = []
    for done, planned in enumerate(todo, start=1):
        found.append((planned.id(setup(planned, Run()), experiment.parameters), planned))
        observer.advance(done, len(todo))
    return found


def measure(
    experiment: Experiment, todo: Sequence[tuple[str, Planned]], stored: Points, run: Run, observer: Observer
) -> list[Row]:
    """The rows of all points; those that are stored are not measured again."""
    rows: list[Row] = []
    for done, (point, planned) in enumerate(todo):
        observer.advance(done, len(todo))
        if point not in stored:
            stored.add(point, planned.label, experiment.measure(setup(planned, run)))
        rows += [{**planned.label, **row} for row in stored[point]]
    observer.advance(len(todo), len(todo))
    return rows


def setup(planned: Planned, run: Run) -> Setup:
    """A point as objects. Raises ``ValueError`` in one line that names the key."""
    point = planned.point
    config = point.config
    servers = DEFAULT_SERVERS if config["servers"] is None else config["servers"]
    if servers < 2:
        raise ValueError(f"servers: must be at least 2, as figures show what servers send each other, got {servers}")
    return Setup(
        point=planned.label,
        workload=workload_of(point),
        rule=build(point, "strategy"),
        design=build(point, "fabric"),
        rival=None if planned.rival is None else build(planned.rival, "fabric"),
        similar_cost=planned.similar_cost,
        prices=build(point, "prices"),
        servers=servers,
        all_reduce=config["all_reduce"],
        routing=config["routing"],
        rings=config["rings"],
        seed=config["seed"],
        fidelity=fidelity_of(point),
        run=run,
    )


def summary_table(experiment: Experiment, summary: Sequence[Row]) -> Table:
    """The figure in a few numbers."""
    head, rows = headed(experiment, summary)
    found = Table(title=experiment.title, box=SIMPLE_HEAD)
    for title, key in zip(head, columns(summary), strict=True):
        text = any(isinstance(row.get(key), str) for row in summary)
        found.add_column(title, justify="left" if text else "right")
    for row in rows:
        found.add_row(*row)
    return found
