"""Port shares: which of its ports a server has for rings of its groups, for joins of parts, and for MP.

TopoOpt splits one degree d for all servers, by bytes summed over all of them (4.2, Algorithm 1, lines 2-7): there every
group has about every server, and what one takes, the others lack. Stages of a pipeline, and groups of tensor or expert
ranks, share no server and do not compete for ports. So this differs:

- Line 2 sums over the servers of a group, where the paper sums over all. Of MP, half counts at each end.
- Lines 5-7 give groups rings one by one, where most bytes per ring are sent, as long as all its members have a port,
  where the paper gives each the ceiling of its share of what is left: of groups apart, the first would take all.
- Where rings leave the servers in parts, a server with MP to another part keeps one port for a pair that joins them
  ("at least one degree to the AllReduce sub-topology to ensure the network remains connected" is enough only where
  groups overlap). One ring over all servers would do it too, but all that returns from a part would go round it.
- What groups without a ring send from member to member is matched as MP is.

One group of everyone gets what Algorithm 1 gives it.

A ring takes one port of each member, with which it sends and receives (Algorithm 1); where circuits are duplex, it
takes two, one to the member before and one to the member after it, and carries bytes in both directions.
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
    """Degrees. ``rest`` is MP and, as bytes from member to member, what groups without a degree send."""

    groups: Counter[Group]  # of those that have any: ports of each member
    joins: list[int]  # [servers] 1 where a server has bytes to or from another part, else 0
    mp: list[int]  # [servers] d_MP, joins counted
    rest: Bytes  # [servers, servers]


def share_ports(degree: int, groups: Mapping[Group, float], mp: Bytes, ring_ports: int = 1) -> PortShares:
    """``groups`` have buffer bytes, ``mp`` [servers, servers] are bytes from server to server.

    A ring takes ``ring_ports`` of each member.
    """
    volume = wire_bytes(groups)
    all_reduce = _all_reduce(degree, volume, mp, ring_ports)
    rings: Counter[Group] = Counter()
    add_rings(rings, volume, list(all_reduce), ring_ports)
    joins = _leaving(rings, _rest(volume, rings, mp), degree - ring_ports)
    if any(joins):
        rings.clear()
        spare = [min(own, degree - join) for own, join in zip(all_reduce, joins, strict=True)]
        add_rings(rings, volume, spare, ring_ports)
    return PortShares(rings, joins, [degree - own for own in all_reduce], _rest(volume, rings, mp))


def wire_bytes(groups: Mapping[Group, float]) -> dict[Group, float]:
    """All that ring all-reduces of these buffers send, heaviest group first: 2 (k - 1) S among k servers."""
    volume = {group: sent_by_all("all_reduce", len(group)) * buffer for group, buffer in groups.items()}
    return dict(sorted(volume.items(), key=lambda item: -item[1]))


def add_rings(rings: Counter[Group], volume: Mapping[Group, float], spare: list[int], ring_ports: int = 1) -> None:
    """Rings one by one, each for the group whose members send most per port, while all of them have ``spare`` ports.

    A group of k without a ring counts as with 1/k of a port, for hosts forward its bytes, farther the larger it is.
    """
    while able := [group for group in volume if min(spare[member] for member in group) >= ring_ports]:
        neediest = max(able, key=lambda group: volume[group] / (1 + len(group) * rings[group]))
        rings[neediest] += ring_ports
        take(spare, neediest, ring_ports)


def take(ports: list[int], members: Iterable[int], count: int = 1) -> None:
    """``count`` of each."""
    for member in members:
        ports[member] -= count


def parts(servers: int, pieces: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    """[servers] the same number for all that reach each other, as those of one piece do."""
    part = np.arange(servers)
    for piece in pieces:
        met = part[list(piece)]
        part[np.isin(part, met)] = met[0]
    return part


def _all_reduce(degree: int, volume: Mapping[Group, float], mp: Bytes, ring_ports: int) -> list[int]:
    """[servers] d_A, Algorithm 1, line 2: by what the servers of a group reduce and move; at least one ring."""
    reduced, moved = np.zeros(len(mp)), (mp.sum(axis=0) + mp.sum(axis=1)) / 2
    for group, sent in volume.items():
        reduced[list(group)] += sent / len(group)
    degrees = [0] * len(mp)
    for group in volume:
        part, whole = (float(bytes_[list(group)].sum()) for bytes_ in (reduced, reduced + moved))
        rings = degree
        if whole > 0:  # not rounded up for the last bit
            rings = ceil(degree / ring_ports * part / whole - 1e-9)
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
    """[servers] one degree of those with bytes to other parts, while a ``spare`` one is left after that of a ring."""
    part = parts(len(rest), rings)
    apart = np.not_equal.outer(part, part)
    across: NDArray[np.bool_] = np.any(apart & (rest + rest.T > 0), axis=0)
    return [int(leaves and spare > 0) for leaves in across.tolist()]
