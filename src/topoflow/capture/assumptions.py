"""Tell a reader what a trace does not say, and what is assumed instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from topoflow.capture.base import ComputeSpan, Trace
from topoflow.capture.periods import representative, whole_iterations
from topoflow.operations import ROOTED
from topoflow.units import human


@dataclass(frozen=True)
class Unsized:
    """Kernels of one name that communicated an unknown number of bytes, on all recorded ranks, set-up included."""

    name: str
    count: int
    seconds: float


def unsized(trace: Trace) -> tuple[Unsized, ...]:
    """Return the kernels that communicated an unknown number of bytes, by name, longest first."""
    counts, seconds = Counter[str](), defaultdict[str, float](float)
    for events in trace.ranks.values():
        for event in events:
            if isinstance(event, ComputeSpan) and event.communicates:
                counts[event.name] += 1
                seconds[event.name] += event.seconds
    unsized_kernels = (Unsized(name, count, seconds[name]) for name, count in counts.items())
    return tuple(sorted(unsized_kernels, key=lambda kernel: (-kernel.seconds, kernel.name)))


def assumptions(trace: Trace) -> tuple[str, ...]:
    """The notes of the trace, and what is assumed where it says nothing."""
    rootless = sum(
        event.op in ROOTED and event.root is None for rank in trace.ranks for event in trace.communications(rank)
    )
    notes = [f"{rootless} rooted collectives have no recorded root: taken to be their group's first rank"]
    if not whole_iterations(trace):
        notes.append("no iteration is whole: in each, something took an unknown time that counts as none")
    period = representative(trace)
    recorded = {event.iteration for events in trace.ranks.values() for event in events if event.end is not None}
    if trace.iterations > 1 and period.seconds is not None and period.number - 1 not in recorded:
        notes.append(f"what preceded iteration {period.number} was not recorded: its time begins with its first event")
    return (
        *trace.notes,
        *(notes if rootless else notes[1:]),
        *(
            f"{kernel.count} kernels {kernel.name} communicate, seen but not sized: "
            f"{human(kernel.seconds, 's')} over all ranks"
            f"{', which any network is taken to need' if trace.replayable else ''}"
            for kernel in unsized(trace)
        ),
    )
