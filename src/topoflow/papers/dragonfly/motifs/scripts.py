"""The steps of ranks, written for many ranks at once, and layouts of ranks.

Shapes: n ranks, k of them, M tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from topoflow.arrays import Floats, Mask, Offsets
from topoflow.papers.dragonfly.motifs import firefly
from topoflow.workload.base import NO_TARGET, Messages

NO_TASK = -1


class Writer:
    """Writes the tasks of ranks. In each step a rank sends, and then waits for the messages that it receives.

    A message up to ``eager`` B does not block its sender; the sender of a longer message waits until it has arrived,
    at the end of its step (isend), or before it goes on where ``send`` is ``blocking``. Receives of a step come first.
    With ``request``, a longer message is matched first: ``request`` B ask its receiver, which answers with as many
    bytes once it has posted the receive, at the beginning of the step in which it waits for the message. An eager
    message that comes earlier is unexpected and waits there. Messages from one rank to another match in the order in
    which they are sent.

    With ``library``, calls and both protocols take the times of ``firefly``. What is written in ``one_call`` is one
    call of the library.
    """

    def __init__(self, ranks: int, eager: float, request: float | None = None, *, library: bool = False) -> None:
        self.ranks, self._eager, self._request, self._tasks = ranks, eager, request, 0
        self._library, self._calling = library, np.zeros(ranks)  # s of the calls of each rank in this step
        self._call_time = firefly.CALL  # s, to enter or to leave a call; 0 inside of one
        # Messages whose calls are not yet written: source, target, bytes, blocking
        self._pending: list[tuple[Offsets, Offsets, Floats, bool]] = []
        self._waiting = np.zeros(ranks, np.bool_)  # ranks that wait for all at the end of this step
        self._receiving = np.zeros(ranks, np.bool_)  # these, and ranks that receive one message (recv)
        self._resumed = np.full(ranks, NO_TASK, np.int64)  # of each rank, the end of its last send that blocked
        self._matched = np.full(ranks, NO_TASK, np.int64)  # of each rank, the last eager match in this step
        self._pinned: list[tuple[Offsets, Offsets, Floats]] = []  # data, receivers and s to unpin in this step
        self._columns: list[tuple[Offsets, Offsets, Floats, Floats]] = []
        self._waits: list[tuple[Offsets, Offsets]] = []
        self._last = np.full(ranks, NO_TASK, np.int64)  # of each rank, the task that its next step waits for
        self._open: list[tuple[Offsets, Offsets]] = []  # tasks, and ranks that wait for them in this step

    def send(self, source: Offsets, target: Offsets, bytes: ArrayLike, *, blocking: bool = False) -> None:
        """Send a message of ``bytes`` from each ``source`` [k] to its ``target`` [k]; ``blocking`` sources differ."""
        if self._library:
            bytes = np.broadcast_to(np.asarray(bytes, np.float64), len(source))
            self._pending.append((source, target, bytes, blocking))
            return
        long = np.broadcast_to(np.asarray(bytes) > self._eager, len(source))
        answers = self._match(source[long], target[long]) if self._request is not None else None
        tasks = self._add(source, target, bytes, 0.0)
        self._wait(tasks, self._last[source])
        self._wait(tasks, self._resumed[source])
        if answers is not None:
            self._wait(tasks[long], answers)
        self._open.append((tasks, target))
        self._open.append((tasks[long], source[long]))
        if blocking:
            self._resumed[source[long]] = tasks[long]

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Let what all ranks do inside be one call of the library, as a collective is: it is entered and left once."""
        self._enter_or_leave()
        self._call_time = 0.0
        yield
        self.step()
        self._call_time = firefly.CALL
        self._enter_or_leave()

    def _enter_or_leave(self) -> None:
        if self._library:
            rank = np.arange(self.ranks)
            tasks = self._wait_for(rank, self._call_time)
            self._wait(tasks, self._last)
            self._last = tasks

    def _call(self) -> None:
        """Write the calls of the messages of this step: a rank posts all of its receives, and then sends."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        source, target, bytes = (np.concatenate([batch[column] for batch in pending]) for column in range(3))
        pinned = firefly.pinned(bytes) * (bytes > self._eager)
        receives = 2 * self._call_time + pinned  # an irecv each
        posted = self._wait_for(target, self._calling[target] + _earlier(target, receives) + self._call_time + pinned)
        self._wait(posted, self._last[target])
        alone = np.bincount(source, minlength=self.ranks) + np.bincount(target, minlength=self.ranks) == 1
        np.add.at(self._calling, target, np.where(alone[target], 0.0, receives))
        self._receiving[target] = True
        self._waiting[target] |= ~alone[target]
        first = 0
        for source, target, bytes, blocking in pending:
            self._send_calls(source, target, bytes, posted[first : first + len(source)], blocking=blocking)
            first += len(source)

    def _send_calls(self, source: Offsets, target: Offsets, bytes: Floats, posted: Offsets, *, blocking: bool) -> None:
        """Write the calls that send, and all that follows from them; ``posted`` [k] are the receives."""
        long = bytes > self._eager
        pinned = firefly.pinned(bytes) * long
        taken = 2 * self._call_time + firefly.SET_UP + pinned
        before = self._calling[source] + _earlier(source, taken)
        np.add.at(self._calling, source, taken)
        begin = self._wait_for(source, before + taken - self._call_time)
        returned = self._wait_for(source, before + taken)
        for tasks in (begin, returned):
            self._wait(tasks, self._since(source))
        self._open.append((returned, source))
        sent = self._add(source, target, np.where(long, 0.0, bytes) + firefly.HEADER, 0.0)
        self._wait(sent, begin)
        matched = self._wait_for(target, firefly.MATCHED)
        self._wait(matched, sent)
        self._wait(matched, posted)
        eager = ~long
        self._follow(matched[eager], target[eager], self._matched)
        self._open.append((matched[eager], target[eager]))
        if not long.any():
            return
        acknowledged = self._get(source[long], target[long], bytes[long], matched[long])
        if blocking:
            ended = self._wait_for(source[long], self._call_time)
            self._wait(ended, acknowledged)
            self._open.append((ended, source[long]))
            self._resumed[source[long]] = ended
            self._calling[source[long]] = 0.0
        else:
            self._open.append((acknowledged, source[long]))
            self._waiting[source[long]] = self._receiving[source[long]] = True

    def _since(self, rank: Offsets) -> Offsets:
        """Return the tasks [k] after which each ``rank`` [k] has taken the time of its calls in this step."""
        resumed = self._resumed[rank]
        return np.where(resumed == NO_TASK, self._last[rank], resumed)

    def _get(self, source: Offsets, target: Offsets, bytes: Floats, matched: Offsets) -> Offsets:
        """Write the tasks after the requests of long messages, ``matched`` [k]; return the acknowledgements [k]."""
        asks = self._add(target, source, firefly.GET, 0.0)
        self._wait(asks, matched)
        read = self._wait_for(source, firefly.READ)
        self._wait(read, asks)
        data = self._add(source, target, bytes + firefly.GET, 0.0)
        self._wait(data, read)
        self._pinned.append((data, target, firefly.pinned(bytes)))
        acknowledged = self._add(target, source, firefly.ACKNOWLEDGEMENT, 0.0)
        self._wait(acknowledged, data)
        return acknowledged

    def _wait_all(self, ends: Mask) -> None:
        """Write the wait that ends the step of the ranks in the mask ``ends`` [n].

        It begins when the calls before it have returned, unpins arrived data, and returns when all has arrived.
        """
        rank = np.flatnonzero(ends & self._waiting)
        begin = np.full(self.ranks, NO_TASK, np.int64)
        begin[rank] = self._wait_for(rank, self._calling[rank] + self._call_time)
        self._wait(begin[rank], self._since(rank))
        self._open.append((begin[rank], rank))
        if self._pinned:
            data, target, seconds = (np.concatenate(column) for column in zip(*self._pinned, strict=True))
            ending = ends[target]
            self._pinned = [(data[~ending], target[~ending], seconds[~ending])]
            unpinned = self._wait_for(target[ending], seconds[ending])
            self._wait(unpinned, data[ending])
            self._wait(unpinned, begin[target[ending]])
            self._follow(unpinned, target[ending], np.full(self.ranks, NO_TASK, np.int64))
            self._open.append((unpinned, target[ending]))
        rank = np.flatnonzero(ends & self._receiving)
        back = np.full(self.ranks, NO_TASK, np.int64)
        back[rank] = self._wait_for(rank, self._call_time)
        for tasks, owner in self._open:
            receiver = ends[owner] & self._receiving[owner]
            self._wait(back[owner[receiver]], tasks[receiver])
        self._open.append((back[rank], rank))
        self._waiting &= ~ends
        self._receiving &= ~ends
        self._matched[ends] = NO_TASK

    def _follow(self, tasks: Offsets, rank: Offsets, last: Offsets) -> None:
        """Let each of ``tasks`` [k] wait for the previous task of its ``rank`` [k]; ``last`` [n]: latest tasks."""
        order = np.argsort(rank, kind="stable")
        task, owner = tasks[order], rank[order]
        earlier = np.where(np.diff(owner, prepend=NO_TASK) == 0, np.roll(task, 1), last[owner])
        self._wait(task, earlier)
        last[owner] = task

    def _wait_for(self, rank: Offsets, seconds: ArrayLike) -> Offsets:
        """Return tasks [k] that take ``seconds`` and occupy no resource: messages of a rank to itself."""
        return self._add(rank, rank, 0.0, seconds)

    def _match(self, source: Offsets, target: Offsets) -> Offsets:
        """Return the answers [k] to the requests of each ``source`` [k], once its ``target`` has posted the receive."""
        asks = self._add(source, target, self._request or 0.0, 0.0)
        self._wait(asks, self._last[source])
        answers = self._add(target, source, self._request or 0.0, 0.0)
        self._wait(answers, asks)
        self._wait(answers, self._last[target])
        return answers

    def compute(self, rank: Offsets, seconds: ArrayLike) -> None:
        """Compute for ``seconds`` on each ``rank`` [k], all different, as a separate step."""
        self._call()
        tasks = self._add(rank, np.full(len(rank), NO_TARGET), 0.0, seconds)
        self._wait(tasks, self._last[rank])
        self._last[rank] = tasks

    def step(self, only: Offsets | None = None) -> None:
        """End a step of the ranks ``only``, or of all ranks."""
        self._call()
        mask = np.ones(self.ranks, np.bool_)
        if only is not None:
            mask[:] = False
            mask[only] = True
        if self._library:
            self._wait_all(mask)
        self._calling[mask] = 0.0
        self._resumed[mask] = NO_TASK
        if not self._open:
            return
        task, rank = (np.concatenate(side) for side in zip(*self._open, strict=True))
        ends = mask[rank]
        self._open = [(task[~ends], rank[~ends])]
        waiting = np.unique(rank[ends])
        self.compute(waiting, 0.0)
        self._wait(self._last[rank[ends]], task[ends])

    def messages(self) -> Messages:
        """Return the messages of all steps."""
        if self._library:
            self.step()
        source, target, bytes, seconds = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        task, earlier = (np.concatenate(side) for side in zip(*self._waits, strict=True))
        return Messages(source, target, bytes, seconds, (task, earlier))

    def _add(self, source: Offsets, target: Offsets, bytes: ArrayLike, seconds: ArrayLike) -> Offsets:
        count = len(source)
        amounts = [np.broadcast_to(np.asarray(amount, np.float64), count) for amount in (bytes, seconds)]
        self._columns.append((source, target, amounts[0], amounts[1]))
        first, self._tasks = self._tasks, self._tasks + count
        return np.arange(first, self._tasks)

    def _wait(self, tasks: Offsets, earlier: Offsets) -> None:
        exists = earlier != NO_TASK
        self._waits.append((tasks[exists], earlier[exists]))


def _earlier(ranks: Offsets, seconds: Floats) -> Floats:
    """Return the sum [k] of ``seconds`` of earlier entries with the same rank."""
    order = np.argsort(ranks, kind="stable")
    until = np.cumsum(seconds[order]) - seconds[order]
    sums = np.empty(len(ranks))
    sums[order] = until - until[np.searchsorted(ranks[order], ranks[order])]
    return sums


def sides(ranks: int) -> tuple[int, int]:
    """Return the rectangle of ``ranks`` that is closest to a square, longer side first: 110,592 are 384 x 288."""
    short = max(side for side in range(1, int(ranks**0.5) + 1) if ranks % side == 0)
    return ranks // short, short


def box(ranks: int) -> tuple[int, int, int]:
    """Return the box of ``ranks`` with the least surface, sides descending: 110,592 are 48 x 48 x 48."""
    boxes = [(*sides(ranks // first), first) for first in range(1, round(ranks ** (1 / 3)) + 1) if ranks % first == 0]
    return min(boxes, key=lambda sides: sides[0] * sides[1] + sides[1] * sides[2] + sides[0] * sides[2])


def shuffled(count: int, seed: int) -> Offsets:
    """Return the numbers [count] after each has changed places with one that is drawn; ``seed`` is 32 bits, not 0.

    Draws are those of SST's ``XORShiftRNG``. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14),
    2003, the generator of 128 bits, of which all but the first 32 are 0 at first.
    """
    numbers, draws = list(range(count)), xorshift(seed)
    for place in range(count):
        other = next(draws) % count
        numbers[place], numbers[other] = numbers[other], numbers[place]
    return np.array(numbers)


def xorshift(seed: int) -> Iterator[int]:
    """Yield numbers of 32 bits."""
    x, y, z, w = seed & 0xFFFFFFFF, 0, 0, 0
    while True:
        mixed = (x ^ (x << 11)) & 0xFFFFFFFF
        x, y, z, w = y, z, w, w ^ (w >> 19) ^ mixed ^ (mixed >> 8)
        yield w
