"""Plans that no search has chosen, for tests of what is done with a plan."""

from __future__ import annotations

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.topoopt import TopoOpt
from topoflow.search.base import Plan
from topoflow.search.routes import plan_of
from topoflow.strategy.as_captured import Recorded
from topoflow.traffic.base import Collective, Traffic


def plan_of_fabric(fabric: Fabric) -> Plan:
    """All servers all-reduce in the rings of ``fabric``."""
    reduce = Collective("all_reduce", 1.0, tuple(range(fabric.servers)))
    traffic = Traffic.from_tasks("all-reduce", fabric.servers, [reduce])
    return plan_of(fabric, traffic, Recorded("as_captured", fabric.servers))


def topoopt_plan(servers: int, degree: int, bandwidth: float = 1e6) -> Plan:
    """TopoOpt's rings of data parallelism."""
    demand = Demand(servers, {tuple(range(servers)): 1.0})
    return plan_of_fabric(TopoOpt(bandwidth, degree, 0.0, 4).build(servers, demand))
