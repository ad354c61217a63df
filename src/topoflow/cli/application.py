"""A verb as an application of Hydra: ``--multirun``, ``--cfg``, ``--info``, folders of jobs, logging, completion.

topoflow compare fabric=torus,ring              one comparison, as ever
topoflow compare --multirun fabric=torus,ring   two jobs, each a comparison of one row in a folder of its own

All of it is Hydra's own, by ``hydra.main``. What is asked for without ``--multirun`` is one job, whose comparison
still has the points of commas; its ``.hydra/overrides.yaml`` has what these share.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import Any, Protocol

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from topoflow.cli.saved_results import DEFAULT, VARIABLE, free_folder
from topoflow.cli.verb import OF_POINTS, PRINTING, AnswerEach, Verb, command_of, flags, folders
from topoflow.report.files import locked
from topoflow.study.configure.composition import PACKAGE, VERSION_BASE, composed, initialized
from topoflow.study.configure.errors import one_line
from topoflow.study.configure.grid import grid
from topoflow.study.configure.override_sweeps import check_count
from topoflow.study.configure.point import Point
from topoflow.study.configure.points import PointComposer
from topoflow.study.configure.sources import Sources, is_hydra_override

log = logging.getLogger(__name__)


def run(arguments: argparse.Namespace, verb: Verb) -> None:
    """Run ``verb`` as Hydra does. Raises ``ValueError`` in one line for what Hydra or the verb refuses."""
    name, overrides = arguments.config_name or verb.name, list(arguments.overrides)
    with _one_line(arguments, name):
        if not os.environ.get(VARIABLE):  # as kept results have it: an empty name is none
            os.environ[VARIABLE] = DEFAULT
        _register_launcher()
        import_module(PACKAGE)  # registers what its files refer to; to print the defaults Hydra does not import it
        runs = arguments.multirun or arguments.run or not any(getattr(arguments, flag) for flag in PRINTING)
        is_one_job = runs and not arguments.shell_completion and not _is_multirun(arguments, name)
        passed_overrides = _without_sweeps(overrides) if is_one_job else overrides
        with ExitStack() as stack:
            if runs and not arguments.shell_completion:
                key = "hydra.run.dir" if is_one_job else "hydra.sweep.dir"
                passed_overrides += stack.enter_context(_own_folder(arguments, name, key))
            stack.enter_context(_in_place_of(["topoflow", *flags(arguments), *passed_overrides]))
            job = _one_job(verb, arguments) if is_one_job else _multirun(verb)
            key = "hydra.run.dir" if is_one_job else "hydra.sweep.dir"
            with _naming(next((override for override in overrides if override.startswith(f"{key}=")), key)):
                hydra.main(config_path=f"pkg://{PACKAGE}", config_name=verb.name, version_base=VERSION_BASE)(job)()


@contextmanager
def _own_folder(arguments: argparse.Namespace, name: str, key: str) -> Iterator[list[str]]:
    """Keep other runs out of the folder that ``key`` names; yield the overrides that choose it.

    A folder that is named by the moment, as the default is, gets a number where another run has the name.
    """
    try:
        with initialized(folders(arguments)):
            settings = OmegaConf.select(composed(name, _without_sweeps(arguments.overrides)), key.rpartition(".")[0])
            folder, is_of_moment = Path(settings.dir), "${now:" in str(settings._get_node("dir")._value())
    except (HydraException, OmegaConfBaseException):  # which Hydra raises itself
        yield []
        return
    if is_of_moment:
        folder = free_folder(folder)
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    try:
        with locked(folder, key):
            yield [f"{key}='{quoted}'"] if is_of_moment else []
    finally:
        if is_of_moment:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


@contextmanager
def _one_line(arguments: argparse.Namespace, name: str) -> Iterator[None]:
    """Raise what Hydra raises as a ``ValueError`` of one line."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, MarkedYAMLError) as error:
        with initialized(folders(arguments)), one_line(_without_sweeps(arguments.overrides), name):
            raise error


def _register_launcher() -> None:
    """Hydra finds its plugins by looking into folders, and one of an editable installation lies in none of these."""
    plugins = Plugins.instance()
    from hydra_plugins.topoflow_batch.launcher import BatchLauncher  # after Hydra has imported what it finds

    plugins.register(BatchLauncher)


def _is_multirun(arguments: argparse.Namespace, name: str) -> bool:
    """Return whether the flag, an argument or the user's own configuration asks for several jobs.

    Composes the settings of Hydra in any case, as what is wrong with these is one line here. Raises ``ValueError`` for
    more jobs than Hydra's own sweeper could list.
    """
    hydra_overrides = [override for override in arguments.overrides if is_hydra_override(override)]
    with initialized(folders(arguments)):
        settings = composed(name, hydra_overrides).hydra
        for part in ("sweeper", "launcher"):
            if not OmegaConf.is_dict(settings[part]):
                requirement = f"must be a configuration with _target_, chosen as hydra/{part}=basic"
                raise ValueError(f"hydra.{part}: {requirement}, got {settings[part]!r}")
        if settings.mode != RunMode.MULTIRUN and not arguments.multirun:
            return False
        if settings.runtime.choices["hydra/sweeper"] == "basic":
            by_default = [f"{key}={value}" for key, value in (settings.sweeper.params or {}).items()]
            with suppress(HydraException):  # which Hydra raises itself
                check_count(OverridesParser.create().parse_overrides([*by_default, *arguments.overrides]))
        return True


def _without_sweeps(overrides: Sequence[str]) -> list[str]:
    """Return the overrides of a single value, which all points share; errors in others are reported by the points."""
    parser = OverridesParser.create()
    single_values = []
    for override in overrides:
        with suppress(HydraException):
            single_values += [override] * (not parser.parse_overrides([override])[0].is_sweep_override())
    return single_values


@contextmanager
def _naming(folder: str) -> Iterator[None]:
    """Name the ``folder`` in which Hydra cannot write: its own errors of a full disk name no file."""
    logging.raiseExceptions = False  # a log that cannot be written is no reason for a traceback
    try:
        yield
    except OSError as error:
        if error.filename is None and not _is_output_full():
            error.filename = folder
        raise


def _is_output_full() -> bool:
    """Return whether the standard output is a file on a full disk."""
    try:
        output = sys.stdout.fileno()
        return S_ISREG(os.fstat(output).st_mode) and os.fstatvfs(output).f_bavail == 0
    except (OSError, ValueError):  # it is closed, or no file
        return False


@contextmanager
def _in_place_of(words: Sequence[str]) -> Iterator[None]:
    """``hydra.main`` reads the words of the process, and raises what went wrong only where a variable asks for it."""
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = list(words), "1"
    try:
        yield
    finally:
        sys.argv = before
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full


def _one_job(verb: Verb, arguments: argparse.Namespace) -> Callable[[DictConfig], float | None]:
    """The job of all points that the arguments ask for."""

    def job(config: DictConfig) -> float | None:
        hydra_config = HydraConfig.get()
        point_overrides = [
            text
            for text in arguments.overrides
            if not is_hydra_override(text) or text.lstrip("+").startswith(OF_POINTS)
        ]
        name = str(hydra_config.job.config_name)
        points = grid(point_overrides, verb.check, name, folders=folders(arguments))
        return _answered(verb, points, command_of(arguments), Path(hydra_config.runtime.output_dir))

    return job


class LaunchedJob(Protocol):
    """A job of ``hydra/launcher=topoflow_batch``, as this module reads it."""

    @property
    def overrides(self) -> Sequence[str]: ...
    @property
    def folder(self) -> Path: ...
    @property
    def config(self) -> DictConfig: ...


@dataclass(frozen=True)
class HydraJob:
    """The job of a point that Hydra has composed."""

    verb: Verb

    def __call__(self, config: DictConfig) -> float | None:
        node = HydraConfig.get()
        overrides = [str(text) for text in node.overrides.task]
        point, command, folder = _job_of(self.verb, overrides, Path(node.runtime.output_dir), _points(self.verb, node))
        return _answered(self.verb, [point], command, folder)


@dataclass(frozen=True)
class BatchedHydraJob(HydraJob):
    """A job that the launcher ``topoflow_batch`` can run for many points at once."""

    answer_each: AnswerEach

    def batch(self, jobs: Iterable[LaunchedJob]) -> list[Any]:
        """Return the answer of each of the ``jobs``, or what is wrong with it."""
        answers: list[Any] = []
        sound: list[tuple[Point, str, Path]] = []
        points: PointComposer | None = None  # settings of Hydra itself are the same in all jobs
        for job in jobs:
            points = points or _points(self.verb, job.config.hydra)
            try:
                sound.append(_job_of(self.verb, job.overrides, job.folder, points))
                answers.append(None)
            except ValueError as error:
                answers.append(error)
        of_sound = iter(self.answer_each(*zip(*sound, strict=True)) if sound else ())
        return [next(of_sound) if answer is None else answer for answer in answers]


def _multirun(verb: Verb) -> HydraJob:
    return HydraJob(verb) if verb.answer_each is None else BatchedHydraJob(verb, verb.answer_each)


def _job_of(verb: Verb, overrides: Sequence[str], folder: Path, points: PointComposer) -> tuple[Point, str, Path]:
    """Return the point of a job, the command that runs it alone, and its folder."""
    swept = {key.lstrip("+"): value for key, _, value in (text.partition("=") for text in overrides)}
    point = points.compose(overrides, Point(swept, {}, {}))
    _check_out(point, folder)
    return point, shlex.join(["topoflow", verb.name, *overrides]), folder


def _points(verb: Verb, hydra: Any) -> PointComposer:
    """Return the composer of points for jobs with Hydra's own node ``hydra``."""
    sources = Sources(None, tuple(map(str, hydra.overrides.hydra)))
    return PointComposer(str(hydra.job.config_name), verb.check, sources)


def _check_out(point: Point, folder: Path) -> None:
    """Raise ``ValueError`` for an ``out`` that the next job would write to as well."""
    out = point.config.get("out")
    if isinstance(out, str) and not Path(os.path.abspath(out)).is_relative_to(os.path.abspath(folder)):
        requirement = "must be in the folder of each job of a multirun, as out='${hydra:runtime.output_dir}'"
        raise ValueError(f"out: {requirement}, got {out!r}")


def _answered(verb: Verb, points: Sequence[Point], command: str, folder: Path) -> float | None:
    log.info(command)
    answer = verb.answer(points, command, folder)
    log.info("the result is in %s", folder)
    return answer
