"""Remote: an executor that has the workers of a cluster do the work, piece by piece, and loses none.

Pieces are cut as workers become free: first an item each, to learn how long one takes, then about ``seconds`` of work,
and less towards the end, so that all workers end at about the same time (guided self-scheduling: Polychronopoulos and
Kuck, IEEE Transactions on Computers 36(12), 1987). What was found is kept on disk before it is used. A piece whose
worker has ended is done again, in halves, as its items may not have fitted in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoflow.engine.device import Device, check_name
from topoflow.engine.executor.answers import parted
from topoflow.engine.executor.base import A, I, Work
from topoflow.engine.executor.kept import Kept
from topoflow.engine.executor.pool import Cluster
from topoflow.engine.executor.worker import Answered, Call, Ended, Event, Failed, Note, version

if TYPE_CHECKING:
    from topoflow.engine.base import Run

POLL_INTERVAL = 0.1  # s
GROWTH = 8  # the most that a piece may be larger than one whose time is known
MOST_BYTES = 2**28  # of the answers of a piece, which its worker and this process have in memory
SHARES = 2  # pieces, for each worker, that the items which are left are cut into at least
MAX_NAMES = 3  # of items in an error


@dataclass(frozen=True)
class Remote:
    """The workers of ``cluster``, each with this ``device`` (a name). Answers are kept in ``folder``; None: nowhere."""

    cluster: Cluster
    device: str = "cpu"
    threads: int | None = None
    folder: Path | None = None
    keeps: bool = True
    is_local = False

    @classmethod
    def placed(cls, cluster: Cluster, device: str, threads: int | None, folder: Path | None) -> tuple[Device, Remote]:
        """The device of this process, which needs no GPU, and the executor."""
        check_name(device)
        return Device(), cls(cluster, device, threads, folder)

    @property
    def workers(self) -> int:
        return self.cluster.pool(self.device, self.folder).workers()

    @property
    def is_prompt(self) -> bool:
        return self.cluster.is_prompt

    def keeping_nothing(self) -> Remote:
        return replace(self, keeps=False)

    def map(self, work: Work[I, A], items: Sequence[I], run: Run) -> Iterator[tuple[int, A]]:
        """As ``Executor`` has it. What is kept already comes first."""
        keys = work.keys(items) if self.keeps else [None] * len(items)
        kept = Kept(self.folder if any(keys) else None)
        missing = dict.fromkeys(range(len(items)))  # numbers, in order
        for number, arrays in kept.find(keys):
            del missing[number]
            yield number, work.unpack(items[number], arrays)
        if not missing:
            return
        with kept.shared() as shared:
            spread = _Spread(self, work, items, keys, run, [*missing], shared)
            for piece, answered in spread.run():
                if answered.kept is None:
                    kept.add([keys[number] for number in piece], answered.content)
                for number, arrays in zip(piece, parted(answered.content), strict=True):
                    yield number, work.unpack(items[number], arrays)


@dataclass(frozen=True)
class _Begun:
    """A piece of work that a worker has."""

    piece: tuple[int, ...]  # numbers of its items
    weight: float
    note: Note


class _Spread:
    """Items that wait, pieces that workers have, and what is known of how long they take."""

    def __init__(
        self,
        remote: Remote,
        work: Work[Any, Any],
        items: Sequence[Any],
        keys: Sequence[str | None],
        run: Run,
        waiting: Sequence[int],
        shared: Path | None,
    ) -> None:
        self.remote, self.work, self.items, self.keys, self.run_ = remote, work, items, keys, run
        self.shared = shared
        self.pool = remote.cluster.pool(remote.device, remote.folder)
        self.weight = {number: work.weight(items[number]) for number in waiting}
        self.waiting = deque(waiting)
        self.left = sum(self.weight.values())  # of those that wait
        self.again: deque[tuple[int, ...]] = deque()  # pieces whose worker has ended
        self.ended: dict[int, int] = {}  # how often the worker of an item has
        self.rate = 0.0  # weight of the last piece that was done, in a second
        self.largest = 0.0  # weight of a piece that was done
        self.bytes = 0.0  # of the answers of the last one, for each weight
        self.busy: dict[Hashable, _Begun] = {}
        self.failed: dict[int, Failed | Ended] = {}  # by the first item of the piece
        self.done = len(items) - len(waiting)

    def run(self) -> Iterator[tuple[tuple[int, ...], Answered]]:
        """The numbers and the answers of each piece, when it is done."""
        try:
            while self.busy or not self._is_over():
                self._begin()
                for handle, event in self.pool.wait(POLL_INTERVAL):
                    answered = self._happened(handle, event)
                    if answered is not None:
                        yield answered
                self._inform()
        finally:
            self.pool.cancel()
        if self.failed:
            raise self._error(min(self.failed))

    def _is_over(self) -> bool:
        return bool(self.failed) or not (self.again or self.waiting)

    def _begin(self) -> None:
        """Give pieces to workers that are free."""
        workers = self.pool.workers()
        while len(self.busy) < workers and not self._is_over():
            piece = self.again.popleft() if self.again else self._cut(workers)
            cluster, remote = self.remote.cluster, self.remote
            items = [self.items[number] for number in piece]
            keys, threads = [self.keys[number] for number in piece], cluster.threads(remote.threads)
            call = Call(self.work, items, keys, remote.device, threads, os.getcwd(), self.shared)
            handle = self.pool.begin(_pickled(call), version(), self._names(piece))
            weight = sum(self.weight[number] for number in piece)
            self.busy[handle] = _Begun(piece, weight, Note(0.0, {}))

    def _cut(self, workers: int) -> tuple[int, ...]:
        """The next piece of those that wait."""
        most = self.left / (SHARES * workers)
        most = max(most, self.rate * self.remote.cluster.least_seconds)
        most = min(most, self.rate * self.remote.cluster.seconds, self.largest * GROWTH)
        most = min(most, MOST_BYTES / self.bytes if self.bytes else most)
        piece: list[int] = []
        taken = 0.0
        while self.waiting and (not piece or taken + self.weight[self.waiting[0]] <= most):
            taken += self.weight[self.waiting[0]]
            piece.append(self.waiting.popleft())
        self.left -= taken
        return tuple(piece)

    def _happened(self, handle: Hashable, event: Event) -> tuple[tuple[int, ...], Answered] | None:
        begun = self.busy[handle]
        if isinstance(event, Note):
            self.busy[handle] = replace(begun, note=event)
            return None
        del self.busy[handle]
        if isinstance(event, Answered):
            self.rate = begun.weight / max(event.seconds, 1e-6)
            self.largest = max(self.largest, begun.weight)
            self.bytes = event.content.size / begun.weight
            self.done += len(begun.piece)
            return begun.piece, event
        if isinstance(event, Failed):
            self.failed[begun.piece[0]] = event
        else:
            self._do_again(begun.piece, event)
        return None

    def _do_again(self, piece: tuple[int, ...], event: Ended) -> None:
        for number in piece:
            self.ended[number] = self.ended.get(number, 0) + 1
        if max(self.ended[number] for number in piece) > self.remote.cluster.retries:
            self.failed[piece[0]] = event
            return
        half = len(piece) // 2
        self.again.extend(part for part in (piece[:half], piece[half:]) if part)

    def _inform(self) -> None:
        observer, busy = self.run_.observer, self.busy.values()
        if len(self.items) == 1:
            for begun in busy:
                if begun.note.values:
                    observer.record(**begun.note.values)
        observer.advance(self.done + int(sum(each.note.done * len(each.piece) for each in busy)), len(self.items))

    def _error(self, first: int) -> Exception:
        what = self.failed[first]
        if isinstance(what, Ended):
            return ValueError(
                f"{self.work.name(self.items[first])}: must be done by a worker that lives, "
                f"got {self.ended[first]} that ended: {what.reason}"
            )
        return RuntimeError(what.text) if what.is_bug else ValueError(what.text)

    def _names(self, piece: Sequence[int]) -> str:
        names = ", ".join(self.work.name(self.items[number]) for number in piece[:MAX_NAMES])
        return names + (f" and {len(piece) - MAX_NAMES} more" if len(piece) > MAX_NAMES else "")


def _pickled(call: Call) -> bytes:
    """For a process of our own, to which the bytes go by the network; also of what was made in a script."""
    import cloudpickle

    pickled: bytes = cloudpickle.dumps(call)
    return pickled
