"""Recording: the rows of one rank as things happen, without knowing who reports them (so it needs no torch).

The rank's main thread is one line of time, cut wherever it hands over or waits for a communication:

    compute 0 | issue A | compute 1 | issue B | compute 2 | wait for A | compute 3
                 after 0               after 1  after 1                    after 2 and A

``after`` is therefore known, not guessed: a compute span follows the span before it and the communications that the
thread waited for in between; a communication follows the span before its issue and, as a communicator works in
order, the previous communication of its group. Both are named by position among the events of the rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from topoflow.capture import work_rows
from topoflow.capture.record.file import Event, Row
from topoflow.capture.record.iteration_work import IterationWork

UNKNOWN_PEER = -1  # of a receive from any source, until it has completed


class Recording:
    """The events of one rank. Times are ns of ``clock``; ``busy`` is the processor time of the calling thread, ns.

    A compute span's ``busy`` is processor time, not ``end - start``: while the thread sleeps (it waits for the
    others inside C++, for the data loader, or because ranks share cores) nothing is computed.
    """

    def __init__(
        self,
        write: Callable[[Row | Event], None],
        clock: Callable[[], int] = time.monotonic_ns,
        busy: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._write = write
        self.now = clock
        self._busy = busy
        self._events = 0
        self.phase = "forward"
        self._waited: list[int] = []  # positions that the next compute span follows
        self._last_compute: int | None = None
        self._last_of_group: dict[str, int] = {}
        self._open: tuple[int, int] | None = (clock(), busy())  # start of the running span on both clocks
        self.work = IterationWork()

    @property
    def is_paused(self) -> bool:
        """True while the main thread is in a communication."""
        return self._open is None

    def pause(self) -> None:
        """Close the running compute span: the main thread stops computing."""
        if self._open is None:
            return
        start, busy = self._open
        self._open = None
        seconds = self._busy() - busy
        self.work.mark(self.phase)
        work = self.work.take()
        if seconds > 0 or work:
            row: Row = {
                "kind": "compute",
                "name": self.phase,
                "start": start,
                "end": self.now(),
                "busy": max(0, seconds),
                "after": self._follows(),
            }
            if work:
                row["work"] = [work_rows.written(part) for part in work]
            self._waited = []
            self._last_compute = self._events
            self._write(Event(self._events, row))
            self._events += 1

    def resume(self) -> None:
        """Open a compute span: the main thread computes again."""
        self._open = (self.now(), self._busy())

    def leave_out(self, busy: int) -> None:
        """Take ``busy`` ns of processor time out of the running span: they were the recorder's, not the script's."""
        if self._open is not None:
            self._open = (self._open[0], self._open[1] + busy)

    def enter(self, phase: str) -> None:
        """Begin a phase: forward (and whatever is not the other two), backward or optimizer."""
        self.pause()
        self.phase = phase
        self.resume()

    def issue(self, row: Row, issued: int) -> Event:
        """Add a communication that was handed over at ``issued``. Call between ``pause`` and ``resume``."""
        return self._add(row, issued, self._follows())

    def _follows(self) -> list[int]:
        """Return the events that the main thread has behind it: its last compute span and what it waited for since."""
        return self._waited if self._last_compute is None else [self._last_compute, *self._waited]

    def _add(self, row: Row, issued: int, follows: Sequence[int]) -> Event:
        """Add a communication that follows other events, and the previous communication of its group."""
        self.work.mark((*row.values(),))
        group = row["group"]
        before = self._last_of_group.get(group)
        row["issue"] = issued
        row["after"] = [*follows] if before is None else [*follows, before]
        event = Event(self._events, row)
        self._last_of_group[group] = self._events
        self._events += 1
        self._write(event)
        return event

    def done(self, event: Event) -> None:
        """Note that the communication has completed now, if that was not known before. Any thread may call this."""
        if "end" not in event.row:
            self._learn(event, "end", self.now())

    def name_peer(self, event: Event, peer: int) -> None:
        """Note that a receive from any source turned out to come from ``peer``."""
        self._learn(event, "peer", peer)

    def _learn(self, event: Event, field: str, value: int) -> None:
        event.row[field] = value
        if event.written:
            self._write({"kind": "later", "event": event.position, field: value})

    def waited(self, event: Event) -> None:
        """Note that the main thread has waited for the communication."""
        self._waited.append(event.position)

    def begin_iterations(self) -> None:
        """Note that the first iteration begins now."""
        self.pause()
        self.resume()
        self.work.begin()
        self._write({"kind": "begin"})

    def step(self) -> None:
        """Note that an iteration ended where the running compute span began."""
        self._write({"kind": "step", "work": self.work.end()})
