"""What ran on the device: which kernels carried which collective, and the others merged into compute spans.

A kernel belongs to the collective within whose host row it was launched: kernel and launch share a ``correlation``,
launch and host row a thread. ("External id" would do in newer files only; in older ones it is the correlation itself.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.capture.formats.kineto.rows import DEVICE, LAUNCH, Enclosing, Row

UNCLAIMED = "communication kernels belong to no recorded operation"


@dataclass(frozen=True)
class Span:
    """Kernels that ran between two boundaries; nanoseconds. ``issued``: how many collectives the host issued before."""

    issued: int
    launch: int  # of the first kernel
    start: int
    end: int
    busy: int
    kernels: int


@dataclass(frozen=True)
class Device:
    """The device rows sorted out: collectives by place of their host row, compute with the moment of its launch."""

    transfers: Mapping[str, tuple[int, int]]  # host row's place -> start of the first kernel, end of the last
    streams: int  # how many streams carried collectives
    compute: Sequence[tuple[int, Row]]  # (launch, row), by launch


def sort_out(rows: Sequence[Row], issued: Sequence[Row], counts: Counter[str]) -> Device:
    """Tell communication from compute. ``issued`` are the host rows of the collectives."""
    launches = {row.correlation: row for row in rows if row.category in LAUNCH and row.correlation is not None}
    within = Enclosing(issued)
    transfers: dict[str, tuple[int, int]] = {}
    streams = set()
    compute = []
    for row in rows:
        if row.category not in DEVICE:
            continue
        launch = launches.get(row.correlation)
        if "nccl" not in row.name.lower() and not row.args.has("Collective name"):
            compute.append((launch.start if launch else row.start, row))
            continue
        streams.add(row.lane)
        outer = within.find(launch.lane, launch.start) if launch else None
        if outer is None:
            counts[UNCLAIMED] += 1
            continue
        start, end = transfers.get(outer.place, (row.start, row.end))
        transfers[outer.place] = min(start, row.start), max(end, row.end)
    return Device(transfers, len(streams), sorted(compute, key=lambda item: item[0]))


def compute_spans(device: Device, issues: Sequence[int], marks: Sequence[int]) -> list[Span]:
    """Compute kernels merged into spans, by launch. ``issues`` and ``marks``: when collectives and iterations began.

    A new span begins when the host issues a collective (which waits for what was launched before), when a collective
    ends (some of what follows waited for it), and with an iteration. Kernels may overlap; ``busy`` counts time once.
    """
    ends = sorted(end for _, end in device.transfers.values())
    merged: dict[tuple[int, int, int], list[tuple[int, Row]]] = {}
    for launch, row in device.compute:
        key = bisect_right(marks, launch), bisect_right(issues, launch), bisect_right(ends, row.start)
        merged.setdefault(key, []).append((launch, row))
    spans = [
        Span(
            issued=key[1],
            launch=kernels[0][0],
            start=min(row.start for _, row in kernels),
            end=max(row.end for _, row in kernels),
            busy=union([(row.start, row.end) for _, row in kernels]),
            kernels=len(kernels),
        )
        for key, kernels in merged.items()
    ]
    return sorted(spans, key=lambda span: (span.issued, span.start))


def union(intervals: Sequence[tuple[int, int]]) -> int:
    """The time that at least one interval covers: union([(0, 2), (1, 3), (5, 6)]) == 4."""
    covered, reached = 0, None
    for start, end in sorted(intervals):
        begin = start if reached is None else max(start, reached)
        covered += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return covered
