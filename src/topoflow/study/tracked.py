"""A run in the experiment trackers that its configuration chooses: what it is, and what came out of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from topoflow.engine.observer import Observer, Silent
from topoflow.progress import ProgressLog
from topoflow.report.answer import recommended
from topoflow.report.base import Report
from topoflow.report.dataset.base import Dataset
from topoflow.study.configure.build import build
from topoflow.study.configure.point import Point, distinct, unique_names
from topoflow.track import trackers
from topoflow.track.base import About, TableRows, Tracked, TrackedResults, Tracker, TrackerLog, check_installed

if TYPE_CHECKING:
    from topoflow.study.searches import Searched  # which imports what draws

WRITTEN = {".json", ".html", ".png", ".csv", ".parquet"}  # kinds of files that answer something; checkpoints do not
MOST_NAMES = 3  # of points, in the name of a run


@contextmanager
def tracked(
    points: Sequence[Point], verb: str, command: str, folder: Path | None, observer: Observer = Silent()
) -> Iterator[Tracked]:
    """Yield an observer that informs ``observer``, the trackers of the points and the progress file of ``folder``.

    Raises ``ValueError`` if points differ in their trackers, or if a tracker is not installed.
    """
    tracked_observer = Tracked(observer)
    chosen = trackers_of(points)
    if folder is not None:
        tracked_observer.log("progress", partial(_progress, points, verb, command, folder))
    if chosen:
        tracked_observer.begin(chosen, _about(points, verb, command))
    try:
        yield tracked_observer
    except BaseException:
        tracked_observer.end(failed=True)
        raise
    tracked_observer.end(failed=False)


def _progress(points: Sequence[Point], verb: str, command: str, folder: Path) -> TrackerLog:
    """How far the run is, in its folder. Of many points only the first is described, as all take long to merge."""
    of_hydra = _job_of_hydra() is not None and points[0].config.get("out") is None  # the folder is not in the command
    again = f"{command} {quote(f'hydra.run.dir={folder}')}" if of_hydra else command
    about = {"verb": verb, "command": command, "again": again, "cwd": os.getcwd(), "points": len(points)}
    return ProgressLog.begin(folder, **about, swept=list(points[0].swept), config=points[0].config)


def trackers_of(points: Sequence[Point]) -> dict[str, Tracker]:
    """The trackers that the points choose. Raises ``ValueError`` as ``tracked`` does, before any work."""
    for point in distinct(points):
        for name in trackers():
            if point.config.get(name) != points[0].config.get(name):
                raise ValueError(f"{name}: must be one for all, got several")
    chosen = {name: build(points[0], name) for name in trackers() if name in points[0].config}
    check_installed(chosen)
    return chosen


def of_comparison(report: Report, folder: Path | None) -> TrackedResults:
    """The recommended world, a table of all, and the files of a folder."""
    best = recommended(report.ranking)[0].row
    summary = {key: getattr(best, key) for key in ("iteration_time", "cost_usd", "power_w", "fabric", "world")}
    return TrackedResults(summary, {"worlds": [dict(vars(row)) for row in report.rows]}, files_of(folder))


def of_dataset(dataset: Dataset) -> TrackedResults:
    """How many points the dataset has; its files are too large for most trackers, and stay where they are."""
    return TrackedResults({"points": dataset.points, "dataset": str(dataset.folder)})


def of_searches(searched: Searched, folder: Path | None) -> TrackedResults:
    """The plan that is chosen, the quickest of several, a table of all, and the files of a folder."""
    rows = searched.rows
    best = min((row for row in rows if row["chosen"]), key=lambda row: float(row["iteration_time"]))
    return TrackedResults(_plain(best), {"searches": [_plain(row) for row in rows]}, files_of(folder))


def of_figure(summary: TableRows, rows: TableRows, folder: Path) -> TrackedResults:
    """The summary and all rows of a figure, and the files of its folder."""
    return TrackedResults({"points": len(rows)}, {"summary": summary, "rows": rows}, files_of(folder))


def files_of(folder: Path | None) -> dict[str, Path]:
    """Return the files in a folder by their path in it, without hidden ones and those of a tracker."""
    if folder is None:
        return {}
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.suffix in WRITTEN}
    return {
        name.as_posix(): path
        for name, path in paths.items()
        if path.is_file() and not any(part.startswith(".") or part in trackers() for part in name.parts)
    }


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is None or isinstance(value, str | int | float)}


def _about(points: Sequence[Point], verb: str, command: str) -> About:
    names = unique_names(points)
    if len(names) > MOST_NAMES:
        names = [f"{len(points)} points of {', '.join(points[0].swept)}"]
    config = merged([point.config for point in points])
    return About(verb, ", ".join(names), command, config, _group())


def _group() -> str | None:
    """The folder of the multirun that this run is a job of."""
    job = _job_of_hydra()
    return None if job is None or job.mode.name != "MULTIRUN" else Path(str(job.sweep.dir)).name


def _job_of_hydra() -> Any:
    """Return Hydra's own node of the job that runs; None without one, which needs no import of Hydra."""
    if "hydra.core.hydra_config" not in sys.modules:
        return None
    from hydra.core.hydra_config import HydraConfig

    return HydraConfig.get() if HydraConfig.initialized() else None


def merged(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values that configurations share; where they differ, the list of their values."""
    merged_config: dict[str, Any] = {}
    for key in dict.fromkeys(key for config in configs for key in config):
        values = [config[key] for config in configs if key in config]
        if all(isinstance(value, Mapping) for value in values):
            merged_config[key] = merged(values)
        else:
            different = list({repr(value): value for value in values}.values())
            merged_config[key] = different[0] if len(different) == 1 else different
    return merged_config
