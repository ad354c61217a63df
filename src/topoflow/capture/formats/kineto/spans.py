"""Device rows of a profile: kernels of collectives, kernels that communicated without a host row, and compute as spans.

A kernel belongs to the collective within whose host row it was launched: kernel and launch share a ``correlation``,
launch and host row a thread. ("External id" would do in newer files only; in older ones it is the correlation itself.)
Operations that NCCL coalesced have one kernel, launched within the ``coalesced`` row that follows them.

A kernel that communicates without a host row says itself what it does, as those that a CUDA graph replays, or is
reported by name and time. Nothing that communicates becomes compute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from topoflow.capture.formats.kineto.rows import CAPTURE_BEGINS, CAPTURE_ENDS, Enclosing, KinetoRow, ProfileRows
from topoflow.capture.kernel_names import communicates, copies_to_peer, is_nccl, short_name
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import PARAM_COMMS, SYMMETRIC

NO_LAUNCH = "kernels of operations cannot be told from each other without their launches: their times are unknown"
BEFORE = -(2**62)  # ns: launched before the profile began
Order = tuple[int, int]  # when the host asked for it, then when the device began; ns


@dataclass(frozen=True)
class Span:
    """Kernels that ran between two boundaries; nanoseconds. ``issued``: how many collectives the host issued before."""

    issued: int
    launch: int  # of the first kernel
    start: int
    end: int
    busy: int
    name: str
    communicates: bool = False
    waits: tuple[int, ...] = ()  # rows of operations that its first kernel is known to wait for


class LaunchedRow(NamedTuple):
    """A row of the device and when the host launched it, ns."""

    launch: int
    row: KinetoRow

    @property
    def order(self) -> Order:
        return self.launch, self.row.start


RanPart = tuple[Order, int, int, int]  # of a kernel, up to a boundary of spans: order, begin, end, number of its row


@dataclass(frozen=True)
class DeviceRows:
    """The device rows sorted out: collectives by place of their row, the rest with the moment of its launch."""

    transfers: Mapping[int, tuple[int, int]]  # number of a row -> start of the first kernel, end of the last
    streams: int  # how many streams carried collectives
    compute: Sequence[LaunchedRow]  # by start
    carried: Sequence[tuple[LaunchedRow, frozenset[int]]]  # kernels of operations, with the rows of these
    described: Sequence[tuple[LaunchedRow, RecordedOperation]]  # operations that only their kernel records
    unsized: Sequence[LaunchedRow]  # communicate an unknown number of bytes


def sort_out(
    rows: ProfileRows, issued: Sequence[KinetoRow], described: Callable[[KinetoRow], RecordedOperation | None]
) -> DeviceRows:
    """Tell communication from compute.

    ``issued`` are the host rows of the collectives; ``described`` reads what a kernel without one says of itself.
    """
    transfers: dict[int, tuple[int, int]] = {}
    operations, carried, unsized, compute, streams = [], [], [], [], set()
    claims = _Claims(rows.host, issued)
    for kernel, call in _launched(rows):
        row = kernel.row
        if not _communicates(row):
            compute.append(kernel)
            continue
        claimed = claims.find(call)
        operation = None if claimed else described(row)
        if claimed or operation is not None or is_nccl(row.name):
            streams.add(row.lane)
        for number in claimed or [row.number]:
            start, end = transfers.get(number, (row.start, row.end))
            transfers[number] = min(start, row.start), max(end, row.end)
        carried.append((kernel, frozenset(claimed or [row.number])))
        if operation is not None:
            operations.append((kernel, operation))
        elif not claimed:
            unsized.append(kernel)
    return DeviceRows(transfers, len(streams), compute, carried, operations, unsized)


def without_launches(
    device: DeviceRows, hosted: Sequence[tuple[KinetoRow, RecordedOperation]], counts: Counter[str]
) -> DeviceRows:
    """Return the rows of a profile that does not say which call launched which kernel: it counts operations twice.

    If the kernels of a kind are as many as the host rows of this kind, the k-th is the kernel of the k-th. Else they
    are left out, and the times of these operations are unknown.
    """
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, operation in hosted:
        rows[_kind(operation)].append(row.number)
    kernels: dict[Hashable, list[int]] = defaultdict(list)
    for kernel, operation in device.described:
        kernels[_kind(operation)].append(kernel.row.number)
    known = {kind: numbers for kind, numbers in kernels.items() if kind in rows}
    matched = {
        number: row
        for kind, numbers in known.items()
        if len(numbers) == len(rows[kind])
        for number, row in zip(numbers, rows[kind], strict=True)
    }
    again = {number for numbers in known.values() for number in numbers}
    counts[NO_LAUNCH] += len(again - matched.keys())
    transfers = {number: times for number, times in device.transfers.items() if number not in again}
    return replace(
        device,
        transfers=transfers | {row: device.transfers[number] for number, row in matched.items()},
        carried=[
            (kernel, frozenset(matched.get(number, number) for number in operations))
            for kernel, operations in device.carried
        ],
        described=[pair for pair in device.described if pair[0].row.number not in again],
    )


def _kind(operation: RecordedOperation) -> Hashable:
    return operation.op, operation.group_name, operation.peer, operation.bytes_in, operation.bytes_out


def _communicates(row: KinetoRow) -> bool:
    if row.category != "kernel":
        return copies_to_peer(row.name)
    return row.arguments.get("Collective name") is not None or communicates(row.name)


def _launched(rows: ProfileRows) -> Iterator[tuple[LaunchedRow, KinetoRow | None]]:
    """Yield the rows of the device, by start, each with its launch and the call that launched it.

    A stream works in order: a kernel whose launch the profile has not was launched no earlier than the one before it on
    its stream, and before the profile began if there is none. In a profile without any launch it began when launched.
    """
    calls: Mapping[Any, KinetoRow] = rows.calls
    if not any(row.correlation in calls for row in rows.device):
        yield from ((LaunchedRow(row.start, row), None) for row in rows.device)
        return
    latest: dict[tuple[Any, Any], int] = {}
    for row in rows.device:
        call, lane = calls.get(row.correlation), row.lane
        before = latest.get(lane, BEFORE)
        launch = before if call is None else call.start
        if launch >= before:
            latest[lane] = launch
        yield LaunchedRow(launch, row), call


def into_graphs(rows: Sequence[KinetoRow]) -> Callable[[int], bool]:
    """Return a function that tells whether a call at a moment (ns) was captured into a CUDA graph, to be run later."""
    spans, begun = list[tuple[int, int]](), dict[tuple[Any, Any], int]()
    names = {name for name in {row.name for row in rows} if name.startswith((*CAPTURE_BEGINS, *CAPTURE_ENDS))}
    for row in rows if names else ():
        if row.name in names and row.name.startswith(CAPTURE_BEGINS):
            begun[row.lane] = row.start
        elif row.name in names and row.lane in begun:
            spans.append((begun.pop(row.lane), row.end))
    return lambda at: any(start <= at <= end for start, end in spans) if spans else False


class _Claims:
    """Which operations a launch belongs to."""

    def __init__(self, rows: Sequence[KinetoRow], issued: Sequence[KinetoRow]) -> None:
        operations = {row.number for row in issued}
        self._within = Enclosing(issued)
        wrappers, waiting = [], dict[tuple[Any, Any], list[int]]()
        self._wrapped: dict[int, list[int]] = {}
        for row in rows:
            if row.number in operations and row.name not in SYMMETRIC:
                waiting.setdefault(row.lane, []).append(row.number)
            elif row.name == PARAM_COMMS and row.arguments.get("Collective name") == "coalesced":
                wrappers.append(row)
                self._wrapped[row.number] = waiting.pop(row.lane, [])
        self._wrappers = Enclosing(wrappers)
        self._direct = set[int]()

    def find(self, call: KinetoRow | None) -> list[int]:
        """Return the rows of the operations whose kernel was launched by ``call``."""
        if call is None:
            return []
        outer = self._within.find(call.lane, call.start)
        if outer is not None:
            self._direct.add(outer.number)
            return [outer.number]
        wrapper = self._wrappers.find(call.lane, call.start)
        wrapped = [] if wrapper is None else self._wrapped[wrapper.number]
        return [number for number in wrapped if number not in self._direct]


def compute_spans(
    device: DeviceRows, issues: Sequence[Order], marks: Sequence[int], waiters: Mapping[int, tuple[int, ...]]
) -> list[Span]:
    """Merge compute kernels into spans. ``issues`` and ``marks``: when collectives were issued and iterations began.

    A new span begins when a collective begins (which waits for what ran before), when one ends (some of what follows
    waited for it), with an iteration, and with a kernel that waits for operations: ``waiters``, by the number of its
    row. A kernel that runs on is cut there, so that a span is next to a collective as a whole or not at all. Kernels of
    several streams may overlap: each instant belongs to one span, so that the busy times add up to the time in which
    the device computed. Communication without a size is a span by itself.
    """
    edges = sorted({*chain.from_iterable(device.transfers.values())})
    waited = sorted(kernel.launch for kernel in device.compute if kernel.row.number in waiters)
    merged: dict[tuple[int, ...], list[RanPart]] = defaultdict(list)
    reached = BEFORE
    for launch, row in device.compute:
        start, end = row.start, row.end
        begin = start if start > reached else reached
        if end > begin or end == start:
            step, wait = bisect_right(marks, launch), bisect_right(waited, launch)
            first, last = bisect_right(edges, begin), bisect_left(edges, end)
            for edge in range(first, last):
                merged[step, wait, edge].append(((launch, start), begin, edges[edge], row.number))
                begin = edges[edge]
            merged[step, wait, max(first, last)].append(((launch, start), begin, end, row.number))
        if end > reached:
            reached = end
    spans = [_span(parts, issues, waiters) for parts in merged.values()]
    spans += [
        Span(
            bisect_right(issues, kernel.order),
            kernel.launch,
            kernel.row.start,
            kernel.row.end,
            kernel.row.end - kernel.row.start,
            short_name(kernel.row.name),
            communicates=True,
        )
        for kernel in device.unsized
    ]
    return sorted(spans, key=lambda span: (span.issued, span.start))


def _span(parts: Sequence[RanPart], issues: Sequence[Order], waiters: Mapping[int, tuple[int, ...]]) -> Span:
    orders, begins, ends, numbers = zip(*parts, strict=True)
    first = min(orders)
    return Span(
        issued=bisect_right(issues, first),
        launch=first[0],
        start=begins[0],
        end=max(ends),
        busy=sum(ends) - sum(begins),
        name=f"{len(parts)} kernel{'s' if len(parts) > 1 else ''}",
        waits=tuple(chain.from_iterable(waiters[number] for number in numbers if number in waiters)),
    )
