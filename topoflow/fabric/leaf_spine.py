"""Two layers of switches: every leaf has a cable to every spine."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Path
from topoflow.fabric.wiring import Cable, back, cabled, check_count, check_interfaces, forth, switched_bill


@dataclass(frozen=True)
class LeafSpine:
    """A folded Clos of two layers, with any oversubscription.

        spine     0       1        servers_per_leaf / oversubscription of them
                 / \\  x  / \\
        leaf    0    1     2  ..   each cabled once to every spine
               /|\\  /|\\   /|\\
        server 0..  4..   8..      servers_per_leaf under each leaf

    Every cable carries degree * bandwidth, so a leaf has ``oversubscription`` times as much bandwidth to
    its servers as to the spines. Flows between leaves are hashed over the spines. Servers fill the leaves in
    order; the last leaf may have fewer.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server, bundled to one link
    latency: float  # s per link
    servers_per_leaf: int
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        check_interfaces("leaf_spine", self.bandwidth, self.degree, self.latency)
        check_count("leaf_spine.servers_per_leaf", self.servers_per_leaf)
        if not (isfinite(self.oversubscription) and self.oversubscription >= 1):
            raise ValueError(f"leaf_spine.oversubscription: must be at least 1, got {self.oversubscription}")
        if self.spines < 1 or abs(self.spines * self.oversubscription - self.servers_per_leaf) > 1e-9:
            raise ValueError(
                "leaf_spine.oversubscription: servers_per_leaf / oversubscription must be a whole number of spines, "
                f"got {self.servers_per_leaf} / {self.oversubscription:g}"
            )

    @property
    def spines(self) -> int:
        return round(self.servers_per_leaf / self.oversubscription)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("leaf_spine.servers", servers)
        leaves = -(-servers // self.servers_per_leaf)
        below: list[Cable] = [(server, servers + server // self.servers_per_leaf) for server in range(servers)]
        above: list[Cable] = [
            (servers + leaf, servers + leaves + spine) for leaf in range(leaves) for spine in range(self.spines)
        ]
        bandwidth = self.degree * self.bandwidth
        ports = leaves * (self.servers_per_leaf + self.spines) + self.spines * leaves
        return cabled(
            "leaf_spine",
            servers=servers,
            switches=[f"leaf {leaf}" for leaf in range(leaves)] + [f"spine {spine}" for spine in range(self.spines)],
            cables=below + above,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            route=Routes(servers, self.servers_per_leaf, self.spines),
            bill=switched_bill(servers, ports, len(below) + len(above), bandwidth),
        )


@dataclass(frozen=True)
class Routes:
    """All shortest paths, in closed form; every kind of traffic takes the same."""

    servers: int
    servers_per_leaf: int
    spines: int

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        if source == target:
            return ((),)
        first, last = forth(source), back(target)
        leaf, far_leaf = source // self.servers_per_leaf, target // self.servers_per_leaf
        if leaf == far_leaf:
            return ((first, last),)
        up, down = self.servers + leaf * self.spines, self.servers + far_leaf * self.spines
        return tuple((first, forth(up + spine), back(down + spine), last) for spine in range(self.spines))
