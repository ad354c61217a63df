"""OCS-reconfig: TopoOpt's optics, with circuits that follow the demand while the job runs."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits.demand_driven import DemandDriven
from topoflow.fabric.circuits.reconfigurable import check_reconfiguration, reconfigurable
from topoflow.fabric.wiring import check_count, check_interfaces, direct_bill


@dataclass(frozen=True)
class OcsReconfig:
    """A flat layer of ``degree`` optical circuit switches, each with a port of every server (TopoOpt 5.1, E.4, G).

        optical circuit switch 1   ..   optical circuit switch d
          /   |    \\                       /   |    \\
    server 0  1 .. n-1                server 0  1 .. n-1            the same n servers

    Every ``interval`` the unsent bytes between servers are collected, and Algorithm 5 chooses circuits for them. If the
    circuits change, all flows stop for ``pause``. With ``forwarding`` the circuits are kept connected and hosts
    forward, over up to ``paths`` shortest paths; without it, a pair of servers without a circuit waits for one.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server
    latency: float  # s per circuit
    interval: float  # s between two measurements of the demand
    pause: float  # s that a reconfiguration takes
    forwarding: bool
    discount: float  # value of a pair's next circuit relative to the previous one: 0.5 is Equation 2
    paths: int  # shortest paths that a pair may use
    start: str = "job"
    iterations: int = 1  # consecutive iterations that are simulated; the last one is reported

    def __post_init__(self) -> None:
        check_interfaces("ocs_reconfig", self.bandwidth, self.degree, self.latency)
        check_reconfiguration("ocs_reconfig", self.interval, self.pause, self.start, self.paths, self.iterations)
        if not 0 < self.discount <= 1:
            raise ValueError(f"ocs_reconfig.discount: must be in (0, 1], got {self.discount}")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("ocs_reconfig.servers", servers)
        ports = servers * self.degree
        return reconfigurable(
            "ocs_reconfig",
            servers,
            demand,
            start=self.start,
            control=DemandDriven(
                self.interval, self.pause, self.forwarding, self.discount, self.paths, self.iterations
            ),
            bandwidth=self.bandwidth,
            degree=self.degree,
            latency=self.latency,
            bill=(*direct_bill(ports, ports, self.bandwidth), Item("ocs_port", ports)),
        )
