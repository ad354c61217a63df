"""The plan of a fabric: its circuits, ring orders, trees and routes, by server."""

from __future__ import annotations

from collections.abc import Mapping

from topoflow.engine.lowering.algorithms import following
from topoflow.fabric.base import Fabric
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.search.base import Circuits, Plan, Ring, Routes, Trees
from topoflow.search.circuits import circuits, cross_connects
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic

KINDS = ("all_reduce", "mp")


def plan_of(
    fabric: Fabric,
    traffic: Traffic,
    strategy: Strategy,
    *,
    workload: str = "none",
    all_reduce: str = "ring",
    routing: str = "ecmp",
    seed: int = 0,
    bound: float = 0.0,
    fidelity: str = "fluid",
    iteration_time: float = 0.0,
    cost: float | None = None,
    power: float | None = None,
) -> Plan:
    """The plan by which ``strategy`` runs ``traffic`` on ``fabric``; keywords are fields of ``Plan``.

    The defaults predict nothing. Raises ``ValueError`` as ``Plan`` and ``circuits`` do.
    """
    return Plan(
        workload=workload,
        servers=fabric.servers,
        strategy=strategy.to_json(),
        fabric=fabric.name,
        degree=fabric.degree,
        bandwidth=fabric.interface_bandwidth,
        circuits=plan_circuits(fabric),
        rings=plan_rings(fabric, traffic, all_reduce),
        trees=plan_trees(fabric, traffic, all_reduce),
        routes=plan_routes(fabric),
        all_reduce=all_reduce,
        routing=routing,
        seed=seed,
        bound=bound,
        fidelity=fidelity,
        iteration_time=iteration_time,
        cost=cost,
        power=power,
    )


def plan_circuits(fabric: Fabric) -> Circuits:
    """The cross-connects of ``degree`` optical switches; none where the fabric has switches of its own."""
    wired = circuits(fabric)
    return cross_connects(fabric.servers, fabric.degree, wired) if wired else ()


def plan_rings(fabric: Fabric, traffic: Traffic, algorithm: str) -> tuple[Ring, ...]:
    """The rings of every group of servers that all-reduces, as ``place`` takes them: without any, the group's order."""
    if algorithm not in following("rings"):
        return ()
    orders = {group: fabric.channels.rings.get(group, (group,)) for group in traffic.demand().all_reduce}
    return tuple(Ring(group, tuple(stride(group, order) for order in found), found) for group, found in orders.items())


def plan_trees(fabric: Fabric, traffic: Traffic, algorithm: str) -> tuple[Trees, ...]:
    """The same of double binary trees."""
    if algorithm not in following("trees"):
        return ()
    return tuple(Trees(group, fabric.channels.trees.get(group, (group,))) for group in traffic.demand().all_reduce)


def plan_routes(fabric: Fabric) -> Mapping[str, Routes]:
    """For both kinds of traffic, the paths from every server to every other, as servers; none through switches.

    Where there are several, they are equal: ``routing`` says how they share the traffic.
    """
    if fabric.has_switches:
        return {}
    target = fabric.target.tolist()
    servers = range(fabric.servers)

    def paths(i: int, j: int, kind: str) -> tuple[tuple[int, ...], ...]:
        return () if i == j else tuple((i, *(target[link] for link in path)) for path in fabric.route(i, j, kind))

    return {kind: tuple(tuple(paths(i, j, kind) for j in servers) for i in servers) for kind in KINDS}
