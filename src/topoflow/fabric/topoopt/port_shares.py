"""Port shares: the division of a server's ports among rings of its groups, joins of parts, and MP.

TopoOpt splits one degree d for all servers, by bytes summed over all of them (4.2, Algorithm 1, lines 2-7): there every
group has almost every server, so that groups compete for ports. Stages of a pipeline, and groups of tensor or expert
ranks, share no server and do not compete. So this implementation differs:

- Line 2 sums over the servers of a group instead of all servers. Half of the MP bytes count at each end.
- Lines 5-7 add rings one by one, for the group with the most bytes per ring, while all its members have a port. The
  paper gives each group the ceiling of its share of the remaining ports: of disjoint groups, the first would take all.
- If rings leave the servers in disconnected parts, a server with MP to another part keeps one port for a pair that
  joins them ("at least one degree to the AllReduce sub-topology to ensure the network remains connected" is only enough
  if groups overlap). One ring over all servers would also connect them, but all returning traffic would go around it.
- Bytes between members of groups without a ring are matched like MP.

A single group of all servers gets the ports of Algorithm 1.

A ring takes one port of each member, with which it sends and receives (Algorithm 1). With duplex circuits it takes two,
one to the previous and one to the next member, and carries bytes in both directions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from topoflow.operations import sent_by_all

Group = tuple[int, ...]
Bytes = NDArray[np.float64]


@dataclass(frozen=True)
class PortShares:
    """The ports of each use. ``rest`` are the bytes of MP, and between members of groups without ports."""

    groups: Counter[Group]  # ports of each member, for groups that have any
    joins: list[int]  # [servers] 1 where a server has bytes to or from another part, else 0
    mp: list[int]  # [servers] d_MP, including joins
    rest: Bytes  # [servers, servers]


def share_ports(degree: int, groups: Mapping[Group, float], mp: Bytes, ring_ports: int = 1) -> PortShares:
    """Divide ``degree`` ports of each server.

    ``groups`` have buffer bytes, ``mp`` [servers, servers] are bytes from server to server. A ring takes ``ring_ports``
    of each member.
    """
    volume = wire_bytes(groups)
    all_reduce = _all_reduce(degree, volume, mp, ring_ports)
    rings: Counter[Group] = Counter()
    add_rings(rings, volume, list(all_reduce), ring_ports)
    joins = _leaving(rings, _rest(volume, rings, mp), degree - ring_ports)
    if any(joins):
        rings.clear()
        spare = [min(ports, degree - join) for ports, join in zip(all_reduce, joins, strict=True)]
        add_rings(rings, volume, spare, ring_ports)
    return PortShares(rings, joins, [degree - ports for ports in all_reduce], _rest(volume, rings, mp))


def wire_bytes(groups: Mapping[Group, float]) -> dict[Group, float]:
    """Return the bytes that ring all-reduces of these buffers send, heaviest group first: 2 (k - 1) S for k servers."""
    volume = {group: sent_by_all("all_reduce", len(group)) * buffer for group, buffer in groups.items()}
    return dict(sorted(volume.items(), key=lambda item: -item[1]))


def add_rings(rings: Counter[Group], volume: Mapping[Group, float], spare: list[int], ring_ports: int = 1) -> None:
    """Add rings one by one, each for the group whose members send most per port, while all have ``spare`` ports.

    A group of k without a ring counts as having 1/k of a port: hosts forward its bytes, over more hops if k is larger.
    """
    while able := [group for group in volume if min(spare[member] for member in group) >= ring_ports]:
        neediest = max(able, key=lambda group: volume[group] / (1 + len(group) * rings[group]))
        rings[neediest] += ring_ports
        take(spare, neediest, ring_ports)


def take(ports: list[int], members: Iterable[int], count: int = 1) -> None:
    """Take ``count`` ports of each member."""
    for member in members:
        ports[member] -= count


def parts(servers: int, pieces: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return [servers] a number that is equal for all servers that reach each other through ``pieces``."""
    part = np.arange(servers)
    for piece in pieces:
        met = part[list(piece)]
        part[np.isin(part, met)] = met[0]
    return part


def _all_reduce(degree: int, volume: Mapping[Group, float], mp: Bytes, ring_ports: int) -> list[int]:
    """Return [servers] d_A (Algorithm 1, line 2), from the bytes that the servers of a group reduce and move.

    Each group gets at least one ring.
    """
    reduced, moved = np.zeros(len(mp)), (mp.sum(axis=0) + mp.sum(axis=1)) / 2
    for group, sent in volume.items():
        reduced[list(group)] += sent / len(group)
    degrees = [0] * len(mp)
    for group in volume:
        part, total = (float(bytes_[list(group)].sum()) for bytes_ in (reduced, reduced + moved))
        rings = degree
        if total > 0:  # 1e-9: a rounding error must not add a ring
            rings = ceil(degree / ring_ports * part / total - 1e-9)
        for member in group:
            degrees[member] = max(degrees[member], min(degree, max(1, rings) * ring_ports))
    return degrees


def _rest(volume: Mapping[Group, float], rings: Counter[Group], mp: Bytes) -> Bytes:
    rest: Bytes = mp.copy()
    for group, sent in volume.items():
        if not rings[group]:
            rest[list(group), [*group[1:], group[0]]] += sent / len(group)
    return rest


def _leaving(rings: Iterable[Group], rest: Bytes, spare: int) -> list[int]:
    """Return [servers] 1 for those with bytes to other parts, if a ``spare`` degree remains after that of a ring."""
    part = parts(len(rest), rings)
    crosses = np.not_equal.outer(part, part)
    across: NDArray[np.bool_] = np.any(crosses & (rest + rest.T > 0), axis=0)
    return [int(leaves and spare > 0) for leaves in across.tolist()]
