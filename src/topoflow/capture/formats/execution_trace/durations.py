"""Times of an execution trace that was linked to a profile (ET+ of mlcommons/chakra, ``chakra_trace_link``).

The linker adds ``ts``, ``inclusive_dur`` and ``exclusive_dur`` (microseconds) to the nodes of host operators, and a
node for every kernel, right after the operator that launched it. Compute is what ran on the device between two
communications, or, where nothing did, the host operators' own time. A kernel that communicates but is no recorded
operation's is reported as communication without a size.
Source: mlcommons/chakra src/trace_link/trace_linker.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoflow.capture.base import ComputeSpan
from topoflow.capture.formats.execution_trace.nodes import TraceNode
from topoflow.capture.intervals import merge, total
from topoflow.capture.kernel_names import communicates, copies_to_peer, is_nccl, short_name
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import PARAM_COMMS, SYMMETRIC

NO_COMPUTE = (PARAM_COMMS, "c10d::", "_c10d_functional::", "nccl:", "gloo:", "[pytorch|", "## ")


def with_times(
    nodes: Sequence[TraceNode], rows: Sequence[tuple[TraceNode, RecordedOperation]]
) -> list[tuple[int, ComputeSpan | RecordedOperation]]:
    """(node id, event) by id: the operations with their times, and compute between them, as far as ``nodes`` are timed.

    ``nodes`` are sorted by id. The operations' kernels, in order, are all that communicate, or NCCL's among them,
    whichever are as many as the operations; if neither are, the times of transfers stay unknown. Then operators on
    symmetric memory, whose kernels are not NCCL's, are what these kernels show: not sized.
    """
    communicating = [node for node in nodes if node.device and node.busy is not None and _communicates(node)]
    nccl = [node for node in communicating if is_nccl(node.name)]
    if len(communicating) not in (0, len(rows)):
        rows = [(node, operation) for node, operation in rows if not operation.operator]
    kernels = next((candidates for candidates in (communicating, nccl) if len(candidates) == len(rows)), [])
    claimed = {kernel.id for kernel in kernels}
    unsized = [node for node in communicating if node.id not in claimed and not is_nccl(node.name)]
    origin = min((node.start for node in nodes if node.start is not None), default=0)
    transfers = [_interval(kernel) for kernel in kernels] or [None] * len(rows)
    timed: list[tuple[int, ComputeSpan | RecordedOperation]] = []
    for (node, operation), transfer in zip(rows, transfers, strict=True):
        start, end = transfer or (None, None)
        issue = _seconds(node.start, origin)
        event = replace(operation, issue=issue, start=_seconds(start, origin), end=_seconds(end, origin))
        timed.append((node.id, event))
    ends = sorted(end for _, end in filter(None, transfers))
    timed += [(node.id, _unsized(node, origin)) for node in unsized]
    return sorted([*timed, *_computes(nodes, [node.id for node, _ in rows], ends, origin)], key=lambda item: item[0])


def _unsized(kernel: TraceNode, origin: int) -> ComputeSpan:
    start, end = _interval(kernel) or (None, None)
    seconds = (kernel.busy or 0) / 1e9
    return ComputeSpan(
        short_name(kernel.name), _seconds(start, origin), _seconds(end, origin), seconds, communicates=True
    )


def _computes(
    nodes: Sequence[TraceNode], issued: Sequence[int], ends: Sequence[int], origin: int
) -> list[tuple[int, ComputeSpan]]:
    """Compute spans, each between two communications in the order of issue, and between two ends of transfers."""
    working = [node for node in nodes if node.busy is not None and not _communicates(node)]
    on_device = any(node.device for node in working)
    spans: dict[tuple[int, int], list[TraceNode]] = {}
    for node in working:
        if node.device == on_device:
            started = bisect_right(ends, node.start) if node.start is not None else 0
            spans.setdefault((bisect_left(issued, node.id), started), []).append(node)
    return [(span[0].id, _compute(span, origin)) for span in spans.values() if any(node.busy for node in span)]


def _communicates(node: TraceNode) -> bool:
    if node.device:
        return communicates(node.name) or copies_to_peer(node.name)
    return node.name.startswith(NO_COMPUTE) or node.name in SYMMETRIC


def _compute(span: Sequence[TraceNode], origin: int) -> ComputeSpan:
    name = f"{len(span)} {'kernel' if span[0].device else 'operator'}{'s' if len(span) > 1 else ''}"
    intervals = sorted(filter(None, map(_interval, span)))
    if len(intervals) < len(span) or not span[0].device:  # the own times of nested operators do not overlap
        seconds = sum(node.busy or 0 for node in span) / 1e9
    else:
        seconds = total(merge(np.array(intervals, np.float64) - intervals[0][0])) / 1e9
    if len(intervals) < len(span):
        return ComputeSpan(name, None, None, seconds)
    start, end = intervals[0][0], max(end for _, end in intervals)
    return ComputeSpan(name, _seconds(start, origin), _seconds(end, origin), seconds)


def _interval(node: TraceNode) -> tuple[int, int] | None:
    return None if node.start is None or node.busy is None else (node.start, node.start + node.busy)


def _seconds(at: int | None, origin: int) -> float | None:
    return None if at is None else (at - origin) / 1e9
