"""Chakra's execution traces (``.et``), one file per rank: those converted from PyTorch's, and those of generators.

    schema                     communication that counts       its process group
    1.0.1, 1.1.0, 1.1.1        nodes of the device             pg_name or pg_id, listed by a node of the file, or not
    0.0.4 (ASTRA-sim's own)    every one                       none: all ranks; sends and receives name their peer
    written by topoflow        every one                       pg_name, listed

``comm_size`` is the input of a rank, in bytes. A trace of a real job has nodes of the host, and a replay needs few of
them: only the order of the ids is taken, as from other records without times. Others are graphs: what
a node depends on is what it follows, and compute of the host that only communication waits for is a delay of that.
Source: mlcommons/chakra schema/protobuf/et_def.proto; astra-sim/astra-sim astra-sim/workload/Workload.cc.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from topoflow.capture.base import ComputeSpan
from topoflow.capture.formats.chakra import messages
from topoflow.capture.formats.execution_trace.nodes import GROUPS
from topoflow.capture.iterations import by_repetition, unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.capture.torch_names import dtype_of
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD, Fields, parse_json

# The length of the first message, then its version or the attribute "schema".
HEAD = re.compile(
    rb"(?:[\x04-\x1f]\x0a[\x03-\x1a][0-9.]{3,}|[\x80-\xff]{0,4}[\x00-\x7f]\x12[\x00-\x7f]\x0a\x06schema)", re.DOTALL
)
DEFAULT_GROUP = "0"  # has all ranks
ABSENT = "dependencies are on nodes that the file does not have, and are taken as met"
UNTYPED = "communications say no type: their sizes are in bytes"
HOST = "operations of the host repeat those of the device and are left out"


@dataclass(frozen=True)
class ChakraNode:
    """One node of the graph."""

    place: str
    id: int
    name: str
    type: int
    seconds: float
    awaited: tuple[int, ...]  # ids
    on_host: bool
    message: Any
    attributes: Mapping[str, Any]

    @property
    def communicates(self) -> bool:
        return self.type in (messages.SEND, messages.RECEIVE, messages.COLLECTIVE)


def matches(source: InputFile) -> bool:
    """The first message is a GlobalMetadata."""
    return HEAD.match(source.data) is not None


def parse(source: InputFile) -> list[RankRecord]:
    """Return one record: a file is of a rank, whose number its name ends with.

    Raises ``ValueError`` with file and place.
    """
    metadata, *rest = messages.read(source.name, source.data)
    counts = Counter[str]()
    nodes = [_node(f"{source.name}: node {message.id}", message) for message in rest]
    groups, world_size = _groups(nodes)
    schema = messages.attributes(metadata).get("schema")
    counts[HOST] += sum(node.communicates and node.on_host for node in nodes)
    rank = _rank(source.name)
    of_job = schema is not None and any(node.on_host for node in nodes)
    nodes = sorted(nodes, key=lambda node: node.id) if of_job else _in_order(source.name, nodes, counts)
    operations = [_operation(node, rank, groups, counts) for node in nodes]
    events, iterations = (_ordered if of_job else _graph)(nodes, operations)
    if not any(isinstance(event, RecordedOperation) for event in events):
        raise ValueError(f"{source.name}: nodes must hold a communication (of the device, with comm_size), got none")
    return [
        RankRecord(
            file=source.name,
            rank=rank,
            events=tuple(events),
            source=f"Chakra {str(schema or metadata.version)[:30]}",
            derived=True,
            world_size=world_size,
            iterations=iterations,
            groups={name: ranks for name, ranks in groups.items() if rank in ranks},
            counts=counts,
            notes=unmarked(iterations),
        )
    ]


def _rank(file: str) -> int:
    named = re.search(r"(\d{1,7})(?:\.et)?(?:\.gz)?$", PurePath(file).name)
    if named is None or int(named[1]) > LARGEST_RANK:
        raise ValueError(f"{file}: must be named NAME.RANK.et, as ASTRA-sim reads it, got no rank")
    return int(named[1])


def _node(place: str, message: Any) -> ChakraNode:
    attributes = messages.attributes(message)
    awaited = tuple(dict.fromkeys((*message.ctrl_deps, *message.data_deps)))
    seconds = message.duration_micros / 1e6
    on_host = bool(attributes.get("is_cpu_op", False))
    return ChakraNode(place, message.id, message.name, message.type, seconds, awaited, on_host, message, attributes)


def _in_order(file: str, nodes: Sequence[ChakraNode], counts: Counter[str]) -> list[ChakraNode]:
    """The nodes after all that they depend on, otherwise by their ids, which count up as a job runs."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        twice = next(number for number, count in Counter(node.id for node in nodes).items() if count > 1)
        raise ValueError(f"{file}: node {twice}: id must be given once, got it twice")
    waiting: dict[int, int] = {}
    later: dict[int, list[int]] = {}
    for node in nodes:
        there = [number for number in node.awaited if number in by_id]
        counts[ABSENT] += len(node.awaited) - len(there)
        waiting[node.id] = len(there)
        for number in there:
            later.setdefault(number, []).append(node.id)
    ready = [number for number, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        order.append(by_id[heapq.heappop(ready)])
        for number in later.get(order[-1].id, ()):
            waiting[number] -= 1
            if not waiting[number]:
                heapq.heappush(ready, number)
    if len(order) < len(nodes):
        first = next(number for number, count in waiting.items() if count)
        raise ValueError(f"{file}: node {first}: dependencies must have no circle, got one that it waits for")
    return order


def _groups(nodes: Sequence[ChakraNode]) -> tuple[dict[str, tuple[int, ...]], int | None]:
    """Ranks by the name of their group, and the number of all ranks, as far as nodes of the file list them.

    The list is JSON in a string of Python's: ``['[{"pg_name": "0", "ranks": [], "group_size": 2}]']``.
    """
    groups: dict[str, tuple[int, ...]] = {}
    world_size = None
    for node in nodes:
        text = node.message.inputs.values
        if node.name != GROUPS or not (text.startswith("['") and text.endswith("']")):
            continue
        place = f"{node.place}.inputs"
        listed = parse_json(place, text[2:-2])
        for entry in Fields(f"{place}.", {"groups": listed}).items("groups"):
            group = Fields.of(f"{place}.", entry)
            ranks = group.integers("ranks", highest=LARGEST_RANK)
            if not ranks:
                world_size = group.integer("group_size", 1, LARGEST_WORLD)
                ranks = tuple(range(world_size))
            groups[group.text("pg_name")] = ranks
    return groups, world_size


def _operation(
    node: ChakraNode, rank: int, groups: Mapping[str, tuple[int, ...]], counts: Counter[str]
) -> RecordedOperation | None:
    """Return the communication of the device that a node records; None for all other nodes."""
    if not node.communicates or node.on_host:
        return None
    fields = Fields(f"{node.place}.", node.attributes)
    dtype = _dtype(node)
    counts[UNTYPED] += dtype is None
    size = 0 if _is_barrier(node, fields) else fields.integer("comm_size")
    operation = RecordedOperation(
        place=node.place,
        op="",
        dtype=dtype or "uint8",
        bytes_in=size,
        splits_in=(),
        splits_out=(),
        seconds=node.seconds or None,
    )
    if node.type == messages.COLLECTIVE:
        op = messages.COLLECTIVES[fields.integer("comm_type", highest=len(messages.COLLECTIVES) - 1)]
        return _in_group(replace(operation, op=op, bytes_out=size if op == "all_to_all" else None), fields, groups)
    op, field = ("send", "comm_dst") if node.type == messages.SEND else ("recv", "comm_src")
    peer = fields.integer(field, highest=LARGEST_RANK)
    if peer == rank:
        fields.fail(field, f"must be another rank than {rank}, of the file")
    tag = fields.integer("comm_tag") if fields.has("comm_tag") else 0
    return replace(operation, op=op, bytes_out=size, peer=peer, tag=tag, group=tuple(sorted((rank, peer))))


def _is_barrier(node: ChakraNode, fields: Fields) -> bool:
    return node.type == messages.COLLECTIVE and fields.values.get("comm_type") == messages.COLLECTIVES.index("barrier")


def _dtype(node: ChakraNode) -> str | None:
    written = str(node.attributes.get("dtype") or node.message.inputs.types)
    named = re.search(r"Tensor\(([^()]*)\)", written)
    return dtype_of(named[1]) if named is not None else None


def _in_group(operation: RecordedOperation, fields: Fields, groups: Mapping[str, tuple[int, ...]]) -> RecordedOperation:
    """The operation with its ranks, or with the name of a group whose ranks the file does not list."""
    if fields.has("involved_dim") and not all(fields.items("involved_dim")):
        fields.fail("involved_dim", "must be all dimensions, as the ranks of some follow from a network")
    name = str(fields.values.get("pg_name") or fields.values.get("pg_id") or "")[:80]
    if name in groups:
        return replace(operation, group=groups[name], group_name=name)
    return replace(operation, group_name=name, group_key=name, group_of_all=name in ("", DEFAULT_GROUP))


def _graph(
    nodes: Sequence[ChakraNode], operations: Sequence[RecordedOperation | None]
) -> tuple[list[ComputeSpan | RecordedOperation], int]:
    """Every node that takes time or communicates, after what it depends on."""
    for_compute = {number for node in nodes if not node.communicates for number in node.awaited}
    events: list[ComputeSpan | RecordedOperation] = []
    stands_for: dict[int, tuple[int, ...]] = {}  # id -> positions of events
    delays: dict[int, float] = {}
    for node, operation in zip(nodes, operations, strict=True):
        after = tuple(sorted({at for number in node.awaited for at in stands_for.get(number, ())}))
        is_delay = node.on_host and node.id not in for_compute
        if operation is None and (node.type != messages.COMPUTE or not node.seconds or is_delay):
            stands_for[node.id] = after
            delays[node.id] = node.seconds if is_delay else 0.0
            continue
        stands_for[node.id] = (len(events),)
        delay = max((delays.get(number, 0.0) for number in node.awaited), default=0.0)
        compute = ComputeSpan(node.name[:80], None, None, node.seconds, after=after)
        events.append(compute if operation is None else replace(operation, after=after, delay=delay))
    return events, 1


def _ordered(
    nodes: Sequence[ChakraNode], operations: Sequence[RecordedOperation | None]
) -> tuple[list[ComputeSpan | RecordedOperation], int]:
    """Communication in order, and between it compute: kernels, or operators of the host where no kernel takes time."""
    working = [node for node in nodes if node.type == messages.COMPUTE and node.seconds]
    on_host = all(node.on_host for node in working)
    what = "operator" if on_host else "kernel"
    events: list[ComputeSpan | RecordedOperation] = []
    span: list[ChakraNode] = []
    for node, operation in zip(nodes, operations, strict=True):
        if operation is not None:
            events += [*_span(span, what), operation]
            span = []
        elif node.type == messages.COMPUTE and node.seconds and node.on_host == on_host:
            span.append(node)
    events += _span(span, what)
    keys = [(event.op, event.group_key, event.bytes_in) for event in events if isinstance(event, RecordedOperation)]
    numbers = by_repetition(keys)
    placed = []
    done = 0
    for event in events:  # compute belongs to the communication that follows it, what comes last to the last
        iteration = numbers[min(done, len(numbers) - 1)] if numbers else 0
        placed.append(replace(event, iteration=iteration))
        done += isinstance(event, RecordedOperation)
    return placed, max(numbers, default=0) + 1


def _span(nodes: Sequence[ChakraNode], what: str) -> list[ComputeSpan]:
    if not nodes:
        return []
    name = f"{len(nodes)} {what}{'s' if len(nodes) > 1 else ''}"
    return [ComputeSpan(name, None, None, sum(node.seconds for node in nodes))]
