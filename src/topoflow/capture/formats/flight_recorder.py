"""Dumps of PyTorch's Flight Recorder, one file per rank: JSON, or the pickle that a job leaves when it hangs.

Sizes and process groups are exact, with NCCL also of sends and receives. There is no compute, no root, and no splits of
an all-to-all in one tensor; the last 2,000 operations are kept (TORCH_FR_BUFFER_SIZE). The name of a file ends with its
rank. A pickle may hold programs: ``capture.plain_pickle`` refuses whatever is no plain data.
Source: pytorch v2.13 torch/csrc/distributed/c10d: FlightRecorder.hpp, FlightRecorderDetail.hpp; the names that
ProcessGroupNCCL.cpp gives to operations; torch/distributed/flight_recorder/components.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import PurePath

from topoflow.capture import plain_pickle
from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.execution_trace.operations import DEFAULT_GROUPS
from topoflow.capture.iterations import unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation, in_repetitions
from topoflow.capture.torch_names import collective_of, dtype_of, left_out
from topoflow.fields import LARGEST_INTEGER, LARGEST_RANK, Fields, parse_json
from topoflow.units import DTYPE_BYTES

KEYS = ("version", "pg_config", "entries")
VERSION = "2."
PICKLE = re.compile(rb"\x80[\x02-\x05]")
GLOO = "gloo:"
NO_MESSAGES = "Flight Recorder does not record sends and receives over gloo"


@dataclass(frozen=True)
class DumpedJob:
    """The job of a dump, and the rank that wrote it."""

    rank: int
    epoch: int  # ns, time 0
    groups: Mapping[str, tuple[int, ...]]
    world_size: int | None


def matches(source: InputFile) -> bool:
    """An object with a version, process groups and entries."""
    if PICKLE.match(source.data):
        return all(key.encode() in source.data for key in KEYS)
    return isinstance(source.document, dict) and set(KEYS) <= source.document.keys()


def parse(source: InputFile) -> list[RankRecord]:
    """Return the one record. Raises ``ValueError`` that names file, entry, field, law and value."""
    pickled = PICKLE.match(source.data) is not None
    content = plain_pickle.read(source.name, source.data) if pickled else source.document
    dump = Fields.of(f"{source.name}: ", content)
    if not dump.text("version").startswith(VERSION):
        dump.fail("version", f"must begin with {VERSION}")
    groups, world_size = _groups(dump)
    counts = Counter[str]()
    entries = [Fields.of(f"{source.name}: entries[{at}].", item) for at, item in enumerate(dump.items("entries"))]
    epoch = min((entry.integer("time_created_ns") for entry in entries), default=0)
    job = DumpedJob(_rank(source.name), epoch, groups, world_size)
    parsed_entries = [_operation(entry, job, counts) for entry in entries]
    operations = [operation for operation in parsed_entries if operation is not None]
    events, iterations = in_repetitions(operations)
    gloo = any(entry.text("profiling_name").startswith(GLOO) for entry in entries)
    return [
        RankRecord(
            file=source.name,
            rank=job.rank,
            events=events,
            source=f"Flight Recorder {dump.text('version')[:10]}",
            world_size=world_size,
            iterations=iterations,
            groups={name: ranks for name, ranks in groups.items() if ranks},
            epoch_ns=epoch,
            counts=counts,
            notes=(*((NO_MESSAGES,) if gloo else ()), *unmarked(iterations)),
        )
    ]


def _rank(file: str) -> int:
    named = re.search(r"(\d{1,7})$", PurePath(file).name.split(".")[0])
    if named is None or int(named[1]) > LARGEST_RANK:
        raise ValueError(f"{file}: must have a name that ends with its rank, as nccl_trace_rank_3, got none")
    return int(named[1])


def _groups(dump: Fields) -> tuple[dict[str, tuple[int, ...]], int | None]:
    """Ranks by the name of their group, () where they are not listed, as of gloo; and the number of all ranks."""
    groups: dict[str, tuple[int, ...]] = {}
    world_size = None
    config = Fields.of(f"{dump.place}pg_config.", dump.require("pg_config"))
    for name in config.values:
        group = Fields.of(f"{config.place}{str(name)[:40]}.", config.values[name])
        listed = group.require("ranks")
        if isinstance(listed, str):
            listed = parse_json(f"{group.place}ranks", listed)
        ranks = Fields(group.place, {"ranks": listed}).integers("ranks", highest=LARGEST_RANK)
        groups[group.text("name")[:80]] = ranks
        if ranks and (group.text("desc") == DEFAULT_GROUPS[1] or group.text("name") in DEFAULT_GROUPS):
            world_size = len(ranks)
    return groups, world_size


def _operation(entry: Fields, job: DumpedJob, counts: Counter[str]) -> RecordedOperation | None:
    """The operation of an entry; None for one that is no collective, which is counted."""
    text = entry.text("profiling_name").rpartition(":")[2]
    name, _, ends = text.partition(" ")
    op = collective_of(name)
    if op is None:
        counts[left_out(name)] += 1
        return None
    names = entry.texts("process_group")
    if not names:
        entry.fail("process_group", "must be a name and a description")
    group = job.groups.get(names[0]) or None
    into, dtype_in = _tensors(entry, "input")
    out, dtype_out = _tensors(entry, "output")
    barrier = op == "barrier"
    operation = RecordedOperation(
        place=f"{entry.place}{op}",
        op=op,
        group=group,
        group_name=names[0][:80],
        group_key=names[0][:80],
        group_of_all=group is None and names[0] in DEFAULT_GROUPS,
        dtype="uint8" if barrier else dtype_in or dtype_out,
        bytes_in=0 if barrier else _total(into),
        bytes_out=0 if barrier else _total(out),
        sequence=None if op in POINT_TO_POINT else entry.integer("collective_seq_id"),
        issue=(entry.integer("time_created_ns") - job.epoch) * 1e-9,
        operator=_unsized(entry, op, dtype_in or dtype_out),
        completed=entry.values.get("state") in (None, "completed"),
    )
    if op in POINT_TO_POINT:
        return _message(operation, entry, ends, job.rank)
    if op == "all_to_all" and group is not None and dtype_in and dtype_out and len(into) == len(out) == len(group):
        element_in, element_out = DTYPE_BYTES[dtype_in], DTYPE_BYTES[dtype_out]
        splits = tuple(size // element_in for size in into), tuple(size // element_out for size in out)
        return replace(operation, splits_in=splits[0], splits_out=splits[1])
    return operation


def _tensors(entry: Fields, side: str) -> tuple[list[int], str | None]:
    """Return the bytes of each tensor, and their dtype; None if there is no tensor, or if its dtype is unknown."""
    dtypes = entry.texts(f"{side}_dtypes")
    sizes = entry.items(f"{side}_sizes")
    if not dtypes or not sizes:
        return [], None
    dtype = dtype_of(dtypes[0])
    if dtype is None:
        return [], None
    shapes = [Fields(entry.place, {f"{side}_sizes": size}).integers(f"{side}_sizes") for size in sizes]
    tensor_bytes = [prod(shape) * DTYPE_BYTES[dtype] for shape in shapes]
    if sum(tensor_bytes) > LARGEST_INTEGER:
        entry.fail(f"{side}_sizes", f"must be at most {LARGEST_INTEGER} B in all")
    return tensor_bytes, dtype


def _unsized(entry: Fields, op: str, dtype: str | None) -> str:
    """Return the name of an operation whose tensors have a type of unknown size; empty for others."""
    written = (*entry.texts("input_dtypes"), *entry.texts("output_dtypes"))
    return f"{op} of {written[0][:40]}" if dtype is None and written else ""


def _total(sizes: list[int]) -> int | None:
    return sum(sizes) if sizes else None


def _message(operation: RecordedOperation, entry: Fields, ends: str, rank: int) -> RecordedOperation:
    """Return a send or receive: ``send 1->2`` and ``recv 2<-1`` name places in the group."""
    named = re.fullmatch(r"(\d{1,7})(?:->|<-)(\d{1,7})", ends)
    if named is None:
        entry.fail("profiling_name", "must name both ends, as nccl:send 0->1")
    place, peer_place = int(named[1]), int(named[2])
    group = operation.group
    if group is None:
        return replace(operation, group_rank=place, other=peer_place)
    if max(place, peer_place) >= len(group) or group[place] != rank:
        entry.fail("profiling_name", f"must begin with the place of rank {rank} in {list(group)[:8]}")
    return replace(operation, peer=group[peer_place])
