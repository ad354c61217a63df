"""Captured: a recorded job, with its recorded communication, and compute times that were measured or computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from topoflow.capture.base import Communication, ComputeSpan, Event, OperatorWork, Trace
from topoflow.capture.load import load
from topoflow.capture.periods import representative
from topoflow.capture.rescale import rescaled
from topoflow.units import check_among, check_not_negative, check_positive
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

COMPUTE = ("auto", "recorded", "roofline")
RECORDER = "recorder"  # prefix of the source of traces from topoflow's own recorder, which runs on CPUs


@dataclass(frozen=True)
class Captured:
    """A recorded job. ``trace`` is a file or folder of any format that ``topoflow capture import`` reads.

    ``compute`` is the source of compute times. ``recorded``: the times on the recorded device; only the exchange
    bandwidth of ``gpu`` is used, where ranks share a server. ``roofline``: the least times of the recorded operators
    on ``gpu``, without the host's launch times. ``auto``: the roofline where operators were recorded, as topoflow's
    recorder does on CPUs; otherwise the recorded times. ``eager`` (B): in traces without times (MPI), a longer message
    between two ranks is sent only when its receive is posted. ``ranks`` is the size of the job, if not that of the
    trace: its data parallelism grows or shrinks (``capture.rescale``).
    """

    trace: str
    gpu: Gpu
    compute: Literal["auto", "recorded", "roofline"] = "auto"
    eager: float | None = None
    ranks: int | None = None

    def __post_init__(self) -> None:
        if self.eager is not None:
            check_not_negative("workload.eager", self.eager)
        if self.ranks is not None:
            check_positive("workload.ranks", self.ranks)
        check_among("workload.compute", self.compute, COMPUTE)

    def build(self) -> RecordedJob:
        trace = load([Path(self.trace)])
        if self.ranks is not None:
            trace = rescaled(trace, self.ranks)
        return RecordedJob(_timed(trace, self.gpu, self.compute), self.gpu, self.eager)


def _timed(trace: Trace, gpu: Gpu, compute: str) -> Trace:
    """Return the trace with the requested compute times, and a note that names their source."""
    computes = (event for events in trace.ranks.values() for event in events if isinstance(event, ComputeSpan))
    spans = [event for event in computes if not event.communicates]
    known = bool(spans) and all(span.work is not None for span in spans)
    if compute == "roofline" and not known:
        raise ValueError(f"workload.compute: must be recorded, as {trace.name} has no operators, got 'roofline'")
    untimed = any(work.flops for span in spans if span.seconds == 0 for work in span.work or ())
    if compute == "recorded" and untimed:
        raise ValueError(f"workload.compute: must be roofline, as {trace.name} has no times, got 'recorded'")
    if known and compute != "recorded":
        note = f"compute is the roofline of {gpu.name} for the recorded operators, which no GPU is faster than"
        if gpu.measured is not None:
            if not any(work.kernel for span in spans for work in span.work or ()):
                rule = f"must be roofline, as {trace.name} was recorded without the sizes of its kernels"
                raise ValueError(f"gpu.efficiency: {rule}, got {gpu.efficiency!r}")
            note = f"compute is that of {gpu.name} at measured rates of its kernels, without launches by the host"
        hint = "" if untimed else "; workload.compute=recorded for the times of the CPU that ran them"
        return _noted(_on(gpu, trace), note + hint)
    if not spans:
        return trace  # its notes say that compute is unknown
    if trace.source.startswith(RECORDER):
        return _noted(
            trace, "compute is that of the CPU that ran the script, whatever gpu is; record it again for a GPU's"
        )
    return _noted(trace, "compute is that of the device that was recorded, whatever gpu is")


def _noted(trace: Trace, note: str) -> Trace:
    return replace(trace, notes=(*trace.notes, note))


def _on(gpu: Gpu, trace: Trace) -> Trace:
    """Return the trace with the times of ``gpu``; the recorded times only choose the iteration."""
    ranks = {rank: tuple(_retimed(gpu, events)) for rank, events in trace.ranks.items()}
    return replace(trace, ranks=ranks, chosen=representative(trace).number)


def _retimed(gpu: Gpu, events: Iterable[Event]) -> Iterable[Event]:
    for event in events:
        if isinstance(event, Communication):
            yield replace(event, issue=None, start=None, end=None)
        else:
            seconds = sum(_seconds(gpu, work) for work in event.work or ())
            yield replace(event, start=None, end=None, seconds=seconds)


def _seconds(gpu: Gpu, work: OperatorWork) -> float:
    """Return the time of operators on a GPU: at the measured share of the peak rate, where there is one."""
    moving = gpu.seconds(0.0, work.moved, next(iter(gpu.flops)))
    if not work.flops:
        return moving
    peak = gpu.seconds(work.flops, 0.0, work.dtype)
    if gpu.measured is not None and work.kernel:
        kernel = work.kernel.removesuffix("_backward")
        peak /= gpu.measured.reached(kernel, work.dtype, *work.shape)
        if kernel != work.kernel:
            peak /= gpu.measured.backward[kernel]
    return max(peak, moving)
