"""The flows of a collective of NCCL: what each pair of ranks sends, and how long all wait before.

The time of ``nccl_time`` is a wait, then bytes over links and ports. Here the same bytes are flows between ranks, so
that an engine shares links among all that use them. Alone on its cluster, a ring takes exactly the predicted time.

    inside a node      every GPU sends its bytes to the next; without NVSwitches an equal part to each of the others
    ring               on each rail, from a node to the next
    collnet, nvls      on each rail, to the next node in place of the switches that reduce
    tree, nvls_tree    on each rail, along the edges of a double binary tree of nodes, half of the buffer each way
    pat                on each rail, to the nodes at distances 1, 2, 4, ..
    p2p                on each rail, from a node to each other node

Flows stand for all channels together. A flow carries the bytes that its protocol puts on the wire.

Shapes: n ranks, F flows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import NamedTuple

from topoflow.collectives.algorithms import named
from topoflow.collectives.calibration import Calibration, read
from topoflow.collectives.communicator import MAX_CHANNELS, Communicator
from topoflow.collectives.nccl import Choice, Overrides, choose_each
from topoflow.collectives.nccl_time import (
    INSIDE,
    WIRE,
    CollectiveRun,
    CollectiveWork,
    Inside,
    NetworkCoefficients,
    calibrated,
    network_named,
    network_of,
    work_of,
)
from topoflow.collectives.tuning_tables import PROTOCOLS
from topoflow.hardware import Node

Members = tuple[int, ...]  # of each rank, the number of its node among those of the group


@dataclass(frozen=True)
class Nccl:
    """The version of NCCL and its settings; fields are those of its environment variables."""

    version: str | None = None  # null: the newest that is known
    algo: str = ""  # NCCL_ALGO: names, comma-separated; ^ excludes them
    proto: str = ""  # NCCL_PROTO
    min_channels: int = 1  # NCCL_MIN_NCHANNELS
    max_channels: int = MAX_CHANNELS  # NCCL_MAX_NCHANNELS
    network: str | None = None  # infiniband or slingshot; null: the one of the node
    pxn: bool = True  # not NCCL_PXN_DISABLE
    collnet: bool = False  # NCCL_COLLNET_ENABLE
    calibration: str | None = None  # FILE of topoflow calibrate nccl
    loaded: Calibration | None = field(init=False)  # the content of that file

    def __post_init__(self) -> None:
        overrides = Overrides(self.algo, self.proto)
        overrides.algorithms(), overrides.protocols()
        if self.network is not None:
            network_named(self.network)
        if self.network is not None and self.calibration is not None:
            raise ValueError(f"nccl.network: must be left out with nccl.calibration, which has one, got {self.network}")
        loaded = None if self.calibration is None else read(Path(self.calibration))
        object.__setattr__(self, "loaded", loaded)

    def coefficients(self, comm: Communicator) -> tuple[Inside, NetworkCoefficients]:
        """Return the coefficients of times; raise ``ValueError`` where the calibration is of another kind of node."""
        if self.loaded is None:
            return INSIDE[calibrated(comm)], network_named(self.network or network_of(comm.node))
        if self.loaded.kind != calibrated(comm):
            rule = f"must be {calibrated(comm)}, as node {comm.node.name} is"
            raise ValueError(f"{self.calibration}: kind: {rule}, got {self.loaded.kind}")
        return self.loaded.inside, self.loaded.network


class Flow(NamedTuple):
    """The bytes that one rank sends to another."""

    source: int
    target: int
    bytes: float
    limit: float  # B/s, at most
    channel: int  # inside a node, the distance to the next rank; between nodes, tells apart flows of the same ranks


class CollectiveFlows(NamedTuple):
    """A collective: all flows start after ``wait`` seconds."""

    wait: float
    flows: tuple[Flow, ...]
    algorithm: str

    @property
    def alone(self) -> float:
        """The time (s) of flows that share no link."""
        return self.wait + max((flow.bytes / flow.limit for flow in self.flows), default=0.0)

    def repeated(self, calls: int) -> CollectiveFlows:
        """Return the flows of ``calls`` one after the other: the sum of their waits, then all their bytes."""
        flows = tuple(flow._replace(bytes=calls * flow.bytes) for flow in self.flows)
        return CollectiveFlows(calls * self.wait, flows, self.algorithm)

    def folded(self, members: Members, groups: int) -> CollectiveFlows:
        """Return the flows between nodes, for as many equal ``groups`` side by side as fill their GPUs."""
        sums: dict[tuple[int, int, int], list[float]] = {}
        for source, target, bytes, limit, channel in self.flows:
            total = sums.setdefault((members[source], members[target], channel), [0.0, 0.0])
            total[0] += groups * bytes
            total[1] += groups * limit
        flows = tuple(Flow(a, b, bytes, limit, channel) for (a, b, channel), (bytes, limit) in sums.items())
        return CollectiveFlows(self.wait, flows, self.algorithm)


@cache
def flows(node: Node, nccl: Nccl, op: str, size: float, members: Members) -> CollectiveFlows:
    """Return the flows of a collective of ``size`` bytes among ranks whose nodes are ``members`` [n].

    A group with unequal numbers of ranks on its nodes is chosen for as if all had the most.
    """
    places: dict[int, list[int]] = {}
    for rank, number in enumerate(members):
        places.setdefault(number, []).append(rank)
    by_node = [*places.values()]
    if len(members) == 1:
        return CollectiveFlows(0.0, (), "")
    run, work = _chosen(_communicator(node, nccl, len(by_node), max(map(len, by_node))), nccl, op, size)
    sent = [*_inside(run, work, by_node), *_between(run, work, by_node)]
    return CollectiveFlows(_wait(run, work), tuple(sent), run.choice.algorithm)


def least_alone(
    node: Node, nccl: Nccl, op: str, sizes: Sequence[float], nodes: int, on_node: int
) -> list[tuple[float, float]]:
    """Return the least times (s) of a collective of each of ascending ``sizes`` (B): with its wait, and of its flows.

    It has ``on_node`` ranks on each of ``nodes``, and each rank sends by its own ports, which no other flow uses. NCCL
    may choose otherwise between two sizes, and what it chooses for the larger one may take longer there. So each size
    has the shortest time of what is chosen for it and for its neighbours, or that of one byte less, as some costs rise
    at a size.
    """
    if nodes * on_node == 1:
        return [(0.0, 0.0)] * len(sizes)
    comm = _communicator(node, nccl, nodes, on_node)
    choices = _choices(comm, nccl, op, sizes)
    least_times = []
    for i, size in enumerate(sizes):
        neighbours = choices[max(i - 1, 0) : i + 2]
        near = {(choice.algorithm, choice.protocol, choice.channels): choice for choice in neighbours}
        times = [
            _alone(*_work(comm, nccl, op, amount, choice)) for choice in near.values() for amount in (size, size - 1)
        ]
        least_times.append((min(map(sum, times)), min(sending for _, sending in times)))
    return least_times


def _alone(run: CollectiveRun, work: CollectiveWork) -> tuple[float, float]:
    nodes = run.comm.nodes
    within = work.within / run.link_rate if run.comm.ranks > nodes else 0.0  # as ``_inside``
    if nodes == 1 or not work.crossing:
        return _wait(run, work), within
    return _wait(run, work), max(within, _busiest(run.choice.algorithm, nodes) * work.crossing / run.port_rate)


@cache
def _busiest(algorithm: str, nodes: int) -> float:
    """Return the largest share of ``crossing`` that a node sends."""
    sent: Counter[int] = Counter()
    for source, _, part in named(algorithm).edges(nodes):
        sent[source] += part
    return max(sent.values(), default=0.0)


@cache
def _communicator(node: Node, nccl: Nccl, nodes: int, on_node: int) -> Communicator:
    limits = nccl.min_channels, nccl.max_channels
    return Communicator(node, nodes * on_node, on_node, nccl.version or "", *limits, nccl.collnet)


def _chosen(comm: Communicator, nccl: Nccl, op: str, size: float) -> tuple[CollectiveRun, CollectiveWork]:
    """Return NCCL's choice for a collective of ``size`` bytes, and its work."""
    return _work(comm, nccl, op, size, *_choices(comm, nccl, op, [size]))


def _choices(comm: Communicator, nccl: Nccl, op: str, sizes: Sequence[float]) -> list[Choice]:
    return choose_each(comm, op, [max(round(size), 1) for size in sizes], overrides=Overrides(nccl.algo, nccl.proto))


def _work(comm: Communicator, nccl: Nccl, op: str, size: float, choice: Choice) -> tuple[CollectiveRun, CollectiveWork]:
    run = CollectiveRun(comm, op, max(round(size), 1), choice, *nccl.coefficients(comm))
    return run, work_of(run, nccl.pxn)


def _wait(run: CollectiveRun, work: CollectiveWork) -> float:
    return run.inside.launch + work.latency + (work.between if run.comm.nodes > 1 else 0.0)


@cache
def send_wait(node: Node, nccl: Nccl, between_nodes: bool) -> float:
    """Return the seconds before the bytes of an ncclSend move: its launch, and a step inside or between nodes."""
    comm = Communicator(node, 2, 1 if between_nodes else 2, nccl.version or "", nccl.min_channels, nccl.max_channels)
    inside, network = nccl.coefficients(comm)
    place = PROTOCOLS.index("Simple")  # of messages that are not small
    return inside.launch + (network.hop[place] if between_nodes else inside.p2p_hop[place])


def _inside(run: CollectiveRun, work: CollectiveWork, by_node: Sequence[Sequence[int]]) -> Iterable[Flow]:
    """Yield the flows inside nodes."""
    for ranks in by_node:
        size = len(ranks)
        steps = range(1, 2 if run.comm.node.switched or run.comm.inside != "NVL" else size)
        for place, rank in enumerate(ranks if size > 1 and work.within > 0 else ()):
            for step in steps:
                yield Flow(
                    rank, ranks[(place + step) % size], work.within / len(steps), run.link_rate / len(steps), step
                )


def _between(run: CollectiveRun, work: CollectiveWork, by_node: Sequence[Sequence[int]]) -> Iterable[Flow]:
    """Yield the flows between nodes, as many at the same time as a node has ranks."""
    nodes, rails = len(by_node), run.comm.used
    bytes = work.crossing * WIRE[run.choice.protocol] / run.network.efficiency / rails
    channel_counts: Counter[tuple[int, int]] = Counter()
    for source, target, part in named(run.choice.algorithm).edges(nodes) if nodes > 1 and bytes > 0 else ():
        here, there, channel = by_node[source], by_node[target], channel_counts[source, target]
        channel_counts[source, target] += 1
        for rail in range(rails):
            yield Flow(here[rail % len(here)], there[rail % len(there)], part * bytes, inf, channel)
