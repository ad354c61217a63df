"""topoflow's own trace file: JSON lines, packed with gzip when the name ends in ``.gz``.

The first line is the header, every other line one event, rank by rank in the order of issue:

    {"format": "topoflow-trace", "version": 1, "name": "toy", "world_size": 2, "iterations": 1, "ranks": [0, 1],
     "groups": {"0": [0, 1]}, "source": "recorder (torch 2.13.0, gloo)", "notes": []}
    {"rank": 0, "kind": "compute", "name": "forward", "seconds": 0.01, "start": 0.0, "end": 0.01,
     "work": [["float32", 2e9, 1.5e7], ["", 0.0, 4e6]]}
    {"rank": 0, "kind": "communication", "op": "all_reduce", "group": [0, 1], "dtype": "float32",
     "bytes_in": 4096, "bytes_out": 4096, "issue": 0.009, "start": 0.01, "end": 0.02, "group_name": "0", "after": [0]}

(each on one line). ``ranks`` are the ranks the file records: a file of one rank of a larger job is a partial trace,
which ``topoflow.capture.load`` merges with the others, or which stands for them by its ``layout``. Fields have the
names, units and meaning of ``topoflow.capture.base``; one that has its default there may be left out, and unknown ones
are an error.
``read(write(trace)) == trace``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from topoflow.capture import work_rows
from topoflow.capture.base import Communication, ComputeSpan, Event, OperatorWork, Trace
from topoflow.capture.layout import MeshLayout
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD, MOST_ITERATIONS, Fields, decode, parse_json
from topoflow.files import read_bytes, write_atomically
from topoflow.json_lines import json_lines

FORMAT = "topoflow-trace"
VERSION = 1
KINDS: dict[str, type[Event]] = {"compute": ComputeSpan, "communication": Communication}
_HEADER = (
    *("format", "version", "name", "world_size", "iterations", "ranks", "groups", "source", "notes", "incomplete"),
    *("layout", "memory"),
)
_REQUIRED = {"compute": ("name", "seconds"), "communication": ("op", "group", "dtype", "bytes_in", "bytes_out")}
_ALLOWED = {kind: {"rank", "kind", *(field.name for field in dataclasses.fields(KINDS[kind]))} for kind in KINDS}


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path`` (packed when it ends in ``.gz``) in one move; equal traces give equal bytes."""
    write_atomically(Path(path), *content(trace))


def content(trace: Trace) -> list[bytes]:
    """Return the content of the file of ``trace``, in parts."""
    return list(json_lines(_rows(trace)))


def read(path: Path) -> Trace:
    """The trace in ``path``, all fields checked; ValueError with ``file:line: field: law, got value``."""
    path = Path(path)
    return parse(str(path), read_bytes(path))


def parse(name: str, data: bytes) -> Trace:
    """Return the trace in ``data``, the unpacked content of the file ``name``; see ``read``."""
    lines = decode(name, data).split("\n")
    header = _header(f"{name}:1: ", parse_json(f"{name}:1", lines[0], unique=True))
    ranks: dict[int, list[Event]] = {rank: [] for rank in header.integers("ranks", highest=LARGEST_RANK)}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        row = Fields.of(f"{name}:{number}: ", parse_json(f"{name}:{number}", line, unique=True))
        rank = row.integer("rank", highest=LARGEST_RANK)
        if rank not in ranks:
            row.fail("rank", f"must be one of the header's ranks {sorted(ranks)[:8]}")
        ranks[rank].append(_event(row))
    try:
        return Trace(
            name=header.text("name"),
            world_size=header.integer("world_size", 1, LARGEST_WORLD),
            iterations=header.integer("iterations", 1, MOST_ITERATIONS),
            ranks={rank: tuple(events) for rank, events in ranks.items()},
            groups=_groups(name, header),
            source=header.text("source") if header.has("source") else "",
            notes=header.texts("notes") if header.has("notes") else (),
            incomplete=header.integers("incomplete") if header.has("incomplete") else (),
            layout=_layout(name, header),
            memory=header.number("memory") if header.has("memory") else None,
        )
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith(name) else f"{name}: {message}") from error


def _rows(trace: Trace) -> Iterator[Mapping[str, Any]]:
    yield {
        "format": FORMAT,
        "version": VERSION,
        "name": trace.name,
        "world_size": trace.world_size,
        "iterations": trace.iterations,
        "ranks": sorted(trace.ranks),
        "groups": dict(trace.groups),
        "source": trace.source,
        "notes": trace.notes,
        **({"incomplete": trace.incomplete} if trace.incomplete else {}),
        **({} if trace.layout is None else {"layout": dict(trace.layout.axes)}),
        **({} if trace.memory is None else {"memory": float(trace.memory)}),
    }
    for rank in sorted(trace.ranks):
        for event in trace.ranks[rank]:
            kind = "compute" if isinstance(event, ComputeSpan) else "communication"
            row = {"rank": rank, "kind": kind}
            for field in dataclasses.fields(event):
                value = getattr(event, field.name)
                if field.name in _REQUIRED[kind] or (value is not None and value != field.default):
                    row[field.name] = float(value) if isinstance(value, float) else value  # numpy's has other digits
            if isinstance(event, ComputeSpan) and event.work is not None:
                row["work"] = [work_rows.written(work) for work in event.work]
            yield row


def _header(place: str, value: Any) -> Fields:
    header = Fields.of(place, value)
    if header.values.get("format") != FORMAT:
        header.fail("format", f"must be {FORMAT!r}")
    if header.values.get("version") != VERSION:
        header.fail("version", f"must be {VERSION}, the one this topoflow reads")
    _refuse_unknown(header, set(_HEADER))
    return header


def _groups(name: str, header: Fields) -> dict[str, tuple[int, ...]]:
    if not header.has("groups"):
        return {}
    groups = Fields.of(f"{name}:1: groups.", header.values["groups"])
    return {group: groups.integers(group, highest=LARGEST_RANK) for group in groups.values}


def _layout(name: str, header: Fields) -> MeshLayout | None:
    if not header.has("layout"):
        return None
    axes = Fields.of(f"{name}:1: layout.", header.values["layout"])
    return MeshLayout({axis: axes.integer(axis, 1, LARGEST_WORLD) for axis in axes.values})


def _event(row: Fields) -> Event:
    kind = row.text("kind")
    if kind not in KINDS:
        row.fail("kind", f"must be one of {', '.join(KINDS)}")
    _refuse_unknown(row, _ALLOWED[kind])
    return _compute(row) if kind == "compute" else _communication(row)


def _compute(row: Fields) -> ComputeSpan:
    seconds = row.number("seconds")
    if seconds < 0:
        row.fail("seconds", "must not be negative")
    return ComputeSpan(
        name=row.text("name"),
        start=_time(row, "start"),
        end=_time(row, "end"),
        seconds=seconds,
        iteration=_iteration(row),
        after=_after(row),
        waits=_waits(row),
        work=_work(row),
        communicates=row.has("communicates") and row.boolean("communicates"),
    )


def _work(row: Fields) -> tuple[OperatorWork, ...] | None:
    if not row.has("work"):
        return None
    return tuple(work_rows.read(row, index, entry) for index, entry in enumerate(row.items("work")))


def _communication(row: Fields) -> Communication:
    try:
        return Communication(
            op=row.text("op"),
            group=row.integers("group", highest=LARGEST_RANK),
            dtype=row.text("dtype"),
            bytes_in=row.integer("bytes_in"),
            bytes_out=row.integer("bytes_out"),
            iteration=_iteration(row),
            splits_in=row.integers("splits_in") if row.has("splits_in") else (),
            splits_out=row.integers("splits_out") if row.has("splits_out") else (),
            peer=row.integer("peer", highest=LARGEST_RANK) if row.has("peer") else None,
            tag=row.integer("tag") if row.has("tag") else 0,
            root=row.integer("root", highest=LARGEST_RANK) if row.has("root") else None,
            issue=_time(row, "issue"),
            start=_time(row, "start"),
            end=_time(row, "end"),
            group_name=row.text("group_name") if row.has("group_name") else "",
            after=_after(row),
            waits=_waits(row),
            delay=row.number("delay") if row.has("delay") else 0.0,
        )
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith(row.place) else f"{row.place}{message}") from error


def _time(row: Fields, field: str) -> float | None:
    return row.number(field) if row.has(field) else None


def _iteration(row: Fields) -> int:
    return row.integer("iteration", -1) if row.has("iteration") else 0


def _after(row: Fields) -> tuple[int, ...] | None:
    return row.integers("after") if row.has("after") else None


def _waits(row: Fields) -> tuple[int, ...]:
    return row.integers("waits") if row.has("waits") else ()


def _refuse_unknown(row: Fields, known: set[str]) -> None:
    unknown = sorted(set(row.values) - known)
    if unknown:
        raise ValueError(f"{row.place}{unknown[0]}: must be one of {', '.join(sorted(known))}")
