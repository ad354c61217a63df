"""NCCL's own log (``NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL``), and RCCL's: every call, without times and compute.

    h:41:41 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 .. commId 0x9f - Init COMPLETE
    h:41:41 [0] NCCL INFO AllReduce: opCount 0 .. count 9 datatype 7 op 0 root 0 comm 0x55 [nranks=2] ..

One file may have the lines of all ranks, as a launcher prints them, or each rank its own (``NCCL_DEBUG_FILE``). The
number of a rank is its place in the largest communicator, which must be all ranks of the job.

Source: NVIDIA/nccl src/enqueue.cc and src/init.cc, ROCm/rccl src/enqueue.cc.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.nccl import FUNCTIONS, UNKNOWN
from topoflow.capture.iterations import by_repetition, unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD
from topoflow.operations import ROOTED
from topoflow.units import DTYPE_BYTES

SAID = b" NCCL INFO "
HEAD = 2**20  # B of a file in which a call must be, else it is none of these logs
DAMAGED = "lines of NCCL calls are damaged, and are left out"
# ncclDataType_t (NCCL, src/nccl.h.in), by number.
DTYPES = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"),
    *("float8_e4m3fn", "float8_e5m2"),
)
OPENED = re.compile(
    r"(?P<host>[^\s:]+):(?P<process>\d+):\d+ \[-?\d+\] NCCL INFO .*?comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) "
    r"nranks (?P<ranks>\d+) cudaDev (?P<device>\d+)(?:.*? commId (?P<key>0x[0-9a-f]+))?.*? - Init COMPLETE"
)
CALLED = re.compile(
    r"(?P<host>[^\s:]+):(?P<process>\d+):\d+ \[-?\d+\] NCCL INFO (?P<function>\w+): opCount [0-9a-f]+ sendbuff \S+ "
    r"recvbuff \S+ count (?P<count>\d+) datatype (?P<datatype>\d+) op \d+ root (?P<root>-?\d+) comm "
    r"(?P<comm>0x[0-9a-f]+) \[nranks=(?P<ranks>\d+)\]"
)
Device = tuple[str, str, str]  # host, process, its GPU: a rank of the job


@dataclass(frozen=True)
class LoggedCommunicator:
    """A communicator as one of its ranks opened it."""

    device: Device
    key: str
    is_shared: bool  # the key is the same on all its ranks
    rank: int
    ranks: int


def matches(source: InputFile) -> bool:
    """Return whether the file begins with lines of NCCL, calls among them."""
    head = source.data[:HEAD]
    return not source.looks_like_json and SAID in head and b": opCount " in head


def parse(source: InputFile) -> list[RankRecord]:
    """Return a part for each rank. Raises ``ValueError`` that names file, line, field, law and value."""
    open_: dict[tuple[str, str, str], LoggedCommunicator] = {}  # by host, process and address
    largest: dict[Device, LoggedCommunicator] = {}
    calls: dict[Device, list[RecordedOperation]] = defaultdict(list)
    counts = Counter[str]()
    for number, line in enumerate(source.data.decode(errors="replace").split("\n"), start=1):
        place = f"{source.name}:{number}: "
        if opened := OPENED.search(line):
            communicator = _communicator(opened, number)
            open_[opened["host"], opened["process"], opened["comm"]] = communicator
            known = largest.setdefault(communicator.device, communicator)
            if communicator.ranks > known.ranks:
                largest[communicator.device] = communicator
        elif called := CALLED.search(line):
            within = open_.get((called["host"], called["process"], called["comm"]))
            if within is None:
                law = "must be opened by an earlier line (NCCL_DEBUG_SUBSYS=INIT,COLL)"
                raise ValueError(f"{place}comm: {law}, got {called['comm']}")
            operation = _operation(place, called, within)
            counts[UNKNOWN] += operation is None
            if operation is not None:
                calls[within.device].append(operation)
        else:
            counts[DAMAGED] += ": opCount " in line
    return [_record(source, largest[device], calls[device], counts) for device in largest]


def _communicator(opened: re.Match[str], number: int) -> LoggedCommunicator:
    ranks = min(max(int(opened["ranks"]), 1), LARGEST_WORLD)
    return LoggedCommunicator(
        (opened["host"], opened["process"], opened["device"]),
        opened["key"] or f"{opened['comm']} of line {number}",  # an address may be that of another one later
        opened["key"] is not None,
        min(int(opened["rank"]), ranks - 1),
        ranks,
    )


def _operation(place: str, called: re.Match[str], within: LoggedCommunicator) -> RecordedOperation | None:
    """Return a call as an operation, or None if its function or data type is unknown."""
    datatype = int(called["datatype"])
    function = called["function"].replace("AllToAll", "AlltoAll")
    if function not in FUNCTIONS or datatype >= len(DTYPES):
        return None
    op, *counts = FUNCTIONS[function]
    size = int(called["count"]) * DTYPE_BYTES[DTYPES[datatype]]
    sent, received = (size * (within.ranks if count is None else count) for count in counts)
    other = int(called["root"]) if op in POINT_TO_POINT or op in ROOTED else None
    if other is not None and not 0 <= other < within.ranks:
        raise ValueError(f"{place}root: must be within 0..{within.ranks - 1}, got {other}")
    return RecordedOperation(
        place=f"{place}{op}",
        op=op,
        group_key=within.key,
        group_key_is_shared=within.is_shared,
        group_size=within.ranks,
        group_rank=within.rank,
        other=other,
        dtype=DTYPES[datatype],
        bytes_in=sent,
        bytes_out=received,
        splits_in=(),
        splits_out=(),
    )


def _record(
    source: InputFile, job: LoggedCommunicator, operations: list[RecordedOperation], counts: Counter[str]
) -> RankRecord:
    """Return what a rank did; ``job`` is its largest communicator."""
    iterations = by_repetition([(each.op, each.group_key, each.dtype, each.bytes_in) for each in operations])
    count = max(iterations, default=0) + 1
    return RankRecord(
        file=source.name,
        rank=min(job.rank, LARGEST_RANK),
        events=tuple(replace(op, iteration=at) for op, at in zip(operations, iterations, strict=True)),
        source="NCCL's log",
        iterations=count,
        rank_within=job.ranks,
        ended=False,
        counts=counts,
        notes=unmarked(count),
    )
