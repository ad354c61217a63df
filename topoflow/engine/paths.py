"""The path table of a world: every path that is taken, once, and which one a connection takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from topoflow.engine.base import Ints, Offsets
from topoflow.engine.ecmp import choose
from topoflow.fabric.base import Fabric, Path

NO_PATH = -1  # what does not enter the network


@dataclass
class Paths:
    """Grows as connections are made on ``fabric``; ``seed`` keys the choice among equal paths."""

    fabric: Fabric
    seed: int
    table: dict[Path, int] = field(default_factory=dict)
    taken: dict[tuple[int, int, int, str], int] = field(default_factory=dict)

    def number(self, path: Path) -> int:
        """The place of ``path`` in the table, entered at its first use."""
        return self.table.setdefault(tuple(path), len(self.table)) if path else NO_PATH

    def connection(self, source: int, target: int, channel: int, kind: str) -> int:
        """The path of one connection; none from a server to itself."""
        if source == target:
            return NO_PATH
        connection = (source, target, channel, kind)
        if connection not in self.taken:
            routes = self.fabric.route(source, target, kind)
            if not routes:
                ends = f"{self.fabric.nodes[source]!r} to {self.fabric.nodes[target]!r}"
                raise ValueError(f"{self.fabric.name}.route: must connect all servers, got no path from {ends}")
            self.taken[connection] = self.number(routes[choose(self.seed, source, target, channel, len(routes))])
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
        offsets = np.concatenate([[0], np.cumsum([len(path) for path in self.table], dtype=np.int64)])
        return offsets.astype(np.int64), np.array([link for path in self.table for link in path], np.int32)
