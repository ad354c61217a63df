"""The ``wait`` rows of a profile: from there on, what the host launches on one stream waits for an operation.

    host      launch A | launch c0 | wait for A | launch c1        ring attention, a prefetch of FSDP, a pipeline's recv
    compute            |====== c0 ======|== c1 ==|
    NCCL       |-- A --|                                           A had ended long before c1 began: only the row says
                                                                   that c1 waits for it, which a slower network shows

A row names its operation by the number in its group, or, in older files, not at all. Then rows and operations of a
group belong together in their order if there are equally many, otherwise a row to the operation issued last. It does
not name the stream. A stream on which the first kernel launched after the row began before the operation ended does not
wait for it. In a profile with ``cuda_sync`` rows these say all of it, and name the streams (``kineto.events``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from topoflow.capture.formats.kineto.events import STREAM_WAITS, stream_waits
from topoflow.capture.formats.kineto.rows import SYNC, KinetoRow, ProfileRows
from topoflow.capture.formats.kineto.spans import DeviceRows, LaunchedRow
from topoflow.capture.torch_names import PARAM_COMMS

TIME_TOLERANCE_NS = 1_000  # ns: times are whole microseconds in some files


@dataclass(frozen=True)
class Wait:
    """The host waited at ``at`` (ns) for the operations of these rows."""

    at: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Waiters:
    """The kernels and the operations that waited: number of their row -> rows of the operations they waited for."""

    kernels: dict[int, tuple[int, ...]] = field(default_factory=dict)
    operations: dict[int, tuple[int, ...]] = field(default_factory=dict)


def waiters(rows: ProfileRows, operations: Sequence[KinetoRow], device: DeviceRows) -> Waiters:
    """Return what waited for ``operations``, which are among ``rows``, all in the order of their start."""
    if any(row.category == SYNC and row.name == STREAM_WAITS for row in rows.host):
        return _of_streams(rows, device)
    waits = Waiters()
    lanes: dict[Any, list[LaunchedRow]] = defaultdict(list)
    for kernel in sorted(device.compute, key=lambda kernel: kernel.order):
        lanes[kernel.row.lane].append(kernel)
    launches = {lane: [kernel.launch for kernel in kernels] for lane, kernels in lanes.items()}
    issues = [row.start for row in operations]
    for wait in _waits(rows.host, {row.number for row in operations}):
        ends = [device.transfers[number][1] for number in wait.rows if number in device.transfers]
        if not ends:
            continue
        end = max(ends) - TIME_TOLERANCE_NS
        next_ones = [(lanes[lane], bisect_left(times, wait.at)) for lane, times in launches.items()]
        first = [kernels[at] for kernels, at in next_ones if at < len(kernels) and kernels[at].row.start >= end]
        waiting = min(first, key=lambda kernel: kernel.order, default=None)
        if waiting is not None:
            number = waiting.row.number
            waits.kernels[number] = (*waits.kernels.get(number, ()), *wait.rows)
        at = bisect_left(issues, wait.at)
        if at < len(operations) and (waiting is None or issues[at] < waiting.launch):
            number = operations[at].number
            if number in device.transfers and device.transfers[number][0] >= end:
                waits.operations[number] = (*waits.operations.get(number, ()), *wait.rows)
    return waits


def _of_streams(rows: ProfileRows, device: DeviceRows) -> Waiters:
    waits = Waiters()
    for kernel, operations, awaited in stream_waits(rows, device).kernels:
        ended = sorted(
            number for number in awaited - operations if device.transfers[number][1] - TIME_TOLERANCE_NS <= kernel.start
        )
        numbers, waiting = (operations, waits.operations) if operations else ({kernel.number}, waits.kernels)
        waiting.update({number: tuple(ended) for number in numbers})
    return waits


def _waits(rows: Sequence[KinetoRow], operations: set[int]) -> list[Wait]:
    """Return the waits of all groups. Operations that were coalesced are waited for together."""
    units: dict[Any, list[list[KinetoRow]]] = defaultdict(list)
    latest: dict[Any, list[list[KinetoRow]]] = {}  # since the last coalesced or wait row of a group and a thread
    calls: dict[Any, list[KinetoRow]] = defaultdict(list)
    for row in rows:
        if row.name != PARAM_COMMS:
            continue
        name, group = row.arguments.get("Collective name"), _hashable(row.arguments.get("Process Group Name"))
        if row.number in operations:
            units[group].append([row])
            latest.setdefault((group, row.lane), []).append(units[group][-1])
        elif name == "coalesced":
            for unit in (together := latest.pop((group, row.lane), []))[1:]:
                together[0].extend(unit)
                unit.clear()
        elif name == "wait":
            latest.pop((group, row.lane), None)
            calls[group].append(row)
    return [wait for group, waits in calls.items() for wait in _matched(waits, [unit for unit in units[group] if unit])]


def _matched(calls: Sequence[KinetoRow], units: Sequence[Sequence[KinetoRow]]) -> list[Wait]:
    """Return the waits of one group, whose operations are ``units``, both in the order of issue."""
    starts = [unit[0].start for unit in units]
    numbered: dict[Any, list[Sequence[KinetoRow]]] = defaultdict(list)
    for unit in units:
        for row in unit:
            numbered[_hashable(row.arguments.get("Seq"))].append(unit)
    waits = []
    for index, call in enumerate(calls):
        if call.arguments.get("Seq") is not None:
            before = [unit for unit in numbered[_hashable(call.arguments["Seq"])] if unit[0].start < call.start]
            unit = before[-1] if before else []
        elif len(calls) == len(units):
            unit = units[index]
        else:
            issued = bisect_left(starts, call.start)
            unit = units[issued - 1] if issued else []
        if unit and unit[0].start < call.start:
            waits.append(Wait(call.start, tuple(row.number for row in unit)))
    return waits


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | str) else None
