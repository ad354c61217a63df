"""What is emulated of a plan: its circuits, less one, or a switch of the same interfaces; its ring orders, or DDP's."""

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
    """``bandwidth`` (B/s) is that of an interface of the emulation, not the plan's.

    Raises ``ValueError`` for a plan that has no ring of all servers, a circuit that it does not have, or a switch with
    a failed circuit.
    """

    plan: Plan
    bandwidth: float
    failed: tuple[int, int] | None = None  # source and target of a circuit, all that are parallel to it as well
    switch: bool = False  # one switch, with all interfaces of a server as one link, in place of circuits
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
        """The rings that PermutedRings makes; None: none."""
        return None if self.own_order else self._planned()

    def fabric(self) -> Fabric:
        """With one path for each pair, as hosts forward; its channels are the orders that the job reduces in."""
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
