"""Collectives from the rows of an execution trace, and the process groups that its head lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.execution_trace.nodes import GROUPS, CommsInputs, TraceNode, read_row
from topoflow.capture.merge.groups import strided
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import SYMMETRIC, collective_of, dtype_of, left_out, split_elements
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD, Fields, parse_json
from topoflow.operations import ROOTED
from topoflow.units import DTYPE_BYTES

DEFAULT_GROUPS = ("0", "default_pg")  # name (torch 2.2 and later) or description of the group of all ranks


@dataclass(frozen=True)
class Groups:
    """Process groups of the file: ranks by name, names by pointer ("backend_id" of 1.0.2), size of the whole job."""

    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    world_size: int | None = None


def read_groups(nodes: Sequence[TraceNode]) -> Groups:
    """Read the nodes that list process groups. A group without ranks there has all of them."""
    ranks: dict[str, tuple[int, ...]] = {}
    pointers: dict[int, str] = {}
    world_size: int | None = None
    everyone: tuple[int, ...] = ()
    for node in nodes:
        if node.name != GROUPS or not node.inputs or not isinstance(node.inputs[0], str):
            continue
        listed = parse_json(f"{node.place}.inputs", node.inputs[0])
        if not isinstance(listed, list):
            raise ValueError(f"{node.place}.inputs: must be a list of process groups")
        for entry in listed:
            group = Fields.of(f"{node.place}.inputs.", entry)
            members, name = group.integers("ranks", highest=LARGEST_RANK), group.text("pg_name")
            if not members:
                size = group.integer("group_size", 1, LARGEST_WORLD)
                if size != (world_size or size):
                    group.fail("group_size", f"must be {world_size}, as of the other groups of all ranks")
                world_size, members = size, everyone or tuple(range(size))
                everyone = members
            ranks[name] = members
            if group.has("backend_id"):
                pointers[group.integer("backend_id")] = name
    return Groups(ranks, pointers, world_size)


def read_operation(node: TraceNode, groups: Groups, counts: Counter[str]) -> RecordedOperation | None:
    """The operation of a ``record_param_comms`` node; None for a row that is no collective, which is counted."""
    row = read_row(node)
    fields = Fields(
        f"{node.place}.inputs.",
        {"rank": row.rank, "name": row.name, "splits_in": row.splits_in, "splits_out": row.splits_out},
    )
    name = fields.text("name")
    op = collective_of(name)
    if op is None:
        counts[left_out(name)] += 1
        return None
    dtype, into, out = _sizes(node, row)
    splits: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    if op == "all_to_all" and dtype is not None:
        element = DTYPE_BYTES[dtype]
        splits = (
            split_elements(node.place, fields.integers("splits_in"), into // element),
            split_elements(node.place, fields.integers("splits_out"), out // element),
        )
    if op == "barrier":
        dtype, into, out = "uint8", 0, 0
    group_name = _group_name(node, row, groups)
    group = _ranks(row, group_name, groups)
    at = fields.integer("rank", highest=LARGEST_RANK)
    if group is not None and at >= len(group):
        fields.fail("rank", f"must be within 0..{len(group) - 1}, its group")
    of_other = op in ROOTED or op in POINT_TO_POINT
    return RecordedOperation(
        place=node.place,
        op=op,
        group=group,
        group_name=group_name,
        dtype=dtype,
        bytes_in=into,
        bytes_out=out,
        splits_in=splits[0],
        splits_out=splits[1],
        peer=group[at] if group is not None and op in POINT_TO_POINT else None,
        root=group[at] if group is not None and op in ROOTED else None,
        group_key=group_name or f"pointer {str(row.group)[:40]}",
        group_size=row.size,
        group_rank=None if of_other else at,
        other=at if of_other else None,
        sequence=_sequence(row.sequence) if op not in POINT_TO_POINT else None,
    )


def read_symmetric(node: TraceNode, groups: Groups) -> RecordedOperation:
    """The operation of an operator on symmetric memory: its arguments hold the tensors and the name of the group."""
    signature = SYMMETRIC[node.name]

    def argument(at: int | None) -> Any:
        return None if at is None or at >= len(node.inputs) else node.inputs[at]

    tensors = [argument(signature.input), argument(signature.output)]
    into, out = (_tensor_bytes(node.place, [tensor]) if isinstance(tensor, list) else None for tensor in tensors)
    first = next((at for at in (signature.input, signature.output) if at is not None), 0)
    written = node.input_types[first] if first < len(node.input_types) else ""
    name, place = argument(signature.group), argument(signature.other)
    group = groups.ranks.get(name) if isinstance(name, str) else None
    rooted = group is not None and type(place) is int and 0 <= place < len(group)
    even = () if signature.op == "all_to_all" else None
    return RecordedOperation(
        place=node.place,
        op=signature.op,
        group=group,
        group_name=name[:80] if isinstance(name, str) else "",
        dtype=dtype_of(written.partition("Tensor(")[2].partition(")")[0]),
        bytes_in=into,
        bytes_out=out,
        splits_in=even,
        splits_out=even,
        root=group[place] if group is not None and rooted else None,
        operator=node.name,
    )


def _group_name(node: TraceNode, row: CommsInputs, groups: Groups) -> str:
    """The name of the process group; "" where there is but a pointer that the file does not list."""
    recorded = row.group[0] if isinstance(row.group, list) and row.group else row.group
    for name in (node.attributes.get("pg_name"), recorded):
        if isinstance(name, str) and name:
            return name[:80]
    return groups.pointers.get(recorded, "") if type(recorded) is int else ""


def _ranks(row: CommsInputs, name: str, groups: Groups) -> tuple[int, ...] | None:
    """The ranks of the process group, as the head of the file lists them or the row's start and stride give them."""
    ranks = groups.ranks.get(name)
    if ranks is None and row.size is not None and row.start is not None and row.stride is not None:
        ranks = strided(f"{row.place}.inputs", row.start, row.stride, row.size)
    if ranks is not None and row.size not in (None, len(ranks)):
        raise ValueError(f"{row.place}.inputs: size must be {len(ranks)}, as of its group {name!r}, got {row.size}")
    return ranks


def world_size_of(rows: Sequence[tuple[TraceNode, RecordedOperation]]) -> int | None:
    """The size of the default process group, which has all ranks; None if nothing was sent in it."""
    for node, operation in rows:
        if DEFAULT_GROUPS[1] in _descriptions(node) or operation.group_name == DEFAULT_GROUPS[0]:
            return operation.group_size or (len(operation.group) if operation.group is not None else None)
    return None


def _descriptions(node: TraceNode) -> tuple[Any, ...]:
    named = next((value for value in node.inputs if isinstance(value, list) and len(value) == 2), [None])
    return (node.attributes.get("pg_desc"), named[-1] if isinstance(named[-1], str) else None)


def _sizes(node: TraceNode, row: CommsInputs) -> tuple[str | None, int, int]:
    """Return dtype, input and output bytes: of attributes (schema 1.1), otherwise of the tensors.

    Tensors of an unknown dtype count as bytes, as their sizes are recorded in bytes.
    """
    if "in_msg_nelems" in node.attributes:
        fields = Fields(f"{node.place}.attrs.", node.attributes)
        dtype = dtype_of(fields.text("dtype"))
        if dtype is not None:
            element = DTYPE_BYTES[dtype]
            return dtype, fields.integer("in_msg_nelems") * element, fields.integer("out_msg_nelems") * element
    written = row.tensor_types[0].partition("Tensor(")[2].partition(")")[0] if row.tensor_types else ""
    dtype = dtype_of(written) or ("uint8" if written else None)
    return dtype, _tensor_bytes(node.place, row.tensors), _tensor_bytes(node.place, node.outputs)


def _tensor_bytes(place: str, values: Sequence[Any]) -> int:
    """Bytes of the tensors among ``values``; lists of tensors, and lists of such lists, count together."""
    size = 0
    todo = list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, list) and (not value or isinstance(value[0], list)):
            todo += value
            continue
        numbers = value[3:5] if isinstance(value, list) else []
        if len(numbers) < 2 or not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
            raise ValueError(f"{place}.inputs: a tensor must have elements and their bytes, got {str(value)[:40]!r}")
        size += numbers[0] * numbers[1]
    return size


def _sequence(value: Any) -> int | None:
    """The group's counter: a number, or (number, is point-to-point) since torch 2.5."""
    number = value[0] if isinstance(value, list) and value else value
    return number if type(number) is int else None


def own_rank(file: str, operations: Sequence[RecordedOperation]) -> int | None:
    """The rank that recorded the operations, as its places in groups with known ranks show; None if there are none."""
    ranks: dict[int, str] = {}
    for operation in operations:
        if operation.group is not None and operation.group_rank is not None:
            ranks.setdefault(operation.group[operation.group_rank], operation.place)
    if len(ranks) > 1:
        recorded = " and ".join(f"{rank} at {place}" for rank, place in list(ranks.items())[:2])
        raise ValueError(f"{file}: must be of one rank, got {recorded}")
    return next(iter(ranks), None)
