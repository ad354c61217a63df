"""Scenario: the network and the ring orders with which a plan is emulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.apply.network import fabric_of, forwarded
from topoflow.demand import Demand
from topoflow.fabric.base import Channels, Fabric, Orders
from topoflow.fabric.failed import without
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.search.base import Plan


@dataclass(frozen=True)
class Scenario:
    """A plan to emulate, with the bandwidth (B/s) of an emulated interface in place of the plan's.

    Raises ``ValueError`` for a plan without a ring of all servers, a failed circuit that the plan does not have, or a
    failed circuit together with a switch.
    """

    plan: Plan
    bandwidth: float
    failed: tuple[int, int] | None = None  # source and target of a failed circuit and of those parallel to it
    switch: bool = False  # one switch in place of circuits; all interfaces of a server form one link
    own_order: bool = False  # DDP without PermutedRings

    def __post_init__(self) -> None:
        if not self.own_order:
            self._planned()
        if self.switch and self.failed is not None:
            raise ValueError("fail: must be without a switch, which has no circuits, got both")
        joined = {(i, j) for switch in self.plan.circuits for i, j in enumerate(switch)}
        if self.failed is not None and self.failed not in joined:
            raise ValueError(f"fail: must be two servers that a circuit joins, got {','.join(map(str, self.failed))}")

    @property
    def orders(self) -> Orders | None:
        """Return the ring orders for PermutedRings; None for DDP's own order."""
        return None if self.own_order else self._planned()

    def fabric(self) -> Fabric:
        """Return the network with one path for each pair; its channels are the orders that the job reduces in."""
        servers = self.plan.servers
        everyone = tuple(range(servers))
        # gloo's ring sends from each rank to the one before (apply.groups.DIRECTION).
        orders = (everyone[:1] + everyone[:0:-1],) if self.own_order else self._planned()
        return replace(self._network(), channels=Channels(rings={everyone: orders}))

    def _network(self) -> Fabric:
        if self.switch:
            design = IdealSwitch(self.bandwidth, self.plan.degree, 0.0)
            return design.build(self.plan.servers, Demand(self.plan.servers, {}))
        fabric = fabric_of(self.plan, self.bandwidth)
        if self.failed is not None:
            ends = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
            fabric = without(fabric, links=[ends.index(self.failed)])
        return forwarded(fabric)

    def _planned(self) -> Orders:
        everyone = set(range(self.plan.servers))
        for ring in self.plan.rings:
            if set(ring.group) == everyone:
                return ring.orders
        raise ValueError(f"plan.rings: must have a group of all {self.plan.servers} servers, got none")
