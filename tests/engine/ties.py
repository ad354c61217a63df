"""Worlds in which links tie: many have the same level, so that rounding decides which of them is full first.

Every kind is a function of a random generator. Transfers of a world have one or few sizes, links one or few speeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from topoflow.collectives.algorithm import CollectiveCall, algorithms
from topoflow.engine.base import LoweredGraph, World

Random = np.random.Generator
Route = Callable[[int, int], Sequence[int]]  # (source, target) -> links
SIZES = (524288.0, 625000.0, 1e6 / 3)  # B


@dataclass
class Tasks:
    """Transfers of a world that is being built, and the joins between them."""

    paths: list[Sequence[int]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    release: list[float] = field(default_factory=list)
    after: list[Sequence[int]] = field(default_factory=list)
    numbers: dict[tuple[int, ...], int] = field(default_factory=dict)  # of paths

    def add(self, links: Sequence[int], size: float, after: Sequence[int] = (), release: float = 0.0) -> int:
        """Append a transfer over ``links``, or a join where there are none; return its number."""
        if links:
            number = self.numbers.setdefault(tuple(links), len(self.paths))
            if number == len(self.paths):
                self.paths.append(links)
        self.path.append(number if links else -1)
        self.bytes.append(size if links else 0.0)
        self.release.append(release)
        self.after.append(after)
        return len(self.path) - 1

    def collective(self, name: str, op: str, ranks: Sequence[int], route: Route, size: float, chunks: int) -> None:
        """Append the sends of an algorithm among ``ranks``; ``size`` is that of its smallest send."""
        call = CollectiveCall(op, np.arange(len(ranks))[None], 0 if op in ("broadcast", "reduce") else None, chunks)
        schedule = algorithms()[name].schedule(call)
        first = len(self.path)
        bounds, after = schedule.after_offsets.tolist(), (schedule.after + first).tolist()
        smallest = schedule.count.min()
        ends = zip(schedule.source.tolist(), schedule.target.tolist(), schedule.count.tolist(), strict=True)
        for send, (source, target, count) in enumerate(ends):
            links = route(ranks[source], ranks[target])
            self.add(links, size * count / smallest, after[bounds[send] : bounds[send + 1]])

    def world(self, name: str, capacity: Sequence[float], latency: float = 0.0) -> World:
        """The world of these tasks on links of ``capacity`` (B/s) and one ``latency`` (s)."""
        tasks = len(self.path)
        graph = LoweredGraph(
            delay=np.zeros(tasks),
            bytes=np.array(self.bytes),
            release=np.array(self.release),
            path=np.array(self.path, np.int32),
            after_offsets=np.cumsum([0, *map(len, self.after)]),
            after=np.array([task for row in self.after for task in row], np.int32),
            path_offsets=np.cumsum([0, *map(len, self.paths)]),
            path_links=np.array([link for row in self.paths for link in row], np.int32),
            owner=np.arange(tasks, dtype=np.int32),
            owners=tasks,
            links=len(capacity),
        )
        return World(name, graph, np.array(capacity, float), np.full(len(capacity), latency))


def regular_flows_on_a_star(random: Random) -> World:
    """Every node sends to d others, in chunks that follow each other, from a time of its own on or from 0 on."""
    nodes = int(random.integers(3, 9))
    offsets = random.choice(np.arange(1, nodes), int(random.integers(1, nodes)), replace=False).tolist()
    chunks, size, late = int(random.integers(1, 16)), float(random.choice(SIZES)), random.random() < 0.7
    tasks = Tasks()
    for source in range(nodes):
        for offset in offsets:
            release, before = float(random.random() * 0.02) if late else 0.0, []
            for _ in range(chunks):
                before = [tasks.add([source, nodes + (source + offset) % nodes], size, before, release)]
    return tasks.world("regular flows on a star", np.full(2 * nodes, speed(random)))


def pipelined_trees(random: Random) -> World:
    """All-reduces over double binary trees, in chunks, at the same time on one switch: two of all nodes, or three."""
    nodes, size = int(random.integers(4, 17)), float(random.choice(SIZES))
    chunks, whole = 2 ** int(random.integers(1, 7)), random.random() < 0.5
    tasks = Tasks()
    for _ in range(2 if whole else 3):
        ranks = random.permutation(nodes)[: nodes if whole else int(random.integers(3, nodes + 1))].tolist()
        tasks.collective("double_binary_tree", "all_reduce", ranks, star(nodes), size, chunks)
    return tasks.world("pipelined trees", np.full(2 * nodes, speed(random)), float(random.choice([0.0, 1e-6])))


def equal_collectives(random: Random) -> World:
    """Several collectives of one size and of any algorithms, at the same time on one switch."""
    nodes = 2 ** int(random.integers(2, 5))
    choices = [
        ("ring", "all_reduce"),
        ("double_binary_tree", "all_reduce"),
        ("halving_doubling", "all_reduce"),
        ("swing", "all_reduce"),
        ("direct", "all_to_all"),
        ("ring", "all_gather"),
    ]
    tasks, size = Tasks(), float(random.choice(SIZES))
    for _ in range(int(random.integers(2, 5))):
        name, op = choices[random.integers(len(choices))]
        ranks = random.permutation(nodes)[: 2 ** int(random.integers(1, nodes.bit_length()))].tolist()
        tasks.collective(name, op, ranks, star(nodes), size, 4)
    return tasks.world("equal collectives", np.full(2 * nodes, speed(random)))


def nvlink_domains(random: Random) -> World:
    """GPUs in NVLink domains, each with a NIC of its own: rings and trees within, between, and over all GPUs.

    Links of GPU g of G: g up into the NVLink switch, G + g down from it, 2 G + g out of its NIC, 3 G + g into it.
    """
    domains, gpus = int(random.integers(2, 5)), int(random.choice([2, 4, 8]))
    count, tasks, size = domains * gpus, Tasks(), float(random.choice(SIZES))
    nvlink, nic = random.choice([(450e9, 50e9), (3e9, 1e9), (1e9, 1e9), (900e9, 100e9)])

    def route(source: int, target: int) -> list[int]:
        if source // gpus == target // gpus:
            return [source, count + target]
        peer = source // gpus * gpus + target % gpus  # PXN: by way of the GPU on the target's rail
        inside = [source, count + peer] if peer != source else []
        return [*inside, 2 * count + peer, 3 * count + target]

    groups = [
        [list(range(count))],
        [list(range(first, first + gpus)) for first in range(0, count, gpus)],
        [list(range(rail, count, gpus)) for rail in range(gpus)],
        [np.roll(np.arange(count), rotation).tolist() for rotation in range(min(gpus, 4))],
    ]
    for _ in range(int(random.integers(1, 3))):
        name = str(random.choice(["ring", "double_binary_tree"]))
        for ranks in groups[random.integers(len(groups))]:
            tasks.collective(name, "all_reduce", ranks, route, size, int(random.integers(2, 9)))
    return tasks.world("NVLink domains", np.repeat([nvlink, nic], 2 * count) * random.uniform(0.5, 1))


def all_to_all_in_a_fat_tree(random: Random) -> World:
    """Leaves of hosts with equal uplinks: every host sends to many others, on uplinks drawn at random."""
    leaves, hosts = int(random.integers(2, 5)), int(random.integers(2, 5))
    uplinks, count, size = int(random.integers(1, hosts + 1)), leaves * hosts, float(random.choice(SIZES))
    tasks, up = Tasks(), 2 * count
    for source in range(count):
        for target in random.permutation(count)[: int(random.integers(1, count + 1))].tolist():
            source_pod, target_pod, spine = source // hosts, target // hosts, int(random.integers(uplinks))
            between = (
                [up + source_pod * uplinks + spine, up + (leaves + target_pod) * uplinks + spine]
                if source_pod != target_pod
                else []
            )
            if source != target:
                tasks.add([source, *between, count + target], size * int(random.integers(1, 3)))
    return tasks.world("all-to-all in a fat-tree", np.full(2 * count + 2 * leaves * uplinks, speed(random)))


def speed(random: Random) -> float:
    """A speed (B/s) that is no round number, so that shares of it are rounded."""
    return float(10 ** random.uniform(9, 11))


def star(nodes: int) -> Route:
    """Node n sends on link n and receives on link ``nodes`` + n."""
    return lambda source, target: [source, nodes + target]


KINDS = (regular_flows_on_a_star, pipelined_trees, equal_collectives, nvlink_domains, all_to_all_in_a_fat_tree)


def tied_world(seed: int) -> World:
    """A world of one of ``KINDS``."""
    return KINDS[seed % len(KINDS)](np.random.default_rng(seed))
