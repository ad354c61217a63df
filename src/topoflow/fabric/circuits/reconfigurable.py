"""Fabrics whose circuits change while a job runs: the initial circuits, and those at any time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits.demand_driven import DemandDriven
from topoflow.fabric.circuits.heuristic import Counts, Matrix, choose_circuits, connect
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.wiring import check_count, server_names
from topoflow.operations import bus_factor
from topoflow.units import check_among, check_not_negative

# The circuits before the job begins, which TopoOpt leaves open. "job": Algorithm 5 for the demand of the whole
# iteration, as set by an operator who knows the job; "even": the same without demand, i to i + 1, ..., i + degree.
STARTS = ("job", "even")


def check_reconfiguration(name: str, interval: float, pause: float, start: str, paths: int, iterations: int) -> None:
    """Raise ``ValueError`` unless the network is up for some time between two reconfigurations."""
    check_not_negative(f"{name}.pause", pause)
    if not pause < interval < float("inf"):
        raise ValueError(f"{name}.interval: must be finite and longer than the pause of {pause:g} s, got {interval:g}")
    check_among(f"{name}.start", start, STARTS)
    check_count(f"{name}.paths", paths)
    check_count(f"{name}.iterations", iterations)


def reconfigurable(
    name: str,
    servers: int,
    demand: Demand,
    *,
    start: str,
    control: DemandDriven,
    bandwidth: float,
    degree: int,
    latency: float,
    bill: tuple[Item, ...],
) -> Fabric:
    """Return the fabric before the job begins; it is connected, so that all pairs have routes."""
    bytes_ = expected(servers, demand) if start == "job" else np.zeros((servers, servers))
    circuits = connect(choose_circuits(bytes_, degree, control.discount), bytes_)
    ends = np.argwhere(circuits).astype(np.int32)
    return Fabric(
        name=name,
        servers=servers,
        nodes=server_names(servers),
        source=ends[:, 0],
        target=ends[:, 1],
        bandwidth=bandwidth * circuits[ends[:, 0], ends[:, 1]].astype(np.float64),
        latency=np.full(len(ends), float(latency)),
        route=ShortestPaths(server_names(servers), ends[:, 0], ends[:, 1], control.paths),
        degree=degree,
        interface_bandwidth=float(bandwidth),
        bill=bill,
        control=control,
    )


def expected(servers: int, demand: Demand) -> Matrix:
    """Return the bytes [n, n] of an iteration; all-reduces run as a ring in the order of their group."""
    bytes_ = demand.matrix()
    for group, buffer in demand.all_reduce.items():
        for i, j in pairwise((*group, *group[:1])):
            bytes_[i, j] += bus_factor("all_reduce", len(group)) * buffer
    np.fill_diagonal(bytes_, 0.0)
    return bytes_


def rewired(fabric: Fabric, circuits: Counts) -> Fabric:
    """Return ``fabric`` with other circuits [n, n]; without forwarding, only joined servers have a route."""
    control = fabric.control
    assert isinstance(control, DemandDriven)
    ends = np.argwhere(circuits).astype(np.int32)
    return replace(
        fabric,
        source=ends[:, 0],
        target=ends[:, 1],
        bandwidth=fabric.interface_bandwidth * circuits[ends[:, 0], ends[:, 1]].astype(np.float64),
        latency=np.full(len(ends), float(fabric.latency.max(initial=0.0))),
        route=ShortestPaths(fabric.nodes, ends[:, 0], ends[:, 1], control.paths),
    )
