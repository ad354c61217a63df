"""What an event costs as the number of flows grows: with the flows whose rate it changes, not with all flows.

    islands        8 flows on each link, no two links share a flow: an end changes the rates of at most 7
    islands_core   the same, and all flows also cross one link that is never full: still at most 7
    all            all flows on one link: every end changes the rates of all that are left

Each runs with 1,024 to 65,536 flows. An event is one completion time; the first solve, of all flows, is spread over
them.
"""

from __future__ import annotations

import numpy as np
from fluid_speed.speed import distinct
from measure import Kernel, repeated, say
from worlds.cases import BANDWIDTH

from topoflow.engine.base import LoweredGraph, World

ISLAND = 8  # flows that share a link
EVENTS = 256  # ends in "all": the other flows are as long as the longest
FLOWS = [1024 * 2**power for power in range(7)]


def curve(merge: float) -> None:
    for family, make in (("islands", islands), ("islands_core", islands_core), ("all", everywhere)):
        for flows in FLOWS:
            kernel = Kernel.of([make(flows)])
            events = distinct(kernel.run(merge=merge).finish)
            seconds = repeated(lambda kernel=kernel: kernel.run(merge=merge).cpu)
            path = f"fluid.curve.{family}.{flows}"
            say(f"{path}.events", events)
            say(f"{path}.microseconds_per_event", 1e6 * seconds / events)


def islands(flows: int) -> World:
    link = np.arange(flows) // ISLAND
    return shared(f"islands.{flows}", link[:, None], sizes(flows), np.full(flows // ISLAND, BANDWIDTH))


def islands_core(flows: int) -> World:
    """The last link is twice as wide as all others together."""
    link = np.arange(flows) // ISLAND
    count = flows // ISLAND
    paths = np.stack([link, np.full(flows, count)], axis=1)
    capacity = np.full(count + 1, BANDWIDTH)
    capacity[count] *= 2 * count
    return shared(f"islands_core.{flows}", paths, sizes(flows), capacity)


def everywhere(flows: int) -> World:
    """Of the flows ``EVENTS`` - 1 end earlier, one by one; the rest together."""
    size = np.full(flows, 1.5e6)
    size[: EVENTS - 1] = np.sort(sizes(EVENTS - 1))
    return shared(f"all.{flows}", np.zeros((flows, 1), np.int64), size, np.full(1, BANDWIDTH))


def sizes(flows: int) -> np.ndarray:
    """[F] B, uniform in [0.5, 1.5] MB as in case C."""
    return np.random.default_rng(flows).uniform(0.5e6, 1.5e6, flows)


def shared(name: str, paths: np.ndarray, size: np.ndarray, capacity: np.ndarray) -> World:
    """All flows begin together; ``paths`` is [F, hops]."""
    flows, hops = paths.shape
    graph = LoweredGraph(
        delay=np.zeros(flows),
        bytes=size,
        release=np.zeros(flows),
        path=np.arange(flows, dtype=np.int32),
        after_offsets=np.zeros(flows + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=np.arange(0, flows * hops + 1, hops, dtype=np.int64),
        path_links=paths.reshape(-1).astype(np.int32),
        owner=np.arange(flows, dtype=np.int32),
        owners=flows,
        links=len(capacity),
    )
    return World(name, graph, capacity, np.zeros(len(capacity)))
