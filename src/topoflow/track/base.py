"""Tracker: a service that logs runs of topoflow. ``Tracked`` is the observer that informs trackers.

A tracker that fails (no network, no key, a full disk) is reported once and left out from then on; the run continues.
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
SHARES = 100  # how often the progress of a stage is logged


@dataclass(frozen=True)
class About:
    """The description of a run."""

    verb: str  # compare, search, experiment
    name: str  # for a person
    command: str  # as it was typed
    config: Mapping[str, Any]  # of the points; a value that differs between them is a list
    group: str | None  # name of the multirun; None for a single run
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class TrackedResults:
    """The results of a run."""

    summary: Mapping[str, float | str | None]  # a few numbers in SI units
    tables: Mapping[str, TableRows] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)  # written files, by their path in the run's folder

    @property
    def pictures(self) -> dict[str, Path]:
        """Return the files that are pictures."""
        return {name: path for name, path in self.files.items() if path.suffix == ".png"}


class TrackerLog(Protocol):
    """A run that a tracker logs. An exception of a method ends the log, not the run."""

    @property
    def where(self) -> str:
        """Return a sentence that says where a user finds the logged run; "" if no user looks for it."""
        ...

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Record values at time ``step``, which increases."""

    def record_results(self, results: TrackedResults) -> None:
        """Record the results."""

    def end(self, failed: bool) -> None:
        """End the log; ``failed`` means that the run had no result."""


@runtime_checkable
class Keeping(Protocol):
    """A log that stores rows of a result before it is written."""

    def rows(self, rows: TableRows) -> None:
        """Record rows of the result."""


class Tracker(Protocol):
    """A tracker: a frozen dataclass of ``track/NAME.py`` whose fields are the keys of ``configs/NAME``."""

    PACKAGE: ClassVar[str]  # the package that ``begin`` imports

    def begin(self, about: About) -> TrackerLog:
        """Begin a run. Raises ``ImportError`` where the package is missing, any exception on failure."""
        ...


def check_installed(trackers: Mapping[str, Tracker]) -> None:
    """Raise ``ValueError`` for a tracker whose package is missing, before the work starts."""
    for name, tracker in trackers.items():
        if find_spec(tracker.PACKAGE) is None:
            raise not_installed(name, f"no package {tracker.PACKAGE}")


def not_installed(name: str, reason: object) -> ValueError:
    """Return the error of a tracker whose package is missing."""
    rule = f"must be left out where its package is not installed (pip install 'topoflow[{name}]')"
    return ValueError(f"{name}: {rule}, got {reason}")


def say(text: str) -> None:
    """Print a line on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Tracked:
    """An observer that passes events on to ``inner`` and to the logs."""

    inner: Observer
    logs: dict[str, TrackerLog] = field(default_factory=dict)  # by the names of their trackers
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

    def log(self, name: str, begin: Callable[[], TrackerLog]) -> None:
        """Begin a log; one that cannot begin is left out. Raises ``ImportError``."""
        try:
            self.logs[name] = begin()
        except ImportError:
            raise
        except Exception as error:
            self._left_out(name, error)

    def informing(self, observer: Observer) -> Tracked:
        """Return this observer, which informs ``observer`` from now on."""
        self.inner = observer
        return self

    def stage(self, name: str) -> None:
        self.inner.stage(name)
        self._stage, self._share = name, -1

    def size(self, text: str) -> None:
        self.inner.size(text)

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

    def record_results(self, results: TrackedResults) -> None:
        """Record the results of the run after they are written."""
        self._each(lambda log: log.record_results(results))

    def rows(self, rows: TableRows) -> None:
        """Record rows of the result before it is written."""
        self._each(lambda log: log.rows(rows) if isinstance(log, Keeping) else None)

    def end(self, failed: bool) -> None:
        """End all logs, and print where each is."""
        self._each(lambda log: log.end(failed))
        for name, log in self.logs.items():
            if log.where:
                self.say(f"{name}: {log.where}")

    def _record(self, values: Mapping[str, float]) -> None:
        if self.logs and values:
            self._step += 1
            named = {f"{self._stage}/{key}": value for key, value in values.items()}
            self._each(lambda log: log.record(self._step, named))

    def _each(self, inform: Callable[[TrackerLog], None]) -> None:
        for name, log in [*self.logs.items()]:
            try:
                inform(log)
            except Exception as error:
                del self.logs[name]
                self._left_out(name, error)

    def _left_out(self, name: str, error: Exception) -> None:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        self.say(one_line(f"{name}: the run is not logged, or not to its end: {reason}"))
