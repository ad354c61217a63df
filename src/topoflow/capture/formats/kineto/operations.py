"""Collectives from the host rows of a Kineto profile, of all three generations (see ``formats.kineto``)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.kineto.annotations import BACKENDS, annotated
from topoflow.capture.formats.kineto.groups import read_group
from topoflow.capture.formats.kineto.rows import Enclosing, KinetoRow, tensor_dtype, tensor_elements, tensor_list
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import (
    PARAM_COMMS,
    SIGNATURES,
    Signature,
    collective_of,
    dtype_of,
    left_out,
    split_elements,
)
from topoflow.fields import LARGEST_INTEGER, LARGEST_RANK, Fields, parse_json
from topoflow.operations import ROOTED
from topoflow.units import DTYPE_BYTES

Groups = Mapping[str, tuple[int, ...]]
GLOO = "gloo:"  # begins the annotations of gloo's threads


NO_METADATA = "rows carry no metadata (another backend than NCCL) and are left out"


def has_metadata(rows: Sequence[KinetoRow]) -> bool:
    """Return whether the operators name their collective (torch 2.3 and later with NCCL)."""
    return any(row.name == PARAM_COMMS and row.arguments.get("Collective name") is not None for row in rows)


def from_metadata(
    rows: Sequence[KinetoRow], groups: Groups, counts: Counter[str], damaged: list[tuple[KinetoRow, ValueError]]
) -> list[tuple[KinetoRow, RecordedOperation]]:
    """Return an operation for every ``record_param_comms`` row that is a collective, in the order of issue.

    Rows that do not say enough are added to ``damaged``, with the reason.
    """
    operations = []
    described = Enclosing([row for row in rows if row.category == "cpu_op" and row.name in SIGNATURES])
    empty = {row.number: row.name for row in rows if row.category == "cpu_op" and row.name in SIGNATURES}
    for row in rows:
        if row.name != PARAM_COMMS:
            continue
        outer = described.find(row.lane, row.start)
        if outer is not None:
            empty.pop(outer.number, None)
        try:
            name = row.args.text("Collective name")
            op = collective_of(name)
            if op is not None:
                operations.append((row, _described(row, op, groups)))
            elif name != "wait":  # see kineto.waits
                counts[left_out(name)] += 1
        except ValueError as error:
            damaged.append((row, error))
    counts.update(f"{name} {NO_METADATA}" for name in empty.values())
    return operations


def from_kernel(row: KinetoRow, groups: Groups) -> RecordedOperation | None:
    """Return the operation of a kernel without a host row (a CUDA graph replays it); None if it does not say its size.

    Its sequence number is that of the capture, the same in every replay, and is not taken.
    """
    name = row.arguments.get("Collective name")
    op = collective_of(name) if isinstance(name, str) else None
    if op is None:
        return None
    try:
        operation = replace(_described(row, op, groups), sequence=None)
    except ValueError:  # part of the description is missing, or cut short: the caller reports it as not sized
        return None
    unsized = operation.dtype is None or (op == "all_to_all" and None in (operation.splits_in, operation.splits_out))
    return None if unsized else operation


def _described(row: KinetoRow, op: str, groups: Groups) -> RecordedOperation:
    args = row.args
    dtype = "uint8" if op == "barrier" else dtype_of(args.text("dtype"))
    element = None if dtype is None else DTYPE_BYTES[dtype]
    into, out = (args.integer(field, highest=2**58) for field in ("In msg nelems", "Out msg nelems"))
    group_name, group = _group(row, groups)
    splits: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    if op == "all_to_all":
        splits = _splits(args, "In split size", into), _splits(args, "Out split size", out)
    peer = {"send": "Dst Rank", "recv": "Src Rank"}.get(op, "")
    return RecordedOperation(
        place=row.place,
        op=op,
        group=group,
        group_name=group_name,
        dtype=dtype,
        bytes_in=0 if op == "barrier" else None if element is None else into * element,
        bytes_out=0 if op == "barrier" else None if element is None else out * element,
        splits_in=splits[0],
        splits_out=splits[1],
        peer=args.integer(peer, highest=LARGEST_RANK) if peer else None,
        root=_ranked(row, group, "Rank") if op in ROOTED and args.has("Rank") else None,
        sequence=args.integer("Seq") if args.has("Seq") and op not in POINT_TO_POINT else None,
        operator="" if dtype is not None else f"{op} of {args.text('dtype')[:40]}",
    )


def _group(row: KinetoRow, groups: Groups) -> tuple[str, tuple[int, ...]]:
    """Name and ranks of the process group; a row lists at most 30 of its ranks, the head of the file all of them."""
    name = row.args.text("Process Group Name")
    ranks = groups.get(name)
    if ranks is None:
        ranks = listed_integers(row.args, "Process Group Ranks")
    if not ranks:
        row.args.fail("Process Group Name", "must be one of distributedInfo.pg_config, or list all its ranks")
    return name, ranks


def listed_integers(args: Fields, field: str, highest: int = LARGEST_INTEGER) -> tuple[int, ...] | None:
    """Return a list that is written as text, ``"[0, 1]"``; None if it is cut short: ``"[0, 1, ..., 29, ...]"``."""
    text = args.text(field)
    if "..." in text:
        return None
    return Fields(args.place, {field: parse_json(f"{args.place}{field}", text)}).integers(field, highest=highest)


def _splits(args: Fields, field: str, elements: int) -> tuple[int, ...] | None:
    splits = listed_integers(args, field)
    return None if splits is None else split_elements(f"{args.place}{field}", splits, elements)


def _ranked(row: KinetoRow, group: tuple[int, ...], field: str) -> int:
    at = row.args.integer(field, highest=LARGEST_RANK)
    if at >= len(group):
        row.args.fail(field, f"must be within 0..{len(group) - 1}, its group")
    return group[at]


def from_shapes(
    rows: Sequence[KinetoRow], groups: Groups, counts: Counter[str]
) -> list[tuple[KinetoRow, RecordedOperation]]:
    """Return an operation for every ``c10d::`` row, and for every annotation outside of these rows.

    Operations are sized by the shapes of their tensors if these were recorded.
    """
    issued = [row for row in rows if row.category == "cpu_op" and row.name in SIGNATURES]
    within = Enclosing(issued)
    annotations: dict[int, KinetoRow] = {}
    described: dict[int, KinetoRow] = {}  # the row within an operator that has its group
    elsewhere: list[KinetoRow] = []
    for row in rows:
        if row.name == PARAM_COMMS and (outer := within.find(row.lane, row.start)) is not None:
            described.setdefault(outer.number, row)
        elif row.category == "user_annotation":
            outer = within.find(row.lane, row.start)
            if outer is not None:
                annotations.setdefault(outer.number, row)
            else:
                elsewhere.append(row)
        elif row.name == PARAM_COMMS and issued:
            counts[left_out("wait")] += 1
        elif row.category == "cpu_op" and row.name.startswith("c10d::") and row.name not in SIGNATURES:
            counts[f"{row.name} rows are no collectives known here and are left out"] += 1
    annotations |= _by_gloo_threads([row for row in issued if row.number not in annotations], elsewhere)
    alone = [row for row in elsewhere if row.name.startswith(BACKENDS) and not (issued and row.name.startswith(GLOO))]
    both = sorted([*issued, *alone], key=lambda row: row.start)
    known = {number: named for number, row in described.items() if (named := read_group(row)) is not None}
    group_name, group = next(iter(groups.items())) if len(groups) == 1 else ("", None)
    operations: list[tuple[KinetoRow, RecordedOperation]] = []
    for row in both:
        if row.category == "cpu_op":
            sized = shaped(row, SIGNATURES[row.name], annotations.get(row.number), group_name, group)
            operations.append((row, known[row.number].complete(sized) if row.number in known else sized))
        elif operation := annotated(row, group_name, group, counts):
            operations.append((row, operation))
    return operations


def _by_gloo_threads(issued: Sequence[KinetoRow], annotations: Sequence[KinetoRow]) -> dict[int, KinetoRow]:
    """Return the annotations that gloo's threads wrote, by the number of their operator, which was issued before.

    Of the operators with the same name and size, annotations are in the order of issue.
    """
    waiting: dict[tuple[str, int | None], deque[KinetoRow]] = {}
    for row in sorted(annotations, key=lambda row: row.start):
        if row.name.startswith(GLOO):
            waiting.setdefault((row.name.removeprefix(GLOO), tensor_elements(row, 0)), deque()).append(row)
    matched = {}
    for row in sorted(issued, key=lambda row: row.start):
        signature = SIGNATURES[row.name]
        candidates = waiting.get((signature.op, tensor_elements(row, signature.input)))
        while candidates and candidates[0].start < row.start:
            candidates.popleft()  # of an operator issued before the profile began
        if candidates:
            matched[row.number] = candidates.popleft()
    return matched


def shaped(
    row: KinetoRow, signature: Signature, annotation: KinetoRow | None, group_name: str, group: tuple[int, ...] | None
) -> RecordedOperation:
    """The operation of an operator's row, sized by the shapes of its tensors or of those of the annotation within."""
    dtype = tensor_dtype(row, (signature.input, signature.output))
    into, out = tensor_elements(row, signature.input), tensor_elements(row, signature.output)
    if annotation is not None:  # records the flattened input, also of lists of tensors
        dtype = dtype or tensor_dtype(annotation, (0,))
        into = tensor_elements(annotation, 0) if into is None else into
    other = _other(row, signature, group)
    splits = _shaped_splits(row, signature, into, out)
    return RecordedOperation(
        place=row.place,
        op=signature.op,
        group=group,
        group_name=group_name,
        dtype=dtype,
        bytes_in=None if into is None or dtype is None else into * DTYPE_BYTES[dtype],
        bytes_out=None if out is None or dtype is None else out * DTYPE_BYTES[dtype],
        splits_in=splits[0],
        splits_out=splits[1],
        peer=other if signature.op in POINT_TO_POINT else None,
        root=other if signature.op in ROOTED else None,
    )


def _other(row: KinetoRow, signature: Signature, group: tuple[int, ...] | None) -> int | None:
    """The root or peer; ``Concrete Inputs`` (torch 2.1 and later) has it as a rank of the group."""
    values = row.listed("Concrete Inputs")
    if signature.other is None or signature.other >= len(values):
        return None
    text = values[signature.other]
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 9:
        return None
    at = int(text)
    if group is None:
        return at
    if at >= len(group):
        row.args.fail("Concrete Inputs", f"must be a rank within 0..{len(group) - 1}")
    return group[at]


def _shaped_splits(
    row: KinetoRow, signature: Signature, into: int | None, out: int | None
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Splits of an all-to-all: the tensors of a list, or what ``Concrete Inputs`` says; None where neither is there."""
    if signature.op != "all_to_all" or into is None or out is None:
        return None, None
    if row.name == "c10d::alltoall_":
        return tensor_list(row, signature.input), tensor_list(row, signature.output)
    values = row.listed("Concrete Inputs")
    if len(values) < 5 or not all(isinstance(text, str) and text.startswith("[") for text in values[3:5]):
        return None, None
    texts = Fields(row.args.place, {"Concrete Inputs[3]": values[3], "Concrete Inputs[4]": values[4]})
    return _splits(texts, "Concrete Inputs[4]", into), _splits(texts, "Concrete Inputs[3]", out)
