"""PyTorch execution traces (torch.profiler.ExecutionTraceObserver), schema 1.0.1 and 1.1: sizes and groups, no times.

Every collective of NCCL is a node ``record_param_comms`` whose inputs are, in both schemas,

    tensor(s), sequence number, process group, rank, collective name, input splits, output splits, ...

(1.0.1: ``inputs`` is that list and the group a pointer; 1.1: ``inputs.values``, the group's name, and the sizes as
``attrs`` too). ``rank`` is the rank's place in its group, or the root or peer of operations that have one. A tensor is
``[tensor id, storage id, offset, elements, bytes per element, device]``. Node ids count up in the order of execution.
Source: pytorch/torch/csrc/profiler/standalone/execution_trace_observer.cpp, ParamCommsUtils.hpp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.files import LARGEST_RANK, LARGEST_WORLD, Fields, parse_json
from topoflow.capture.iterations import between_marks, by_repetition
from topoflow.capture.merge.parts import Operation, Part, Source
from topoflow.capture.torch_names import (
    COLLECTIVE_NAMES,
    DTYPES,
    NO_COLLECTIVES,
    PARAM_COMMS,
    STEP,
    split_elements,
)
from topoflow.operations import ROOTED
from topoflow.units import DTYPE_BYTES


@dataclass(frozen=True)
class Node:
    """One node: its id and its inputs, as both schemas have them."""

    place: str
    id: int
    name: str
    inputs: tuple[Any, ...]
    input_types: tuple[str, ...]
    outputs: tuple[Any, ...]
    attributes: Mapping[str, Any]


def matches(source: Source) -> bool:
    """A JSON object with a schema and nodes."""
    return isinstance(source.document, dict) and {"schema", "nodes"} <= source.document.keys()


def parse(source: Source) -> list[Part]:
    """The one part: the operations of a rank, in order."""
    document = Fields.of(f"{source.name}: ", source.document)
    schema = document.text("schema")
    all_nodes = (_node(source.name, index, value) for index, value in enumerate(document.items("nodes")))
    nodes = sorted((node for node in all_nodes if node is not None), key=lambda node: node.id)
    groups, world_size = _groups(nodes)
    counts = Counter[str]()
    found: list[tuple[Node, Operation, int]] = []
    for node in nodes:
        if node.name == PARAM_COMMS:
            operation, place_in_group = _operation(node, groups, counts)
            if operation is not None:
                found.append((node, operation, place_in_group))
    if not found:
        raise ValueError(f"{source.name}: nodes must hold a collective (record_param_comms), got none")
    operations, steps, iterations = _in_iterations(nodes, [(node, operation) for node, operation, _ in found])
    rank, unnamed_size = _rank_and_size(source.name, found)
    operations = [_with_ranks(operation, at) for operation, (_, _, at) in zip(operations, found, strict=True)]
    return [
        Part(
            file=source.name,
            rank=rank,
            events=tuple(operations),
            source=f"PyTorch execution trace {schema[:20]}",
            world_size=world_size if world_size is not None else unnamed_size,
            iterations=iterations,
            steps=steps,
            groups=groups,
            timed=False,
            counts=counts,
        )
    ]


def _node(file: str, index: int, value: Any) -> Node | None:
    """The node, or None for one that does not concern communication."""
    place = f"{file}: nodes[{index}]"
    fields = Fields.of(f"{place}.", value)
    name = fields.text("name")
    if name not in (PARAM_COMMS, "## process_group:init ##") and not name.startswith(STEP):
        return None
    if isinstance(fields.values.get("inputs"), dict):
        into = Fields.of(f"{place}.inputs.", fields.values["inputs"])
        inputs, types = into.items("values"), into.texts("types")
        outputs = Fields.of(f"{place}.outputs.", fields.values.get("outputs")).items("values")
    else:
        inputs, types, outputs = fields.items("inputs"), fields.texts("input_types"), fields.items("outputs")
    attributes = {}
    for entry in fields.items("attrs") if fields.has("attrs") else []:
        attribute = Fields.of(f"{place}.attrs.", entry)
        attributes[attribute.text("name")] = attribute.values.get("value")
    return Node(place, fields.integer("id"), name, tuple(inputs), types, tuple(outputs), attributes)


def _groups(nodes: Sequence[Node]) -> tuple[dict[str, tuple[int, ...]], int | None]:
    """Process groups by name, and the world size, from the node that lists them (schema 1.1). No ranks: all of them."""
    groups: dict[str, tuple[int, ...]] = {}
    world_size: int | None = None
    everyone: tuple[int, ...] = ()
    for node in nodes:
        if node.name != "## process_group:init ##" or not node.inputs or not isinstance(node.inputs[0], str):
            continue
        listed = parse_json(f"{node.place}.inputs", node.inputs[0])
        if not isinstance(listed, list):
            raise ValueError(f"{node.place}.inputs: must be a list of process groups")
        for entry in listed:
            group = Fields.of(f"{node.place}.inputs.", entry)
            ranks = group.integers("ranks", highest=LARGEST_RANK)
            if not ranks:
                size = group.integer("group_size", 1, LARGEST_WORLD)
                if size != (world_size or size):
                    group.fail("group_size", f"must be {world_size}, as of the other groups of all ranks")
                world_size, ranks = size, everyone or tuple(range(size))
                everyone = ranks
            groups[group.text("pg_name")] = ranks
    return groups, world_size


def _operation(node: Node, groups: Mapping[str, tuple[int, ...]], counts: Counter[str]) -> tuple[Operation | None, int]:
    """The operation, with its own rank as the place in its group; None for rows that are no collectives."""
    at = next((index for index, kind in enumerate(node.input_types) if kind == "String"), -1)
    if not 3 <= at < len(node.inputs) - 2:
        raise ValueError(
            f"{node.place}.inputs: must hold the name and splits of a collective, got {len(node.inputs)} items"
        )
    names = ("rank", "name", "splits_in", "splits_out")
    fields = Fields(f"{node.place}.inputs.", dict(zip(names, node.inputs[at - 1 : at + 3], strict=True)))
    name = fields.text("name")
    if name in NO_COLLECTIVES:
        counts[NO_COLLECTIVES[name]] += 1
        return None, 0
    if name not in COLLECTIVE_NAMES:
        fields.fail("name", f"must be one of {', '.join(COLLECTIVE_NAMES)}")
    group_name, group = _group(node, node.inputs[at - 2], groups)
    dtype, into = _tensors(node.place, node.inputs[: at - 3], node.input_types)
    out = _tensors(node.place, node.outputs, ())[1]
    dtype, into, out = _from_attributes(node, dtype, into, out)
    op = COLLECTIVE_NAMES[name]
    splits: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    if op == "all_to_all" and dtype is not None:
        element = DTYPE_BYTES[dtype]
        splits = (
            split_elements(node.place, fields.integers("splits_in"), into // element),
            split_elements(node.place, fields.integers("splits_out"), out // element),
        )
    if op == "barrier":
        dtype, into, out = "uint8", 0, 0
    sequence = _sequence(node.inputs[at - 3]) if op not in POINT_TO_POINT else None
    operation = Operation(node.place, op, group, group_name, dtype, into, out, *splits, sequence=sequence)
    return operation, fields.integer("rank", highest=LARGEST_RANK)


def _group(node: Node, recorded: Any, groups: Mapping[str, tuple[int, ...]]) -> tuple[str, tuple[int, ...] | None]:
    """(name, ranks); schema 1.0.1 has but a pointer, which names no ranks: then the name is that number."""
    name = node.attributes.get("pg_name")
    if not isinstance(name, str):
        name = recorded[0] if isinstance(recorded, list) and recorded and isinstance(recorded[0], str) else None
    if name is None:
        return str(recorded)[:40], None
    if name not in groups:
        raise ValueError(f"{node.place}.pg_name: must be one of the process groups in the file, got {name[:40]!r}")
    return name, groups[name]


def _tensors(place: str, values: Sequence[Any], types: Sequence[str]) -> tuple[str | None, int]:
    """(dtype, bytes) of the tensors among ``values``; lists of tensors count together."""
    size = 0
    for value in values:
        if not isinstance(value, list):
            raise ValueError(f"{place}.inputs: must be tensors, got {str(value)[:40]!r}")
        for tensor in value if value and isinstance(value[0], list) else [value]:
            numbers = tensor[3:5] if isinstance(tensor, list) else []
            if len(numbers) < 2 or not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
                raise ValueError(
                    f"{place}.inputs: a tensor must have elements and their bytes, got {str(tensor)[:40]!r}"
                )
            size += numbers[0] * numbers[1]
    written = types[0].partition("Tensor(")[2].partition(")")[0] if types else ""
    return DTYPES.get(written), size


def _from_attributes(node: Node, dtype: str | None, into: int, out: int) -> tuple[str | None, int, int]:
    """The sizes of schema 1.1's attributes, which hold for lists of tensors too; otherwise those of the tensors."""
    if "in_msg_nelems" not in node.attributes:
        return dtype, into, out
    fields = Fields(f"{node.place}.attrs.", node.attributes)
    written = DTYPES.get(fields.text("dtype"))
    if written is None:
        fields.fail("dtype", f"must be one of {', '.join(DTYPES)}")
    element = DTYPE_BYTES[written]
    return written, fields.integer("in_msg_nelems") * element, fields.integer("out_msg_nelems") * element


def _sequence(value: Any) -> int | None:
    """The group's counter: a number, or (number, is point-to-point) since torch 2.5."""
    number = value[0] if isinstance(value, list) and value else value
    return number if type(number) is int else None


def _rank_and_size(file: str, found: Sequence[tuple[Node, Operation, int]]) -> tuple[int, int | None]:
    """The rank that recorded this, and the number of ranks as far as the splits of an all-to-all show it."""
    unnamed = {operation.group_name for _, operation, _ in found if operation.group is None}
    if len(unnamed) > 1:
        raise ValueError(
            f"{file}: must name the ranks of its process groups, got {len(unnamed)} pointers (schema 1.0.1)"
        )
    ranks: dict[int, str] = {}
    for node, operation, at in found:
        if operation.op in ROOTED or operation.op in POINT_TO_POINT:
            continue
        rank = at if operation.group is None else _member(operation, at)
        ranks.setdefault(rank, node.place)
    if len(ranks) != 1:
        recorded = " and ".join(f"{rank} at {place}" for rank, place in list(ranks.items())[:2])
        raise ValueError(f"{file}: must be of one rank, got {recorded or 'no operation that shows it'}")
    sizes = [len(operation.splits_in) for _, operation, _ in found if operation.group is None and operation.splits_in]
    return next(iter(ranks)), sizes[0] if sizes else None


def _member(operation: Operation, at: int) -> int:
    group = operation.group or ()
    if at >= len(group):
        raise ValueError(f"{operation.place}.inputs.rank: must be within 0..{len(group) - 1}, its group, got {at}")
    return group[at]


def _with_ranks(operation: Operation, at: int) -> Operation:
    """With the root or peer as a rank of the job, and without the pointer that names no group."""
    other = at if operation.group is None else _member(operation, at)
    return replace(
        operation,
        group_name="" if operation.group is None else operation.group_name,
        root=other if operation.op in ROOTED else None,
        peer=other if operation.op in POINT_TO_POINT else None,
    )


def _in_iterations(
    nodes: Sequence[Node], found: Sequence[tuple[Node, Operation]]
) -> tuple[list[Operation], tuple[int, ...], int]:
    """The operations with their iterations; the steps' numbers, if the job marked any; how many iterations."""
    named = [(node.id, node.name.removeprefix(STEP)) for node in nodes if node.name.startswith(STEP)]
    marks = [(at, int(number)) for at, number in named if number.isdecimal() and len(number) < 16]
    if marks:
        first = {number: at for at, number in reversed(marks)}
        steps = tuple(sorted(first, key=lambda number: first[number]))
        numbers = between_marks([node.id for node, _ in found], [first[step] for step in steps])
    else:
        steps = ()
        keys = [(operation.op, operation.group_name, operation.bytes_in, operation.bytes_out) for _, operation in found]
        numbers = by_repetition(keys)
    operations = [replace(operation, iteration=number) for (_, operation), number in zip(found, numbers, strict=True)]
    return operations, steps, len(steps) or max(numbers) + 1
