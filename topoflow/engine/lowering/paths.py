"""The path table of a world: every path that is taken, once, and which one a connection takes.

Shapes: F connections, P paths, H hops, L links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.lowering.ecmp import choose
from topoflow.fabric.base import Fabric, Path
from topoflow.traffic.base import Subflow, Traffic

NO_PATH = -1  # what does not enter the network

# What a connection with several equal paths does: "ecmp" keeps one of them, drawn by a hash; "spray" sends every packet
# on another, which is an even share of its bytes on each (Dixit, Prakash, Hu and Kompella, On the impact of packet
# spraying in data center networks, INFOCOM 2013).
ROUTINGS = ("ecmp", "spray")


class Hops(NamedTuple):
    """A path of the table: one path, or several at once."""

    links: Path
    weights: tuple[float, ...]  # share of the bytes that crosses each link
    limit: float = math.inf  # B/s, the most that one flow gets


def union(subflows: Sequence[Subflow], limit: float = math.inf) -> Hops:
    """The links of all subflows, each with the share of those that cross it, the first hops first, the last hops last.

    Two paths 0-1-3 and 0-2-3 with half of the bytes each cross 0 and 3 with all bytes, and 1 and 2 with half of them.
    """
    if len(subflows) == 1:  # most are; a path crosses a link at most once
        return Hops(subflows[0].links, (1.0,) * len(subflows[0].links), limit)
    share: dict[int, float] = {}
    behind: dict[int, int] = {}  # hops behind the link, at most
    for subflow in subflows:
        for position, link in enumerate(reversed(subflow.links)):
            share[link] = share.get(link, 0.0) + subflow.weight
            behind[link] = max(behind.get(link, 0), position)
    links = tuple(sorted(share, key=lambda link: -behind[link]))
    return Hops(links, tuple(min(share[link], 1.0) for link in links), limit)  # 1 + 1e-16 is 1


@dataclass(frozen=True)
class PathTable:
    """Paths as arrays."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H]
    weights: Floats  # [H] the share of the bytes that crosses each hop
    limits: Floats  # [P] B/s
    latency: Floats  # [P] s, of the average byte: the sum of weight * latency over the hops

    @property
    def paths(self) -> int:
        return len(self.limits)

    @property
    def path_weight(self) -> Floats | None:
        """As ``Graph`` has it, None: all bytes cross all hops."""
        return self.weights if np.any(self.weights < 1) else None

    @property
    def path_limit(self) -> Floats | None:
        """As ``Graph`` has it, None: no limits."""
        return self.limits if np.any(self.limits < math.inf) else None

    def extended(self, new: Sequence[Hops], latency: Floats) -> PathTable:
        """With paths behind it; ``latency`` [L] of links."""
        count = np.array([len(hops.links) for hops in new], np.int64)
        links = np.fromiter(chain.from_iterable(hops.links for hops in new), np.int32)
        weights = np.fromiter(chain.from_iterable(hops.weights for hops in new), np.float64)
        waited = np.bincount(np.repeat(np.arange(len(new)), count), latency[links] * weights, len(new))
        return PathTable(
            np.concatenate([self.offsets, self.offsets[-1] + np.cumsum(count)]),
            np.concatenate([self.links, links]),
            np.concatenate([self.weights, weights]),
            np.concatenate([self.limits, [hops.limit for hops in new]]),
            np.concatenate([self.latency, waited]),
        )

    def taken(self, paths: Ints) -> PathTable:
        """Those of ``paths``, in that order."""
        count = np.diff(self.offsets)[paths]
        offsets = np.concatenate([[0], np.cumsum(count)])
        hop = np.arange(offsets[-1]) + np.repeat(self.offsets[paths] - offsets[:-1], count)
        return PathTable(offsets, self.links[hop], self.weights[hop], self.limits[paths], self.latency[paths])


NO_PATHS = PathTable(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros(0))


@dataclass
class Paths:
    """Grows as connections are made on ``fabric``; ``seed`` keys the choice among equal paths."""

    fabric: Fabric
    seed: int
    routing: str = "ecmp"
    table: dict[Hops, int] = field(default_factory=dict)
    taken: dict[tuple[int, int, int, str], int] = field(default_factory=dict)
    known: PathTable = field(default=NO_PATHS, repr=False)  # of the first of ``table``

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
        if len(routes) == 1:
            return (Subflow(routes[0]),)
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

    def transfer(self, traffic: Traffic, task: int) -> int:
        """The path of one transfer that has subflows of its own, or a limit."""
        source, target = int(traffic.source[task]), int(traffic.target[task])
        subflows = traffic.subflows.get(task, ())
        for subflow in subflows:
            self._check(source, target, subflow.links, f"{traffic.where(task)}.subflows")
        limit = traffic.limit.get(task, math.inf)
        return self.number(subflows or self.subflows(source, target, 0, "mp"), limit)

    def _check(self, source: int, target: int, path: Path, where: str) -> None:
        """A path is links, each of which begins where the one before ends, from source to target, each once."""
        fabric = self.fabric
        if any(not 0 <= link < fabric.links for link in path):
            raise ValueError(f"{where}: must be links within 0..{fabric.links - 1}, got {list(path)}")
        nodes = [source, *(int(fabric.target[link]) for link in path)]
        if [int(fabric.source[link]) for link in path] != nodes[:-1] or nodes[-1] != target:
            ends = f"{fabric.nodes[source]!r} to {fabric.nodes[target]!r}"
            raise ValueError(f"{where}: must lead from {ends} without a gap, got {list(path)}")
        if len(set(path)) != len(path):
            raise ValueError(f"{where}: must cross a link at most once, got {list(path)}")

    def arrays(self) -> PathTable:
        """The table so far; only what is new since the last call is worked out."""
        if len(self.table) > self.known.paths:
            self.known = self.known.extended(list(islice(self.table, self.known.paths, None)), self.fabric.latency)
        return self.known

    def csr(self) -> tuple[Offsets, Ints]:
        """Offsets [P+1] and links [H] of the table."""
        return self.arrays().offsets, self.arrays().links

    def latency(self) -> Floats:
        """[P] s, of the average byte: the sum of weight * latency over the hops."""
        return self.arrays().latency

    def weights(self) -> Floats | None:
        """[H] the share of the bytes that crosses each hop; None: all, everywhere."""
        return self.arrays().path_weight
