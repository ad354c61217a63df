"""How long each event of a recorded rank takes, without what it waits for.

    compute        |== c0 ==|      |= c1 =|            |== c2 ==|
    communicator              |-- A --|--- waiting, B ---|
                    c0 ends ^ ^ A starts               ^ c2 starts

A profile shows when the device was busy. That nothing ran between two events has two reasons: a communication that
the second waited for, which the simulation finds anew, or a host that had not asked for it yet (Python, data loading,
kernel launches), which is part of the job like its compute. So c1 takes from the end of c0 to its own end, c2 from the
end of B, for which it waited; A joins its group A.start - c0.end after c0. On the network that was recorded, the
iteration is then as long as it was.

No event of a replay on an infinitely fast network ends later than it was recorded, so the iteration is never longer
than its recorded period: what counts from the end of others counts from when they were over in the record, which is not
before what these followed themselves was over, nor, of a collective that some may leave before others join it (of a
root, or with shares of 0), before all had begun.

Where the record says what an event followed (``after``: recorder, task graphs), its compute is what was measured or
given, and nothing is added: the recorder counts CPU time, as ranks that share a CPU hold each other up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topoflow.capture.base import ComputeSpan, Event
from topoflow.operations import ROOTED

Part = tuple[int, int]  # rank, position
MAY_LEAVE = (*ROOTED, "all_to_all")


class PartTimes:
    """Seconds of every part of a job, asked for in an order in which they can run."""

    def __init__(
        self,
        ranks: Mapping[int, Mapping[int, Event]],
        follows: Mapping[int, Mapping[int, set[int]]],
        began: float | None,
    ) -> None:
        """``began``: when the iteration before was over, s; None if that was not recorded."""
        self._ranks, self._follows, self._began = ranks, follows, began
        self._over: dict[Part, float | None] = {}  # in recorded time, s

    def seconds(self, part: Part) -> float:
        """Return the time until a compute has finished, or until the rank takes part in a communication; s.

        Both count from the end of the last event that it follows, without one from the end of the iteration before.
        """
        event = self._ranks[part[0]][part[1]]
        if event.after is not None or event.start is None or event.end is None:
            return event.seconds if isinstance(event, ComputeSpan) else event.delay
        free = self._free(part)
        until = event.end if isinstance(event, ComputeSpan) else event.start
        return max(0.0, until - (event.start if free is None else free))

    def conclude(self, parts: Sequence[Part], waiting: Sequence[Part]) -> None:
        """The parts of one step are over; ``waiting`` are those that were held up by what they follow."""
        events = [self._ranks[rank][position] for rank, position in parts]
        starts = [event.start for event in events if event.start is not None]
        may_leave = not isinstance(events[0], ComputeSpan) and events[0].op in MAY_LEAVE
        for part, event in zip(parts, events, strict=True):
            free = self._free(part) if part in waiting else None
            known = [event.end, free, *(starts if may_leave else [])]
            self._over[part] = None if event.end is None else max(time for time in known if time is not None)

    def _free(self, part: Part) -> float | None:
        """When all that a part follows was over; None where that was not recorded."""
        earlier = self._follows[part[0]][part[1]]
        ends = [self._over[part[0], position] for position in earlier] if earlier else [self._began]
        known = [end for end in ends if end is not None]
        return max(known) if len(known) == len(ends) else None
