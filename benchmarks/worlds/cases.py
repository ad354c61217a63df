"""The worlds that we and our peer are timed on: cases A to E. All links have 100 Gb/s and no latency.

    A     128 hosts, k = 8 fat-tree, destination-mod-k routes, all-to-all: 16,256 flows of 1 MB
    B     as A with random ECMP routes: many distinct bottlenecks
    C     54 hosts, k = 6 fat-tree, all-to-all of sizes uniform in [0.5, 1.5] MB: 2,862 completions; both routings
    C2    the same on the 128 hosts of A: 16,256 completions
    D     ring all-reduce of 1 GB over the hosts of A as 254 dependent steps: 32,512 transfers
    E     one training step of a DLRM on 128 servers, TopoOpt of degree 4 and fat-tree, as our own pipeline lowers it

(F, random worlds, is ``random_worlds.py``.) Shapes: T tasks, L links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from worlds.fat_tree import FatTree

from topoflow.engine.base import Floats, Ints, LoweredGraph, Offsets, World
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

BANDWIDTH = 12.5e9  # B/s (100 Gb/s)
SEED = 3


@dataclass(frozen=True)
class Case:
    """A world, and which nodes its links join (a world does not know, a file must)."""

    world: World
    source: Ints  # [L] node
    target: Ints  # [L] node

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def hops(self) -> int:
        """Links crossed, summed over all flows (tasks with bytes)."""
        graph = self.world.graph
        return int(np.diff(graph.path_offsets)[graph.path[graph.bytes > 0]].sum())


def all_to_all(name: str, radix: int, *, ecmp: bool, uneven: bool, seed: int = SEED) -> Case:
    """Every host sends to every other, each pair over a path of its own, all at once."""
    tree = FatTree(radix)
    source, target = np.nonzero(~np.eye(tree.hosts, dtype=bool))
    flows = len(source)
    ports = tree.ecmp(flows, seed) if ecmp else tree.destination_mod_k(target)
    sizes = np.random.default_rng(seed).uniform(0.5e6, 1.5e6, flows) if uneven else np.full(flows, 1e6)
    nothing = np.zeros(0, np.int32)
    graph = transfers(
        sizes, np.arange(flows), np.zeros(flows + 1, np.int64), nothing, tree.paths(source, target, ports)
    )
    return on_tree(name, tree, graph)


def many_c(count: int, radix: int = 6) -> list[World]:
    """Worlds of case C, or on a fat-tree of another radix, alike in nothing but the tree.

    Each has sizes of its own, every other one random routes.
    """
    return [all_to_all(f"C.{n}", radix, ecmp=n % 2 == 1, uneven=True, seed=SEED + n).world for n in range(count)]


def ring_all_reduce(name: str, radix: int, size: float) -> Case:
    """In step s host i sends size/n to host i+1, once it has what host i-1 sent in step s-1; 2(n-1) steps."""
    tree = FatTree(radix)
    hosts = np.arange(tree.hosts)
    target = (hosts + 1) % tree.hosts
    steps = 2 * (tree.hosts - 1)
    tasks = steps * tree.hosts
    before = (hosts - 1) % tree.hosts + tree.hosts * np.arange(steps - 1)[:, None]
    return on_tree(
        name,
        tree,
        transfers(
            np.full(tasks, size / tree.hosts),
            np.tile(hosts, steps),
            np.maximum(np.arange(tasks + 1) - tree.hosts, 0),
            before.reshape(-1).astype(np.int32),
            tree.paths(hosts, target, tree.destination_mod_k(target)),
        ),
    )


def transfers(
    sizes: Floats, path: Offsets, after_offsets: Offsets, after: Ints, paths: tuple[Offsets, Ints]
) -> Callable[[int], LoweredGraph]:
    """A graph of plain transfers, once the number of links is known."""
    tasks = len(sizes)
    return lambda links: LoweredGraph(
        delay=np.zeros(tasks),
        bytes=sizes,
        release=np.zeros(tasks),
        path=path.astype(np.int32),
        after_offsets=after_offsets.astype(np.int64),
        after=after,
        path_offsets=paths[0],
        path_links=paths[1],
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
    )


def on_tree(name: str, tree: FatTree, graph: Callable[[int], LoweredGraph]) -> Case:
    source, target = tree.ends()
    world = World(name, graph(tree.links), np.full(tree.links, BANDWIDTH), np.zeros(tree.links))
    return Case(world, source, target)


def dlrm(name: str, fabric: str, degree: int, servers: int = 128) -> Case:
    """A DLRM's training step on servers with ``degree`` interfaces of 100 Gb/s, as ``topoflow compare`` builds it."""
    settings = ["workload=dlrm", f"servers={servers}", f"fabric={fabric}", f"degree={degree}", "latency_us=0"]
    (point,) = Builder().build(grid(settings, check))
    (case,) = point.cases
    world = World(name, case.world.graph, case.world.capacity, case.world.latency)
    return Case(world, case.fabric.source, case.fabric.target)


CASES: dict[str, Callable[[], tuple[Case, ...]]] = {
    "A": lambda: (all_to_all("A", 8, ecmp=False, uneven=False),),
    "B": lambda: (all_to_all("B", 8, ecmp=True, uneven=False),),
    "C": lambda: (
        all_to_all("C.dmodk", 6, ecmp=False, uneven=True),
        all_to_all("C.ecmp", 6, ecmp=True, uneven=True),
    ),
    "C2": lambda: (
        all_to_all("C2.dmodk", 8, ecmp=False, uneven=True),
        all_to_all("C2.ecmp", 8, ecmp=True, uneven=True),
    ),
    "D": lambda: (ring_all_reduce("D", 8, 1e9),),
    "E": lambda: (dlrm("E.topoopt", "topoopt", 4), dlrm("E.fat_tree", "fat_tree", 1)),
}
