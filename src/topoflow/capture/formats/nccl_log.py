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
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.nccl import DTYPES, FUNCTIONS, UNKNOWN, RankCommunicator, operation_of
from topoflow.capture.iterations import by_repetition, unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation
from topoflow.fields import LARGEST_WORLD
from topoflow.operations import ROOTED

SAID = b" NCCL INFO "
HEAD = 2**20  # B of a file in which a call must be, else it is none of these logs
DAMAGED = "lines of NCCL are damaged, and are left out"
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


def matches(source: InputFile) -> bool:
    """Return whether the file begins with lines of NCCL, calls among them."""
    head = source.data[:HEAD]
    return not source.looks_like_json and SAID in head and b": opCount " in head


def parse(source: InputFile) -> list[RankRecord]:
    """Return a part for each rank. Raises ``ValueError`` that names file, line, field, law and value."""
    opened: dict[tuple[str, str, str], tuple[Device, RankCommunicator]] = {}  # by host, process and address
    largest: dict[Device, RankCommunicator] = {}
    calls: dict[Device, list[RecordedOperation]] = defaultdict(list)
    counts = Counter[str]()
    for number, line in enumerate(source.data.decode(errors="replace").split("\n"), start=1):
        place = f"{source.name}:{number}: "
        if (said := OPENED.search(line)) and int(said["rank"]) < int(said["ranks"]) <= LARGEST_WORLD:
            device = said["host"], said["process"], said["device"]
            communicator = _communicator(said, number)
            opened[said["host"], said["process"], said["comm"]] = device, communicator
            largest[device] = max(largest.get(device, communicator), communicator, key=lambda one: one.ranks or 0)
        elif called := CALLED.search(line):
            known = opened.get((called["host"], called["process"], called["comm"]))
            if known is None:
                law = "must be opened by an earlier line (NCCL_DEBUG_SUBSYS=INIT,COLL)"
                raise ValueError(f"{place}comm: {law}, got {called['comm']}")
            operation = _operation(place, called, known[1])
            counts[UNKNOWN] += operation is None
            if operation is not None:
                calls[known[0]].append(operation)
        else:
            counts[DAMAGED] += said is not None or ": opCount " in line
    records = [_record(source, job, calls[device]) for device, job in largest.items()]
    return [replace(record, counts=counts) for record in records[:1]] + records[1:]  # counted once in the file


def _communicator(said: re.Match[str], number: int) -> RankCommunicator:
    key = said["key"] or f"{said['comm']} of line {number}"  # an address may be that of another communicator later
    return RankCommunicator(key, "", int(said["ranks"]), int(said["rank"]), said["key"] is not None)


def _operation(place: str, called: re.Match[str], within: RankCommunicator) -> RecordedOperation | None:
    """Return a call as an operation, or None if its function or data type is unknown."""
    function, datatype = called["function"].replace("AllToAll", "AlltoAll"), int(called["datatype"])
    if function not in FUNCTIONS or datatype >= len(DTYPES):
        return None
    op = FUNCTIONS[function][0]
    other = int(called["root"]) if op in POINT_TO_POINT or op in ROOTED else None
    if other is not None and not 0 <= other <= within.last:
        raise ValueError(f"{place}root: must be within 0..{within.last}, got {other}")
    return operation_of(place, function, [*DTYPES.values()][datatype], int(called["count"]), within, other)


def _record(source: InputFile, job: RankCommunicator, operations: list[RecordedOperation]) -> RankRecord:
    """Return what a rank did; ``job`` is its largest communicator."""
    iterations = by_repetition([(each.op, each.group_key, each.dtype, each.bytes_in) for each in operations])
    count = max(iterations, default=0) + 1
    return RankRecord(
        file=source.name,
        rank=job.rank,
        events=tuple(replace(op, iteration=at) for op, at in zip(operations, iterations, strict=True)),
        source="NCCL's log",
        iterations=count,
        rank_within=job.ranks,
        ended=False,
        notes=unmarked(count),
    )
