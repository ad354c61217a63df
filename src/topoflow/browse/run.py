"""A run, as its folder says: what was asked, how far it came, what was found."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

import yaml

from topoflow import progress
from topoflow.fields import Fields, parse_json
from topoflow.files import read_bytes
from topoflow.printable import one_line
from topoflow.progress import ProgressFile
from topoflow.report.files import WRITTEN_BY
from topoflow.search.checkpoint import Seen
from topoflow.search.checkpoint import look as look_at_search
from topoflow.study.figures.points import look as look_at_points

RESULT, REPORT, HYDRA = "result.json", "report.html", ".hydra"
SETTINGS = f"{HYDRA}/hydra.yaml"
LARGEST_SETTINGS = 2**16  # B of YAML; Hydra writes 5,000
SEARCH, FIGURE, STUDY = "checkpoint.npz", "checkpoint.jsonl", "study.db"
MARKS = {RESULT, progress.NAME, STUDY, HYDRA, *WRITTEN_BY}  # a folder with one of these is a run
UNFINISHED = {SEARCH, FIGURE, STUDY, "checkpoint_others.npz"}  # what can be there without a result
SEARCHED = "time"  # the value that only searches inform an observer of
MARK = "<!-- of a run without a report of its own -->"  # at the beginning of a page that its report replaces
BEGINNING = 2**16  # B of a page, with its mark
MAX_CACHED_RESULTS = 2**16  # results whose answers are remembered

State = Literal["finished", "running", "cut off"]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The columns of a result in the list of runs."""

    verb: str
    command: str
    best: str = ""  # fabric of the fastest row that is recommended
    time: float | None = None  # s, its iteration time


@dataclass(frozen=True)
class RunFolder:
    """A folder that a verb writes, or wrote.

    Each property raises ``OSError`` or ``ValueError`` where a file that it needs cannot be read, is damaged, or is a
    link that leads out of ``root``.
    """

    folder: Path
    name: str  # relative to the folder of all runs
    root: Path | None = None  # the folder of all runs, where links that lead out of it are refused

    @cached_property
    def progress(self) -> ProgressFile | None:
        """The progress file; None: the run is finished, or left no such file."""
        return progress.read(self.folder) if self._has(progress.NAME) else None

    @cached_property
    def state(self) -> State:
        if self.progress is not None and not self.progress.is_finished:
            return "running" if self.progress.lives else "cut off"
        whole = (RESULT, *(name for name in WRITTEN_BY if name not in UNFINISHED))
        return "finished" if any(self._has(name) for name in whole) else "cut off"

    @property
    def verb(self) -> str:
        return self._answer.verb

    @property
    def command(self) -> str:
        return self._answer.command

    @property
    def best(self) -> str:
        return self._answer.best

    @property
    def time(self) -> float | None:
        return self._answer.time

    @cached_property
    def changed(self) -> float:
        """Return when the run last wrote anything, s since 1970."""
        names = (progress.NAME,) if self.state != "finished" and self.progress is not None else (RESULT, *WRITTEN_BY)
        times = [(self.folder / name).stat().st_mtime for name in names if self._has(name)]
        return max(times, default=self.folder.stat().st_mtime)

    @property
    def again(self) -> str:
        """The command that continues the run, or does it again."""
        about = {} if self.progress is None else self.progress.about
        command = str(about.get("again", self.command))
        if self.verb == "search":
            command = " ".join(word for word in command.split(" ") if word != "resume=false")
        cwd = about.get("cwd")
        return f"cd {shlex.quote(str(cwd))} && {command}" if cwd else command

    @cached_property
    def has_report(self) -> bool:
        """True if the run wrote a report itself; a page made later of an unfinished run does not count."""
        if not self._has(REPORT):
            return False
        with (self.folder / REPORT).open("rb") as file:
            return MARK.encode() not in file.read(BEGINNING)

    @cached_property
    def result(self) -> Record:
        """``result.json``, or nothing."""
        return _parsed(self.folder / RESULT) if self._has(RESULT) else {}

    @cached_property
    def rows(self) -> list[Record]:
        """The rows of the result, or those that an unfinished run left."""
        if self.state == "finished":
            return _rows(self.result)
        if self.progress is not None and self.progress.rows:
            return list(self.progress.rows)
        if self.found_by_search:
            times = self.found_by_search.items()
            return [{"search": name, "fabric": name, "iteration_time": time} for name, time in times]
        if self._has(FIGURE):
            return list(look_at_points(self.folder / FIGURE))
        return [*_trials(self.folder / STUDY)] if self._has(STUDY) else []

    @cached_property
    def found_by_search(self) -> dict[str, float]:
        """Return the best time (s) that each search has reported, by its name (the fabric of an only search)."""
        best_times: dict[str, float] = {}
        for _, stage, values in self.progress.values if self.progress else ():
            if SEARCHED in values:
                best_times[stage] = min(values[SEARCHED], best_times.get(stage, values[SEARCHED]))
        return best_times

    @cached_property
    def searches(self) -> dict[str, Seen | str]:
        """Return the checkpoint of every search of an unfinished run by its folder, or its error."""
        if self.state == "finished":
            return {}
        checkpoints: dict[str, Seen | str] = {}
        for path in sorted([*self.folder.glob(SEARCH), *self.folder.glob(f"*/{SEARCH}")]):
            name = path.parent.relative_to(self.folder).as_posix()
            try:
                self._check(path.relative_to(self.folder).as_posix())
                checkpoints[name] = look_at_search(path)
            except (OSError, ValueError) as error:
                checkpoints[name] = str(error)
        return checkpoints

    @cached_property
    def configs(self) -> list[Record]:
        """Return the configurations of the results, or the requested one if there are none."""
        configs = [row["config"] for row in _rows(self.result) if isinstance(row.get("config"), dict)]
        about = {} if self.progress is None else self.progress.about
        requested_config = about.get("config")
        return configs or ([requested_config] if isinstance(requested_config, dict) else [])

    @property
    def leftovers(self) -> list[Path]:
        """Folders of files that were being written when the run was killed."""
        if self.state != "cut off":
            return []
        named = self.folder.parent.glob(f".{_literal(self.folder.name)}-????????")
        return sorted(path for path in named if path.is_dir())

    @cached_property
    def _names(self) -> frozenset[str]:
        """Names of the files and folders of the run; a listing is one call, where 14 names are looked for."""
        return frozenset(os.listdir(self.folder))

    @property
    def _is_run(self) -> bool:
        """Return whether the folder is a run; one that cannot be read may be one."""
        try:
            return bool(self._names & MARKS)
        except OSError as error:
            return not isinstance(error, FileNotFoundError)

    def _has(self, name: str) -> bool:
        """Return whether the run has this file. Raise ``ValueError`` for one that must not be read."""
        if name.partition("/")[0] not in self._names:
            return False
        try:
            mode = os.lstat(f"{self.folder}/{name}").st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if "/" in name or not S_ISREG(mode):
            self._check(name)
        return True

    def _check(self, name: str) -> None:
        """Raise ``ValueError`` where the file is no file, or lies outside of ``root``."""
        path = self.folder / name
        if not path.is_file():
            raise ValueError(f"{path}: must be a regular file")
        parts = (path, *path.parents[: name.count("/")])
        if self.root is None or not any(part.is_symlink() for part in parts):
            return
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise ValueError(f"{path}: must lie in the folder of all runs, got a link that leads out of it")

    @cached_property
    def _answer(self) -> Answer:
        about = None if self.progress is None else self.progress.about
        if about is not None and self.state != "finished":
            best, time = _best(self.rows, ())
            return Answer(str(about.get("verb", "")), str(about.get("command", "")), best, time)
        path = self.folder / RESULT
        if self._has(RESULT):
            status = path.stat()
            return _answer_of(path, status.st_mtime_ns, status.st_size)
        verb = next((verb for name, verb in WRITTEN_BY.items() if self._has(name)), "")
        if verb or not self._has(SETTINGS):
            return Answer(verb, "")
        return _of_hydra(self.folder / SETTINGS)


def run_at(folder: Path, name: str, root: Path | None = None) -> RunFolder | None:
    """Return the run of a folder, None where it is none."""
    run = RunFolder(folder, name, root)
    return run if run._is_run else None


def problem(error: Exception) -> str:
    """Return what reading a run raised, in one line."""
    if isinstance(error, OSError) and error.strerror is not None:
        return one_line(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return one_line(str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}")


@lru_cache(MAX_CACHED_RESULTS)
def _answer_of(path: Path, changed: int, size: int) -> Answer:
    """Read a ``result.json`` that was last changed at ``changed`` (ns) and has ``size`` bytes."""
    result = _parsed(path)
    command = str(result.get("command", ""))
    words = command.split()
    best, time = _best(_rows(result), result.get("recommended", ()))
    return Answer(words[1] if len(words) > 1 else "", command, best, time)


def _parsed(path: Path) -> Record:
    """Return the object in a file of JSON. Raise ``ValueError`` where there is none."""
    content = parse_json(str(path), read_bytes(path), bounded=True)
    return Fields.of(str(path), content).values


def _rows(result: Record) -> list[Record]:
    """Return the rows of the result of a comparison, a figure or searches."""
    rows = result.get("rows", result.get("plans"))
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _best(rows: Sequence[Record], recommended: object) -> tuple[str, float | None]:
    """Fabric and iteration time of the fastest of the rows that are recommended or chosen, else of all."""
    timed = [row for row in rows if "fabric" in row and isinstance(row.get("iteration_time"), int | float)]
    names = recommended if isinstance(recommended, list | tuple) else ()
    chosen = [row for row in timed if row.get("chosen") is True or row.get("world") in names] or timed
    best = min(chosen, key=lambda row: float(row["iteration_time"]), default=None)
    return ("", None) if best is None else (str(best["fabric"]), float(best["iteration_time"]))


def _of_hydra(path: Path) -> Answer:
    """Return the command in the files of Hydra for a job that left nothing else.

    Raise ``ValueError`` for a file that is not Hydra's. Its scalars are read as text, and aliases are not expanded.
    """
    text = read_bytes(path)
    try:
        if len(text) > LARGEST_SETTINGS:
            raise ValueError(f"must have at most {LARGEST_SETTINGS} bytes, got {len(text)}")
        settings = Fields.of("hydra: ", yaml.load(text, yaml.BaseLoader)["hydra"])
        name = Fields.of("hydra.job.", settings.require("job")).text("name")
        overrides = Fields.of("hydra.overrides.", settings.require("overrides")).texts("task")
    except (ValueError, TypeError, KeyError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: must be what Hydra writes, got {type(error).__name__}: {error}") from error
    return Answer(name, shlex.join(["topoflow", name, *overrides]))


def _trials(path: Path) -> Iterator[Record]:
    """Yield what a study of Optuna has tried, from its database. Raise ``ValueError`` where it is damaged."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            texts = database.execute("SELECT value_json FROM trial_user_attributes WHERE key = 'trial'").fetchall()
        for (text,) in texts:
            trial = parse_json("trial", parse_json("value_json", text), constants=True, bounded=True)
            swept = {str(key): str(value) for key, value in dict(trial.pop("swept")).items()}
            yield {**swept, **{str(key): value for key, value in trial.items() if key != "number"}}
    except sqlite3.OperationalError:  # it is being made
        return
    except (sqlite3.Error, MemoryError, ValueError, TypeError, KeyError, AttributeError) as error:
        got = str(error) or "a damaged database"  # for which SQLite may report a lack of memory
        raise ValueError(f"{path}: must be the study of Optuna that topoflow keeps, got {got}") from error


def _literal(name: str) -> str:
    """A name as a pattern of ``glob`` that only itself matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
