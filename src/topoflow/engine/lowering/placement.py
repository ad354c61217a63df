"""Placement: Traffic on a Fabric becomes a World. Collectives become sends, sends get paths.

A compute or a transfer is one task. A collective is a join that waits for all it depends on, the sends of its
algorithm, and a join that the next tasks wait for. Ranks are the members of a collective: ``local`` on each server of
the group. What two ranks of one server exchange does not enter the network: it takes bytes over the share of
``local_bandwidth`` that their ports have for it (``local_ports``).

    ring, double_binary_tree, halving_doubling, swing, ..    among all ranks
    hierarchical, hierarchical_tree                          inside each server, between the servers, inside again

``collectives/`` has a module for each.

Shapes: K traffic tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets
from topoflow.collectives.algorithm import NCCL, check_algorithm
from topoflow.collectives.nccl_flows import Nccl, send_wait
from topoflow.engine.base import AUTO, World
from topoflow.engine.lowering.addresses import is_by_address, next_hops
from topoflow.engine.lowering.assembly import Assembly, PlacedCollectives
from topoflow.engine.lowering.blocks import RINGS, Block, BlockBuilder, node_of
from topoflow.engine.lowering.paths import NO_PATH, Paths
from topoflow.engine.lowering.routing import routings
from topoflow.engine.lowering.sizes import MAX_STEPS, ring_sends
from topoflow.fabric.base import Fabric
from topoflow.traffic.base import Traffic
from topoflow.traffic.tasks import spans_nodes
from topoflow.units import check_among


@dataclass(frozen=True)
class Lowering:
    """The settings by which traffic becomes a world.

    ``all_reduce`` is the algorithm of every all-reduce that does not name its own. Of several equal paths a connection
    takes one, keyed by ``seed``, or all at once, by ``routing`` ("ecmp" or "spray"). ``rings`` are sent in "steps", or
    as "flows", one for each pair of neighbours, whose delay then holds the fabric's latency of the other steps; "auto":
    in steps if the rings of the job are at most ``MAX_STEPS`` sends.
    """

    all_reduce: str = "ring"
    routing: str = "ecmp"
    rings: str = "steps"
    seed: int = 0
    nccl: Nccl = field(default_factory=Nccl)  # where ``all_reduce`` is "nccl"

    def __post_init__(self) -> None:
        check_algorithm("all_reduce", "all_reduce", self.all_reduce)
        for name, value, allowed in (("routing", self.routing, routings()), ("rings", self.rings, (*RINGS, AUTO))):
            check_among(name, value, allowed)

    def decided(self, traffic: Traffic) -> Lowering:
        """The same with ``rings`` decided for ``traffic`` where they are "auto"."""
        if self.rings != AUTO:
            return self
        return replace(self, rings="flows" if ring_sends(traffic, self.all_reduce) > MAX_STEPS else "steps")


class Placer:
    """Places one traffic after the other on one ``fabric``; keeps the paths and blocks that they have in common.

    What was placed before changes no byte of a world.
    """

    def __init__(self, fabric: Fabric, lowering: Lowering) -> None:
        self.fabric = fabric
        self.lowering = lowering
        self._paths = Paths(fabric, lowering.seed, lowering.routing)
        self._next_hops = next_hops(fabric) if is_by_address(lowering.routing) else None
        self._blocks: dict[tuple[str, bool], BlockBuilder] = {}  # by what rings are, and ``nvlink_is_free``

    def place(self, traffic: Traffic, name: str) -> World:
        """Return ``traffic`` as a world of that ``name``.

        Raises ``ValueError`` for an algorithm that an operation does not have, for more servers than the fabric's, and
        for two servers without a path.
        """
        fabric = self.fabric
        if traffic.servers > fabric.servers:
            most = f"{fabric.servers} of {fabric.name}"
            raise ValueError(f"{traffic.name}.servers: must be at most the {most}, got {traffic.servers}")
        rings = self.lowering.decided(traffic).rings
        free = nvlink_is_free(traffic, fabric)
        builder = BlockBuilder(fabric, self.lowering.all_reduce, rings, self.lowering.nccl, free)
        blocks = self._blocks.setdefault((rings, free), builder)
        placed, path = self._collectives(traffic, blocks), self._transfers(traffic)
        launch = self._launch(traffic)
        graph = Assembly(traffic, placed, path, self._paths.arrays(), launch).graph(fabric.links, self._next_hops)
        routing, seed = self._paths.routing, self._paths.seed
        return World(name, graph, fabric.bandwidth, fabric.latency, fabric, routing, seed)

    def _launch(self, traffic: Traffic) -> Floats:
        """Return [K] the seconds before the bytes of each transfer move, where NCCL sends them."""
        launch, cluster = np.zeros(len(traffic)), self.fabric.cluster
        sends = np.flatnonzero(traffic.is_transfer)
        if self.lowering.all_reduce != NCCL or cluster is None or not len(sends):
            return launch
        nodes = [node_of(self.fabric, ends[sends].astype(np.int64)) for ends in (traffic.source, traffic.target)]
        between_nodes = nodes[0] != nodes[1]
        for far in set(between_nodes.tolist()):
            launch[sends[between_nodes == far]] = send_wait(cluster.node, self.lowering.nccl, far)
        return launch

    @property
    def waits(self) -> bool:
        """Return whether a task that was placed waits for the latency of its path more often than its flow does."""
        return any(block.waits.any() for blocks in self._blocks.values() for block in blocks.blocks.values())

    def _collectives(self, traffic: Traffic, blocks: BlockBuilder) -> list[PlacedCollectives]:
        """Return the collectives by their blocks, in the order of the first collective of each block."""
        tasks = np.flatnonzero(traffic.is_collective)
        tasks = tasks[np.lexsort((traffic.bytes[tasks], traffic.operation[tasks]))]  # in order where both are equal
        differs = (np.diff(traffic.operation[tasks]) != 0) | (np.diff(traffic.bytes[tasks]) != 0)
        alike = np.split(tasks, np.flatnonzero(differs) + 1) if len(tasks) else []
        cases: dict[int, tuple[Block, list[Offsets], list[tuple[int, ...]]]] = {}  # by block
        for equal_tasks in sorted(alike, key=lambda equal_tasks: int(equal_tasks[0])):
            task = traffic.operations[traffic.operation[equal_tasks[0]]].task(float(traffic.bytes[equal_tasks[0]]))
            block = blocks.of(task, traffic.where(int(equal_tasks[0])), traffic.ranks_per_server)
            _, same, groups = cases.setdefault(id(block), (block, [], []))
            same.append(equal_tasks)
            groups.append(task.group)
        return [self._placed(*case) for case in cases.values()]

    def _placed(self, block: Block, tasks: list[Offsets], groups: list[tuple[int, ...]]) -> PlacedCollectives:
        """Return collectives with the same ``block``: the ``tasks`` on each of ``groups``."""
        number = {group: place for place, group in enumerate(dict.fromkeys(groups))}
        servers = np.array([*number] if block.connections.size else [()] * len(number), np.int64)
        ends = block.ends(servers)
        if block.flows is None:
            path = self._paths.connections(*ends, block.limit, reduces=block.reduces)
        else:
            path = self._paths.of_flows(block.flows, servers)[:, None]
        group = np.repeat([number[ranks] for ranks in groups], [len(part) for part in tasks])
        return PlacedCollectives(np.concatenate(tasks), block, group, ends, path)

    def _transfers(self, traffic: Traffic) -> Ints:
        """Return [K] the path of each transfer: its own, or that of its connection."""
        path = np.full(len(traffic), NO_PATH, np.int32)
        plain = traffic.is_transfer
        single_tasks = sorted({*traffic.limit, *traffic.subflows})
        plain[single_tasks] = False
        tasks = np.flatnonzero(plain)
        source, target = traffic.source[tasks].astype(np.int64), traffic.target[tasks].astype(np.int64)
        path[tasks] = self._paths.connections(source, target, np.zeros_like(source))
        for task in single_tasks:
            path[task] = self._paths.transfer(traffic, task)
        return path


def nvlink_is_free(traffic: Traffic, fabric: Fabric) -> bool:
    """Return whether collectives inside a node meet no other flow on its NVLinks.

    So it is in a folded job where nothing else sends inside nodes, as the groups of a node run one collective after the
    other. Recorded jobs are never folded, and theirs may overlap.
    """
    if not fabric.is_folded:
        return False
    assert fabric.cluster is not None
    joined = fabric.folded // fabric.cluster.per_node > 1
    inside = [
        len(operation.group) == 1 and not (joined and spans_nodes(operation, fabric.cluster.per_node))
        for operation in traffic.operations
        if operation.local > 1
    ]
    is_transfer = traffic.is_transfer
    return all(inside) and bool(np.all(traffic.source[is_transfer] != traffic.target[is_transfer]))


@dataclass
class Placements:
    """Places traffics on networks; those that differ in how fast their links are have one graph.

    Tasks and paths depend on the latency of links where ``Placer.waits`` and on no bandwidth, as the bandwidth of a
    network that routes by it is in its wiring, its channels or its routes. A world is what ``place`` makes, byte for
    byte.
    """

    known: dict[Hashable, tuple[Traffic, World]] = field(default_factory=dict)  # traffics count by their id
    waiting: set[Hashable] = field(default_factory=set)  # what has a graph for each latency

    def place(
        self, traffic: Traffic, fabrics: Sequence[Fabric], lowering: Lowering, names: Sequence[str]
    ) -> list[World]:
        """Return the worlds of ``traffic`` on each of the networks, with these names, as ``Placer.place`` does."""
        worlds: list[World] = []
        wiring, waits = "", False
        for fabric, name in zip(fabrics, names, strict=True):
            if fabric.wiring == wiring and (not waits or np.array_equal(fabric.latency, worlds[-1].latency)):
                worlds.append(worlds[-1].on(fabric, name))
                continue
            wiring = fabric.wiring
            base_key = (id(traffic), lowering, wiring)
            worlds.append(self._placed(traffic, fabric, lowering, name, base_key))
            waits = base_key in self.waiting
        return worlds

    def _placed(self, traffic: Traffic, fabric: Fabric, lowering: Lowering, name: str, base_key: Hashable) -> World:
        key: Hashable = (base_key, fabric.latency.tobytes()) if base_key in self.waiting else base_key
        if key in self.known:
            return self.known[key][1].on(fabric, name)
        placer = Placer(fabric, lowering)
        world = placer.place(traffic, name)
        if placer.waits:
            self.waiting.add(base_key)
            key = base_key, fabric.latency.tobytes()
        self.known[key] = traffic, world
        return world

    def add(self, traffic: Traffic, world: World, lowering: Lowering) -> None:
        """Add the world of a traffic that another process has placed."""
        assert world.fabric is not None
        self.known[id(traffic), lowering, world.fabric.wiring] = traffic, world

    def forget(self, most: int) -> None:
        """Keep the last worlds, of no more than ``most`` tasks."""
        self.waiting.clear()
        last = [*self.known.items()][::-1]
        sizes = accumulate(world.graph.tasks for _, (_, world) in last)
        self.known = dict([item for item, size in zip(last, sizes, strict=True) if size <= most][::-1])


def place(
    traffic: Traffic,
    fabric: Fabric,
    *,
    name: str,
    all_reduce: str = "ring",
    routing: str = "ecmp",
    rings: str = "steps",
    seed: int = 0,
) -> World:
    """One traffic on one fabric, as a ``Placer`` places it; the other arguments are those of ``Lowering``."""
    return Placer(fabric, Lowering(all_reduce, routing, rings, seed)).place(traffic, name)
