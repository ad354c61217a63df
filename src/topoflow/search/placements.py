"""Choices: the sets of servers that may hold a layer.

FlexFlow proposes another parallel degree and placement for one operator (Jia, Zaharia and Aiken, "Beyond Data and
Model Parallelism for Deep Neural Networks", MLSys 2019, section 6.2; TopoOpt 4.1). Here the degree is the number k of
holders, which divides the n servers so that all share the work equally, and a placement is regular:

    n = 4    k = 1   0 | 1 | 2 | 3           k = 4   0 1 2 3
             k = 2   0 1 | 2 3               neighbours, which circuits of small stride join
                     0 2 | 1 3               strided, at the largest equal distance

Shapes: K choices, n servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.memory import check_memory
from topoflow.strategy.placement import Placement, places
from topoflow.workload.base import LayerGraph

Holders = tuple[int, ...]
BYTES_PER_MEMBER = np.dtype(np.int64).itemsize  # of ``Choices.member``


@dataclass(frozen=True)
class Choices:
    """K distinct sets of holders. A state of the search is a choice for every layer: ``placement`` [layers]."""

    servers: int
    holders: tuple[Holders, ...]

    @property
    def count(self) -> int:
        return len(self.holders)

    @cached_property
    def number(self) -> dict[Holders, int]:
        """Return holders -> index of the choice."""
        return {holders: number for number, holders in enumerate(self.holders)}

    @cached_property
    def member(self) -> NDArray[np.int64]:
        """Return [K, n] 1 where the server is one of the holders."""
        member = np.zeros((self.count, self.servers), np.int64)
        for number, holders in enumerate(self.holders):
            member[number, list(holders)] = 1
        return member

    @cached_property
    def host(self) -> NDArray[np.int64]:
        """Return [K, n] the server that computes the samples of each server."""
        return np.array([np.array(holders)[places(self.servers, holders)] for holders in self.holders])

    def placement(self, workload: LayerGraph, strategy: Placement) -> NDArray[np.int32]:
        """Return [layers] the choice of every layer."""
        return np.array([self.number[strategy.placement[layer.name]] for layer in workload.layers], np.int32)

    def strategy(self, workload: LayerGraph, placement: NDArray[np.int32], like: Placement) -> Placement:
        """Return the strategy of a state, with the buckets of ``like``."""
        chosen = zip(workload.layers, placement.tolist(), strict=True)
        return Placement(
            name="searched",
            servers=self.servers,
            placement={layer.name: self.holders[choice] for layer, choice in chosen},
            bucket_bytes=like.bucket_bytes,
            first_bucket_bytes=like.first_bucket_bytes,
        )


def choices(servers: int, extra: Iterable[Holders] = ()) -> Choices:
    """Return the regular sets of holders among ``servers``, ascending by degree, then the other sets of ``extra``."""
    degrees = [degree for degree in range(1, servers + 1) if servers % degree == 0]
    count = 2 * sum(degrees)
    check_memory("servers", f"a choice among {count} sets of {servers} servers", count * servers * BYTES_PER_MEMBER)
    sets: dict[Holders, None] = {}
    for degree in degrees:
        sets |= dict.fromkeys(_regular(servers, degree))
    sets |= dict.fromkeys(extra)
    return Choices(servers, tuple(sets))


def _regular(servers: int, degree: int) -> Iterable[Holders]:
    """Yield ``servers / degree`` sets of neighbours, and as many sets of servers at that distance."""
    step = servers // degree
    for first in range(0, servers, degree):
        yield tuple(range(first, first + degree))
    for first in range(step):
        yield tuple(range(first, servers, step))
