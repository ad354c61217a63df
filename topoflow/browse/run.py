"""A run, as its folder says: what was asked, how far it came, what was found."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from topoflow import progress
from topoflow.fields import parse_json
from topoflow.files import read_bytes
from topoflow.progress import ProgressFile
from topoflow.report.files import WRITTEN_BY
from topoflow.search.checkpoint import Seen
from topoflow.search.checkpoint import look as look_at_search
from topoflow.study.figures.points import look as look_at_points

RESULT, REPORT, HYDRA = "result.json", "report.html", ".hydra"
SEARCH, FIGURE, STUDY = "checkpoint.npz", "checkpoint.jsonl", "study.db"
UNFINISHED = {SEARCH, FIGURE, STUDY, "checkpoint_others.npz"}  # what can be there without a result
SEARCHED = "time"  # the value that only searches inform an observer of
MARK = "<!-- of a run without a report of its own -->"  # at the beginning of a page that its report replaces
BEGINNING = 2**16  # B of a page, with its mark
CACHED = 4096  # results whose answers are remembered

State = Literal["finished", "running", "cut off"]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a list shows of a result."""

    verb: str
    command: str
    best: str = ""  # fabric of the fastest row that is recommended
    time: float | None = None  # s, its iteration time


@dataclass(frozen=True)
class Run:
    """A folder that a verb writes, or wrote. Raises ``OSError`` where files cannot be read."""

    folder: Path
    name: str  # relative to the folder of all runs

    @cached_property
    def progress(self) -> ProgressFile | None:
        """None: the run is finished, or left no such file."""
        return progress.read(self.folder)

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
        """When the run last said anything, s since 1970."""
        names = (progress.NAME,) if self.state != "finished" and self.progress is not None else (RESULT, *WRITTEN_BY)
        found = [(self.folder / name).stat().st_mtime for name in names if self._has(name)]
        return max(found, default=self.folder.stat().st_mtime)

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
        """Whether the run wrote one: not a page of what was left of it."""
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
        """What was found: of the result, else what the run left of it."""
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
        """The best time (s) that each search has informed its observer of, by name: the only one's is its fabric."""
        found: dict[str, float] = {}
        for _, stage, values in self.progress.values if self.progress else ():
            if SEARCHED in values:
                found[stage] = min(values[SEARCHED], found.get(stage, values[SEARCHED]))
        return found

    @cached_property
    def searches(self) -> dict[str, Seen | str]:
        """The checkpoint of every search of an unfinished run by its folder, or what is wrong with it."""
        if self.state == "finished":
            return {}
        found: dict[str, Seen | str] = {}
        for path in sorted([*self.folder.glob(SEARCH), *self.folder.glob(f"*/{SEARCH}")]):
            try:
                found[path.parent.relative_to(self.folder).as_posix()] = look_at_search(path)
            except ValueError as error:
                found[path.parent.relative_to(self.folder).as_posix()] = str(error)
        return found

    @cached_property
    def configs(self) -> list[Record]:
        """The configurations of what was found, or of what was asked."""
        found = [row["config"] for row in _rows(self.result) if isinstance(row.get("config"), dict)]
        about = {} if self.progress is None else self.progress.about
        asked = about.get("config")
        return found or ([asked] if isinstance(asked, dict) else [])

    @property
    def leftovers(self) -> list[Path]:
        """Folders of files that were being written when the run was killed."""
        if self.state != "cut off":
            return []
        named = self.folder.parent.glob(f".{_literal(self.folder.name)}-????????")
        return sorted(path for path in named if path.is_dir())

    def _has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    @cached_property
    def _answer(self) -> Answer:
        about = None if self.progress is None else self.progress.about
        if about is not None and self.state != "finished":
            best, time = _best(self.rows, ())
            return Answer(str(about.get("verb", "")), str(about.get("command", "")), best, time)
        path = self.folder / RESULT
        if path.is_file():
            status = path.stat()
            return _answer_of(path, status.st_mtime_ns, status.st_size)
        verb = next((verb for name, verb in WRITTEN_BY.items() if self._has(name)), "")
        return Answer(verb, "") if verb else _of_hydra(self.folder)


def run_at(folder: Path, name: str) -> Run | None:
    """The run of a folder, None where it is none."""
    files = (RESULT, progress.NAME, STUDY, *WRITTEN_BY)
    is_run = any((folder / file).is_file() for file in files) or (folder / HYDRA).is_dir()
    return Run(folder, name) if is_run else None


@lru_cache(CACHED)
def _answer_of(path: Path, changed: int, size: int) -> Answer:
    """Of a ``result.json`` of this moment and size."""
    result = _parsed(path)
    command = str(result.get("command", ""))
    words = command.split()
    best, time = _best(_rows(result), result.get("recommended", ()))
    return Answer(words[1] if len(words) > 1 else "", command, best, time)


def _parsed(path: Path) -> Record:
    """A file of JSON; nothing where it is no object, or somebody else's."""
    try:
        found = parse_json(str(path), read_bytes(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _rows(result: Record) -> list[Record]:
    """Of a comparison, a figure or searches."""
    rows = result.get("rows", result.get("plans"))
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _best(rows: Sequence[Record], recommended: object) -> tuple[str, float | None]:
    """Fabric and iteration time of the fastest of the rows that are recommended or chosen, else of all."""
    timed = [row for row in rows if "fabric" in row and isinstance(row.get("iteration_time"), int | float)]
    names = recommended if isinstance(recommended, list | tuple) else ()
    chosen = [row for row in timed if row.get("chosen") is True or row.get("world") in names] or timed
    best = min(chosen, key=lambda row: float(row["iteration_time"]), default=None)
    return ("", None) if best is None else (str(best["fabric"]), float(best["iteration_time"]))


def _of_hydra(folder: Path) -> Answer:
    """What Hydra wrote of a job that left nothing else."""
    try:
        kept: Any = OmegaConf.to_container(OmegaConf.load(folder / HYDRA / "hydra.yaml"))
        name, overrides = str(kept["hydra"]["job"]["name"]), kept["hydra"]["overrides"]["task"]
        return Answer(name, shlex.join(["topoflow", name, *map(str, overrides)]))
    except (OSError, ValueError, TypeError, KeyError, OmegaConfBaseException, YAMLError):  # cut off, or not Hydra's
        return Answer("", "")


def _trials(path: Path) -> Iterator[Record]:
    """What a study of Optuna has tried, from its database; nothing where that is none."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            texts = database.execute("SELECT value_json FROM trial_user_attributes WHERE key = 'trial'").fetchall()
        for (text,) in texts:
            trial = json.loads(json.loads(text))
            swept = {str(key): str(value) for key, value in dict(trial.pop("swept")).items()}
            yield {**swept, **{str(key): value for key, value in trial.items() if key != "number"}}
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError):
        return


def _literal(name: str) -> str:
    """A name as a pattern of ``glob`` that only itself matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
