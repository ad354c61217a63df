"""The iteration that stands for a recorded job as Chakra's graphs, one for each rank, as ASTRA-sim reads them.

    node 0              METADATA     the process groups, as PyTorch lists them; everything follows it
    node 2 k + 2        COMP         what the rank computes in step k, in whole microseconds
                        COMM_COLL    comm_type, comm_size (the rank's input, B), pg_name (a number; 0 has all ranks)
                        COMM_SEND    comm_size, comm_dst, comm_tag (the number of the message from this rank to that)
                        COMM_RECV    comm_size, comm_src, comm_tag
    node 2 k + 1        COMP         of the host: how late the rank joins the communication of step k

ASTRA-sim replays the durations. A rank has one collective or send at a time there, so that each follows the one before,
in an order that all ranks have: otherwise two ranks could wait for each other. There are no barriers, which are left
out; a broadcast takes no time; and gather, scatter, reduce and an uneven all-to-all do not exist, and are refused. The
files were written from its source; it was not run here.
Source: astra-sim/astra-sim at 518bd51, astra-sim/workload/Workload.cc and HardwareResource.cc.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.formats.chakra import messages
from topoflow.capture.formats.chakra.messages import attribute
from topoflow.capture.formats.execution_trace.nodes import GROUPS
from topoflow.capture.torch_names import DTYPES
from topoflow.traffic.captured.dependencies import Step, StepMember, replayed

VERSION = "0.0.4"  # as ASTRA-sim's generators write it
SUPPORTED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
OF_ALL = 0  # the number of the group of all ranks
NAMES = {name: written for written, name in reversed(DTYPES.items())}  # float32 -> Float


@dataclass
class _Rank:
    """The nodes of a rank so far."""

    nodes: list[Any] = field(default_factory=list)
    stands_for: dict[int, tuple[int, ...]] = field(default_factory=dict)  # step -> ids
    computed: float = 0.0  # s; rounded as a sum, so that a rank's whole time is right
    last: int | None = None  # its last collective or send


def chakra_files(trace: Trace) -> dict[str, bytes]:
    """Name -> content: ``NAME.RANK.et`` of every rank, and ``NAME.groups.json``, ASTRA-sim's file of process groups.

    ValueError for what ASTRA-sim does not have, for ranks that contradict each other, and where ranks are missing that
    cannot be distinguished from the others.
    """
    iteration, job = replayed(trace)
    ranks = range(trace.world_size)
    groups = _groups(job, tuple(ranks))
    tags = _Tags()
    files_of_ranks = {rank: _Rank([_listing(groups, trace.world_size)]) for rank in ranks}
    for number, step in enumerate(job):
        _check(step, f"trace {trace.name}, iteration {iteration.number}")
        for member in step.members:
            _add(files_of_ranks[member.rank], number, member, groups, tags)
    head = messages.message_classes()["GlobalMetadata"](version=VERSION)
    name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in trace.name) or "trace"
    files = {f"{name}.{rank}.et": messages.write([head, *files_of_ranks[rank].nodes]) for rank in ranks}
    listed = {str(number): list(group) for group, number in groups.items() if number != OF_ALL}
    return {**files, f"{name}.groups.json": f"{json.dumps(listed, indent=1)}\n".encode()}


class _Tags:
    """The k-th message of a pair of ranks, counted at either end."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)

    def next(self, op: str, source: int, target: int) -> int:
        self._counts[op][source, target] += 1
        return self._counts[op][source, target] - 1


def _groups(job: Sequence[Step], everyone: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Number by the ranks of a group, in the order in which they are first used; that of all ranks has the first."""
    groups = {everyone: OF_ALL}
    for step in job:
        event = step.members[0].event
        if isinstance(event, Communication) and event.op in SUPPORTED:
            groups.setdefault(event.group, len(groups))
    return groups


def _listing(groups: Mapping[tuple[int, ...], int], world_size: int) -> Any:
    """Node 0. ASTRA-sim strips ``['`` and ``']`` of the text, and takes a group without ranks for all."""
    listed = [
        {"pg_name": str(number), "ranks": [] if number == OF_ALL else list(group), "group_size": len(group)}
        for group, number in groups.items()
    ]
    inputs = messages.message_classes()["IOInfo"](values=f"['{json.dumps(listed)}']")
    kind, host = messages.METADATA, [attribute("is_cpu_op", "bool", True)]
    return messages.message_classes()["Node"](id=0, name=GROUPS, type=kind, inputs=inputs, attr=host)


def _check(step: Step, place: str) -> None:
    for member in step.members:
        event = member.event
        if isinstance(event, ComputeSpan) or event.op in (*SUPPORTED, "send", "recv", "barrier"):
            uneven = isinstance(event, Communication) and len({*event.splits_in, *event.splits_out}) > 1
            if not uneven:
                continue
        what = event.op if isinstance(event, Communication) else ""
        uneven_name = "an uneven " if what in SUPPORTED else ""
        raise ValueError(
            f"{place}: communication must be {', '.join(SUPPORTED)} with equal shares, or a message, for ASTRA-sim, "
            f"got {uneven_name}{what} of rank {member.rank}"
        )


def _add(rank: _Rank, number: int, member: StepMember, groups: Mapping[tuple[int, ...], int], tags: _Tags) -> None:
    """Add the nodes of one rank's part in a step."""
    awaited = sorted({node_id for earlier in member.after for node_id in rank.stands_for[earlier]})
    event = member.event
    if isinstance(event, Communication) and event.op == "barrier":
        rank.stands_for[number] = tuple(awaited)
        return
    if isinstance(event, ComputeSpan):
        node = _node(rank, 2 * number + 2, event.name, messages.COMPUTE, awaited, seconds=member.seconds)
    else:
        if member.seconds > 0:
            late = _node(rank, 2 * number + 1, "host", messages.COMPUTE, awaited, seconds=member.seconds, on_host=True)
            awaited = [late.id]
        if event.op != "recv":
            awaited = sorted({*awaited, *(() if rank.last is None else (rank.last,))})
            rank.last = 2 * number + 2
        node = _node(rank, 2 * number + 2, *_communication(event, groups), awaited)
        node.attr.extend(_attributes(member.rank, event, groups, tags))
        node.inputs.types = f"['Tensor({NAMES[event.dtype]})']"
    rank.stands_for[number] = (node.id,)


def _node(
    rank: _Rank,
    number: int,
    name: str,
    kind: int,
    awaited: Sequence[int],
    *,
    seconds: float = 0.0,
    on_host: bool = False,
) -> Any:
    before = round(rank.computed * 1e6)
    rank.computed += seconds
    node = messages.message_classes()["Node"](
        id=number,
        name=name,
        type=kind,
        data_deps=awaited or [0],
        duration_micros=round(rank.computed * 1e6) - before,
        attr=[attribute("is_cpu_op", "bool", on_host)],
    )
    rank.nodes.append(node)
    return node


def _communication(event: Communication, groups: Mapping[tuple[int, ...], int]) -> tuple[str, int]:
    """Name and type of the node."""
    if event.peer is None:
        return f"{event.op} {groups[event.group]}", messages.COLLECTIVE
    return f"{event.op} {event.peer}", messages.SEND if event.op == "send" else messages.RECEIVE


def _attributes(rank: int, event: Communication, groups: Mapping[tuple[int, ...], int], tags: _Tags) -> list[Any]:
    if event.peer is not None:
        ends = (rank, event.peer) if event.op == "send" else (event.peer, rank)
        return [
            attribute("comm_size", "int64", event.bytes),
            attribute("comm_src", "int32", ends[0]),
            attribute("comm_dst", "int32", ends[1]),
            attribute("comm_tag", "int32", tags.next(event.op, *ends)),
        ]
    return [
        attribute("comm_type", "int64", messages.COLLECTIVES.index(event.op)),
        attribute("comm_size", "int64", event.bytes_in),
        attribute("pg_name", "string", str(groups[event.group])),
    ]
