"""Logs of NCCL Inspector, one file per process: JSON lines, or the Parquet files that its exporter makes of them.

Sizes are exact, and so are groups, in the order in which they reduce: a communicator has the same hash on all its
ranks, and each rank knows its own place only. So the logs of all ranks are needed, and a communicator of all ranks, by
whose places they are numbered. There is no compute, no type, and no root. Only a verbose log has times, and so the
order of operations on several communicators. Inspector leaves small operations out, unless
NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES is 0, and others where its buffers are full: ``coll_sn``, which NCCL counts for each
kind of collective on a communicator, says which calls of two ranks are one.
Source: NVIDIA/nccl v2.30.7 plugins/profiler/inspector: README.md, inspector_json.cc, exporter/example.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.nccl import CUT, FUNCTIONS, UNKNOWN
from topoflow.capture.iterations import unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation, in_repetitions
from topoflow.fields import LARGEST_WORLD, Fields, decode, parse_json

MARK = b"inspector_output_format_version"
CALLS = (b'"coll_perf"', b'"p2p_perf"')
VERSION = "v4."
PARQUET = b"PAR1"
COLUMNS = {"header": ("id", "rank", "n_ranks"), "metadata": ("inspector_output_format_version",)}
NAMES = {"All2All": "AlltoAll"}  # of Inspector -> of NCCL
UNTYPED = "operations say no type: their sizes are in bytes"
SMALL = "NCCL Inspector leaves out operations of less than NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8192), and their number"
KINDS = ("coll", "p2p")
DROPPED = "operations were dropped by NCCL Inspector, whose buffers were full, and are missing"
UNORDERED = (
    "operations of several communicators have no times, so that neither their order is known nor where iterations begin"
)
MICROSECONDS = 1e-6


@dataclass(frozen=True)
class InspectorRow:
    """One line: a collective or message on a communicator."""

    place: str
    communicator: Fields
    kind: str  # coll or p2p: begins the names of its fields
    fields: Fields

    def times(self, field: str) -> list[int]:
        """Return ``field`` of each kernel, or of the call itself, in us; nothing if the log is not verbose."""
        if not self.fields.has("event_trace_ts"):
            return []
        trace = Fields.of(f"{self.place}event_trace_ts.", self.fields.values["event_trace_ts"])
        if trace.has(field):
            return [trace.integer(field)]
        kernels = (Fields.of(f"{trace.place}kernel_events.", kernel) for kernel in trace.items("kernel_events"))
        return [time for time in (kernel.integer(field) for kernel in kernels if kernel.has(field)) if time]


def matches(source: InputFile) -> bool:
    """Return whether the columns have the version of Inspector's format, or the first lines that or a call."""
    if source.data.startswith(PARQUET):
        return MARK in source.data
    return source.looks_like_json and any(mark in source.data[:1024] for mark in (MARK, *CALLS))


def parse(source: InputFile) -> list[RankRecord]:
    """Return one record: a process is a rank. Raises ``ValueError`` that names file, line, field, law and value."""
    counts = Counter[str]()
    rows = _columns(source) if source.data.startswith(PARQUET) else _lines(source, counts)
    calls = list(_calls(rows, counts))
    if not calls:
        raise ValueError(f"{source.name}: must hold collectives or messages, got none")
    issued = [call.times(f"{call.kind}_start_ts") for call in calls]
    timed = all(issued)
    if timed:
        calls = [call for _, call in sorted(zip(issued, calls, strict=True), key=lambda pair: pair[0])]
    origin = min(min(times) for times in issued) if timed else 0
    parsed_calls = [_operation(call, origin) for call in calls]
    operations = [operation for operation in parsed_calls if operation is not None]
    counts[UNKNOWN] += len(parsed_calls) - len(operations)
    counts[UNTYPED] += len(operations)
    ordered = timed or len({operation.group_key for operation in operations}) == 1
    counts[UNORDERED] += 0 if ordered else len(operations)
    world = max(calls, key=lambda call: call.communicator.integer("n_ranks")).communicator
    events, iterations = in_repetitions(operations) if ordered else (tuple(operations), 1)
    return [
        RankRecord(
            file=source.name,
            rank=world.integer("rank", highest=world.integer("n_ranks") - 1),
            events=events,
            source="NCCL Inspector",
            iterations=iterations,
            rank_within=world.integer("n_ranks"),
            epoch_ns=origin * 1000 if timed else None,
            counts=counts,
            notes=(SMALL, *unmarked(iterations)),
        )
    ]


def _lines(source: InputFile, counts: Counter[str]) -> Iterator[tuple[str, Any]]:
    """Every line as an object. A last line without its end is what a job left that was killed."""
    if isinstance(source.document, dict):
        yield f"{source.name}: ", source.document
        return
    lines = decode(source.name, source.data).split("\n")
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and line:
            counts[CUT] += 1
        elif line.strip():
            yield f"{source.name}:{number}: ", parse_json(f"{source.name}:{number}", line)


def _columns(source: InputFile) -> Iterator[tuple[str, Any]]:
    """The rows of a table, each as the line that it was made of."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(f"{source.name}: Parquet needs pyarrow: pip install 'topoflow[parquet]'") from error
    try:
        rows = parquet.read_table(io.BytesIO(source.data)).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{source.name}: must be a complete Parquet file, got {reason}") from error
    for number, row in enumerate(rows):
        of_line = {name: {key: row.get(key) for key in keys} for name, keys in COLUMNS.items()}
        yield f"{source.name}: row {number}: ", {**of_line, "coll_perf" if row.get("coll") else "p2p_perf": row}


def _calls(rows: Iterable[tuple[str, Any]], counts: Counter[str]) -> Iterator[InspectorRow]:
    """Yield the calls. A header and metadata hold for the lines that follow, which since format 4.3 have none."""
    above: dict[str, Any] = {}
    processes = set[str]()
    dropped: dict[tuple[str, str], int] = {}  # since the beginning, by communicator and kind
    for place, row in rows:
        line = Fields.of(place, row)
        above |= {key: line.values[key] for key in ("header", "metadata") if line.has(key)}
        line = Fields(place, {**line.values, **above})
        for key in ("header", "metadata"):
            if not line.has(key):
                line.fail(key, "must be given by this line or an earlier one: give the log from its beginning")
        metadata = Fields.of(f"{place}metadata.", line.values["metadata"])
        if not metadata.text(MARK.decode()).startswith(VERSION):
            metadata.fail(MARK.decode(), f"must begin with {VERSION}")
        processes.add(str([metadata.values.get(key) for key in ("hostname", "pid")]))
        if len(processes) > 1:
            metadata.fail(
                "pid", "must be that of the lines before: give the logs of several processes as several files"
            )
        communicator = Fields.of(f"{place}header.", line.values["header"])
        communicator.integer("n_ranks", 1, LARGEST_WORLD)
        stats = Fields.of(f"{place}dump_stats.", line.values["dump_stats"]) if line.has("dump_stats") else None
        for kind in KINDS:
            if stats is not None and stats.has(f"{kind}_dropped_total"):
                dropped[communicator.text("id"), kind] = stats.integer(f"{kind}_dropped_total")
            if line.has(f"{kind}_perf"):
                fields = Fields.of(f"{place}{kind}_perf.", line.values[f"{kind}_perf"])
                yield InspectorRow(fields.place, communicator, kind, fields)
    counts[DROPPED] += sum(dropped.values())


def _operation(call: InspectorRow, origin: int) -> RecordedOperation | None:
    """A call as an operation; None for a kind that moves nothing that is known."""
    function = call.fields.text(call.kind)
    function = NAMES.get(function, function)
    if function not in FUNCTIONS:
        return None
    op, into, out = FUNCTIONS[function]
    ranks = call.communicator.integer("n_ranks")
    size = call.fields.integer(f"{call.kind}_msg_size_bytes")
    counted = op not in POINT_TO_POINT and call.fields.has("coll_sn")
    return RecordedOperation(
        place=f"{call.place}{op}",
        op=op,
        group_key=call.communicator.text("id"),
        group_key_is_shared=True,
        group_size=ranks,
        group_rank=call.communicator.integer("rank", highest=ranks - 1),
        other=call.fields.integer("p2p_peer", highest=ranks - 1) if op in POINT_TO_POINT else None,
        dtype="uint8",
        bytes_in=size * (ranks if into is None else into),
        bytes_out=size * (ranks if out is None else out),
        splits_in=(),
        splits_out=(),
        call=call.fields.integer("coll_sn") if counted else None,
        issue=_seconds(call.times(f"{call.kind}_start_ts")[:1], origin),
        start=_seconds(sorted(call.times("kernel_start_ts"))[:1], origin),
        end=_seconds(sorted(call.times("kernel_stop_ts"))[-1:], origin),
    )


def _seconds(times: Sequence[int], origin: int) -> float | None:
    return (times[0] - origin) * MICROSECONDS if times else None
