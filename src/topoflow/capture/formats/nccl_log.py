"""NCCL's own log (``NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL``), and RCCL's: every call, without times and compute.

    h:41:41 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 .. commId 0x9f - Init COMPLETE
    h:41:41 [0] NCCL INFO AllReduce: opCount 0 .. count 9 datatype 7 op 0 root 0 comm 0x55 [nranks=2] ..

One file may have the lines of all ranks, as a launcher prints them, or each rank its own (``NCCL_DEBUG_FILE``). Lines
may begin with what the launcher, or NCCL, adds (``[1,0]<stdout>:``, a date). A line that several ranks wrote at once
has the message of one within, or after, that of another: those that are whole count. The number of a rank is its place
in the largest communicator, which must be all ranks of the job.

Source: NVIDIA/nccl src/enqueue.cc and src/init.cc, ROCm/rccl src/enqueue.cc.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.nccl import DTYPES, FUNCTIONS, UNKNOWN, RankCommunicator, operation_of
from topoflow.capture.iterations import unmarked
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation, in_repetitions
from topoflow.fields import LARGEST_WORLD
from topoflow.operations import ROOTED

SAID = b" NCCL INFO "
HEAD = 2**20  # B of a file in which a call must be, else it is none of these logs
DAMAGED = "lines of NCCL are damaged, and are left out"
MESSAGE = re.compile(r"(?P<host>[^\s:]+):\d+:\d+ \[-?\d+\] NCCL INFO ")
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
    return SAID in head and b": opCount " in head and source.document is None


def parse(source: InputFile) -> list[RankRecord]:
    """Return a record for each rank. Raises ``ValueError`` that names file, line, field, law and value."""
    opened: dict[tuple[str, str, str], tuple[Device, RankCommunicator]] = {}  # by host, process and address
    largest: dict[Device, RankCommunicator] = {}
    calls: dict[Device, list[RecordedOperation]] = defaultdict(list)
    counts, hosts = Counter[str](), set[str]()
    for number, message, is_alone in _messages(source):
        place = f"{source.name}:{number}: "
        if (opening := OPENED.search(message)) and int(opening["rank"]) < int(opening["ranks"]) <= LARGEST_WORLD:
            host = opening["host"] if is_alone else _host(opening["host"], hosts)
            hosts.add(host)
            device = host, opening["process"], opening["device"]
            communicator = _communicator(opening, number)
            opened[host, opening["process"], opening["comm"]] = device, communicator
            largest[device] = max(largest.get(device, communicator), communicator, key=lambda job: job.ranks or 0)
        elif called := CALLED.search(message):
            host = called["host"] if is_alone else _host(called["host"], hosts)
            owner = opened.get((host, called["process"], called["comm"]))
            if owner is None and not is_alone:
                counts[DAMAGED] += 1
                continue
            if owner is None:
                requirement = "must be opened by an earlier line (NCCL_DEBUG_SUBSYS=INIT,COLL)"
                raise ValueError(f"{place}comm: {requirement}, got {called['comm']}")
            operation = _operation(place, called, owner[1])
            counts[UNKNOWN] += operation is None
            if operation is not None:
                calls[owner[0]].append(operation)
        else:
            counts[DAMAGED] += opening is not None or ": opCount " in message
    records = [_record(source, job, calls[device]) for device, job in largest.items()]
    return [replace(record, counts=counts) for record in records[:1]] + records[1:]  # counted once in the file


def _messages(source: InputFile) -> Iterator[tuple[int, str, bool]]:
    """Yield the number of a line, a message of it, and whether it is the only one.

    A message ends with the next one's host, since the word before that may be the last of its own.
    """
    for number, line in enumerate(source.data.decode(errors="replace").split("\n"), start=1):
        messages = list(MESSAGE.finditer(line))
        begins = [message.start() for message in messages] or [0]
        ends = [message.end("host") for message in messages[1:]] + [len(line)]
        for begin, end in zip(begins, ends, strict=True):
            yield number, line[begin:end], len(messages) < 2


def _host(written: str, hosts: Collection[str]) -> str:
    """Return the host of a message, which may follow the broken end of another without a space: ``0x7fb2gpu-0``."""
    candidates = [written] if written in hosts else [host for host in hosts if written.endswith(host)]
    return max(candidates, key=len, default=written)


def _communicator(opening: re.Match[str], number: int) -> RankCommunicator:
    # An address may be that of another communicator later.
    key = opening["key"] or f"{opening['comm']} of line {number}"
    return RankCommunicator(key, "", int(opening["ranks"]), int(opening["rank"]), opening["key"] is not None)


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
    events, iterations = in_repetitions(operations)
    return RankRecord(
        file=source.name,
        rank=job.rank,
        events=events,
        source="NCCL's log",
        iterations=iterations,
        rank_within=job.ranks,
        ended=False,
        notes=unmarked(iterations),
    )
