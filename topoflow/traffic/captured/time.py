"""How long each event of a recorded rank takes, without what it waits for.

    compute        |== c0 ==|      |= c1 =|            |== c2 ==|
    communicator              |-- A --|--- waiting, B ---|
                    c0 ends ^ ^ A starts               ^ c2 starts

A profile shows when the device was busy. That nothing ran between two events has two reasons: a communication that
the second waited for, which the simulation finds anew, or a host that had not asked for it yet (Python, data loading,
kernel launches), which is part of the job like its compute. So c1 takes from the end of c0 to its own end, c2 from the
end of B, for which it waited; A joins its group A.start - c0.end after c0. On the network that was recorded, the
iteration is then as long as it was.

Where the record says what an event followed (``after``: recorder, task graphs), its compute is what was measured or
given, and nothing is added: the recorder counts CPU time, as ranks that share a CPU hold each other up.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoflow.capture.base import Compute, Event


def taken(events: Mapping[int, Event], follows: Mapping[int, set[int]], began: float | None) -> dict[int, float]:
    """Seconds by position: of a compute, until it has finished; of a communication, until the rank takes part in it.

    Both count from the end of the last event that it ``follows``; without one, from ``began`` (when the
    iteration before was over; None if there is none), or from its own start.
    """
    return {position: _taken(event, events, follows[position], began) for position, event in events.items()}


def _taken(event: Event, events: Mapping[int, Event], follows: set[int], began: float | None) -> float:
    given = event.seconds if isinstance(event, Compute) else 0.0
    if event.after is not None or event.start is None or event.end is None:
        return given
    ends = [events[earlier].end for earlier in follows] if follows else [began]
    known = [end for end in ends if end is not None]
    free = min(event.start, max(known)) if len(known) == len(ends) else event.start
    return (event.end if isinstance(event, Compute) else event.start) - free
