"""The arguments of ``topoflow experiment``: the experiment and its fields, its series, and the keys of its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name

from topoflow.search.problem import SearchSettings
from topoflow.study.configure.build import build, check_fields
from topoflow.study.configure.composition import composed, initialized
from topoflow.study.configure.errors import one_line
from topoflow.study.configure.grid import checked_parser
from topoflow.study.configure.hints import suggest
from topoflow.study.configure.keys import GROUPS, KEYS
from topoflow.study.configure.options import experiments, options
from topoflow.study.configure.point import EXECUTOR, Point
from topoflow.study.configure.sources import HYDRA
from topoflow.study.configure.tree import plain
from topoflow.study.figures.base import Experiment
from topoflow.track import trackers
from topoflow.units import register_resolvers

GROUP = "experiment"
MOST_CLOSE = 5  # figures in an error
EXPERIMENT = "experiment."  # fields of the experiment itself
SEARCH = "search."  # keys of configs/search.yaml
NOT_OF_FIGURES = ("fail", "strides", "placement", "request")  # keys of a comparison
OF_FIGURES = (
    *(key for key in (*GROUPS, *KEYS, *options("fidelity"), EXECUTOR, *trackers()) if key not in NOT_OF_FIGURES),
    *("series", "search", "experiment"),
)

EFFICIENCY = "++efficiency=roofline"  # which GPUs of a figure's own jobs refer to, as in configs/compare.yaml


def load(name: str, arguments: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a config, its fields changed by ``experiment.KEY=VALUE`` among the arguments.

    ``search.KEY=VALUE`` lets every point search its strategy.

    Raises ``ValueError`` for an unknown experiment and for a wrong field.
    """
    rooms = experiments()
    if name not in rooms:
        raise _unknown(name, list(rooms))
    figure_arguments = [argument for argument in arguments if argument.startswith((EXPERIMENT, SEARCH))]
    experiment_arguments = [argument for argument in figure_arguments if argument.startswith(EXPERIMENT)]
    searched = [f"++{GROUP}.{argument}" for argument in figure_arguments if argument.startswith(SEARCH)]
    if searched:
        searched.append(f"++{GROUP}.{SEARCH}_target_={SearchSettings.__module__}.{SearchSettings.__qualname__}")
    file = f"{GROUP}/{name}"
    register_resolvers()
    with initialized(packages=[rooms[name]]), one_line(figure_arguments, file):
        checked_parser(figure_arguments)
        hydra_config = composed(file, [*experiment_arguments, *searched, EFFICIENCY])
        config = {str(key): plain(hydra_config[key]) for key in hydra_config if key != HYDRA}
    if searched:
        if SEARCH.rstrip(".") not in {field.name for field in fields(resolve_name(config[GROUP]["_target_"]))}:
            key = next(argument for argument in figure_arguments if argument.startswith(SEARCH)).partition("=")[0]
            raise ValueError(f"{key}: must be left out, as {name} searches no strategies")
        check_fields(SEARCH.rstrip("."), SearchSettings, config[GROUP][SEARCH.rstrip(".")])
    experiment: Experiment = build(Point({}, {}, config), GROUP)
    return experiment


def _unknown(name: str, figures: Sequence[str]) -> ValueError:
    """Name the figures that are most like it, else the papers that there are figures of."""
    close = get_close_matches(name, figures, n=MOST_CLOSE, cutoff=0.75)
    papers = dict.fromkeys(f"{figure.partition('_')[0]}_*" for figure in figures)
    expected = f"as {', '.join(close)}" if close else f"of {', '.join(papers)} (topoflow experiment --help has all)"
    return ValueError(f"experiment: must be a figure, {expected}, got {name!r}")


def split(arguments: Sequence[str], experiment: Experiment) -> tuple[Path, list[str], list[str]]:
    """Return the folder to write to, the chosen series, and the arguments of the grid. Raises ``ValueError``."""
    values = {key: value for key, _, value in (argument.partition("=") for argument in arguments)}
    _check_keys({key.lstrip("+~"): value for key, value in values.items()}, experiment)
    if not values.get("out"):
        raise ValueError("out: must be given, the folder for points and figure, e.g. out=runs/figure")
    chosen = list(dict.fromkeys(values["series"].split(","))) if "series" in values else list(experiment.series)
    for series in chosen:
        if series not in experiment.series:
            raise ValueError(f"series: must be of {', '.join(experiment.series)}, got {series!r}")
    prefixes = ("out=", "series=", EXPERIMENT, SEARCH)
    return Path(values["out"]), chosen, [argument for argument in arguments if not argument.startswith(prefixes)]


def _check_keys(values: Mapping[str, str], experiment: Experiment) -> None:
    for key, value in values.items():
        group = key.partition(".")[0]
        if group in NOT_OF_FIGURES:
            raise ValueError(f"{key}: must be left out, as figures are of whole networks")
        if group not in OF_FIGURES:
            raise ValueError(f"{key}: no such key{suggest(group, OF_FIGURES, '')}")
        if key in experiment.in_place_of:
            field = f"{EXPERIMENT}{experiment.in_place_of[key]}"
            raise ValueError(f"{key}: must be left out, as the figure has {field} in its place, got {value}")
        if all(key in series for series in experiment.series.values()):
            raise ValueError(f"{key}: differs between the series of the figure; choose among them with series=NAME")
