"""What both benchmarks of placements measure: a DLRM on 128 servers, its networks, and where its layers may lie."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from measure import settings

from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.lower import lower
from topoflow.workload.base import Workload

SERVERS = 128
FABRICS = {"topoopt": 4, "fat_tree": 1}  # name -> interfaces per server


@dataclass(frozen=True)
class Job:
    """A DLRM, how it is spread, and the network that was built for that."""

    workload: Workload
    strategy: Strategy
    fabric: Fabric


def on_each(measure: Callable[..., None], defaults: dict[str, int]) -> None:
    """``measure(name, job, **settings)`` for each network, with settings of the command line; errors end the script."""
    try:
        chosen = settings(sys.argv[1:], defaults)
        for fabric, degree in FABRICS.items():
            measure(fabric, job(fabric, degree), **chosen)
    except ValueError as error:
        sys.exit(str(error))


def job(fabric: str, degree: int, servers: int = SERVERS) -> Job:
    keys = ["workload=dlrm", "strategy=hybrid", f"servers={servers}", f"fabric={fabric}", f"degree={degree}"]
    (point,) = grid(keys, check)
    workload = build(point, "workload").build()
    strategy = build(point, "strategy").place(workload, servers)
    demand = lower(workload, strategy).demand()
    return Job(workload, strategy, build(point, "fabric").build(servers, demand))


def choices() -> list[tuple[int, ...]]:
    """The sets of servers that may hold a layer: aligned runs of 1, 2, 4 .. 128, which are 255."""
    sizes = [1 << power for power in range(SERVERS.bit_length())]
    return [tuple(range(first, first + size)) for size in sizes for first in range(0, SERVERS, size)]
