"""The ``cuda_sync`` rows of a profile: which stream, or the host, waits for an event on which other stream.

    host       launch A | record e1 | let 15 wait for e1 | record e2 | let 7 wait for e2 | launch c1
    stream 20     |-- A --|                                     an all-gather of FSDP2
    stream 15                                                   passes its end on, and runs no kernel itself
    stream 7      |====== c0 ======|== c1 ==|                   c1 waits for A

An event stands for all that its stream did, or waited for, before the host recorded it. ``torch.profiler`` writes these
rows with ``experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)``.
Source: pytorch/kineto libkineto/src/CuptiActivity.cpp; HolisticTraceAnalysis, critical_path_analysis.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from topoflow.capture.formats.kineto.rows import SYNC, KinetoRow, ProfileRows
from topoflow.capture.formats.kineto.spans import BEFORE, DeviceRows

STREAM_WAITS = "Stream Wait Event"
HOST_WAITS = {"Event Sync", "Stream Sync", "Context Sync"}
RECORDED_BY = "wait_on_cuda_event_record_corr_id"  # the correlation of the call that recorded the event
Lane = tuple[Any, Any]  # device, stream
OperationRows = frozenset[int]  # of the host rows of operations


@dataclass
class DeviceStreams:
    """The streams of a device, as far as the host has issued their work; ``kernels`` are those that wait."""

    last: dict[Lane, OperationRows] = field(default_factory=dict)  # the operations of the last kernel of a stream
    awaited: dict[Lane, OperationRows] = field(default_factory=dict)  # the operations that its next kernel waits for
    events: dict[Any, OperationRows] = field(default_factory=dict)  # by the correlation of the call that recorded them
    kernels: list[tuple[KinetoRow, OperationRows, OperationRows]] = field(
        default_factory=list
    )  # its own operations, and those it awaits

    def launch(self, row: KinetoRow, operations: OperationRows) -> None:
        """Let a kernel of ``operations`` (none for compute) follow what its stream waits for."""
        if awaited := self.awaited.pop(row.lane, None):
            self.kernels.append((row, operations, awaited))
        self.last[row.lane] = operations

    def record(self, event: Any, lane: Lane) -> None:
        """Let ``event`` stand for what the stream did and waits for."""
        self.events[event] = self._reached(lane)

    def wait(self, row: KinetoRow, lanes: Sequence[Lane]) -> None:
        """Let the next kernel of a stream, or of all ``lanes`` if the host waits, wait as a ``cuda_sync`` row says."""
        if row.name == "Context Sync":
            operations = frozenset[int]().union(*map(self._reached, lanes))
        elif row.name == "Stream Sync":
            operations = self._reached(row.lane)
        else:
            operations = self.events.get(_number(row, RECORDED_BY), frozenset())
        for lane in [row.lane] if row.name == STREAM_WAITS else lanes:
            self.awaited[lane] = self.awaited.get(lane, frozenset()) | operations

    def _reached(self, lane: Lane) -> OperationRows:
        return self.last.get(lane, frozenset()) | self.awaited.get(lane, frozenset())


def stream_waits(rows: ProfileRows, device: DeviceRows) -> DeviceStreams:
    """Return the streams after all calls of the host, in their order."""
    calls: Mapping[Any, KinetoRow] = rows.calls
    kernels = [(kernel, frozenset[int]()) for kernel in device.compute] + [*device.carried]
    lanes = sorted({kernel.row.lane for kernel, _ in kernels}, key=str)
    streams = DeviceStreams()
    issued: list[tuple[int, int, Callable[[], None]]] = [
        (kernel.launch, kernel.row.start, partial(streams.launch, kernel.row, operations))
        for kernel, operations in kernels
        if kernel.launch != BEFORE
    ]
    for row in rows.host:
        call, event = calls.get(row.correlation), _number(row, RECORDED_BY)
        if row.category != SYNC or call is None:
            continue
        if event in calls:
            lane = row.lane[0], _number(row, "wait_on_stream")
            issued.append((calls[event].start, 0, partial(streams.record, event, lane)))
        if row.name == STREAM_WAITS or row.name in HOST_WAITS:
            at = call.start if row.name == STREAM_WAITS else call.end
            issued.append((at, 0, partial(streams.wait, row, lanes)))
    for _, _, act in sorted(issued, key=lambda action: action[:2]):
        act()
    return streams


def _number(row: KinetoRow, argument: str) -> Any:
    value = row.arguments.get(argument)
    return value if isinstance(value, int | str) else None
