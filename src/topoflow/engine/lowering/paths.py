"""The path table of a world: every path that is taken, once, and which one a connection takes.

Shapes: F connections, S subflows, P paths, H hops, L links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from topoflow.arrays import offsets, rows_of
from topoflow.engine.alternatives import Alternatives, joined
from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.lowering.addresses import has_ends_only
from topoflow.engine.lowering.routing import Connections, OwnPaths, Routing, Split, routing_named
from topoflow.fabric.attached import FoldedRoutes
from topoflow.fabric.base import Fabric, Path
from topoflow.fabric.failed import Rerouted
from topoflow.fabric.routing.base import NO_LINK, as_routes, padded
from topoflow.traffic.base import Subflow, Traffic

NO_PATH = -1  # what does not enter the network
AGAIN = 0x414741494E  # "AGAIN": hashes that choose after a failure are independent of those before
SEPARATOR = b"\xff" * 4  # four bytes at a place where a path has a link: no link has that number


class PathSet(NamedTuple):
    """Paths, each one path of the fabric or several at once."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H]
    weights: Floats  # [H] share of the bytes that crosses the link
    alternatives: Alternatives | None  # None: each is one path
    most: Floats | float = math.inf  # [P] B/s, by links that are no part of the world


@dataclass(frozen=True, eq=False)
class GpuFlows:
    """F flows between the GPUs of a group of folded endpoints, as one: in proportion to their shares of the bytes."""

    source: Offsets  # [F] GPU, counted from the first of the group
    target: Offsets  # [F]
    channel: Offsets  # [F]
    share: Floats  # [F]
    limit: Floats  # [F] B/s
    total: float  # B of all

    @cached_property
    def content(self) -> bytes:
        """Return what two equal ones have in common."""
        return self.ends + self.share.tobytes() + self.limit.tobytes()

    @cached_property
    def ends(self) -> bytes:
        """Return the same of two that differ in their shares and limits only."""
        return b"".join(column.tobytes() for column in (self.source, self.target, self.channel))


def union(links: Ints, path: Offsets, share: Floats, paths: int) -> PathSet:
    """Return the links of all subflows of each path, with the share of those that cross them, the last hops last.

    ``links`` [S, most hops] are the subflows as ``Routes.links`` gives them, ``path`` [S] the path of each, ascending.
    Two subflows 0-1-3 and 0-2-3 with half of the bytes each cross 0 and 3 with all bytes, and 1 and 2 with half.
    """
    is_hop = links != NO_LINK
    row, column = np.nonzero(is_hop)
    if len(links) == paths:  # one subflow each, as most have; it crosses a link at most once
        return PathSet(offsets(is_hop.sum(axis=1)), links[is_hop], np.ones(len(row)), None)
    subflow_offsets = offsets(np.bincount(path, minlength=paths))
    alternatives = Alternatives(subflow_offsets, offsets(is_hop.sum(axis=1)), links[is_hop], share)
    order = np.lexsort((-column, row))
    row, link = row[order], links[is_hop][order]
    rest = np.arange(len(row)) - np.searchsorted(row, row)  # hops after the link, in its subflow
    key = path[row] * (int(link.max(initial=0)) + 1) + link
    crossing, first, place = np.unique(key, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    weight = np.bincount(place, share[row], len(crossing))
    most = np.zeros(len(crossing), np.int64)
    np.maximum.at(most, place, rest)
    order = np.lexsort((first, -most, path[row[first]]))
    count = np.bincount(path[row[first]], minlength=paths)
    weights = np.minimum(weight[order], 1.0)  # 1 + 1e-16 is 1
    return PathSet(offsets(count), link[first[order]], weights, alternatives)


def routed(fabric: Fabric, routing: Routing, connections: Connections, seed: int) -> PathSet:
    """Return the paths of ``fabric`` that each of F ``connections`` between two nodes takes, by ``routing``.

    Raises ``ValueError`` for two nodes without a path.
    """
    if isinstance(fabric.route, FoldedRoutes) and fabric.route.joins_nodes:
        real, links, split = _folded(fabric.route, routing, connections, seed)
        return _joined_flows(fabric.route, real, links, split, len(connections.source))
    links, split = _subflows(fabric, routing, connections, seed)
    return union(links, split.connection, split.share, len(connections.source))


def _joined_flows(route: FoldedRoutes, real: Ints, links: Ints, split: Split, paths: int) -> PathSet:
    """Return the paths of flows over ``real`` links [S, most hops], which ``links`` stand for, with their limits."""
    begins = np.searchsorted(split.connection, np.arange(paths + 1)).tolist()
    parts = [
        JoinedPaths.of(route.gpus, real[begin:end], links[begin:end]).shared(split.share[begin:end])
        for begin, end in pairwise(begins)
    ]
    rows, shares, most = zip(*parts, strict=True)
    number = np.repeat(np.arange(paths), [*map(len, rows)])
    return union(np.concatenate(rows), number, np.concatenate(shares), paths)._replace(most=np.array(most))


@dataclass(frozen=True, eq=False)
class JoinedPaths:
    """The paths of S flows as one: those that take the same links in the world are one of its R subflows.

    The flows cross C links of the network of GPUs X times.
    """

    links: Ints  # [R, most hops]
    order: Ints  # [S] flows by their subflow
    first: Offsets  # [R] place of the first flow of each subflow in ``order``
    flow: Ints  # [X]
    crossed: Ints  # [X] number of the link among those that are crossed
    bandwidth: Floats  # [C] B/s

    @staticmethod
    def of(gpus: Fabric, real: Ints, links: Ints) -> JoinedPaths:
        """Return those of flows over ``real`` links of ``gpus`` [S, most hops], which ``links`` stand for."""
        order = np.lexsort(links.T)
        sorted_links = links[order]
        first = np.flatnonzero(np.append(True, (sorted_links[1:] != sorted_links[:-1]).any(axis=1)))
        flow, hop = np.nonzero(real != NO_LINK)
        crossed, number = np.unique(real[flow, hop], return_inverse=True)
        return JoinedPaths(
            links=sorted_links[first],
            order=order.astype(np.int32),
            first=first,
            flow=flow.astype(np.int32),
            crossed=number.reshape(-1).astype(np.int32),
            bandwidth=gpus.bandwidth[crossed],
        )

    def shared(self, share: Floats) -> tuple[Ints, Floats, float]:
        """Return the subflows and their shares for flows with these shares [S], and the most (B/s) that all carry."""
        load = np.bincount(self.crossed, share[self.flow])
        used = load > 0
        most = float(np.min(self.bandwidth[used] / load[used]))
        return self.links, np.add.reduceat(share[self.order], self.first), most


# The paths of the flows of a group of folded endpoints, by the routing, its seed, the endpoints and the flows' ends:
# jobs on one network share most of them.
KNOWN_PATHS: WeakKeyDictionary[FoldedRoutes, dict[object, tuple[JoinedPaths, Split]]] = WeakKeyDictionary()
MOST_KNOWN = 2**11  # of a network; of 0.1 MB each


def flow_paths(route: FoldedRoutes, routing: Routing, flows: GpuFlows, group: tuple[int, ...], seed: int) -> PathSet:
    """Return the one path of all ``flows`` of a ``group`` of endpoints, with its limit."""
    known, key = KNOWN_PATHS.setdefault(route, {}), (routing, seed, group, flows.ends)
    if key not in known:
        gpus = (np.array(group)[:, None] * route.size + np.arange(route.size)).ravel()
        connections = Connections(gpus[flows.source], gpus[flows.target], flows.channel)
        real, split = _subflows(route.gpus, routing, connections, seed)
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = JoinedPaths.of(route.gpus, real, route.merged(real)), split
    joined, split = known[key]
    links, shares, most = joined.shared(split.share * flows.share[split.connection])
    hops = union(links, np.zeros(len(links), np.int64), shares, 1)
    return hops._replace(most=np.array([min(most, np.min(flows.limit / flows.share))]))


def _subflows(fabric: Fabric, routing: Routing, connections: Connections, seed: int) -> tuple[Ints, Split]:
    """[S, most hops] the links of every path that is taken, and whose it is."""
    if isinstance(routing, OwnPaths) and has_ends_only(routing):  # a large network need not find any path
        return routing.paths(fabric, connections, seed)
    if isinstance(fabric.route, FoldedRoutes):
        return _folded(fabric.route, routing, connections, seed)[1:]
    if isinstance(fabric.route, Rerouted):
        return _rerouted(fabric, fabric.route, routing, connections, seed)
    return _chosen(fabric, routing, connections, seed)


def _chosen(fabric: Fabric, routing: Routing, connections: Connections, seed: int) -> tuple[Ints, Split]:
    """The same, chosen among all paths that ``fabric`` offers."""
    routes, (source, target, _) = as_routes(fabric.route), connections
    choices = routes.choices(source, target)
    lost = np.flatnonzero(choices.prod(axis=1) == 0)
    if lost.size:
        ends = f"{fabric.nodes[source[lost[0]]]!r} to {fabric.nodes[target[lost[0]]]!r}"
        raise ValueError(f"{fabric.name}.route: must connect all servers, got no path from {ends}")
    if isinstance(routing, OwnPaths):
        return routing.paths(fabric, connections, seed)
    split = routing.split(choices, connections, seed)
    taken = split.connection
    return routes.links(source[taken], target[taken], split.number), split


def _folded(route: FoldedRoutes, routing: Routing, connections: Connections, seed: int) -> tuple[Ints, Ints, Split]:
    """The same between the GPUs of endpoints, each of which carries an equal part; first the links between GPUs."""
    links, split = _subflows(route.gpus, routing, Connections(*route.unfolded(*connections)), seed)
    parts = route.size
    return links, route.merged(links), Split(split.connection // parts, split.number, split.share / parts)


def _rerouted(
    fabric: Fabric, route: Rerouted, routing: Routing, connections: Connections, seed: int
) -> tuple[Ints, Split]:
    """Return the subflows after a failure: those chosen before it, as far as their paths are whole.

    A connection that lost some of its paths spreads its bytes over its others. One that lost all of them chooses among
    what is left, by other hashes, so that connections which shared a lost path part. So a failure moves no connection
    that it does not touch, as switches with resilient hashing do: hash buckets are fixed, and only those of a next hop
    that is gone are filled anew. Source: Cisco IOS XR, "Resilient hashing and flow auto-recovery"; Hopps, RFC 2992,
    says how many connections move where all buckets are filled anew: a quarter to a half of them.
    """
    nodes = connections._replace(source=route.nodes[connections.source], target=route.nodes[connections.target])
    before, split = _subflows(route.intact, routing, nodes, seed)
    is_hop = before != NO_LINK
    links = np.where(is_hop, route.number[before], NO_LINK)
    is_intact = ~(is_hop & (links == NO_LINK)).any(axis=1)
    intact_share = np.bincount(split.connection, np.where(is_intact, split.share, 0.0), len(connections.source))
    touched = np.bincount(split.connection[~is_intact], minlength=len(intact_share)) > 0
    lost = np.flatnonzero(touched & (intact_share == 0))
    intact = split.connection[is_intact]
    share = np.where(touched[intact], split.share[is_intact] / intact_share[intact], split.share[is_intact])
    unconnected = Connections(*(field[lost] for field in connections))
    others, new_split = _chosen(fabric, routing, unconnected, seed ^ AGAIN)
    connection = np.concatenate([intact, lost[new_split.connection]])
    order = np.argsort(connection, kind="stable")
    numbers, shares = (
        np.concatenate(parts)[order]
        for parts in ((split.number[is_intact], new_split.number), (share, new_split.share))
    )
    hops = max(links.shape[1], others.shape[1])
    rows = [
        np.pad(part, ((0, 0), (0, hops - part.shape[1])), constant_values=NO_LINK)
        for part in (links[is_intact], others)
    ]
    return np.concatenate(rows)[order].astype(np.int32), Split(connection[order], numbers, shares)


@dataclass(frozen=True)
class PathTable:
    """Paths as arrays."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H]
    weights: Floats  # [H] the share of the bytes that crosses each hop
    limits: Floats  # [P] B/s
    latency: Floats  # [P] s, of the average byte: the sum of weight * latency over the hops
    subflows: Alternatives | None = None  # None: each is one path

    @property
    def paths(self) -> int:
        return len(self.limits)

    @property
    def path_weight(self) -> Floats | None:
        """Return ``Graph.path_weight``; None: all bytes cross all hops."""
        return self.weights if np.any(self.weights < 1) else None

    @property
    def path_limit(self) -> Floats | None:
        """Return ``Graph.path_limit``; None: no limits."""
        return self.limits if np.any(self.limits < math.inf) else None

    @property
    def alternatives(self) -> Alternatives | None:
        """Return ``Graph.alternatives``; None: every path is one."""
        return None if self.subflows is None or len(self.subflows.share) == self.paths else self.subflows

    def taken(self, paths: Ints | Offsets) -> PathTable:
        """Return the rows of ``paths``, in that order."""
        begins, hop = rows_of(self.offsets, paths)
        subflows = self.subflows.taken(paths) if self.subflows else None
        return PathTable(begins, self.links[hop], self.weights[hop], self.limits[paths], self.latency[paths], subflows)


NO_PATHS = PathTable(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros(0))


def _joined(tables: Sequence[PathTable]) -> PathTable:
    """One table after the other."""
    count = np.concatenate([np.diff(table.offsets) for table in tables])
    fields = ([getattr(table, name) for table in tables] for name in ("links", "weights", "limits", "latency"))
    links, weights, limits, latency = map(np.concatenate, fields)
    subflows = joined([table.subflows for table in tables], [(table.offsets, table.links) for table in tables])
    return PathTable(offsets(count), links, weights, limits, latency, subflows)


def _contents(hops: PathSet) -> list[bytes]:
    """Return the links of each path, and its alternatives where there are several, as one word."""
    count = np.diff(hops.offsets)
    rows = np.full((len(count), int(count.max(initial=0))), NO_LINK, np.int32)
    rows[np.arange(rows.shape[1]) < count[:, None]] = hops.links
    if rows.size == 0:
        return [b""] * len(count)
    # As text of numpy, which has no zeros at its end: links count from 1 here, and NO_LINK is 0.
    words: list[bytes] = (rows + 1).view(f"S{4 * rows.shape[1]}").ravel().tolist()
    if hops.alternatives is not None:
        of = hops.alternatives
        for path in np.unique(np.repeat(np.arange(len(count)), count)[hops.weights < 1]).tolist():
            first, last = of.offsets[path], of.offsets[path + 1]
            hop_offsets = of.hop_offsets[first : last + 1]
            parts = (of.links[hop_offsets[0] : hop_offsets[-1]], hop_offsets - hop_offsets[0], of.share[first:last])
            words[path] = SEPARATOR.join(part.tobytes() for part in parts)
    return words


@dataclass
class Paths:
    """Grows as connections are made on ``fabric``; ``seed`` keys the choice among equal paths.

    Raises ``ValueError`` for a ``routing`` that there is not.
    """

    fabric: Fabric
    seed: int
    routing: str = "ecmp"
    rule: Routing = field(init=False, repr=False)
    numbers: dict[float, dict[bytes, int]] = field(default_factory=dict, repr=False)  # limit -> contents -> path
    # of all-reduces, and limit -> connection -> path
    taken: dict[tuple[bool, float], dict[int, int]] = field(default_factory=dict, repr=False)
    flowed: dict[tuple[bytes, tuple[int, ...]], int] = field(default_factory=dict, repr=False)  # GpuFlows, servers
    parts: list[PathTable] = field(default_factory=lambda: [NO_PATHS], repr=False)  # of the table, in order
    entered: int = 0  # paths in the table

    def __post_init__(self) -> None:
        self.rule = routing_named(self.routing)

    def number(self, subflows: Sequence[Subflow], limit: float = math.inf) -> int:
        """The place in the table of these paths taken at once, entered at their first use."""
        links = padded([subflow.links for subflow in subflows])
        share = np.array([subflow.weight for subflow in subflows])
        return int(self._enter(union(links, np.zeros(len(links), np.int64), share, 1), limit)[0])

    def subflows(self, source: int, target: int, channel: int) -> tuple[Subflow, ...]:
        """The paths of one connection; none from a server to itself."""
        if source == target:
            return ()
        connection = Connections(np.array([source]), np.array([target]), np.array([channel]))
        rows, split = _subflows(self.fabric, self.rule, connection, self.seed)
        paths = (tuple(row[row != NO_LINK].tolist()) for row in rows)
        return tuple(Subflow(path, weight) for path, weight in zip(paths, split.share.tolist(), strict=True))

    def of_flows(self, flows: GpuFlows, groups: Offsets) -> Ints:
        """Return [G] the path of the ``flows`` in each of ``groups`` [G, n] of folded endpoints."""
        return np.array([self._of_flows(flows, tuple(group)) for group in groups.tolist()], np.int32)

    def _of_flows(self, flows: GpuFlows, group: tuple[int, ...]) -> int:
        key = flows.content, group
        if key not in self.flowed:
            route = self.fabric.route
            assert isinstance(route, FoldedRoutes)
            hops = flow_paths(route, self.rule, flows, group, self.seed)
            self.flowed[key] = int(self._enter(hops, math.inf)[0])
        return self.flowed[key]

    def connections(
        self,
        source: Offsets,
        target: Offsets,
        channel: Offsets,
        limit: Floats | None = None,
        *,
        reduces: bool = False,
    ) -> Ints:
        """Return the path of each connection, in the shape of ``source``, ``target`` and ``channel`` [.., C].

        ``limit`` [C] is the most (B/s) that a flow gets; None: any. Connections of all-reduces may have other routes.
        """
        reduces = reduces and self.fabric.reduction_route is not None
        if limit is None:
            return self._limited(source, target, channel, math.inf, reduces)
        paths = np.empty(source.shape, np.int32)
        for most in np.unique(limit).tolist():
            of = limit == most
            paths[..., of] = self._limited(source[..., of], target[..., of], channel[..., of], most, reduces)
        return paths

    def _limited(self, source: Offsets, target: Offsets, channel: Offsets, limit: float, reduces: bool) -> Ints:
        """Return the path of each connection, all with the same limit."""
        servers = self.fabric.servers
        key, inverse = np.unique((channel * servers + source) * servers + target, return_inverse=True)
        known, keys = self.taken.setdefault((reduces, limit), {}), key.tolist()
        new = np.array([connection for connection in keys if connection not in known], np.int64)
        if len(new):
            known.update(zip(new.tolist(), self._connect(new, limit, reduces).tolist(), strict=True))
        paths = np.fromiter(map(known.__getitem__, keys), np.int32, len(keys))
        connected: Ints = paths[inverse.reshape(source.shape)]
        return connected

    def _connect(self, key: Offsets, limit: float, reduces: bool) -> Ints:
        """Return the paths of connections that have none yet."""
        servers = self.fabric.servers
        source, target = key // servers % servers, key % servers
        is_sent = (source != target) | (key >= servers**2)  # on channels inside a node
        connections = Connections(source[is_sent], target[is_sent], key[is_sent] // servers**2)
        paths = np.full(len(key), NO_PATH, np.int32)
        fabric = self.fabric.for_reductions if reduces else self.fabric
        paths[is_sent] = self._enter(routed(fabric, self.rule, connections, self.seed), limit)
        return paths

    def _enter(self, hops: PathSet, limit: float) -> Ints:
        """[P] the places of these paths in the table, where they are entered if they are new; none without links."""
        known = self.numbers.setdefault(limit, {b"": NO_PATH})
        places: list[int] = []
        new: list[int] = []
        contents = _contents(hops)
        if isinstance(hops.most, np.ndarray):
            contents = [links and links + most.tobytes() for links, most in zip(contents, hops.most, strict=True)]
        for path, key in enumerate(contents):
            place = known.get(key)
            if place is None:
                known[key] = place = self.entered + len(new)
                new.append(path)
            places.append(place)
        if new:
            self.entered += len(new)
            self.parts.append(self._table(hops, limit).taken(np.array(new)))
        return np.array(places, np.int32)

    def _table(self, hops: PathSet, limit: float) -> PathTable:
        paths = len(hops.offsets) - 1
        waited = self.fabric.latency[hops.links] * hops.weights
        latency = np.bincount(np.repeat(np.arange(paths), np.diff(hops.offsets)), waited, paths).astype(np.float64)
        limits = np.minimum(np.full(paths, limit), hops.most)
        return PathTable(*hops[:3], limits, latency, hops.alternatives)

    def transfer(self, traffic: Traffic, task: int) -> int:
        """The path of one transfer that has subflows of its own, or a limit."""
        source, target = int(traffic.source[task]), int(traffic.target[task])
        subflows = traffic.subflows.get(task, ())
        for subflow in subflows:
            self._check(source, target, subflow.links, f"{traffic.where(task)}.subflows")
        limit = traffic.limit.get(task, math.inf)
        return self.number(subflows or self.subflows(source, target, 0), limit)

    def _check(self, source: int, target: int, path: Path, where: str) -> None:
        """A path is a chain of links from source to target that crosses no link twice."""
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
        """The table so far; only what is new since the last call is joined to it."""
        if len(self.parts) > 1:
            self.parts = [_joined(self.parts)]
        return self.parts[0]
