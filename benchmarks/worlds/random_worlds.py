"""Case F: random worlds. Any graph, paths, sizes, dependencies and start times; equal links of 100 Gb/s, so that
bottlenecks tie.

Max-min rates jump when a flow comes or goes, so a task that starts d later may delay others by more than d, and those
again others: along a chain of dependent tasks a rounding error can grow exponentially (a ring whose steps differ in
size is chaotic). Chains are at most ``GENERATIONS`` long, so it stays small here; ``throughput.py`` prints by how much
(``sensitivity``) with every difference.
"""

from __future__ import annotations

import numpy as np
from worlds.cases import BANDWIDTH, Case

from topoflow.engine.base import Ints, LoweredGraph, World

GENERATIONS = 6
LONGEST_PATH = 6  # hops
COMPUTE_SHARE = 0.2


def random_world(seed: int) -> Case:
    """3 to 24 nodes, each with 1 to 4 links to any others, and 1 to 300 tasks, a fifth of them compute."""
    random = np.random.default_rng([70, seed])  # 70: "F"
    nodes = int(random.integers(3, 25))
    degree = random.integers(1, min(4, nodes - 1) + 1, nodes)
    source = np.repeat(np.arange(nodes), degree)
    target = np.concatenate([random.permutation(np.delete(np.arange(nodes), n))[: degree[n]] for n in range(nodes)])
    links = len(source)
    tasks = int(random.integers(1, 301))
    walks = [_walk(random, source, target) for _ in range(int(random.integers(1, tasks + 1)))]
    moves = random.random(tasks) >= COMPUTE_SHARE
    after = _dependencies(random, tasks)
    graph = LoweredGraph(
        delay=np.where(moves, 0.0, random.exponential(1e-3, tasks)),
        bytes=np.where(moves, 10 ** random.uniform(4, 8, tasks), 0.0),  # 10 kB to 100 MB: 0.8 us to 8 ms alone
        release=np.where(random.random(tasks) < 0.5, 0.0, random.uniform(0, 20e-3, tasks)),
        path=np.where(moves, random.integers(len(walks), size=tasks), -1).astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]).astype(np.int64),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, walks)]).astype(np.int64),
        path_links=np.concatenate(walks).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
    )
    world = World(f"F.{seed}", graph, np.full(links, BANDWIDTH), np.zeros(links))
    return Case(world, source.astype(np.int32), target.astype(np.int32))


def _walk(random: np.random.Generator, source: Ints, target: Ints) -> list[int]:
    """A walk of 1 to ``LONGEST_PATH`` links that crosses none twice; it may pass a node again."""
    walk = [int(random.integers(len(source)))]
    for _ in range(int(random.integers(LONGEST_PATH))):
        onward = np.setdiff1d(np.flatnonzero(source == target[walk[-1]]), walk)
        if onward.size == 0:
            break
        walk.append(int(random.choice(onward)))
    return walk


def _dependencies(random: np.random.Generator, tasks: int) -> list[Ints]:
    """For each task up to 3 tasks of earlier generations; the first generation waits for none."""
    generation = np.sort(random.integers(GENERATIONS, size=tasks))
    earlier = np.searchsorted(generation, generation)
    count = np.minimum(random.integers(4, size=tasks), earlier)
    return [np.sort(random.choice(most, some, replace=False)) for most, some in zip(earlier, count, strict=True)]
