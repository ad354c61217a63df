"""PyTorch execution traces (torch.profiler.ExecutionTraceObserver), schemas 1.0.1 to 1.1.1: sizes, groups, no times.

Every collective of NCCL is a node ``record_param_comms`` (``nodes``); node ids count up in the order of execution. A
trace that Chakra's linker has joined with a profile (ET+) has times as well (``durations``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from topoflow.capture.base import ComputeSpan
from topoflow.capture.formats.execution_trace.durations import with_times
from topoflow.capture.formats.execution_trace.nodes import TraceNode, read_node
from topoflow.capture.formats.execution_trace.operations import (
    Groups,
    own_rank,
    read_groups,
    read_operation,
    read_symmetric,
    world_size_of,
)
from topoflow.capture.iterations import between_marks, by_repetition, unmarked
from topoflow.capture.merge.groups import shown_size
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.capture.torch_names import PARAM_COMMS, STEP, SYMMETRIC
from topoflow.fields import LARGEST_RANK, Fields


def matches(source: InputFile) -> bool:
    """A JSON object with a schema and nodes."""
    return isinstance(source.document, dict) and {"schema", "nodes"} <= source.document.keys()


def parse(source: InputFile) -> list[RankRecord]:
    """The one part: the operations of a rank, in order, with compute between them where the nodes have durations."""
    document = Fields.of(f"{source.name}: ", source.document)
    schema = document.text("schema")
    read = (read_node(source.name, index, value) for index, value in enumerate(document.items("nodes")))
    nodes = sorted((node for node in read if node is not None), key=lambda node: node.id)
    groups = read_groups(nodes)
    counts = Counter[str]()
    described = ((node, _operation(node, groups, counts)) for node in nodes if not node.device)
    rows = [(node, operation) for node, operation in described if operation is not None]
    if not rows:
        raise ValueError(
            f"{source.name}: nodes must hold a collective (record_param_comms), got none: PyTorch writes these for "
            "NCCL, not for gloo, whose jobs topoflow.capture run records"
        )
    events, steps, iterations = _in_iterations(nodes, rows)
    rank, rank_within = _rank(source.name, [operation for _, operation in rows])
    timed = any(node.busy is not None for node in nodes)
    return [
        RankRecord(
            file=source.name,
            rank=rank,
            events=tuple(events),
            source=f"PyTorch execution trace {schema[:20]}{' with durations' if timed else ''}",
            world_size=groups.world_size or world_size_of(rows),
            iterations=iterations,
            steps=steps,
            groups=groups.ranks,
            rank_within=rank_within,
            timed=timed,
            counts=counts,
            notes=() if steps else unmarked(iterations),
        )
    ]


def _operation(node: TraceNode, groups: Groups, counts: Counter[str]) -> RecordedOperation | None:
    if node.name in SYMMETRIC:
        return read_symmetric(node, groups)
    return read_operation(node, groups, counts) if node.name == PARAM_COMMS else None


def _rank(file: str, operations: Sequence[RecordedOperation]) -> tuple[int, int | None]:
    """Return the rank that recorded a file, and the size of the group it was read from if that must be the whole job.

    Rows name places in groups. Where no group's ranks are known, the rank is the number in the file's name
    ("rank3.json"), or else the place in the largest group.
    """
    rank = own_rank(file, operations)
    named = re.search(r"rank[-_.]?(\d{1,7})(?!\d)", PurePath(file).name, re.IGNORECASE)
    if rank is None and named is not None and int(named[1]) <= LARGEST_RANK:
        rank = int(named[1])
    if rank is not None:
        return rank, None
    places: dict[tuple[str, int | None], set[int]] = {}
    for operation in operations:
        if operation.group_rank is not None:
            key = (
                operation.group_key,
                shown_size([other for other in operations if other.group_key == operation.group_key]),
            )
            places.setdefault(key, set()).add(operation.group_rank)
    if not places:
        raise ValueError(f"{file}: must be of one rank, got no operation that shows it; name the file rank<N>.json")
    (_, size), group_places = max(places.items(), key=lambda item: item[0][1] or 0)
    if len(group_places) > 1:
        raise ValueError(f"{file}: must be of one rank, got places {sorted(group_places)[:4]} in one process group")
    return group_places.pop(), size or 0


def _in_iterations(
    nodes: Sequence[TraceNode], rows: Sequence[tuple[TraceNode, RecordedOperation]]
) -> tuple[list[ComputeSpan | RecordedOperation], tuple[int, ...], int]:
    """The events with their iterations; the steps' numbers, if the job marked any; how many iterations."""
    events = with_times(nodes, rows)
    ids = [at for at, _ in events]
    named = [
        (node.id, node.name.removeprefix(STEP)) for node in nodes if node.name.startswith(STEP) and not node.device
    ]
    marks = [(at, int(number)) for at, number in named if number.isdecimal() and len(number) < 16]
    if marks:
        first = {number: at for at, number in reversed(marks)}
        steps = tuple(sorted(first, key=lambda number: first[number]))
        numbers = between_marks(ids, [first[step] for step in steps])
    else:
        steps = ()
        keys = [(operation.op, operation.group_key, operation.bytes_in, operation.bytes_out) for _, operation in rows]
        repeated = by_repetition(keys)
        # compute belongs to the communication that follows it, what comes last to the last
        later = between_marks(ids, [node.id + 1 for node, _ in rows])
        numbers = [repeated[min(index + 1, len(rows) - 1)] for index in later]
    placed = [replace(event, iteration=number) for (_, event), number in zip(events, numbers, strict=True)]
    return placed, steps, len(steps) or max(numbers) + 1
