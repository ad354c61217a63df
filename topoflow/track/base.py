"""Tracker: where a run of topoflow is logged. ``Tracked`` is the observer that informs it.

A tracker that fails, for want of a network, a key or room on a disk, is said so once and left out from then on; the
work goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from topoflow.engine.observer import Observer
from topoflow.printable import one_line

TableRows = Sequence[Mapping[str, Any]]
SHARES = 100  # of a stage: how often its progress is logged


@dataclass(frozen=True)
class About:
    """What a run is."""

    verb: str  # compare, search, experiment
    name: str  # for a person
    command: str  # that was typed
    config: Mapping[str, Any]  # of its points; a value that differs between them is a list
    group: str | None  # of the runs of a multirun; None: it is alone
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """What came out of a run."""

    summary: Mapping[str, float | str | None]  # what is found, in a few numbers; SI units
    tables: Mapping[str, TableRows] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)  # what was written, by its path in its folder

    @property
    def pictures(self) -> dict[str, Path]:
        """The files that are pictures."""
        return {name: path for name, path in self.files.items() if path.suffix == ".png"}


class Log(Protocol):
    """A run that has begun in a tracker. What a method raises ends the log, and only that."""

    @property
    def where(self) -> str:
        """Where a person finds it, in a sentence; "" where nobody looks for it."""
        ...

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of the moment ``step``, which counts up."""

    def found(self, found: Found) -> None:
        """What came out."""

    def end(self, failed: bool) -> None:
        """The run has ended, without an answer where it ``failed``."""


@runtime_checkable
class Keeping(Protocol):
    """A log that keeps rows of a result before it is written."""

    def rows(self, rows: TableRows) -> None:
        """Rows that are known."""


class Tracker(Protocol):
    """A frozen dataclass of ``track/NAME.py``, whose fields are the keys ``NAME.FIELD`` of ``configs/NAME``."""

    PACKAGE: ClassVar[str]  # that it imports when it begins

    def begin(self, about: About) -> Log:
        """Begin a run. Raises ``ImportError`` where the tracker is not installed, and anything where it fails."""
        ...


def check_installed(trackers: Mapping[str, Tracker]) -> None:
    """Raise ``ValueError`` for a tracker that could not begin, before the work that it is to log."""
    for name, tracker in trackers.items():
        if find_spec(tracker.PACKAGE) is None:
            raise not_installed(name, f"no package {tracker.PACKAGE}")


def not_installed(name: str, reason: object) -> ValueError:
    """The error of a tracker whose package is missing."""
    law = f"must be left out where its package is not installed (pip install 'topoflow[{name}]')"
    return ValueError(f"{name}: {law}, got {reason}")


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Tracked:
    """An observer that informs ``inner`` and the logs of what it sees."""

    inner: Observer
    logs: dict[str, Log] = field(default_factory=dict)  # by the names of their trackers
    say: Callable[[str], object] = say
    _stage: str = ""
    _share: int = -1
    _step: int = 0

    def begin(self, trackers: Mapping[str, Tracker], about: About) -> None:
        """Begin a run in each of the trackers. Raises ``ValueError`` for one that is not installed."""
        for name, tracker in trackers.items():
            try:
                self.log(name, partial(tracker.begin, about))
            except ImportError as error:
                self.end(failed=True)
                raise not_installed(name, error) from error

    def log(self, name: str, begin: Callable[[], Log]) -> None:
        """Begin a log; one that cannot begin is left out. Raises ``ImportError``."""
        try:
            self.logs[name] = begin()
        except ImportError:
            raise
        except Exception as error:
            self._left_out(name, error)

    def informing(self, observer: Observer) -> Tracked:
        """This one, which informs ``observer`` from now on."""
        self.inner = observer
        return self

    def stage(self, name: str) -> None:
        self.inner.stage(name)
        self._stage, self._share = name, -1

    def advance(self, done: float, total: int) -> None:
        self.inner.advance(done, total)
        share = int(SHARES * done / max(total, 1))
        if share > self._share:
            self._share = share
            self._record({"progress": done / max(total, 1)})

    def note(self, text: str) -> None:
        self.inner.note(text)

    def record(self, **values: float | str) -> None:
        self.inner.record(**values)
        self._record({key: float(value) for key, value in values.items() if not isinstance(value, str)})

    def found(self, found: Found) -> None:
        """What came out of the run, once it is written."""
        self._each(lambda log: log.found(found))

    def rows(self, rows: TableRows) -> None:
        """Rows of the result, which are known before it is written."""
        self._each(lambda log: log.rows(rows) if isinstance(log, Keeping) else None)

    def end(self, failed: bool) -> None:
        """End all logs, and say where they are."""
        self._each(lambda log: log.end(failed))
        for name, log in self.logs.items():
            if log.where:
                self.say(f"{name}: {log.where}")

    def _record(self, values: Mapping[str, float]) -> None:
        if self.logs and values:
            self._step += 1
            named = {f"{self._stage}/{key}": value for key, value in values.items()}
            self._each(lambda log: log.record(self._step, named))

    def _each(self, inform: Callable[[Log], None]) -> None:
        for name, log in [*self.logs.items()]:
            try:
                inform(log)
            except Exception as error:
                del self.logs[name]
                self._left_out(name, error)

    def _left_out(self, name: str, error: Exception) -> None:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        self.say(one_line(f"{name}: the run is not logged, or not to its end: {reason}"))
