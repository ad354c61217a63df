"""The path table of a world: every path that is taken, once, and which one a connection takes.

Shapes: F connections, P paths, H hops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.ecmp import choose
from topoflow.fabric.base import Fabric, Path
from topoflow.traffic.base import Subflow

NO_PATH = -1  # what does not enter the network

# What a connection with several equal paths does: "ecmp" keeps one of them, drawn by a hash; "spray" sends every packet
# on another, which is an even share of its bytes on each (Dixit, Prakash, Hu and Kompella, On the impact of packet
# spraying in data center networks, INFOCOM 2013).
ROUTINGS = ("ecmp", "spray")


@dataclass(frozen=True)
class Hops:
    """A path of the table: one path, or several at once."""

    links: Path
    weights: tuple[float, ...]  # share of the bytes that crosses each link
    limit: float = math.inf  # B/s, the most that one flow gets


def union(subflows: Sequence[Subflow], limit: float = math.inf) -> Hops:
    """The links of all subflows, each with the share of those that cross it, the first hops first, the last hops last.

    Two paths 0-1-3 and 0-2-3 with half of the bytes each cross 0 and 3 with all bytes, and 1 and 2 with half of them.
    """
    share: dict[int, float] = {}
    behind: dict[int, int] = {}  # hops behind the link, at most
    for subflow in subflows:
        for position, link in enumerate(reversed(subflow.links)):
            share[link] = share.get(link, 0.0) + subflow.weight
            behind[link] = max(behind.get(link, 0), position)
    links = tuple(sorted(share, key=lambda link: -behind[link]))
    return Hops(links, tuple(min(share[link], 1.0) for link in links), limit)  # 1 + 1e-16 is 1


@dataclass
class Paths:
    """Grows as connections are made on ``fabric``; ``seed`` keys the choice among equal paths."""

    fabric: Fabric
    seed: int
    routing: str = "ecmp"
    table: dict[Hops, int] = field(default_factory=dict)
    taken: dict[tuple[int, int, int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.routing not in ROUTINGS:
            raise ValueError(f"routing: must be one of {', '.join(ROUTINGS)}, got {self.routing!r}")

    def number(self, subflows: Sequence[Subflow], limit: float = math.inf) -> int:
        """The place in the table of these paths taken at once, entered at their first use."""
        hops = union(subflows, limit)
        return self.table.setdefault(hops, len(self.table)) if hops.links else NO_PATH

    def subflows(self, source: int, target: int, channel: int, kind: str) -> tuple[Subflow, ...]:
        """The paths of one connection; none from a server to itself."""
        if source == target:
            return ()
        routes = self.fabric.route(source, target, kind)
        if not routes:
            ends = f"{self.fabric.nodes[source]!r} to {self.fabric.nodes[target]!r}"
            raise ValueError(f"{self.fabric.name}.route: must connect all servers, got no path from {ends}")
        if self.routing == "spray":
            return tuple(Subflow(route, 1 / len(routes)) for route in routes)
        return (Subflow(routes[choose(self.seed, source, target, channel, len(routes))]),)

    def connection(self, source: int, target: int, channel: int, kind: str) -> int:
        """The number of the path of one connection."""
        connection = (source, target, channel, kind)
        if connection not in self.taken:
            self.taken[connection] = self.number(self.subflows(*connection))
        return self.taken[connection]

    def connections(self, source: Offsets, target: Offsets, channel: Offsets, kind: str) -> Ints:
        """[F] the path of each connection (``source``, ``target``, ``channel`` [F])."""
        servers = self.fabric.servers
        key, inverse = np.unique((channel * servers + source) * servers + target, return_inverse=True)
        ends = (key // servers % servers).tolist(), (key % servers).tolist()
        distinct = zip(*ends, (key // servers**2).tolist(), strict=True)
        paths = np.array([self.connection(*each, kind) for each in distinct], np.int32)
        connected: Ints = paths[inverse.reshape(-1)]
        return connected

    def csr(self) -> tuple[Offsets, Ints]:
        """Offsets [P+1] and links [H] of the table."""
        offsets = np.concatenate([[0], np.cumsum([len(hops.links) for hops in self.table], dtype=np.int64)])
        return offsets.astype(np.int64), np.array([link for hops in self.table for link in hops.links], np.int32)

    def weights(self) -> Floats | None:
        """[H] the share of the bytes that crosses each hop; None: all, everywhere."""
        weights = np.array([weight for hops in self.table for weight in hops.weights], np.float64)
        return weights if np.any(weights < 1) else None

    def limits(self) -> Floats | None:
        """[P] B/s; None: no limits."""
        limits = np.array([hops.limit for hops in self.table], np.float64)
        return limits if np.any(limits < math.inf) else None
