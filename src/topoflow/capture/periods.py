"""The time that each iteration of a trace took, and the one that stands for the job.

An iteration takes from the end of the one before, on all ranks, to its own end:

    rank 0   |== 3 ==|== 4 ====|=== 5 ==|        iteration 4 began at a and ended at b: its period is b - a
    rank 1   |== 3 ====|== 4 =====|== 5 =|
                       a          b

What an inspection counts and a replay simulates is the same iteration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from topoflow.capture.base import Communication, ComputeSpan, Trace


@dataclass(frozen=True)
class Period:
    """One iteration; ``begin`` and ``end`` on the clock of the trace, s, None where it has no times."""

    number: int
    begin: float | None
    end: float | None
    busiest: float  # s, the compute of the busiest rank

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.begin is None or self.end is None else self.end - self.begin


@dataclass(frozen=True)
class StepRepetition:
    """How far the iterations of a trace are the same: ``alike`` of them communicate as the representative one does."""

    whole: int  # iterations all of whose times are known
    alike: int  # of these
    shortest: float | None  # s, of those that are alike
    longest: float | None


@dataclass
class _IterationExtent:
    """Start of the first and end of the last event of an iteration, of those read so far; s."""

    start: float | None = None
    end: float | None = None


def periods(trace: Trace) -> tuple[Period, ...]:
    """Return every iteration of the trace."""
    extents = {number: _IterationExtent() for number in range(-1, trace.iterations)}
    computed: dict[tuple[int, int], float] = defaultdict(float)  # (iteration, rank) -> s
    for rank, events in trace.ranks.items():
        for event in events:
            extent = extents[event.iteration]
            if event.start is not None:
                extent.start = event.start if extent.start is None else min(extent.start, event.start)
            if event.end is not None:
                extent.end = event.end if extent.end is None else max(extent.end, event.end)
            if isinstance(event, ComputeSpan):
                computed[event.iteration, rank] += event.seconds
    iterations = []
    before = extents[-1].end
    for number in range(trace.iterations):
        busiest = max((computed[number, rank] for rank in trace.ranks), default=0.0)
        begin = _begin(extents[number], before, is_first=number == 0)
        iterations.append(Period(number, begin, extents[number].end, busiest))
        before = extents[number].end if extents[number].end is not None else before
    return tuple(iterations)


def _begin(extent: _IterationExtent, before: float | None, is_first: bool) -> float | None:
    """Return when an iteration begins: at the end of the one before, or at its own start."""
    if extent.start is None or extent.end is None or before is None:
        return extent.start
    if before >= extent.end or (is_first and before < extent.start):
        return extent.start
    return before


def representative(trace: Trace) -> Period:
    """Return the iteration of median length among the whole ones that communicate as most of these do.

    Set-up is never taken; nor, among several, an odd one out, as DDP's first is (one bucket) or one that a profiler's
    window has cut. Its length is what a replay takes of the record: its period, or, where the record says what each
    event followed (so that its compute is what was measured), the compute of its busiest rank.
    """
    all_periods = periods(trace)
    if trace.chosen is not None:
        return all_periods[trace.chosen]
    communicates = _communicates(trace)
    whole = _bounded(trace, whole_iterations(trace) or _best_sized(trace, range(trace.iterations)))
    counts = Counter(communicates[number] for number in whole)
    largest_count = max(counts.values())
    usual = next(communicates[number] for number in reversed(whole) if counts[communicates[number]] == largest_count)
    by_compute = any(event.after is not None for events in trace.ranks.values() for event in events)
    alike = sorted(
        (period.busiest if by_compute or period.seconds is None else period.seconds, period.number)
        for period in (all_periods[number] for number in whole)
        if communicates[period.number] == usual
    )
    return all_periods[alike[(len(alike) - 1) // 2][1]]


def step_repetition(trace: Trace) -> StepRepetition:
    """Return how many iterations communicate as the representative one does, and how much their lengths differ."""
    all_periods, communicates = periods(trace), _communicates(trace)
    usual = communicates[representative(trace).number]
    whole = whole_iterations(trace)
    alike = [number for number in whole if communicates[number] == usual]
    bounded = [all_periods[number].seconds for number in _bounded(trace, alike)] if alike else []
    known = [seconds for seconds in bounded if seconds is not None]
    return StepRepetition(len(whole), len(alike), min(known, default=None), max(known, default=None))


def whole_iterations(trace: Trace) -> Sequence[int]:
    """Return the iterations in which all times, and as many sizes as in any of these, are known."""
    return _best_sized(trace, [number for number in range(trace.iterations) if number not in trace.incomplete])


def _best_sized(trace: Trace, numbers: Sequence[int]) -> Sequence[int]:
    """Return the iterations of ``numbers`` with the fewest communications of unknown size."""
    unsized = Counter(
        event.iteration
        for events in trace.ranks.values()
        for event in events
        if isinstance(event, ComputeSpan) and event.communicates
    )
    least = min((unsized[number] for number in numbers), default=0)
    return [number for number in numbers if unsized[number] == least]


def _bounded(trace: Trace, numbers: Sequence[int]) -> Sequence[int]:
    """Return the iterations of ``numbers`` whose beginning is known best.

    An iteration begins when the one before, or set-up, has ended. The end of an incomplete one may be too early. If
    nothing was recorded before, nobody knows for how long the host was idle before the first event.
    """
    recorded = {event.iteration for events in trace.ranks.values() for event in events if event.end is not None}
    after_recorded = [at for at in numbers if at - 1 in recorded]
    return [at for at in after_recorded if at - 1 not in trace.incomplete] or after_recorded or numbers


def _communicates(trace: Trace) -> list[Hashable]:
    """Return the communications of all recorded ranks in each iteration, for comparison."""
    communications: list[list[Hashable]] = [[] for _ in range(trace.iterations)]
    for rank in sorted(trace.ranks):
        for event in trace.ranks[rank]:
            if event.iteration < 0:
                continue
            if isinstance(event, Communication):
                communications[event.iteration].append((rank, event.op, event.group, event.bytes))
            elif event.communicates:
                communications[event.iteration].append((rank, event.name))
    return [tuple(iteration) for iteration in communications]
