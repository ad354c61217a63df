"""The nodes of an execution trace that an importer needs, read alike from all schemas.

    1.0.1          node["inputs"], node["input_types"], node["outputs"]
    1.0.2 to 1.1   node["inputs"]["values"], ["inputs"]["types"], ["outputs"]["values"], node["attrs"]

The inputs of ``record_param_comms`` are, with what PyTorch added over time in brackets,

    [tensors,] sequence, group, rank, collective name, input splits, output splits [, start, stride] [, size] [, async]

    group   pointer (an integer; the head of a 1.0.2 file lists it as "backend_id"), name, or [name, description]
    rank    the rank's place in the group; of rooted operations the root's, of send and recv the peer's
    start, stride, size   ranks start, start + stride, ... of the job; stride is 0 for one rank, -1 for irregular groups

A tensor is ``[tensor id, storage id, offset, elements, bytes per element, device]``.
Source: pytorch/torch/csrc/profiler/standalone/execution_trace_observer.cpp; ParamCommsUtils.hpp of torch 1.13 to 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topoflow.capture.torch_names import PARAM_COMMS, STEP, SYMMETRIC
from topoflow.fields import LARGEST_WORLD, Fields

GROUPS = "## process_group:init ##"  # lists the process groups, since schema 1.0.2


@dataclass(frozen=True)
class TraceNode:
    """One node: its id, its inputs and, in traces that were linked to a profile (ET+), its times."""

    place: str
    id: int
    name: str
    inputs: tuple[Any, ...]
    input_types: tuple[str, ...]
    outputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    device: bool = False  # a kernel or copy of ET+
    start: int | None = None  # ns
    busy: int | None = None  # ns, without what it called


@dataclass(frozen=True)
class CommsInputs:
    """The inputs of ``record_param_comms`` by name; None: the schema does not have it."""

    place: str
    name: str
    tensors: Sequence[Any]
    tensor_types: Sequence[str]
    sequence: Any
    group: Any
    rank: Any
    splits_in: Any
    splits_out: Any
    start: int | None
    stride: int | None
    size: int | None


def read_node(file: str, index: int, value: Any) -> TraceNode | None:
    """The node, or None for one that is no communication, no step and has no time."""
    place = f"{file}: nodes[{index}]"
    fields = Fields.of(f"{place}.", value)
    name = fields.text("name")
    device = fields.has("stream") and fields.has("cat")
    start, busy = _nanoseconds(fields, "ts"), _nanoseconds(fields, "exclusive_dur")
    if device and busy is None:
        busy = _nanoseconds(fields, "dur")  # as profiles and older linkers name it
    described = (name in (PARAM_COMMS, GROUPS) or name in SYMMETRIC) and not device
    if not described and not name.startswith(STEP):
        return (
            None if busy is None else TraceNode(place, fields.integer("id"), name, (), (), (), {}, device, start, busy)
        )
    inputs, types, outputs = _values(place, fields)
    attributes = {}
    for entry in fields.items("attrs") if fields.has("attrs") else []:
        attribute = Fields.of(f"{place}.attrs.", entry)
        attributes[attribute.text("name")] = attribute.values.get("value")
    number = fields.integer("id")
    return TraceNode(place, number, name, tuple(inputs), types, tuple(outputs), attributes, device, start, busy)


def _values(place: str, fields: Fields) -> tuple[Sequence[Any], tuple[str, ...], Sequence[Any]]:
    if not isinstance(fields.values.get("inputs"), dict):
        return fields.items("inputs"), fields.texts("input_types"), fields.items("outputs")
    into = Fields.of(f"{place}.inputs.", fields.values["inputs"])
    out = Fields.of(f"{place}.outputs.", fields.values.get("outputs"))
    return into.items("values"), into.texts("types"), out.items("values")


def _nanoseconds(fields: Fields, field: str) -> int | None:
    """A key that Chakra's linker adds to the trace (ET+), in microseconds there; None where the trace has none."""
    if not fields.has(field):
        return None
    value = fields.number(field)
    if value < 0:
        fields.fail(field, "must not be negative")
    return round(value * 1000)


def read_row(node: TraceNode) -> CommsInputs:
    """Return the inputs by name. The collective's name is the last string: a process group's name precedes it."""
    at = max((index for index, kind in enumerate(node.input_types) if kind == "String"), default=-1)
    if not 3 <= at < len(node.inputs) - 2 or len(node.inputs) != len(node.input_types):
        requirement = "must hold the name and splits of a collective, each with its type"
        raise ValueError(f"{node.place}.inputs: {requirement}, got {len(node.inputs)} items")
    kinds = zip(node.inputs[at + 3 :], node.input_types[at + 3 :], strict=True)
    layout = [value for value, kind in kinds if kind == "Int"]
    if len(layout) not in (0, 1, 3) or not all(type(number) is int for number in layout):
        requirement = "must end with a group's size, or its start, stride and size"
        raise ValueError(f"{node.place}.inputs: {requirement}, got {str(layout)[:40]}")
    start, stride, size = (None, None, *layout) if len(layout) == 1 else layout or (None, None, None)
    if size is not None and not 1 <= size <= LARGEST_WORLD:
        raise ValueError(f"{node.place}.inputs: a group must have 1..{LARGEST_WORLD} ranks, got {size}")
    return CommsInputs(
        place=node.place,
        name=node.inputs[at],
        tensors=node.inputs[: at - 3],
        tensor_types=node.input_types[: at - 3],
        sequence=node.inputs[at - 3],
        group=node.inputs[at - 2],
        rank=node.inputs[at - 1],
        splits_in=node.inputs[at + 1],
        splits_out=node.inputs[at + 2],
        start=start,
        stride=stride,
        size=size,
    )
