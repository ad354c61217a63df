"""Memory budget: the memory of every GPU as a hard constraint on proposals.

Shapes: C chains, K choices, Y layers, n servers. Bytes are whole numbers, rounded up, so that sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import cast

import numpy as np
from numpy.typing import NDArray

from topoflow.search.placements import Choices
from topoflow.strategy.memory import layer_bytes_per_gpu
from topoflow.units import human
from topoflow.workload.base import LayerGraph

Bytes = NDArray[np.int64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Budget:
    """The memory that every layer needs, by choice, and the memory of a GPU."""

    layers: tuple[str, ...]
    need: Bytes  # [Y, K] on each GPU of a holder
    member: Bytes  # [K, n] 1 where the server is a holder
    memory: int  # usable bytes of a GPU
    room: str  # the same as text

    @cached_property
    def binds(self) -> bool:
        """Return whether some placement does not fit; otherwise no proposal has to be checked."""
        return bool(self.need.max(axis=1).sum() > self.memory)

    def used(self, placement: Numbers) -> Bytes:
        """Return [C, n] the bytes on each GPU of every server; ``placement`` is [C, Y]."""
        used = np.zeros((len(placement), self.member.shape[1]), np.int64)
        for layer, choice in enumerate(placement.T):
            used += self.need[layer, choice, None] * self.member[choice]
        return used

    def tables(self) -> dict[str, Bytes]:
        """Return the arrays of ``MemoryBudget`` in ``csrc/screen/walk.h``."""
        return {"need": self.need.ravel(), "member": self.member.ravel()}

    def fits(self, used: Bytes) -> NDArray[np.bool_]:
        """Return [C] whether the bytes fit on every GPU."""
        return cast("NDArray[np.bool_]", (used <= self.memory).all(axis=1))

    def closest(self, placement: Numbers) -> Numbers:
        """Return ``placement`` [Y] if it fits; otherwise a similar one that fits, by first-fit of the largest layers.

        A layer keeps its choice if all smaller layers can still be held once each, with room for the largest of them to
        spare on every server. Otherwise it takes the choice with the least total memory, and of equal ones that with
        the least used fullest server. Raises ``ValueError`` where nothing fits, or this heuristic finds nothing.
        """
        if self.fits(self.used(placement[None]))[0]:
            return placement
        self._check_possible()
        chosen: Numbers = placement.copy()
        used, servers = np.zeros(self.member.shape[1], np.int64), self.member.shape[1]
        total = self.need * self.member.sum(axis=1)  # [Y, K] on all servers
        remaining = int(total.min(axis=1).sum())
        for layer in np.argsort(-self.need.min(axis=1), kind="stable").tolist():
            remaining -= int(total[layer].min())
            filled = used + self.need[layer, :, None] * self.member  # [K, n]
            fullest = filled.max(axis=1)
            room = servers * self.memory - int(filled[placement[layer]].sum())
            if fullest[placement[layer]] > self.memory or room < remaining + servers * int(self.need[layer].min()):
                chosen[layer] = np.lexsort((fullest, total[layer]))[0]
            if fullest[chosen[layer]] > self.memory:
                raise ValueError(
                    f"gpu.memory: must hold a placement, found none for {self.layers[layer]!r} next to larger "
                    f"layers: {human(float(fullest[chosen[layer]]), 'B')} needed, {self.room} there"
                )
            used = filled[chosen[layer]]
        return chosen

    def _check_possible(self) -> None:
        """Raise ``ValueError`` that names what cannot fit in any placement."""
        least = self.need.min(axis=1)  # [Y]
        largest = int(least.argmax())
        if least[largest] > self.memory:
            raise ValueError(
                f"gpu.memory: must hold layer {self.layers[largest]!r}, which needs at least "
                f"{human(float(least[largest]), 'B')} of a GPU, got {self.room}"
            )
        servers = self.member.shape[1]
        total = int((self.need * self.member.sum(axis=1)).min(axis=1).sum()) / servers
        if total > self.memory:
            raise ValueError(
                f"gpu.memory: must hold the job, which needs at least {human(total, 'B')} of every GPU of "
                f"{servers} server{'s' if servers > 1 else ''}, got {self.room}"
            )


def budget(workload: LayerGraph, choices: Choices) -> Budget:
    """Return the budget of a job on ``choices.servers`` servers.

    The need of a layer is limited so that sums over all layers fit in 64 bits; the limit exceeds any GPU's memory.
    """
    limit = 2**62 // len(workload.layers)
    degrees = [len(holders) for holders in choices.holders]
    need = np.zeros((len(workload.layers), choices.count), np.int64)
    for number, layer in enumerate(workload.layers):
        by_degree = {
            k: min(limit, ceil(layer_bytes_per_gpu(workload, layer, k, choices.servers))) for k in sorted(set(degrees))
        }
        need[number] = [by_degree[degree] for degree in degrees]
    names = tuple(layer.name for layer in workload.layers)
    return Budget(names, need, choices.member, min(2**62, int(workload.gpu.usable_memory)), workload.gpu.room)
