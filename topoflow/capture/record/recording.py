"""Recording: the events of one rank as they happen, without knowing who reports them (so it needs no torch).

The rank's main thread is one line of time, cut wherever it hands over or waits for a communication:

    compute 0 | issue A | compute 1 | issue B | compute 2 | wait for A | compute 3
                 after 0               after 1  after 1                    after 2 and A

``after`` is therefore known, not guessed: a compute span follows the span before it and the communications that the
thread waited for in between; a communication follows the span before its issue and, as a communicator works in
order, the previous communication of its group.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

from topoflow.capture.base import POINT_TO_POINT, Communication, Compute, Event, Trace, Work
from topoflow.capture.record.clock import now
from topoflow.capture.record.training_steps import iteration_numbers

UNKNOWN_PEER = -1  # of a receive from any source, until it has completed


@dataclass(eq=False)
class Pending:
    """A communication that was issued; its ``end`` (and the sender, received from any) is filled in when known."""

    position: int
    event: Communication


class Recording:
    """What one rank did. Times are those of ``clock``; ``busy`` is the processor time of the calling thread.

    A compute span's ``seconds`` are processor time, not ``end - start``: while the thread sleeps (it waits for the
    others inside C++, for the data loader, or because ranks share cores) nothing is computed.
    """

    def __init__(self, clock: Callable[[], float] = now, busy: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._busy = busy
        self._events: list[Compute | Pending] = []
        self._phase = "forward"
        self._waited: list[int] = []  # positions that the next compute span follows
        self._last_compute: int | None = None
        self._last_of_group: dict[tuple[str, tuple[int, ...]], int] = {}
        self._first_forward: int | None = None
        self._steps: list[int] = []  # position of the first event after each optimizer step
        self._open: tuple[float, float] | None = (clock(), busy())  # start of the running span on both clocks
        self._work: dict[tuple[str, float], Work] = {}  # of the running span, by dtype and arithmetic intensity

    def pause(self) -> None:
        """The main thread stops computing: close the running compute span."""
        if self._open is None:
            return
        start, busy = self._open
        self._open = None
        seconds = max(0.0, self._busy() - busy)
        if seconds > 0 or self._work:
            before = () if self._last_compute is None else (self._last_compute,)
            after = tuple(sorted({*before, *self._waited}))
            self._last_compute = len(self._events)
            self._waited = []
            work = tuple(self._work[key] for key in sorted(self._work))
            self._work = {}
            self._events.append(Compute(self._phase, start, self._clock(), seconds, after=after, work=work))

    def operator(self, work: Work) -> None:
        """An operator ran. Those with the same FLOPs per byte are limited by the same on any device, so they add up."""
        key = (work.dtype, work.flops / work.moved if work.moved else inf)
        _, flops, moved = self._work.get(key, (work.dtype, 0.0, 0.0))
        self._work[key] = Work(work.dtype, flops + work.flops, moved + work.moved)

    def forget_work(self) -> None:
        """Not all operators were seen."""
        self._events = [replace(event, work=None) if isinstance(event, Compute) else event for event in self._events]

    def leave_out(self, seconds: float) -> None:
        """The last ``seconds`` of processor time were the recorder's, not the script's."""
        if self._open is not None:
            self._open = (self._open[0], self._open[1] + seconds)

    def resume(self) -> None:
        """The main thread computes again."""
        self._open = (self._clock(), self._busy())

    def enter(self, phase: str) -> None:
        """What follows is ``phase``: forward (and whatever is not the other two), backward or optimizer."""
        self.pause()
        self._phase = phase
        self.resume()

    @property
    def phase(self) -> str:
        return self._phase

    def now(self) -> float:
        return self._clock()

    def issue(self, event: Communication, issued: float) -> Pending:
        """A communication was handed over at ``issued``. Call between ``pause`` and ``resume``."""
        key = (event.group_name, event.group)
        before = {self._last_compute, self._last_of_group.get(key), *self._waited}
        after = tuple(sorted(position for position in before if position is not None))
        pending = Pending(len(self._events), replace(event, issue=issued, start=issued, after=after))
        self._last_of_group[key] = pending.position
        self._events.append(pending)
        return pending

    def done(self, pending: Pending) -> None:
        """The communication has completed now, if that was not known before. May be called by any thread."""
        if pending.event.end is None:
            pending.event = replace(pending.event, end=self._clock())

    def name_peer(self, pending: Pending, peer: int) -> None:
        """A receive from any source turned out to come from ``peer``."""
        pending.event = replace(pending.event, peer=peer)

    def waited(self, pending: Pending) -> None:
        """The main thread has waited for the communication."""
        self._waited.append(pending.position)

    def begin_iterations(self) -> None:
        """The first iteration begins now."""
        self.pause()
        self.resume()
        self._first_forward = len(self._events)

    def _begin(self) -> int:
        """Position where iteration 0 begins: the first training forward pass and the sends and receives that led to it
        (a later pipeline stage receives before it computes), or else the first communication.
        """
        communications = [event for event in self._events if isinstance(event, Pending)]
        if self._first_forward is None:
            begin = communications[0].position if communications else 0
        else:
            begin = self._first_forward
            latest = (pending for pending in reversed(communications) if pending.position < begin)
            leading = takewhile(lambda pending: pending.event.op in POINT_TO_POINT, latest)
            begin = min((pending.position for pending in leading), default=begin)
        return begin if not self._steps or begin < self._steps[0] else 0

    def step(self) -> None:
        """An iteration ended where the running compute span began."""
        self._steps.append(len(self._events))

    def trace(self, name: str, rank: int, world_size: int, origin: float, source: str, notes: tuple[str, ...]) -> Trace:
        """All of it, with times since ``origin``."""
        numbers = iteration_numbers(len(self._events), self._begin(), self._steps)
        if not self._steps:
            notes = (*notes, "no optimizer took a step: the script is one iteration")
        elif outside := sum(isinstance(event, Pending) for event in self._events[self._steps[-1] :]):
            notes = (*notes, f"{outside} communications after the last optimizer step belong to no iteration")
        if unknown := sum(isinstance(event, Pending) and event.event.peer == UNKNOWN_PEER for event in self._events):
            notes = (*notes, f"{unknown} receives from any source were not waited for: who sent is unknown, left out")
        events = tuple(
            _since(origin, event.event if isinstance(event, Pending) else event, number)
            for event, number in zip(self._events, numbers, strict=True)
        )
        return Trace(
            name=name,
            world_size=world_size,
            iterations=max(len(self._steps), 1),
            ranks={rank: events},
            groups={event.group_name: event.group for event in events if isinstance(event, Communication)},
            source=source,
            notes=notes,
        )


def _since(origin: float, event: Event, iteration: int) -> Event:
    """``event`` in ``iteration`` with its times counted from ``origin``; whole nanoseconds keep the file small."""

    def shifted(moment: float | None) -> float | None:
        return None if moment is None else round(moment - origin, 9)

    if isinstance(event, Communication) and event.peer == UNKNOWN_PEER:
        event = Compute("recv from unknown", event.start, event.end, 0.0, after=event.after)
    if isinstance(event, Compute):
        return replace(
            event,
            start=shifted(event.start),
            end=shifted(event.end),
            seconds=round(event.seconds, 9),
            iteration=iteration,
        )
    return replace(
        event,
        issue=shifted(event.issue),
        start=shifted(event.start),
        end=shifted(event.end),
        iteration=iteration,
    )
