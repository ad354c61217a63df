"""TopologyFinder: the choice of circuits for a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from topoflow.demand import Demand, Group
from topoflow.fabric.topoopt.joining import join
from topoflow.fabric.topoopt.matching import Matcher
from topoflow.fabric.topoopt.port_shares import Bytes, PortShares, add_rings, parts, share_ports, take, wire_bytes
from topoflow.fabric.topoopt.select_permutations import select_permutations
from topoflow.fabric.topoopt.totient_perms import ring
from topoflow.fabric.topoopt.tree_finder import lay, plan_trees
from topoflow.fabric.wiring import Cable


@dataclass(frozen=True)
class Topology:
    """Rings (a circuit from each member to the next), and pairs and edges of trees (a circuit in each direction)."""

    strides: dict[Group, tuple[int, ...]]  # the rings of every all-reduce group, heaviest group first
    pairs: tuple[Cable, ...]
    tree_strides: dict[Group, tuple[int, ...]] = field(default_factory=dict)  # the pairs of trees of every group

    def rings(self) -> dict[Group, tuple[Group, ...]]:
        """Return the ring orders of every group that has any."""
        return _orders(self.strides)

    def trees(self) -> dict[Group, tuple[Group, ...]]:
        """Return the tree orders of every group that has any."""
        return _orders(self.tree_strides)

    def circuits(self) -> Counter[tuple[int, int]]:
        """Return the number of simplex circuits from server to server."""
        circuits: Counter[tuple[int, int]] = Counter()
        for orders in self.rings().values():
            for order in orders:
                circuits.update(zip(order, order[1:] + order[:1], strict=True))
        for i, j in self.pairs:
            circuits.update([(i, j), (j, i)])
        return circuits


def _orders(strides: dict[Group, tuple[int, ...]]) -> dict[Group, tuple[Group, ...]]:
    return {group: tuple(ring(group, stride) for stride in chosen) for group, chosen in strides.items() if chosen}


def find_topology(
    servers: int,
    degree: int,
    demand: Demand,
    primes_above: float = inf,
    collective: str = "ring",
    *,
    duplex: bool = False,
) -> Topology:
    """Return the topology of TopoOpt 4.2, Algorithm 1, lines 1-18: split the degree, build rings, match the rest.

    ``port_shares`` splits the degree. The paper leaves some points open, which are decided as follows:

    - Traffic is bytes on the wire: ring all-reduce of a buffer S among k servers sends 2 (k - 1) S in all.
    - Remaining ports (of unmatched servers, or of groups with a member without ports) go to the group with the most
      bytes per ring whose members all have one, then to further matchings.
    - If rings and pairs leave the servers in disconnected parts, one degree is spent on a ring over all servers first.
    - Without any demand all degrees are rings over all servers. A group of one server sends nothing.
    - A group with fewer strides than degrees (6 servers have +1 and +5) repeats them as parallel circuits.
    - For double binary trees (``collective``) every edge is a circuit in each direction, while both its servers have a
      free port. Remaining ports go to edges without circuits, then to matchings of MP and edges together. A pair of
      trees takes 4 degrees; if a group has fewer, hosts forward.

    ``primes_above``: larger groups have rings of prime strides only (TotientPerms). ``duplex``: every ring is
    bidirectional, with two ports of each member, and needs a degree of two. Raises ``ValueError`` if the demand is not
    for ``servers`` servers.
    """
    if demand.servers != servers:
        raise ValueError(f"demand.servers: must be the {servers} of the network, got {demand.servers}")
    if servers == 1:
        return Topology({}, ())
    everyone = tuple(range(servers))
    groups = {group: buffer for group, buffer in demand.all_reduce.items() if len(group) > 1 and buffer > 0}
    mp = demand.matrix()
    distribute = partial(COLLECTIVES[collective], mp=mp, primes_above=primes_above, duplex=duplex)
    topology = distribute([degree] * servers, degree, groups or {everyone: 0.0})
    if not _connected(servers, topology):
        one_ring = select_permutations(servers, RING_PORTS[duplex], duplex=duplex)
        topology = distribute([degree - len(one_ring)] * servers, degree - len(one_ring), groups)
        backbone = {everyone: (*topology.strides.get(everyone, ()), *one_ring)}
        topology = replace(topology, strides=topology.strides | backbone)
    return topology


def _rings(
    free: list[int], degree: int, groups: dict[Group, float], mp: Bytes, primes_above: float, duplex: bool
) -> Topology:
    """Spend the ``free`` ports of every server on rings and pairs."""
    ring_ports = RING_PORTS[duplex]
    shares = share_ports(degree, groups, mp, ring_ports)
    rings, volume = shares.groups.copy(), wire_bytes(groups)
    for group, ports in rings.items():
        take(free, group, ports)
    matcher = Matcher(shares.rest)
    pairs = _pairs(free, shares, matcher)
    add_rings(rings, volume, free, ring_ports)
    while more := matcher.match(free):
        pairs += more
    strides = {group: select_permutations(len(group), rings[group], primes_above, duplex=duplex) for group in volume}
    return Topology(strides, tuple(pairs))


def _trees(
    free: list[int], degree: int, groups: dict[Group, float], mp: Bytes, primes_above: float, duplex: bool
) -> Topology:
    """Spend the ``free`` ports of every server on the edges of trees, which are always duplex, and on pairs."""
    shares = share_ports(degree, groups, mp)
    trees = plan_trees(len(free), {group: shares.groups[group] for group in wire_bytes(groups)}, groups, primes_above)
    laid = lay(trees.edges, free, shares.groups)
    pairs = _pairs(free, shares, Matcher(shares.rest))
    missing = list((Counter(trees.edges) - Counter(laid)).elements())
    laid += lay(missing, free, dict.fromkeys(groups, degree))
    matcher = Matcher(shares.rest + trees.bytes)
    edges = [ends for _, ends in laid]
    matcher.have(edges + pairs)
    while more := matcher.match(free):
        pairs += more
    return Topology({}, (*edges, *pairs), trees.strides)


def _pairs(free: list[int], shares: PortShares, matcher: Matcher) -> list[Cable]:
    """Return pairs between parts, then those of a matching for every degree of MP (Algorithm 1, lines 13-17)."""
    servers = range(len(free))
    pairs = join([min(free[i], shares.joins[i]) for i in servers], parts(len(free), shares.groups), matcher)
    joins = Counter(end for pair in pairs for end in pair)
    spare = [max(0, min(free[i], shares.mp[i]) - joins[i]) for i in servers]
    pairs += [pair for _ in range(max(shares.mp)) for pair in matcher.match(spare)]
    for pair in pairs:
        take(free, pair)
    return pairs


def _connected(servers: int, topology: Topology) -> bool:
    """Return whether all servers reach each other; rings and pairs lead back, so direction does not matter."""
    return len(set(parts(servers, _pieces(topology)).tolist())) == 1


def _pieces(topology: Topology) -> Iterable[tuple[int, ...]]:
    yield from (group for group, strides in topology.strides.items() if strides)
    yield from topology.pairs


RING_PORTS = {False: 1, True: 2}  # duplex -> ports of each member of a ring
COLLECTIVES = {"ring": _rings, "double_binary_tree": _trees}
