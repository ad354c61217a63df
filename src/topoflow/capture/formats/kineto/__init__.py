"""torch.profiler's Kineto JSON (``export_chrome_trace``), with one rank per file, in three generations.

- torch 2.2 and older, and gloo: collectives are ``c10d::`` operators, sized by ``Input Dims`` of the operator or of the
  ``nccl:`` annotation within it, if the profile has ``record_shapes=True``. The process group is not recorded.
- torch 2.3 and later with NCCL: ``record_param_comms`` rows carry collective, elements, dtype, splits and group.
- 2026: these also carry the group's sequence number and the root.

Kernels that a CUDA graph replays have no row of the host; what they say themselves is taken. Communication whose size
no row records becomes a compute span that ``communicates``.

What waits for an operation is known from the ``wait`` or ``cuda_sync`` rows, see ``kineto.waits``.

Times: a collective's ``issue`` is its host row's start, ``start`` and ``end`` are its kernel's (None where the window
of the profile cut the kernel off); compute spans are GPU kernels and copies, see ``kineto.spans``. Iterations are the
job's ``ProfilerStep#N`` marks, or else the repetitions of its communication.
Source: pytorch/kineto libkineto/src/output_json.cpp; pytorch/torch/csrc/profiler/util.cpp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import orjson

from topoflow.capture.base import POINT_TO_POINT, ComputeSpan
from topoflow.capture.formats.kineto.damage import sound_rows
from topoflow.capture.formats.kineto.operations import (
    from_kernel,
    from_metadata,
    from_shapes,
    has_metadata,
    listed_integers,
)
from topoflow.capture.formats.kineto.rows import DAMAGED, SYNC, KinetoRow, ProfileRows, read_rows
from topoflow.capture.formats.kineto.spans import (
    BEFORE,
    DeviceRows,
    Order,
    Span,
    compute_spans,
    into_graphs,
    sort_out,
    without_launches,
)
from topoflow.capture.formats.kineto.symmetric import symmetric
from topoflow.capture.formats.kineto.waits import waiters
from topoflow.capture.iterations import between_marks, by_repetition, unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.capture.torch_names import STEP
from topoflow.fields import LARGEST_WORLD, Fields

AFTER = "events after the last ProfilerStep belong to no whole iteration and are left out"
CAPTURED = "operations were captured into a CUDA graph: they count when it is launched"
CUT_OFF = "files are cut off: the rows that they lack are unknown, and so are the steps of these"
NO_NUMBERS = "files have numbers that JSON does not have: these are left out"
MAY_BE_CUT_OFF = True  # a gzip file: its first rows are enough
LEAST_OF_RANK = 0.1  # host rows of a rank, of those of another; a damaged row may name any process
NO_KERNELS = "operations have no kernel in the profile: their times are unknown"


@dataclass(frozen=True)
class Steps:
    """When each iteration began (ns, ascending) and the last one ended; ``numbers`` as the job counts them."""

    numbers: tuple[int, ...]
    starts: tuple[int, ...]
    end: int


@dataclass(frozen=True)
class Issued:
    """An operation, and when the host issued it: ``order``, with ``end`` the end of its host row, ns."""

    order: Order
    end: int
    number: int  # of its row
    operation: RecordedOperation


def matches(source: InputFile) -> bool:
    """Return whether it is a JSON object with trace events; its end may be cut off."""
    document = source.document or source.whole_rows
    return isinstance(document, dict) and "traceEvents" in document


def parse(source: InputFile) -> list[RankRecord]:
    """Return one record: the operations and compute spans of a rank, in the order of issue."""
    counts = Counter[str]()
    document, read = _read(source, counts)
    sound = sound_rows(read, counts)
    rows = sound.rows
    host_rows = [row for row in rows.host if not row.is_call]  # by the host of what it does
    _check_one_process(source.name, host_rows)
    rank, world_size, groups = _job(document)
    described = has_metadata(host_rows)
    damaged: list[tuple[KinetoRow, ValueError]] = []
    known = from_metadata(host_rows, groups, counts, damaged) if described else from_shapes(host_rows, groups, counts)
    hosted = sorted([*known, *symmetric(host_rows, groups)], key=lambda pair: pair[0].start)
    device = sort_out(rows, [row for row, _ in hosted], lambda row: from_kernel(row, groups))
    if not any(row.correlation in rows.calls for row in rows.device):
        device = without_launches(device, hosted, counts)
    operations = _with_unknown_groups(hosted, len(groups), 0 if described else device.streams)
    captured = into_graphs(rows.host)
    run = [pair for pair in operations if pair[0].number in device.transfers or not captured(pair[0].start)]
    counts[CAPTURED] += len(operations) - len(run)
    issued_operations = _in_order(run, device)
    steps = _steps(host_rows) or _repetitions(issued_operations)
    waiting = waiters(rows, [row for row, _ in hosted], device)
    spans = compute_spans(device, [operation.order for operation in issued_operations], steps.starts, waiting.kernels)
    origin = rows.rows[0].start if rows.rows else 0
    events, after = _events(issued_operations, spans, device, steps, origin, waiting.operations)
    counts[AFTER] += after
    untimed = [issued.order[0] for issued in issued_operations if issued.number not in device.transfers]
    counts[NO_KERNELS] += len(untimed)
    missing = [*sound.untimed, *(untimed if device.transfers else ())]
    missing += [row.start for row, _ in damaged]
    incomplete = frozenset(between_marks([at for at in missing if at <= steps.end], steps.starts))
    incomplete |= {at for span in sound.uncertain for at in _both_steps(span, steps)}
    if counts[CUT_OFF]:
        incomplete |= _cut_steps(device, steps)
    if damaged and (not steps.numbers or incomplete >= {*range(len(steps.starts))}):
        raise damaged[0][1]
    counts[f"{DAMAGED} {damaged[0][1] if damaged else ''}"] += len(damaged)
    base = document.integer("baseTimeNanoseconds") if document.has("baseTimeNanoseconds") else 0
    return [
        RankRecord(
            file=source.name,
            rank=rank,
            events=tuple(events),
            source=f"Kineto {_generation(issued_operations, described)}",
            world_size=world_size,
            iterations=len(steps.starts) or 1,
            incomplete=incomplete,
            damaged=any(sentence.startswith((DAMAGED, CUT_OFF)) and count for sentence, count in counts.items()),
            steps=steps.numbers,
            groups=groups,
            epoch_ns=base + origin,
            counts=counts,
            notes=() if steps.numbers else unmarked(len(steps.starts)),
        )
    ]


def _read(source: InputFile, counts: Counter[str]) -> tuple[Fields, ProfileRows]:
    """Return the document and its rows; of a damaged file, those of its whole part."""
    counts[CUT_OFF] += source.gzip_is_cut_off and source.whole is not None
    if source.events is not None:
        row_counts = Counter[str]()
        with suppress(orjson.JSONDecodeError):
            rows = read_rows(source.name, source.events, row_counts)
            counts.update(row_counts)
            return Fields.of(f"{source.name}: ", source.document), rows
    content = source.whole or source.whole_rows
    if content is None:
        raise ValueError(source.damage)
    counts[CUT_OFF if source.is_cut_off else NO_NUMBERS] += source.whole is None
    document = Fields.of(f"{source.name}: ", content)
    return document, read_rows(source.name, document.items("traceEvents"), counts)


def _check_one_process(file: str, rows: Sequence[KinetoRow]) -> None:
    """Raise ``ValueError`` if several processes wrote the rows: a tool merged the profiles of several ranks."""
    written = Counter(row.lane[0] for row in rows if row.category != SYNC).most_common(2)
    if len(written) > 1 and written[1][1] > LEAST_OF_RANK * written[0][1]:
        raise ValueError(
            f"{file}: must be the profile of one rank, got host rows of processes {written[0][0]} and {written[1][0]}: "
            "give the files of all ranks instead of one that merges them"
        )


def _job(document: Fields) -> tuple[int, int, dict[str, tuple[int, ...]]]:
    """Return rank, world size and the ranks of every process group that the rank is in, where they are listed.

    Profiles that dynolog asked for write the ranks as a text, which is empty, or ends with "..." in large groups; the
    group is known then only if it has all ranks.
    """
    if not document.has("distributedInfo"):
        raise ValueError(
            f"{document.place}distributedInfo: must be given (rank and world size), got none: start the profiler after "
            "init_process_group; a job of one process communicates with nobody"
        )
    info = Fields.of(f"{document.place}distributedInfo.", document.values.get("distributedInfo"))
    world_size = info.integer("world_size", 1, LARGEST_WORLD)
    groups = {}
    for index, entry in enumerate(info.items("pg_config") if info.has("pg_config") else []):
        group = Fields.of(f"{info.place}pg_config[{index}].", entry)
        ranks: tuple[int, ...] | None = None
        if isinstance(listed := group.values.get("ranks"), str) or not listed:
            ranks = listed_integers(group, "ranks", highest=world_size - 1) if listed else None
            if not ranks and group.has("pg_size") and group.integer("pg_size") == world_size:
                ranks = tuple(range(world_size))
        else:
            ranks = group.integers("ranks", highest=world_size - 1)
        if ranks:
            groups[group.text("pg_name")] = ranks
    return info.integer("rank", highest=world_size - 1), world_size, groups


def _with_unknown_groups(
    hosted: Sequence[tuple[KinetoRow, RecordedOperation]], groups: int, streams: int
) -> Sequence[tuple[KinetoRow, RecordedOperation]]:
    """Return the operations, those of an unknown group with the number of groups or, without these, of streams."""
    several = f"one of {groups}" if groups > 1 else f"none and {streams} communication streams"
    if groups == 1 or (not groups and streams < 2):
        return hosted
    return [
        (row, replace(operation, group_unknown=several))
        if operation.group is None
        and not (operation.group_key or operation.operator)
        and (groups or operation.op not in POINT_TO_POINT)
        else (row, operation)
        for row, operation in hosted
    ]


def _in_order(hosted: Sequence[tuple[KinetoRow, RecordedOperation]], device: DeviceRows) -> list[Issued]:
    """Return all operations in the order of issue; those of CUDA graphs, in the order of the device."""
    issued_operations = [Issued((row.start, BEFORE), row.end, row.number, operation) for row, operation in hosted]
    issued_operations += [
        Issued(kernel.order, kernel.launch + 1, kernel.row.number, operation) for kernel, operation in device.described
    ]
    return sorted(issued_operations, key=lambda issued: issued.order)


def _generation(issued_operations: Sequence[Issued], described: bool) -> str:
    if not described:
        return "(sizes from shapes)"
    counted = any(issued.operation.sequence is not None for issued in issued_operations)
    return "(collective metadata with sequence numbers)" if counted else "(collective metadata)"


def _steps(rows: Sequence[KinetoRow]) -> Steps | None:
    """The ProfilerStep marks; None where the job set none."""
    marks: dict[int, tuple[int, int]] = {}
    for row in rows:
        number = row.name.removeprefix(STEP)
        if row.category == "user_annotation" and row.name.startswith(STEP) and number.isdecimal() and len(number) < 16:
            start, end = marks.get(int(number), (row.start, row.end))
            marks[int(number)] = min(start, row.start), max(end, row.end)
    if not marks:
        return None
    ordered = sorted(marks, key=lambda number: marks[number][0])
    starts = tuple(marks[number][0] for number in ordered)
    return Steps(tuple(ordered), starts, max(end for _, end in marks.values()))


def _both_steps(span: tuple[int, int], steps: Steps) -> list[int]:
    """Return the iterations of the two ends of a time span, if they differ."""
    first, last = between_marks(span, steps.starts)
    return [first, last] if first != last else []


def _cut_steps(device: DeviceRows, steps: Steps) -> set[int]:
    """Return the iterations of which a profile that is cut off may lack rows: from that of its last kernel on."""
    kernels = [*device.compute, *(kernel for kernel, _ in device.carried)]
    (last,) = between_marks([max((kernel.launch for kernel in kernels), default=BEFORE)], steps.starts)
    return {*range(max(last, 0), len(steps.starts))}


def _repetitions(issued_operations: Sequence[Issued]) -> Steps:
    """Return iterations without marks: each begins right after the last collective of the one before."""
    operations = [issued.operation for issued in issued_operations]
    keys = [(operation.op, operation.group_name, operation.bytes_in, operation.bytes_out) for operation in operations]
    numbers = by_repetition(keys)
    firsts = [at for at, number in enumerate(numbers) if number >= 0 and (not at or numbers[at - 1] != number)]
    starts = tuple(issued_operations[first - 1].end if first else 0 for first in firsts)
    return Steps((), starts or (0,), 2**63)


def _events(
    issued_operations: Sequence[Issued],
    spans: Sequence[Span],
    device: DeviceRows,
    steps: Steps,
    origin: int,
    waiting: Mapping[int, tuple[int, ...]],
) -> tuple[list[ComputeSpan | RecordedOperation], int]:
    """Return collectives and compute spans in the order of issue, and how many after the last step are left out.

    ``waiting``: numbers of the rows of operations, and of the operations that these wait for.
    """

    def seconds(at: int) -> float:
        return (at - origin) / 1e9

    # order, when issued, what makes the event, rows of operations that it waits for, its own row if it is an operation
    ordered: list[
        tuple[tuple[int, int], int, partial[ComputeSpan] | partial[RecordedOperation], tuple[int, ...], int | None]
    ] = []
    for number, issued in enumerate(issued_operations):
        at = issued.order[0]
        start, end = device.transfers.get(issued.number, (None, None))
        timed = partial(
            issued.operation.changed,
            issue=None if at == BEFORE else seconds(at),
            start=None if start is None else seconds(start),
            end=None if end is None else seconds(end),
        )
        ordered.append(((number, 1), at, timed, waiting.get(issued.number, ()), issued.number))
    for span in spans:
        compute = partial(
            ComputeSpan,
            span.name,
            seconds(span.start),
            seconds(span.end),
            span.busy / 1e9,
            communicates=span.communicates,
        )
        ordered.append(((span.issued, 0), span.launch, compute, span.waits, None))
    inside = sorted((entry for entry in ordered if entry[1] <= steps.end), key=lambda entry: entry[0])
    iterations = between_marks([at for _, at, _, _, _ in inside], steps.starts)
    positions = {number: position for position, (_, _, _, _, number) in enumerate(inside) if number is not None}
    events: list[ComputeSpan | RecordedOperation] = []
    for position, ((_, _, event, awaited, _), iteration) in enumerate(zip(inside, iterations, strict=True)):
        waits = {positions[number] for number in awaited if positions.get(number, position) < position}
        events.append(event(iteration=iteration, waits=tuple(sorted(waits))))
    return events, len(ordered) - len(inside)
