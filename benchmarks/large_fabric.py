"""A dragonfly of 110,592 servers: how long it takes to build, to check, and to route and place random transfers on it.

    python benchmarks/large_fabric.py [flows=100000]

Sizes are those of the network in Hemmert et al.'s study of dragonflies: 24 nodes per router, 48 routers per group, 96
groups. Prints ``path.metric value``; seconds and MiB are of this process, from its start on.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from worlds.placements import settings

from topoflow.case.rows import path_lengths
from topoflow.demand import Demand
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.traffic.base import Traffic, Transfer

SERVERS = 24 * 48 * 96


@contextmanager
def timed(name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"large_fabric.{name}.seconds {time.perf_counter() - began:.3f}")


def main(flows: int) -> None:
    ends = np.random.Generator(np.random.Philox(key=[0, 0])).integers(SERVERS, size=(flows, 2))
    with timed("build"):
        fabric = Dragonfly(12.5e9, 1, 1e-6, nodes=24, routers=48, groups=96, global_links=4).build(
            SERVERS, Demand(SERVERS)
        )
    with timed("traffic"):
        tasks = tuple(Transfer(1e6, int(i), int(j)) for i, j in ends)
        traffic = Traffic.from_tasks("random", SERVERS, tasks)
    with timed("route_and_place"):
        world = place(traffic, fabric, name="random")
    with timed("path_lengths"):
        mean = float(path_lengths(fabric).mean())
    with timed("bound"):
        (timeline,) = Bound().simulate([world])
    print(f"large_fabric.links {fabric.links}")
    print(f"large_fabric.hops {len(world.graph.path_links)}")
    print(f"large_fabric.path_length_mean {mean:.4f}")
    print(f"large_fabric.makespan_bound {timeline.makespan:.6g}")
    print(f"large_fabric.memory_mib {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    print(f"large_fabric.seconds {time.process_time():.2f}")


if __name__ == "__main__":
    main(**settings(sys.argv[1:], {"flows": 100_000}))
