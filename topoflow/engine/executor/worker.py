"""What a worker does: a piece of work, whose bytes come from the process that has asked for it.

It says how far it is, and in the end what was found or what was wrong. It never raises: an error of topoflow is an
answer, so that what an executor's library raises is always about the worker.
"""

from __future__ import annotations

import os
import pickle
import platform
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topoflow import __version__
from topoflow.digest import sources
from topoflow.engine.base import Run
from topoflow.engine.device import Device
from topoflow.engine.executor.answers import Content, joined
from topoflow.engine.executor.base import Work
from topoflow.engine.executor.kept import add_there

NOTE_INTERVAL = 0.5  # s


@dataclass(frozen=True)
class Note:
    """How far a piece of work is."""

    done: float  # share of its items
    values: dict[str, float | str]  # what is found so far


@dataclass(frozen=True)
class Answered:
    """The answers of all items, as ``answers.joined`` makes them."""

    content: Content
    seconds: float  # that the worker took, without what its start and its queue took
    kept: str | None = None  # the file in the folder of the process that asks, where a worker has written it


@dataclass(frozen=True)
class Failed:
    """What is wrong with the items, or with topoflow itself."""

    text: str
    is_bug: bool = False


@dataclass(frozen=True)
class Ended:
    """The worker has ended, or has no memory: it is the worker, not the work, that failed."""

    reason: str


Event = Note | Answered | Failed | Ended


@dataclass(frozen=True)
class Call:
    """A piece of work, and how it is done."""

    work: Work[Any, Any]
    items: Sequence[Any]
    keys: Sequence[str | None]  # of their answers
    device: str  # a name
    threads: int | None
    folder: str  # where relative paths begin
    shared: Path | None = None  # a file in the folder where answers are kept, at the process that asks

    def answered(self, observer: Seen) -> Answered:
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        began = time.monotonic()
        found = self.work.do(self.items, Run(Device.named(self.device), self.threads, observer))
        answers = [self.work.pack(item, answer) for item, answer in zip(self.items, found, strict=True)]
        content = joined(self.keys, answers)
        kept = add_there(self.shared, self.keys, content)
        return Answered(content, time.monotonic() - began, kept)


@dataclass
class Seen:
    """An observer that remembers the last of what it saw."""

    done: int = 0
    total: int = 1
    values: dict[str, float | str] = field(default_factory=dict)

    def stage(self, name: str) -> None: ...

    def advance(self, done: int, total: int) -> None:
        self.done, self.total = done, max(total, 1)

    def record(self, **values: float | str) -> None:
        self.values = values


def version() -> str:
    """Of topoflow, and of the sources of its Python modules; nodes may compile its C++ for themselves."""
    return f"topoflow {__version__} (sources {sources()[:8]}) on Python {platform.python_version()}"


def is_other_version(expected: str) -> bool:
    """Whether this process is of another; patches of Python may differ."""
    return expected.rpartition(".")[0] != version().rpartition(".")[0]


def events(payload: bytes, expected: str) -> Iterator[Event]:
    """Notes, and in the end one of the others. ``payload``: a ``Call`` that a process of ``expected`` has pickled."""
    if is_other_version(expected):
        yield Failed(f"executor: must have workers with {expected}, got {version()} on {platform.node()}")
        return
    seen = Seen()
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(_outcome, payload, seen)
        while not wait([future], timeout=NOTE_INTERVAL).done:
            yield Note(seen.done / seen.total, dict(seen.values))
    yield future.result()


def _outcome(payload: bytes, seen: Seen) -> Event:
    try:
        call: Call = pickle.loads(payload)  # bytes of the process that asks, which chose what this one runs
        return call.answered(seen)
    except MemoryError as error:
        return Ended(f"it needs more memory than there is {error}".strip())
    except OSError as error:
        return Failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        return Failed(str(error))
    except Exception:
        return Failed(traceback.format_exc(), is_bug=True)
