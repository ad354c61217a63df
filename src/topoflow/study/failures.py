"""How much slower a job gets when a fiber or a server fails, each by itself. F failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from topoflow.case.failures import Slowdowns
from topoflow.engine.base import Fidelity, Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.observer import Silent
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import RECOVERIES, Disconnected, without
from topoflow.traffic.base import Traffic

CHOICES = ("faster", *RECOVERIES)  # faster: whichever of the others is, failure by failure
PIECE = 16  # failures that are built and simulated at a time: as many networks and worlds are in memory

# How a traffic becomes a world on a fabric: ``lowering.placement.place`` with all that is the same for each.
Place = Callable[[Traffic, Fabric], World]


def surviving_fabrics(
    fabric: Fabric,
    *,
    links: Sequence[int] = (),
    fibers: Sequence[int] = (),
    servers: Sequence[int] = (),
    rings: str = "faster",
) -> list[Fabric]:
    """Return the fabrics that may be left after a failure; the job uses the one on which it is fastest.

    Of ``rings`` that ``fabric.failed.without`` knows, one; of "faster" one for each that leaves other rings than those
    before. Raises as ``without`` does.
    """
    choices = RECOVERIES if rings == "faster" else (rings,)
    survivors: list[Fabric] = []
    for choice in choices:
        survivor = without(fabric, links=links, fibers=fibers, servers=servers, rings=choice)
        if all(survivor.channels != other.channels for other in survivors):
            survivors.append(survivor)
    return survivors


def fail_fibers(
    traffic: Traffic,
    fabric: Fabric,
    place: Place,
    fidelity: Fidelity = Fluid(),
    *,
    links: Sequence[int] | None = None,
    rings: str = "faster",
    run: Run = Run(),
) -> Slowdowns:
    """One fiber of each of ``links`` (None: of every link) fails by itself, and all else continues.

    ``rings`` is one of ``CHOICES``; ``run.observer`` is informed how many failures are simulated.
    """
    chosen = range(fabric.links) if links is None else links
    lose = partial(surviving_fabrics, fabric, rings=rings)
    networks = [partial(lose, fibers=(link,)) for link in chosen]
    whole = place(traffic, fabric)

    def world(left: Fabric) -> World:
        """Return the same world with less capacity, if no link and so no path is gone."""
        same = left.route is fabric.route and left.channels == fabric.channels
        return replace(whole, capacity=left.bandwidth, fabric=left) if same else place(traffic, left)

    return _slowdowns(whole, networks, world, fidelity, run)


def fail_servers(
    traffic: Traffic,
    smaller: Traffic,
    fabric: Fabric,
    place: Place,
    fidelity: Fidelity = Fluid(),
    *,
    servers: Sequence[int] | None = None,
    rings: str = "faster",
    run: Run = Run(),
) -> Slowdowns:
    """Each of ``servers`` (None: any) fails by itself; the job continues as ``smaller`` on the first that are left."""
    if smaller.servers >= traffic.servers:
        raise ValueError(f"{smaller.name}.servers: must be at most {traffic.servers - 1}, got {smaller.servers}")
    chosen = range(traffic.servers) if servers is None else servers
    lose = partial(surviving_fabrics, fabric, rings=rings)
    networks = [partial(lose, servers=(server,)) for server in chosen]
    return _slowdowns(place(traffic, fabric), networks, partial(place, smaller), fidelity, run)


def _slowdowns(
    whole: World,
    networks: Sequence[Callable[[], list[Fabric]]],
    world: Callable[[Fabric], World],
    fidelity: Fidelity,
    run: Run,
) -> Slowdowns:
    """Simulate the ``world`` on each network that is left, a piece at a time."""
    silent = replace(run, observer=Silent())

    def times(worlds: Sequence[World]) -> list[float]:
        return [timeline.makespan for timeline in simulate(worlds, fidelity, silent)]

    failed = np.full(len(networks), np.inf)
    for first in range(0, len(networks), PIECE):
        survivors = [
            (number, fabric)
            for number, survive in enumerate(networks[first : first + PIECE], start=first)
            for fabric in _connected(survive)
        ]
        makespans = times([world(fabric) for _, fabric in survivors])
        np.minimum.at(failed, [number for number, _ in survivors], makespans)
        run.observer.advance(min(first + PIECE, len(networks)), len(networks))
    return Slowdowns(times([whole])[0], failed)


def _connected(left: Callable[[], list[Fabric]]) -> list[Fabric]:
    """None where what is left does not hang together."""
    try:
        return left()
    except Disconnected:
        return []
