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
from collections import deque
from collections.abc import Callable

from topoflow import _C
from topoflow.capture.record.file import Event, Row
from topoflow.capture.record.iteration_work import IterationWork

UNKNOWN_PEER = -1  # of a receive from any source, until it has completed


class Recording(_C.Timeline):
    """The events of one rank. Times are ns of ``clock``; ``busy`` is the processor time of the calling thread, ns.

    A compute span's ``busy`` is processor time, not ``end - start``: while the thread sleeps (it waits for the
    others inside C++, for the data loader, or because ranks share cores) nothing is computed. What every communication
    needs is in ``csrc/bindings/recording.cpp``: in Python it took as long as a tiny communication. With ``queue``,
    rows that are whole go there as text, some at a time; ``flush`` completes them.
    """

    def __init__(
        self,
        write: Callable[[Row | Event], None],
        clock: Callable[[], int] = time.monotonic_ns,
        busy: Callable[[], int] = time.thread_time_ns,
        queue: deque[Row | Event | bytes] | None = None,
    ) -> None:
        super().__init__(queue, write, clock, busy, IterationWork(), Event)

    def enter(self, phase: str) -> None:
        """Begin a phase: forward (and whatever is not the other two), backward or optimizer."""
        self.pause()
        self.phase = phase
        self.resume()

    def issue(self, row: Row, issued: int) -> Event:
        """Add a communication that was handed over at ``issued``. Call between ``pause`` and ``resume``."""
        event: Event = self._add(row, issued, self._follows())
        return event

    def name_peer(self, event: Event, peer: int) -> None:
        """Note that a receive from any source turned out to come from ``peer``."""
        event.row["peer"] = peer
        if event.written:
            self.write({"kind": "later", "event": event.position, "peer": peer})

    def waited(self, event: Event) -> None:
        """Note that the main thread has waited for the communication."""
        self._waited.append(event.position)

    def begin_iterations(self) -> None:
        """Note that the first iteration begins now."""
        self.pause()
        self.resume()
        self.work.begin()
        self.write({"kind": "begin"})

    def step(self) -> None:
        """Note that an iteration ended where the running compute span began."""
        self.write({"kind": "step", "work": self.work.end()})
