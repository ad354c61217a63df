"""How much slower a job gets when a fiber or a server fails: all failures as one batch. F failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.engine import fluid
from topoflow.engine.base import Floats, World
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import Disconnected, without
from topoflow.traffic.base import Traffic

# How a traffic becomes a world on a fabric: ``engine.placement.place`` with all that is to be the same for each.
Place = Callable[[Traffic, Fabric], World]


@dataclass(frozen=True, eq=False)
class Slowdowns:
    """Iteration times before and after each failure."""

    whole: float  # s, nothing has failed
    failed: Floats  # [F] s, inf: some server cannot be reached any more

    @property
    def ratio(self) -> Floats:
        """[F] how many times as long an iteration takes."""
        return self.failed / self.whole


def fail_fibers(
    traffic: Traffic,
    fabric: Fabric,
    place: Place,
    *,
    links: Sequence[int] | None = None,
    rings: str = "recover",
    merge: float = 0.0,
    threads: int | None = None,
) -> Slowdowns:
    """One fiber of each of ``links`` (None: of every link) fails by itself, and all else goes on.

    ``rings`` is what ``fabric.failed.without`` does with rings that lost a hop.
    """
    chosen = range(fabric.links) if links is None else links
    networks = [_left(fabric, rings, fibers=(link,)) for link in chosen]
    return _run(place(traffic, fabric), [(traffic, network) for network in networks], place, merge, threads)


def fail_servers(
    traffic: Traffic,
    smaller: Traffic,
    fabric: Fabric,
    place: Place,
    *,
    servers: Sequence[int] | None = None,
    rings: str = "recover",
    merge: float = 0.0,
    threads: int | None = None,
) -> Slowdowns:
    """Each of ``servers`` (None: any) fails by itself, and the job goes on as ``smaller``, on one server fewer."""
    if smaller.servers != traffic.servers - 1:
        raise ValueError(f"{smaller.name}.servers: must be {traffic.servers - 1}, got {smaller.servers}")
    chosen = range(traffic.servers) if servers is None else servers
    networks = [_left(fabric, rings, servers=(server,)) for server in chosen]
    return _run(place(traffic, fabric), [(smaller, network) for network in networks], place, merge, threads)


def _left(fabric: Fabric, rings: str, *, fibers: Sequence[int] = (), servers: Sequence[int] = ()) -> Fabric | None:
    """None: what is left is not connected."""
    try:
        return without(fabric, fibers=fibers, servers=servers, rings=rings)
    except Disconnected:
        return None


def _run(
    whole: World,
    failed: Sequence[tuple[Traffic, Fabric | None]],
    place: Place,
    merge: float,
    threads: int | None,
) -> Slowdowns:
    worlds = [place(traffic, fabric) for traffic, fabric in failed if fabric is not None]
    first, *others = fluid.simulate([whole, *worlds], merge=merge, threads=threads)
    times = np.full(len(failed), np.inf)
    times[[fabric is not None for _, fabric in failed]] = [timeline.makespan for timeline in others]
    return Slowdowns(first.makespan, times)
