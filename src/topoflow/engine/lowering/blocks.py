"""Blocks: one collective as tasks of a world, per byte. Collectives of equal structure share a block.

A collective is a join that waits for all it depends on, the sends of its algorithm, and a join that the next tasks wait
for. Collectives that differ in their bytes or in their servers only have the same block: it counts the servers of its
group from 0. Shapes: B tasks, D dependencies, C connections of a block, F sends, R orders, n ranks, G groups.

``rings`` says what the sends of an algorithm that follows rings are: "steps" that wait for each other, 2 (n-1) per pair
of neighbours for an all-reduce, or "flows", one per pair, which waits the latency of all its steps and carries the
bytes of all (``collectives.ring`` says when both take the same time). A ring among n servers is 2 n (n-1) tasks, or n:
a DLRM on 128 servers is millions of tasks in steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topoflow.collectives import nccl_flows
from topoflow.collectives.algorithm import (
    NCCL,
    Algorithm,
    CollectiveCall,
    algorithms,
    check_algorithm,
    check_size,
    name_for,
    names,
)
from topoflow.collectives.algorithms.hierarchical import inside_shares
from topoflow.collectives.nccl_flows import Nccl
from topoflow.collectives.schedule import SendSchedule, SteadyStreams
from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.lowering.local_ports import slowdowns
from topoflow.engine.lowering.paths import NO_PATH, GpuFlows
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import Rerouted
from topoflow.hardware.cluster import Cluster
from topoflow.traffic.base import Collective
from topoflow.traffic.tasks import spans_nodes

Integer = TypeVar("Integer", np.int32, np.int64)
Orders = tuple[tuple[int, ...], ...]  # [R] each all servers of a group


@dataclass(frozen=True)
class Block:
    """The tasks of one collective.

    The first task waits for what the collective waits for, the last is what others wait for. ``after`` counts from the
    first task of the block, which has none here.
    """

    share: Floats  # [B] bytes on the network per byte of the collective
    local_share: Floats  # [B] bytes inside a server per byte of the collective
    connection: Ints  # [B] that a task sends on; NO_PATH: it sends nothing to another server
    connections: Offsets  # [3, C] source and target, as places in the group, and channel
    waits: Floats  # [B] how often the latency of the path is waited for, in addition to the flow's own
    after_count: Offsets  # [B]
    after: Offsets  # [D]
    reduces: bool = False  # takes the routes of all-reduces
    seconds: Floats | float = 0.0  # [B] that a task waits; it holds the latency of the path where ``waits`` is -1
    limit: Floats | None = None  # [C] B/s of each connection at most; None: all are unlimited
    flows: GpuFlows | None = None  # of all connections, where a task stands for flows between many nodes
    between: tuple[int, int] | None = None  # the tasks that begin and end the phase between servers, where others are

    @property
    def tasks(self) -> int:
        """The number B of tasks of the block."""
        return len(self.share)

    def ends(self, groups: Offsets) -> tuple[Offsets, Offsets, Offsets]:
        """Return [G, C] source, target and channel of its connections, on ``groups`` [G, n] of servers."""
        source, target, channel = self.connections
        return groups[:, source], groups[:, target], np.broadcast_to(channel, (len(groups), len(channel)))

    def on_tasks(self, values: NDArray[Integer]) -> NDArray[Integer]:
        """Return [G, B] the ``values`` [G, C] of the connections that tasks send on; -1 where they send nothing."""
        return np.pad(values, ((0, 0), (0, 1)), constant_values=-1)[:, self.connection]


RINGS = ("steps", "flows")
# Nothing to send: the first join is the last.
JOIN = Block(
    share=np.zeros(1),
    local_share=np.zeros(1),
    connection=np.full(1, NO_PATH, np.int32),
    connections=np.zeros((3, 0), np.int64),
    waits=np.zeros(1),
    after_count=np.zeros(1, np.int64),
    after=np.zeros(0, np.int64),
)


@dataclass
class BlockBuilder:
    """Makes blocks for one fabric."""

    fabric: Fabric
    all_reduce: str  # the algorithm of all-reduces that do not name theirs
    rings: str  # one of RINGS
    nccl: Nccl = field(default_factory=Nccl)
    nvlink_is_free: bool = False  # a collective inside a node shares its links with nothing else, and is a delay
    blocks: dict[tuple[object, ...], Block] = field(default_factory=dict)

    def of(self, task: Collective, where: str, ranks_per_server: int | None = None) -> Block:
        """Return the block of ``task``; ``where`` names it in errors."""
        name = self._algorithm(task, where)
        if task.bytes == 0 and task.splits is None:
            return JOIN
        if name == NCCL:
            return self._by_nccl(task, where)
        algorithm = algorithms()[name]
        orders = self._orders(task.group, algorithm)
        phased = algorithm.phased(task.op, len(task.group), task.local, ranks_per_server)
        groups = (ranks_per_server or task.local) // task.local
        bytes = task.bytes / (task.local * groups) if phased else task.bytes  # of each rank between servers
        chunks = algorithm.chunks(bytes, len(orders))
        size, in_order = len(task.group), orders == (task.group,)
        root = None if task.root is None else task.group.index(task.root)
        places = (tuple(range(size)),) if in_order else _places(task.group, orders)
        key = (task.op, name, size, task.local, phased, groups, root, task.splits, chunks, None if in_order else places)
        if key not in self.blocks:
            local = 1 if phased else task.local
            call = CollectiveCall(task.op, _ranks(places, local), None if root is None else root * local, chunks)
            block = _block(task, call, self._sends(name, call, where))
            self.blocks[key] = _with_phases(block, task, groups) if phased else block
        return self.blocks[key]

    def _by_nccl(self, task: Collective, where: str) -> Block:
        """Return the block of a collective for which NCCL chooses the algorithm."""
        cluster, size = self.fabric.cluster, self.fabric.folded
        if cluster is None:
            raise ValueError(
                f"{where}.algorithm: nccl must be on GPUs of nodes (node=), got servers of {self.fabric.name}"
            )
        if size > cluster.per_node:
            return self._of_joined_nodes(task, cluster)
        folded, number = size > 1, dict[int, int]()
        if folded:
            members = tuple(node for node in range(len(task.group)) for _ in range(task.local))
        else:
            nodes = node_of(self.fabric, np.array(task.group)).tolist()
            members = tuple(number.setdefault(node, len(number)) for node in nodes)
        key = task.op, NCCL, task.bytes, task.calls, members
        if key not in self.blocks:
            groups = max(size // task.local, 1)
            flows = flows_of_calls(cluster, self.nccl, task, groups, members)
            if self.nvlink_is_free and len(set(members)) == 1:
                self.blocks[key] = replace(JOIN, seconds=np.array([flows.alone]))
            else:
                self.blocks[key] = _nccl_block(flows.folded(members, groups) if folded else flows, task)
        return self.blocks[key]

    def _of_joined_nodes(self, task: Collective, cluster: Cluster) -> Block:
        """Return the block of collectives on endpoints of several nodes: the flows of all groups of ranks as one."""
        key = task.op, NCCL, task.bytes, task.calls, len(task.group), task.local, task.stride
        if key not in self.blocks:
            one_group, flows = joined_flows(cluster, self.nccl, task, self.fabric.folded)
            if flows is None or (self.nvlink_is_free and not spans_nodes(task, cluster.per_node)):
                self.blocks[key] = replace(JOIN, seconds=np.array([one_group.alone]))
            else:
                self.blocks[key] = replace(
                    JOIN,
                    share=np.array([flows.total / task.bytes]),
                    connection=np.zeros(1, np.int32),
                    connections=np.zeros((3, 1), np.int64),
                    waits=np.full(1, -1.0),
                    reduces=task.op == "all_reduce",
                    seconds=np.array([one_group.wait]),
                    flows=flows,
                )
        return self.blocks[key]

    def _algorithm(self, task: Collective, where: str) -> str:
        if task.local < 1:
            raise ValueError(f"{where}.local: must be positive, got {task.local}")
        if task.splits is not None and (task.op != "all_to_all" or task.local > 1):
            got = f"{task.op} with local={task.local}"
            raise ValueError(f"{where}.splits: must belong to an all_to_all of one member per server, got {got}")
        name = name_for(task.op, task.algorithm, self.all_reduce)
        if name == NCCL and task.splits is not None:
            name = names(task.op)[0]
        check_algorithm(f"{where}.algorithm", task.op, name)
        return name

    def _sends(self, name: str, call: CollectiveCall, where: str) -> SendSchedule | SteadyStreams:
        algorithm = algorithms()[name]
        if self.rings == "flows" and algorithm.streams is not None:
            return algorithm.streams(call)
        check_size(where, name, call)
        return algorithm.schedule(call)

    def _orders(self, group: tuple[int, ...], algorithm: Algorithm) -> Orders:
        """Return the rings or pairs of trees that were built for the group; its own order where there are none."""
        if algorithm.orders is None:
            return (group,)
        orders: Orders = getattr(self.fabric.channels, algorithm.orders).get(group, (group,))
        for order in orders:
            if sorted(order) != sorted(group):
                raise ValueError(f"{self.fabric.name}.{algorithm.orders}: must order {list(group)}, got {list(order)}")
        return orders


def flows_of_calls(
    cluster: Cluster, nccl: Nccl, task: Collective, groups: int, members: nccl_flows.Members
) -> nccl_flows.CollectiveFlows:
    """Return NCCL's flows of all calls in one of ``groups`` side by side, each of which has as many of the bytes."""
    bytes = task.bytes / groups / task.calls
    return nccl_flows.flows(cluster.node, nccl, task.op, bytes, members).repeated(task.calls)


def joined_flows(
    cluster: Cluster, nccl: Nccl, task: Collective, size: int
) -> tuple[nccl_flows.CollectiveFlows, GpuFlows | None]:
    """Return NCCL's flows of one group of ranks, and those of all groups; None: there are no flows.

    An endpoint has ``size`` GPUs. The ranks of a group are ``stride`` apart on each of its endpoints.
    """
    ranks = np.arange(size).reshape(-1, task.local, task.stride).swapaxes(1, 2).reshape(-1, task.local)
    ranks = (np.arange(len(task.group))[:, None] * size + ranks[:, None, :]).reshape(len(ranks), -1)  # [G, n]
    number = dict[int, int]()
    members = tuple(number.setdefault(gpu // cluster.per_node, len(number)) for gpu in ranks[0].tolist())
    groups = len(ranks)
    one_group = flows_of_calls(cluster, nccl, task, groups, members)
    if not one_group.flows:
        return one_group, None
    source, target, bytes, limit, channel = (np.array(column) for column in zip(*one_group.flows, strict=True))
    return one_group, GpuFlows(
        source=ranks[:, source].ravel(),
        target=ranks[:, target].ravel(),
        channel=np.tile(channel, groups),
        share=np.tile(bytes / (bytes.sum() * groups), groups),
        limit=np.tile(limit, groups),
        total=float(bytes.sum()) * groups,
    )


def _block(task: Collective, call: CollectiveCall, sends: SendSchedule | SteadyStreams) -> Block:
    """Return ``sends`` as tasks: ranks are the members, ``local`` on each server, or one for all of them if phased."""
    per_server = call.ranks // len(task.group)
    source, target = sends.source // per_server, sends.target // per_server
    share = sends.share if task.splits is None else np.array(task.splits)[sends.source, sends.target]
    inside = source == target
    local_share = share * slowdowns(sends, inside)
    steps = sends.steps if isinstance(sends, SteadyStreams) else 1
    sent = ~inside & (share > 0)  # a split of no bytes is not
    servers = len(task.group)
    key = ((sends.channel * servers + source) * servers + target)[sent]
    connections, connection = np.unique(key, return_inverse=True)
    numbers = np.full(len(share), NO_PATH, np.int32)
    numbers[sent] = connection.reshape(-1)
    return _between_joins(
        sends,
        share=np.where(inside, 0.0, share),
        local_share=np.where(inside, local_share, 0.0),
        connection=numbers,
        connections=np.stack([connections // servers % servers, connections % servers, connections // servers**2]),
        waits=np.where(inside, 0.0, steps - 1),
        reduces=task.op == "all_reduce",
    )


def _nccl_block(flows: nccl_flows.CollectiveFlows, task: Collective) -> Block:
    """Return the flows of NCCL, each with its wait and its limit. A single flow needs no joins around it."""
    if not flows.flows:
        return JOIN
    source, target, bytes, limit, channel = (np.array(column) for column in zip(*flows.flows, strict=True))
    share, waits = bytes / task.bytes, np.full(len(source), -1.0)
    connections, reduces = np.stack([source, target, channel]), task.op == "all_reduce"
    if len(source) == 1:
        return replace(
            JOIN,
            share=share,
            connection=np.zeros(1, np.int32),
            connections=connections,
            waits=waits,
            reduces=reduces,
            seconds=np.array([flows.wait]),
            limit=limit,
        )
    block = _between_joins(
        SteadyStreams(source, target, channel, share, steps=1),
        share=share,
        local_share=np.zeros(len(source)),
        connection=np.arange(len(source), dtype=np.int32),
        connections=connections,
        waits=waits,
        reduces=reduces,
    )
    return replace(block, seconds=np.pad(np.full(len(source), flows.wait), 1), limit=limit)


def node_of(fabric: Fabric, gpus: Offsets) -> Offsets:
    """Return the node of each endpoint of a cluster of GPUs, which stays the same where others have failed."""
    if fabric.is_folded:
        return gpus
    assert fabric.cluster is not None
    numbers = fabric.route.nodes[gpus] if isinstance(fabric.route, Rerouted) else gpus
    nodes: Offsets = numbers // fabric.cluster.per_node
    return nodes


def _with_phases(block: Block, task: Collective, groups: int) -> Block:
    """Return ``block`` with phases inside servers, and joins between them and its sends.

    A server's GPUs carry the bytes of one of the ``groups``.
    """
    block.local_share[[0, -1]] = np.array(inside_shares(task.op, task.local)) / groups
    if task.local == 1 or block.tasks == 2:
        return block
    ends = block.tasks - 1  # the last join, before which the new one is
    return replace(
        block,
        share=np.insert(block.share, [1, ends], 0.0),
        local_share=np.insert(block.local_share, [1, ends], 0.0),
        waits=np.insert(block.waits, [1, ends], 0.0),
        connection=np.insert(block.connection, [1, ends], NO_PATH),
        after_count=np.concatenate([[0, 1], block.after_count[1:], [1]]),
        after=np.concatenate([[0], block.after + 1, [ends + 1]]),
        between=(1, ends + 1),
    )


def _places(group: tuple[int, ...], orders: Orders) -> Orders:
    """Return ``orders`` with the places of servers in ``group`` in place of the servers."""
    place = {server: index for index, server in enumerate(group)}
    return tuple(tuple(place[server] for server in order) for order in orders)


def _ranks(places: Orders, local: int) -> Offsets:
    """Return [R, n] the ranks in each order of servers, ``local`` consecutive ones on each."""
    return (np.array(places, np.int64)[:, :, None] * local + np.arange(local)).reshape(len(places), -1)


def _between_joins(
    sends: SendSchedule | SteadyStreams,
    *,
    share: Floats,
    local_share: Floats,
    connection: Ints,
    connections: Offsets,
    waits: Floats,
    reduces: bool,
) -> Block:
    """Return the block of ``sends``, between a join before and a join after them.

    The first sends wait for the join before; the join after waits for the sends that no other send waits for.
    """
    earlier = sends.after if isinstance(sends, SendSchedule) else np.zeros(0, np.int64)
    awaited = np.diff(sends.after_offsets) if isinstance(sends, SendSchedule) else np.zeros(len(share), np.int64)
    is_last = np.ones(len(share), np.bool_)
    is_last[earlier] = False
    last = np.flatnonzero(is_last)
    count = np.maximum(awaited, 1)
    after = np.zeros(int(count.sum()), np.int64)  # task 0, the first join, where a send waits for no other
    after[np.repeat(awaited > 0, count)] = earlier + 1
    return Block(
        share=np.pad(share, 1),
        local_share=np.pad(local_share, 1),
        connection=np.pad(connection, 1, constant_values=NO_PATH),
        connections=connections,
        waits=np.pad(waits, 1),
        after_count=np.concatenate([[0], count, [max(len(last), 1)]]),
        after=np.concatenate([after, last + 1 if len(last) else [0]]),
        reduces=reduces,
    )
