"""Work on many items, done in this process or in chunks by the workers of any ``concurrent.futures.Executor``.

    work     what is done for each item: a world, a point of a figure, ladders of a search, a search
    chunk    the items that one call of a worker does

No answer depends on the executor or on how items are cut into chunks. The first chunks have one item, to measure how
long it takes. Later ones grow with the measured rate and shrink towards the end, so that all workers end at about the
same time (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers 36(12), 1987). A chunk
whose worker is lost is submitted again in halves, because its items may not have fitted in memory.

Items and answers travel as the executor sends them, mostly by pickle. Nothing is read from a file.
"""

from __future__ import annotations

import os
import platform
import re
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Generic, TypeVar

from topoflow.digest import sources
from topoflow.engine.base import Run
from topoflow.engine.device import DeviceMemory
from topoflow.engine.observer import Silent

I = TypeVar("I")  # noqa: E741  an item
A = TypeVar("A")  # an answer

POLL_INTERVAL = 0.1  # s
UNKNOWN_WORKERS = 64  # chunks in flight where an executor does not tell its number of workers
CHUNKS_PER_WORKER = 2  # that the remaining items are cut into at least
MAX_GROWTH = 8  # of a chunk over the largest that is done
LONGEST_CHUNK = 20  # times the shortest
MAX_LOSSES = 3  # times that an item is submitted again after its worker was lost


class ItemFunction(ABC, Generic[I, A]):
    """The work on each item. A subclass is a frozen dataclass; pickle can write it, its items and its answers."""

    is_batch = False  # many items at once take less time than one after the other

    @abstractmethod
    def name(self, item: I) -> str:
        """Return what an error message calls the item."""

    @abstractmethod
    def do(self, items: Sequence[I], run: Run) -> list[A]:
        """Return the answers, and tell ``run.observer`` how many are done. Raise ``ValueError`` for wrong items."""

    def weight(self, item: I) -> float:
        """Return a positive number, about proportional to the time that the item takes."""
        return 1.0

    def packed(self, item: I, answer: A) -> Any:
        """Return the answer as a worker sends it, without what the item holds already."""
        return answer

    def unpacked(self, item: I, packed: Any) -> A:
        """Return the answer that was packed."""
        answer: A = packed
        return answer


@dataclass(eq=False)
class Workers:
    """The workers of an executor, and what each chunk of work may use there.

    ``source`` is an executor, or opens one. It opens another when that one breaks, as a pool of processes does which
    loses one of them.
    """

    source: Executor | Callable[[], Executor]
    device: str = "cpu"
    threads: int = 1
    shortest_chunk: float = 0.5  # s, long enough to amortize the start of a chunk
    _opened: Executor | None = field(default=None, repr=False)

    @property
    def executor(self) -> Executor:
        if isinstance(self.source, Executor):
            return self.source
        if self._opened is None:
            self._opened = self.source()
        return self._opened

    @property
    def count(self) -> int:
        """Number of chunks that run at the same time; the executors of the standard library have this attribute."""
        return max(1, getattr(self.executor, "_max_workers", UNKNOWN_WORKERS))

    def submit(self, *call: Any) -> Future[Any]:
        """Submit a call, to a new executor if the present one is broken. Raise ``ValueError`` if that one is, too."""
        executor = self.executor
        with suppress(Exception):
            return executor.submit(*call)
        self._opened = None
        try:
            return self.executor.submit(*call)
        except Exception as error:
            raise ValueError(f"executor: {type(self.executor).__name__} takes no work: {reason(error)}") from error

    def stop(self) -> None:
        """End what runs on an executor that was opened here."""
        if self._opened is not None:
            self._opened.shutdown(wait=False)
            self._opened = None


def do_all(work: ItemFunction[I, A], items: Sequence[I], run: Run) -> Iterator[tuple[int, A]]:
    """Yield the number and the answer of each item as they are found, and tell ``run.observer`` how many are.

    Raise ``ValueError`` as ``work.do`` does, for the first item if several are wrong, and where workers are lost again
    and again.
    """
    if run.workers is not None:
        yield from _Chunks(work, items, run, run.workers).answers()
    elif work.is_batch:
        yield from enumerate(work.do(items, run))
    else:
        silent = replace(run, observer=Silent())
        for number, item in enumerate(items):
            run.observer.advance(number, len(items))
            yield number, work.do([item], silent)[0]
        run.observer.advance(len(items), len(items))


@dataclass
class _Chunks:
    """Items that wait, chunks in flight, and the rate at which workers do them."""

    work: ItemFunction[Any, Any]
    items: Sequence[Any]
    run: Run
    workers: Workers

    def __post_init__(self) -> None:
        self.weight = [self.work.weight(item) for item in self.items]
        self.remaining = sum(self.weight)  # weight of the items that wait
        self.waiting = deque(range(len(self.items)))  # numbers of items
        self.lost: deque[tuple[int, ...]] = deque()  # chunks whose worker was lost
        self.losses = [0] * len(self.items)  # of each item alone
        self.in_flight: dict[Future[Any], tuple[int, ...]] = {}
        self.rate = 0.0  # weight per second, in the last chunk that was done
        self.largest = 0.0  # weight of a chunk that was done
        self.errors: dict[int, Exception] = {}  # by the first item of the chunk

    def answers(self) -> Iterator[tuple[int, Any]]:
        done = 0
        try:
            while self._has_work() or self._may_fail_earlier():
                count = self.workers.count
                while self._has_work() and len(self.in_flight) < (1 if self._is_last_try() else count):
                    self._submit(self.lost.popleft() if self.lost else self._cut(count))
                self.run.observer.advance(done, len(self.items))
                for future in wait(self.in_flight, POLL_INTERVAL, FIRST_COMPLETED).done:
                    for number, answer in self._finished(future, self.in_flight.pop(future)):
                        done += 1
                        yield number, answer
        except BaseException:  # Ctrl-C, an error of the observer, or nobody wants more answers
            self._cancel()
            self.workers.stop()
            raise
        self._cancel()
        if self.errors:
            raise self.errors[min(self.errors)]
        self.run.observer.advance(done, len(self.items))

    def _has_work(self) -> bool:
        return not self.errors and bool(self.waiting or self.lost)

    def _is_last_try(self) -> bool:
        """Return whether a chunk has its last try. It gets it alone: a pool that breaks loses all chunks in flight."""
        return any(self.losses[chunk[0]] == MAX_LOSSES for chunk in (*self.in_flight.values(), *self.lost))

    def _may_fail_earlier(self) -> bool:
        """Return whether a chunk in flight decides which error is the first."""
        first_error = min(self.errors, default=len(self.items))
        return any(chunk[0] < first_error for chunk in self.in_flight.values())

    def _submit(self, chunk: tuple[int, ...]) -> None:
        items, workers = [self.items[number] for number in chunk], self.workers
        future = workers.submit(_do, self.work, items, workers.device, workers.threads, os.getcwd(), sources())
        self.in_flight[future] = chunk

    def _cut(self, count: int) -> tuple[int, ...]:
        """Return the next chunk of the items that wait, for ``count`` workers."""
        shortest = self.rate * self.workers.shortest_chunk
        target = max(self.remaining / (CHUNKS_PER_WORKER * count), shortest)
        target = min(target, LONGEST_CHUNK * shortest, MAX_GROWTH * self.largest)
        chunk = [self.waiting.popleft()]
        weight = self.weight[chunk[0]]
        while self.waiting and weight + self.weight[self.waiting[0]] <= target:
            chunk.append(self.waiting.popleft())
            weight += self.weight[chunk[-1]]
        self.remaining -= weight
        return tuple(chunk)

    def _finished(self, future: Future[Any], chunk: tuple[int, ...]) -> Iterator[tuple[int, Any]]:
        """Yield the answers of a chunk. Remember an error of its items, or that it is to be submitted again."""
        loss = CancelledError() if future.cancelled() else future.exception()
        if loss is not None:
            self._lose(chunk, loss)
            return
        outcome = future.result()
        if isinstance(outcome, Exception):
            self.errors[chunk[0]] = outcome
            return
        seconds, answers = outcome
        weight = sum(self.weight[number] for number in chunk)
        self.rate, self.largest = weight / max(seconds, 1e-6), max(self.largest, weight)
        for number, answer in zip(chunk, answers, strict=True):
            yield number, self.work.unpacked(self.items[number], answer)

    def _lose(self, chunk: tuple[int, ...], loss: BaseException) -> None:
        """Submit a lost chunk again, first of all: in halves, which need less memory; an item alone a few times."""
        half = len(chunk) // 2
        if half:
            self.lost.extendleft((chunk[half:], chunk[:half]))
            return
        self.losses[chunk[0]] += 1
        if self.losses[chunk[0]] > MAX_LOSSES:
            name = self.work.name(self.items[chunk[0]])
            text = f"executor: {name} has lost its worker {MAX_LOSSES + 1} times, the last time by {reason(loss)}"
            self.errors[chunk[0]] = ValueError(text)
            return
        self.lost.appendleft(chunk)

    def _cancel(self) -> None:
        for future in self.in_flight:
            future.cancel()


def _do(
    work: ItemFunction[I, A], items: Sequence[I], device: str, threads: int, folder: str, expected: str
) -> tuple[float, list[Any]] | Exception:
    """Return the seconds that a chunk takes and its answers, or what is wrong with its items.

    Only what is wrong with the worker is raised, so that whatever ends a future in an error is worth another try.
    """
    try:
        if sources() != expected:
            raise ValueError(f"executor: {platform.node()} has another version of topoflow than the process that asks")
        if os.path.isdir(folder):  # relative paths begin here
            os.chdir(folder)
        began = time.monotonic()
        answers = work.do(items, Run(DeviceMemory.named(device), threads))
        packed = [work.packed(item, answer) for item, answer in zip(items, answers, strict=True)]
        return time.monotonic() - began, packed
    except MemoryError:
        raise
    except (ValueError, OSError) as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


def reason(error: BaseException) -> str:
    """Return an error in one line: the last of a traceback in its text, else its type and its first line."""
    causes = re.findall(r"^\w[\w.]*(?:Error|Exception): .*", str(error), re.MULTILINE)
    return causes[-1] if causes else f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def imported(module: str, extra: str) -> Any:
    """Return a module that an extra of topoflow installs. Raise ``ValueError`` where it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        requirement = f"must be local where {module} is not installed (pip install 'topoflow[{extra}]')"
        raise ValueError(f"executor: {requirement}, got {error}") from error
