"""Captured: a job that was recorded. Its communication is what was sent; its compute what was measured, or computed
from the operators that ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from topoflow.capture.base import Communication, Compute, Event, Trace, Work
from topoflow.capture.load import load
from topoflow.capture.periods import representative
from topoflow.units import check_not_negative
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

COMPUTE = ("auto", "recorded", "roofline")
RECORDER = "recorder"  # begins the source of traces of topoflow's own recorder, which runs on CPUs


@dataclass(frozen=True)
class Captured:
    """``trace`` is a file or folder of any format that ``topoflow capture import`` reads.

    ``compute`` is where compute times come from. ``recorded``: those of the device that was recorded; of ``gpu``, only
    ``local_bandwidth`` counts then, where ranks share a server. ``roofline``: what the recorded operators need on
    ``gpu`` at best, without the time of a host that launches them. ``auto``: the roofline where operators were
    recorded, as topoflow's recorder does on CPUs; otherwise the recorded times. ``eager``, B: a longer message between
    two ranks is sent only when its receive is posted, where the record has no times that say so (MPI traces).
    """

    trace: str
    gpu: Gpu
    compute: Literal["auto", "recorded", "roofline"] = "auto"
    eager: float | None = None

    def __post_init__(self) -> None:
        if self.eager is not None:
            check_not_negative("workload.eager", self.eager)
        if self.compute not in COMPUTE:
            raise ValueError(f"workload.compute: must be one of {', '.join(COMPUTE)}, got {self.compute!r}")

    def build(self) -> RecordedJob:
        return RecordedJob(_timed(load([Path(self.trace)]), self.gpu, self.compute), self.gpu, self.eager)


def _timed(trace: Trace, gpu: Gpu, compute: str) -> Trace:
    """The trace with the compute times that were asked for, and a note that says which these are."""
    computes = (event for events in trace.ranks.values() for event in events if isinstance(event, Compute))
    spans = [event for event in computes if not event.communicates]
    known = bool(spans) and all(span.work is not None for span in spans)
    if compute == "roofline" and not known:
        raise ValueError(f"workload.compute: must be recorded, as {trace.name} has no operators, got 'roofline'")
    untimed = any(work.flops for span in spans if span.seconds == 0 for work in span.work or ())
    if compute == "recorded" and untimed:
        raise ValueError(f"workload.compute: must be roofline, as {trace.name} has no times, got 'recorded'")
    if known and compute != "recorded":
        if gpu.measured is not None:
            rule = "must be roofline for a captured job, which does not keep the shapes of its operators"
            raise ValueError(f"gpu.efficiency: {rule}, got {gpu.efficiency!r}")
        note = f"compute is the roofline of {gpu.name} for the recorded operators, which no GPU is faster than"
        other = "" if untimed else "; workload.compute=recorded for the times of the CPU that ran them"
        return _noted(_on(gpu, trace), note + other)
    if not spans:
        return trace  # whose notes say that compute is unknown
    if trace.source.startswith(RECORDER):
        return _noted(
            trace, "compute is that of the CPU that ran the script, whatever gpu is; record it again for a GPU's"
        )
    return _noted(trace, "compute is that of the device that was recorded, whatever gpu is")


def _noted(trace: Trace, note: str) -> Trace:
    return replace(trace, notes=(*trace.notes, note))


def _on(gpu: Gpu, trace: Trace) -> Trace:
    """The trace as ``gpu`` would run it, without the recorded times, which decide the iteration."""
    ranks = {rank: tuple(_retimed(gpu, events)) for rank, events in trace.ranks.items()}
    return replace(trace, ranks=ranks, chosen=representative(trace).number)


def _retimed(gpu: Gpu, events: Iterable[Event]) -> Iterable[Event]:
    for event in events:
        if isinstance(event, Communication):
            yield replace(event, issue=None, start=None, end=None)
        else:
            seconds = sum(_seconds(gpu, work) for work in event.work or ())
            yield replace(event, start=None, end=None, seconds=seconds)


def _seconds(gpu: Gpu, work: Work) -> float:
    return gpu.seconds(work.flops, work.moved, work.dtype) if work.flops else work.moved / gpu.memory_bandwidth
