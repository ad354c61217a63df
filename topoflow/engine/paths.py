"""The path table of a world: every path once, and which one a connection takes."""

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
    candidates: dict[tuple[int, int, str], list[int]] = field(default_factory=dict)

    def number(self, path: Path) -> int:
        """The place of ``path`` in the table, entered at its first use."""
        return self.table.setdefault(tuple(path), len(self.table)) if path else NO_PATH

    def connect(self, source: Offsets, target: Offsets, channel: Offsets, kind: str) -> Ints:
        """[F] the path of each connection, which is a (source, target, channel); none from a server to itself."""
        servers = self.fabric.servers
        key, inverse = np.unique((channel * servers + source) * servers + target, return_inverse=True)
        sources, targets, channels = key // servers % servers, key % servers, key // (servers * servers)
        options = [self._between(*pair, kind) for pair in zip(sources.tolist(), targets.tolist(), strict=True)]
        chosen = choose(self.seed, sources, targets, channels, [len(option) for option in options])
        taken: Ints = np.array([option[index] for option, index in zip(options, chosen, strict=True)], np.int32)
        connected: Ints = taken[inverse.reshape(-1)]
        return connected

    def _between(self, source: int, target: int, kind: str) -> list[int]:
        if source == target:
            return [NO_PATH]
        if (source, target, kind) not in self.candidates:
            routes = self.fabric.route(source, target, kind)
            if not routes:
                ends = f"{self.fabric.nodes[source]!r} to {self.fabric.nodes[target]!r}"
                raise ValueError(f"{self.fabric.name}.route: must connect all servers, got no path from {ends}")
            self.candidates[source, target, kind] = [self.number(path) for path in routes]
        return self.candidates[source, target, kind]

    def csr(self) -> tuple[Offsets, Ints]:
        """Offsets [P+1] and links [H] of the table."""
        offsets = np.concatenate([[0], np.cumsum([len(path) for path in self.table], dtype=np.int64)])
        return offsets.astype(np.int64), np.array([link for path in self.table for link in path], np.int32)
