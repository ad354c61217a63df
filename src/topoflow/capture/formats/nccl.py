"""Traces that NCCL itself writes, one file per rank, with the profiler plugin in ``integrations/nccl``.

Sizes, and groups in the order in which they reduce, are exact; there is no compute. A communicator has the same hash on
all its ranks, and each rank knows its own place only, so the files of all ranks are needed. An operation begins with
the first of its kernels and network transfers, and ends with the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.iterations import unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation, in_repetitions
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD, Fields, decode, parse_json
from topoflow.operations import ROOTED
from topoflow.units import DTYPE_BYTES

FORMAT = b'"format":"topoflow-nccl"'
VERSION = 1
NANOSECONDS = 1e-9
CUT = "lines are cut, as the job ended while they were written, and are left out"
LOST = "records did not fit into the profiler's buffers and are lost"
UNKNOWN = "operations of other kinds than collectives and messages are left out"
# ncclDatatypeToString and ncclFuncToString (NCCL, src/include/nccl_common.h); types in the order of ncclDataType_t.
DTYPES = {
    "ncclInt8": "int8",
    "ncclUint8": "uint8",
    "ncclInt32": "int32",
    "ncclUint32": "uint32",
    "ncclInt64": "int64",
    "ncclUint64": "uint64",
    "ncclFloat16": "float16",
    "ncclFloat32": "float32",
    "ncclFloat64": "float64",
    "ncclBfloat16": "bfloat16",
    "ncclFloat8e4m3": "float8_e4m3fn",
    "ncclFloat8e5m2": "float8_e5m2",
}
# NCCL's name -> ours, and how many counts the input and the output of a rank are; None: one for each rank.
FUNCTIONS: dict[str, tuple[str, int | None, int | None]] = {
    "AllReduce": ("all_reduce", 1, 1),
    "AllGather": ("all_gather", 1, None),
    "ReduceScatter": ("reduce_scatter", None, 1),
    "AlltoAll": ("all_to_all", None, None),
    "Broadcast": ("broadcast", 1, 1),
    "Reduce": ("reduce", 1, 1),
    "Gather": ("gather", 1, None),
    "Scatter": ("scatter", None, 1),
    "Send": ("send", 1, 1),
    "Recv": ("recv", 1, 1),
}
CALLS = ("coll", "p2p")
CHILDREN = ("proxy", "kernel")


@dataclass(frozen=True)
class RankCommunicator:
    """A communicator as one of its ranks knows it."""

    key: str
    name: str
    ranks: int | None  # None: NCCL before 2.27 does not say
    rank: int  # of this process, among them
    is_shared: bool = True  # the key is the same on all its ranks

    @property
    def last(self) -> int:
        """The highest rank that it may have."""
        return LARGEST_RANK if self.ranks is None else self.ranks - 1


def matches(source: InputFile) -> bool:
    """The first line names the format."""
    return source.looks_like_json and FORMAT in source.data[:256]


def parse(source: InputFile) -> list[RankRecord]:
    """Return one record: a process is a rank. Raises ``ValueError`` that names file, line, field, law and value."""
    counts = Counter[str]()
    lines = list(_rows(source, counts))
    if not lines:
        raise ValueError(f"{source.name}:1: must be a whole line, got one without its end")
    header, *rows = lines
    if header.integer("version") != VERSION:
        header.fail("version", f"must be {VERSION}")
    if not header.has("rank"):
        header.fail("rank", "must be given: the launcher of the job has to set RANK")
    epoch = header.integer("time")
    communicators = {row.integer("comm"): _communicator(row) for row in rows if row.values["event"] == "comm"}
    counts[LOST] += sum(row.integer("records") for row in rows if row.values["event"] == "lost")
    spans = _spans(rows, epoch)
    parsed_calls = [_operation(row, communicators, spans, epoch) for row in rows if row.values["event"] in CALLS]
    operations = [operation for operation in parsed_calls if operation is not None]
    counts[UNKNOWN] += len(parsed_calls) - len(operations)
    events, iterations = in_repetitions(operations)
    return [
        RankRecord(
            file=source.name,
            rank=header.integer("rank", highest=LARGEST_RANK),
            events=events,
            source="NCCL (topoflow's profiler plugin)",
            world_size=header.integer("ranks", 1, LARGEST_WORLD) if header.has("ranks") else None,
            iterations=iterations,
            epoch_ns=epoch,
            host=header.text("host") if header.has("host") else "",
            ended=False,
            counts=counts,
            notes=unmarked(iterations),
        )
    ]


def _rows(source: InputFile, counts: Counter[str]) -> Iterator[Fields]:
    """Every line as an object. A last line without its end is what a job left that was killed, or a full disk."""
    lines = decode(source.name, source.data).split("\n")
    for number, line in enumerate(lines, start=1):
        place = f"{source.name}:{number}"
        if number == len(lines) and line:
            counts[CUT] += 1
        elif line:
            row = Fields.of(f"{place}: ", parse_json(place, line))
            row.text("event")
            yield row


def _communicator(row: Fields) -> RankCommunicator:
    ranks = row.integer("ranks", 1, LARGEST_WORLD) if row.has("ranks") else None
    within = RankCommunicator(row.text("hash"), row.text("name"), ranks, row.integer("rank"))
    row.integer("rank", highest=within.last)
    return within


def _spans(rows: list[Fields], epoch: int) -> dict[int, tuple[float, float]]:
    """Return when the first child of each call starts and the last one ends, s."""
    spans: dict[int, tuple[float, float]] = {}
    for row in rows:
        if row.values["event"] not in CHILDREN or not (row.has("parent") and row.has("stop")):
            continue
        call = row.integer("parent")
        start, end = _seconds(row, "start", epoch), _seconds(row, "stop", epoch)
        first, last = spans.get(call, (start, end))
        spans[call] = min(first, start), max(last, end)
    return spans


def _seconds(row: Fields, field: str, epoch: int) -> float:
    return (row.integer(field) - epoch) * NANOSECONDS


def _operation(
    row: Fields, communicators: Mapping[int, RankCommunicator], spans: Mapping[int, tuple[float, float]], epoch: int
) -> RecordedOperation | None:
    """Return a call as an operation, or None if its function or data type is unknown."""
    function, datatype = row.text("function"), row.text("type")
    if function not in FUNCTIONS or datatype not in DTYPES:
        return None
    number = row.integer("comm")
    if number not in communicators:
        row.fail("comm", f"must be one that an earlier line opened, {sorted(communicators)[:8]}")
    within = communicators[number]
    start, end = spans.get(row.integer("id"), (None, None))
    other = _other(row, FUNCTIONS[function][0], within)
    operation = operation_of(row.place, function, DTYPES[datatype], row.integer("count"), within, other)
    return replace(operation, issue=_seconds(row, "start", epoch), start=start, end=end)


def operation_of(
    place: str, function: str, dtype: str, count: int, within: RankCommunicator, other: int | None
) -> RecordedOperation:
    """Return a call of one of ``FUNCTIONS`` as an operation; ``other`` is its root or peer in the communicator."""
    op, *counts = FUNCTIONS[function]
    size = count * DTYPE_BYTES[dtype]
    into, out = (within.ranks if count is None else count for count in counts)
    return RecordedOperation(
        place=f"{place}{op}",
        op=op,
        group_name=within.name,
        group_key=within.key,
        group_key_is_shared=within.is_shared,
        group_size=within.ranks,
        group_rank=within.rank,
        other=other,
        dtype=dtype,
        bytes_in=None if into is None else size * into,
        bytes_out=None if out is None else size * out,
        splits_in=(),
        splits_out=(),
    )


def _other(row: Fields, op: str, within: RankCommunicator) -> int | None:
    """Return the place of the root or peer in the communicator, or None if there is none."""
    field = "peer" if op in POINT_TO_POINT else "root" if op in ROOTED else None
    return None if field is None else row.integer(field, highest=within.last)
