"""Conversion of a fabric to the fields of a plan: circuits, ring orders, trees and routes, by server."""

from __future__ import annotations

from collections.abc import Mapping

from topoflow.collectives.algorithm import following
from topoflow.fabric.base import Fabric, Route
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.search.base import Circuits, Plan, PlanRing, PlanTrees, Routes
from topoflow.search.circuits import circuits, cross_connects
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic


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
    """Return the plan to run ``traffic`` of ``strategy`` on ``fabric``; keywords are fields of ``Plan``.

    The defaults are placeholders without predictions. Raises ``ValueError`` as ``Plan`` and ``circuits`` do.
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
    """Return the cross-connects of ``degree`` optical switches; () where the fabric has electrical switches."""
    wired = circuits(fabric)
    return cross_connects(fabric.servers, fabric.degree, wired) if wired else ()


def plan_rings(fabric: Fabric, traffic: Traffic, algorithm: str) -> tuple[PlanRing, ...]:
    """Return the rings of every group that all-reduces; without rings in the fabric, the group's own order."""
    if algorithm not in following("rings"):
        return ()
    orders = {group: fabric.channels.rings.get(group, (group,)) for group in traffic.demand().all_reduce}
    return tuple(
        PlanRing(group, tuple(stride(group, ring) for ring in rings), rings) for group, rings in orders.items()
    )


def plan_trees(fabric: Fabric, traffic: Traffic, algorithm: str) -> tuple[PlanTrees, ...]:
    """Return the double binary trees of every group that all-reduces."""
    if algorithm not in following("trees"):
        return ()
    return tuple(PlanTrees(group, fabric.channels.trees.get(group, (group,))) for group in traffic.demand().all_reduce)


def plan_routes(fabric: Fabric) -> Mapping[str, Routes]:
    """Return the paths of all-reduces and of other traffic between all servers, as servers; {} with switches.

    ``routing`` defines how several paths of a pair share the traffic.
    """
    if fabric.has_switches:
        return {}
    target = fabric.target.tolist()
    servers = range(fabric.servers)

    def paths(route: Route, i: int, j: int) -> tuple[tuple[int, ...], ...]:
        return () if i == j else tuple((i, *(target[link] for link in path)) for path in route(i, j))

    routes = {"all_reduce": fabric.for_reductions.route, "mp": fabric.route}
    return {name: tuple(tuple(paths(route, i, j) for j in servers) for i in servers) for name, route in routes.items()}
