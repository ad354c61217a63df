"""TopologyFinder: which circuits to set up for a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from topoflow.fabric.base import Demand
from topoflow.fabric.matching import Matcher
from topoflow.fabric.select_permutations import select_permutations
from topoflow.fabric.totient_perms import ring, totient_perms
from topoflow.fabric.wiring import Cable

Group = tuple[int, ...]


@dataclass(frozen=True)
class Topology:
    """Rings (a circuit from each member to the next) and matched pairs (a circuit each way)."""

    strides: dict[Group, tuple[int, ...]]  # the rings of every all-reduce group, heaviest group first
    pairs: tuple[Cable, ...]

    def rings(self) -> dict[Group, tuple[Group, ...]]:
        """The ring orders of every group that was given any."""
        given = {group: strides for group, strides in self.strides.items() if strides}
        return {group: tuple(ring(group, stride) for stride in strides) for group, strides in given.items()}

    def circuits(self) -> Counter[tuple[int, int]]:
        """How many simplex circuits there are from server to server."""
        circuits: Counter[tuple[int, int]] = Counter()
        for orders in self.rings().values():
            for order in orders:
                circuits.update(zip(order, order[1:] + order[:1], strict=True))
        for i, j in self.pairs:
            circuits.update([(i, j), (j, i)])
        return circuits


def find_topology(servers: int, degree: int, demand: Demand) -> Topology:
    """TopoOpt 4.2, Algorithm 1, lines 1-18: split the degree, build rings, match the rest.

    What the paper leaves open is decided so:

    - Traffic is bytes on the wire: ring all-reduce of a buffer S among k servers sends 2 (k - 1) S in all.
    - Groups are served heaviest first, for each takes ``ceil`` of its share of what is left.
    - Ports that remain (a group has fewer rings than degrees, an odd server is unmatched, groups share no server)
      go to the group with the most bytes per ring whose members all have one, then to further matchings.
    - Where rings and pairs leave the servers in parts, one degree is spent on a ring over all servers first.
    """
    if servers == 1:
        return Topology({}, ())
    everyone = tuple(range(servers))
    groups = {group: buffer for group, buffer in demand.all_reduce.items() if len(group) > 1 and buffer > 0}
    topology = _distribute([degree] * servers, degree, groups or {everyone: 0.0}, demand)
    if not _connected(servers, topology):
        topology = _distribute([degree - 1] * servers, degree - 1, groups, demand)
        backbone = {everyone: (*topology.strides.get(everyone, ()), 1)}
        topology = Topology(topology.strides | backbone, topology.pairs)
    return topology


def _distribute(free: list[int], degree: int, groups: dict[Group, float], demand: Demand) -> Topology:
    """Spend the ``free`` ports of every server on rings and pairs."""
    volume = {group: 2 * (len(group) - 1) * buffer for group, buffer in groups.items()}
    volume = dict(sorted(volume.items(), key=lambda item: -item[1]))
    all_reduce, mp = sum(volume.values()), float(demand.mp.sum())
    ring_degree = min(degree, max(1, _share(degree, all_reduce, all_reduce + mp)))
    rings: Counter[Group] = Counter()
    left = ring_degree
    for group, bytes_ in volume.items():  # lines 5-11
        rings[group] = min(left, _share(left, bytes_, all_reduce), _distinct(group))
        left -= rings[group]
        _take(free, group, rings[group])
    matcher = Matcher(demand.mp)
    pairs = [pair for _ in range(degree - ring_degree) for pair in matcher.match(free)]  # lines 13-17
    while able := [group for group in volume if min(free[member] for member in group) > 0]:
        neediest = max(able, key=lambda group: volume[group] / (1 + rings[group]))
        rings[neediest] += 1
        _take(free, neediest, 1)
    while more := matcher.match(free):
        pairs += more
    return Topology({group: select_permutations(len(group), rings[group]) for group in volume}, tuple(pairs))


def _share(degree: int, part: float, whole: float) -> int:
    """The degrees that a part of the traffic gets, rounded up (but not for the last bit); all of them if none flows."""
    return ceil(degree * part / whole - 1e-9) if whole > 0 else degree


def _distinct(group: Group) -> int:
    return len(totient_perms(len(group)))


def _take(free: list[int], group: Group, ports: int) -> None:
    for member in group:
        free[member] -= ports


def _connected(servers: int, topology: Topology) -> bool:
    """Whether every server reaches every other. Rings and pairs both lead back, so direction does not matter."""
    parts: list[set[int]] = []
    for members in _pieces(topology):
        joined = set(members).union(*(part for part in parts if not part.isdisjoint(members)))
        parts = [part for part in parts if part.isdisjoint(joined)] + [joined]
    return len(parts) == 1 and len(parts[0]) == servers


def _pieces(topology: Topology) -> Iterable[tuple[int, ...]]:
    yield from (group for group, strides in topology.strides.items() if strides)
    yield from topology.pairs
