"""Demand: what the servers of a job ask a network for in one iteration. P pairs of servers.

It decouples its two users: a traffic states its demand, and a fabric is built for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.units import check_not_negative

Group = tuple[int, ...]  # servers
Floats = NDArray[np.float64]


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Demand:
    """Bytes of fixed point-to-point pairs, and buffers of all-reduces, whose rings can be chosen.

    These are T_MP and T_AllReduce of TopoOpt (Wang et al., NSDI 2023, 4.1). The pairs are distinct and sorted by
    source, then target; no pair joins a server with itself, and each has bytes. ``Demand(8)`` is empty,
    ``Demand(8, groups)`` has all-reduces only. Raises ``ValueError`` for a server outside 0..``servers``-1 and for
    bytes that are negative or not finite.
    """

    servers: int
    all_reduce: Mapping[Group, float] = field(default_factory=dict)  # group -> bytes of the buffer
    source: NDArray[np.int64] = field(default_factory=_none)  # [P] server
    target: NDArray[np.int64] = field(default_factory=_none)  # [P] server
    bytes: Floats = field(default_factory=lambda: np.zeros(0))  # [P] from source to target

    @staticmethod
    def from_pairs(
        servers: int, source: ArrayLike, target: ArrayLike, bytes: ArrayLike, all_reduce: Mapping[Group, float]
    ) -> Demand:
        """Sum the bytes of pairs in any order, which may repeat; drop those from a server to itself."""
        ends = np.asarray(source, np.int64), np.asarray(target, np.int64)
        amount = np.asarray(bytes, np.float64)
        _check(servers, *ends, amount)
        is_sent = (ends[0] != ends[1]) & (amount > 0)
        pair, number = np.unique(ends[0][is_sent] * servers + ends[1][is_sent], return_inverse=True)
        total = np.bincount(number.reshape(-1), amount[is_sent], len(pair)).astype(np.float64)
        return Demand(servers, all_reduce, pair // servers, pair % servers, total)

    @staticmethod
    def from_matrix(matrix: Floats, all_reduce: Mapping[Group, float]) -> Demand:
        """Return the demand of a matrix [servers, servers] of bytes from each server to each other."""
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"demand.bytes: expected [servers, servers], got {list(matrix.shape)}")
        source, target = np.nonzero(matrix)
        return Demand.from_pairs(len(matrix), source, target, matrix[source, target], all_reduce)

    def __post_init__(self) -> None:
        _check(self.servers, self.source, self.target, self.bytes)
        pair = self.source * self.servers + self.target
        if np.any(pair[1:] <= pair[:-1]) or np.any(self.source == self.target):
            raise ValueError("demand.source: pairs must be of two servers and ascend, got others (see from_pairs)")
        for group, buffer in self.all_reduce.items():
            if len(set(group)) != len(group) or not all(0 <= member < self.servers for member in group):
                rule = f"a group must name servers of 0..{self.servers - 1} once"
                raise ValueError(f"demand.all_reduce: {rule}, got {', '.join(map(str, group))}")
            check_not_negative(f"demand.all_reduce of {len(group)} servers", buffer)

    def matrix(self) -> Floats:
        """Return the bytes of pairs as [servers, servers]; the memory is quadratic in the servers."""
        matrix = np.zeros((self.servers, self.servers))
        matrix[self.source, self.target] = self.bytes
        return matrix


def _check(servers: int, source: NDArray[np.int64], target: NDArray[np.int64], bytes: Floats) -> None:
    for name, ends in (("source", source), ("target", target)):
        if len(ends) != len(bytes):
            raise ValueError(f"demand.{name}: expected [P] = [{len(bytes)}], got [{len(ends)}]")
        if ends.size and not 0 <= ends.min() <= ends.max() < servers:
            got = ends.min() if ends.min() < 0 else ends.max()
            raise ValueError(f"demand.{name}: must be servers of 0..{servers - 1}, got {got}")
    wrong = bytes[~((bytes >= 0) & np.isfinite(bytes))]
    if wrong.size:
        raise ValueError(f"demand.bytes: must not be negative, got {wrong[0]}")
