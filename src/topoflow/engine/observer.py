"""Observer: who is informed about long work. The terminal is one; a log file or an experiment tracker is another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Observer(Protocol):
    """Watches work that consists of stages, one after the other. What a method raises stops the work."""

    def stage(self, name: str) -> None:
        """A stage begins, and the one before it has ended."""

    def size(self, text: str) -> None:
        """Say how large the present stage is, e.g. "6 worlds of up to 12,000 tasks"."""

    def advance(self, done: float, total: int) -> None:
        """``done`` of the ``total`` parts of the present stage are done; a fraction counts for parts that run.

        A ``total`` of 0 is unknown.
        """

    def note(self, text: str) -> None:
        """Show a line about the work that begins."""

    def record(self, **values: float | str) -> None:
        """Take the results of the present stage so far, by name; numbers in SI units."""


@dataclass(frozen=True)
class Silent:
    """Shows nothing."""

    def stage(self, name: str) -> None: ...
    def size(self, text: str) -> None: ...
    def advance(self, done: float, total: int) -> None: ...
    def note(self, text: str) -> None: ...
    def record(self, **values: float | str) -> None: ...


@dataclass(frozen=True)
class PartialObserver:
    """Shows work that is a part of a larger stage: ``earlier`` of the stage's ``total`` parts are done already."""

    observer: Observer
    earlier: int
    total: int

    def stage(self, name: str) -> None: ...
    def size(self, text: str) -> None: ...

    def advance(self, done: float, total: int) -> None:
        self.observer.advance(self.earlier + done, self.total)

    def note(self, text: str) -> None:
        self.observer.note(text)

    def record(self, **values: float | str) -> None:
        self.observer.record(**values)
