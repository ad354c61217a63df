"""A network attached to nodes of GPUs: GPU 0..G-1 are the endpoints, links inside nodes come first.

Paths between nodes are GPU -> NIC, NIC -> NIC as the network routes it, NIC -> GPU. With PXN, NCCL's default
(``NCCL_PXN_DISABLE=0``), a GPU first hands its data over NVLink to the GPU of its node whose NIC is on the rail of the
target, so that no leaf is left: GPU 0 -> GPU 3 -> NIC 3 -> leaf of rail 3 -> NIC 3 -> GPU 3.
Source: NVIDIA/nccl 2.30.7, ``src/graph/search.cc`` (``ncclTopoGetNetDev``), ``paths.cc`` (``addInterStep``, PXN).

Shapes: g GPUs, P ports and l links of a node, F pairs, H hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd

import numpy as np

from topoflow.arrays import Floats
from topoflow.demand import Demand, Group
from topoflow.digest import ContentHashed
from topoflow.fabric.base import Channels, Fabric, FabricDesign, Item, Orders
from topoflow.fabric.link_list import LinkList
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Mask, Routes, as_routes, padded
from topoflow.fabric.wiring import cached_wiring
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.node import Device, Link

_no_demand = cached_wiring(Demand)
Walk = tuple[int, ...]  # directed links of a node: 2 i along ``NodeLinks.links[i]``, 2 i + 1 against it


@dataclass(frozen=True)
class Attached:
    """A design whose endpoints are the ports of nodes, seen from the GPUs."""

    design: FabricDesign
    cluster: Cluster
    pxn: bool = True
    folded: bool = False  # nodes are the endpoints: see ``fold``
    per_endpoint: int = 0  # GPUs of an endpoint of a folded network; 0: those of a node

    def build(self, servers: int, demand: Demand) -> Fabric:
        """Return the network of all GPUs. Raises ``ValueError`` where ports are not what the design wires."""
        cluster = self.cluster
        size = (self.per_endpoint or cluster.per_node) if self.folded else 1
        endpoints = cluster.gpus // size
        if servers != endpoints:
            raise ValueError(f"gpus: must be the {endpoints} of the cluster, got {servers}")
        build_ports, build_devices = (getattr(self.design, f"build_{kind}", None) for kind in ("ports", "devices"))
        ports, listed = max(len(cluster.ports), 1), None
        outside: Fabric
        if build_devices is not None:
            outside, listed = build_devices(cluster)
        elif build_ports is not None:
            outside = build_ports(cluster.nodes, ports)
        else:
            outside = self.design.build(cluster.nodes * ports, _no_demand(cluster.nodes * ports))
        gpus = attach(cluster, outside, Demand(cluster.gpus) if self.folded else demand, pxn=self.pxn)
        if listed is None or not len(listed.source):
            return fold(gpus, size) if self.folded else gpus
        if self.folded:
            raise ValueError(f"fold: must be false, as {outside.name} lists links inside nodes, got true")
        return _replaced(gpus, listed)


@dataclass(frozen=True)
class SameWiring:
    """A network, which equals all that differ from it in speeds alone."""

    wiring: str
    fabric: Fabric = field(compare=False)

    @staticmethod
    def of(fabric: Fabric) -> SameWiring:
        """Return ``fabric`` by its wiring."""
        of_any_speed = fabric.with_speeds(np.ones(fabric.links), np.zeros(fabric.links), 1.0, ())
        return SameWiring(fabric.wiring, of_any_speed)


def attach(cluster: Cluster, outside: Fabric, demand: Demand, *, pxn: bool = True) -> Fabric:
    """Return one network of all links inside nodes and those of ``outside``; its endpoint n P + p is port p of node n.

    Rings of the groups of ``demand`` go through nodes as NCCL's channels do. Raises ``ValueError`` unless ``outside``
    joins ports by switches.
    """
    attached = _attached(cluster, SameWiring.of(outside), tuple(demand.all_reduce), pxn)
    inside = network_links(attached).start
    used = attached.links - inside  # links of ``outside``; 0: one node without NICs
    bill = outside.bill if cluster.ports else ()
    return attached.with_speeds(
        _joined(attached.bandwidth[:inside], outside.bandwidth[..., :used]),
        _joined(attached.latency[:inside], outside.latency[..., :used]),
        outside.interface_bandwidth,
        (*bill, *cluster_bill(cluster)) if bill or not cluster.ports else (),
    )


def _joined(inside: Floats, outside: Floats) -> Floats:
    """Return the speeds of the links inside nodes, then those of other links; these may be columns."""
    return np.concatenate([np.broadcast_to(inside, (*outside.shape[:-1], len(inside))), outside], axis=-1)


@cached_wiring
def _attached(cluster: Cluster, network: SameWiring, groups: tuple[Group, ...], pxn: bool) -> Fabric:
    """Return the network with the speeds of one of those that equal ``network``, and without a bill."""
    outside, inside = network.fabric, NodeLinks.of(cluster)
    ends = np.stack([outside.source, outside.target])
    if not outside.is_static or np.any((ends < outside.servers).all(axis=0)):
        rule = f"must join the ports of {cluster.node.name} by switches that stay as they are"
        raise ValueError(f"fabric: {rule}, got {outside.name}, which wires whole servers")
    if not cluster.ports:  # one node without NICs
        ends, rates = np.zeros(0, np.int32), np.zeros(0)
        outside = replace(outside, source=ends, target=ends, bandwidth=rates, latency=rates)
    gpus, nodes, others = cluster.gpus, cluster.nodes, inside.others
    node = np.arange(nodes)[:, None]
    begin, end = (inside.ends_in(cluster, node, side) for side in (0, 1))
    of_port = gpus + node * len(others) + np.array([others[port.nic] for port in cluster.ports], np.int64)
    switches = gpus + nodes * len(others) + np.arange(len(outside.nodes) - outside.servers)
    number = np.concatenate([of_port.ravel(), np.zeros(outside.servers - of_port.size, np.int64), switches])
    names = [f"GPU {node}.{gpu}" for node in range(nodes) for gpu in range(cluster.per_node)]
    names += [f"{device.kind} {node}.{device.index}" for node in range(nodes) for device in others]
    rates = np.tile(np.repeat([link.bandwidth for link in inside.links], 2), nodes)
    delays = np.tile(np.repeat([link.latency for link in inside.links], 2), nodes)
    return Fabric(
        name=outside.name,
        servers=gpus,
        nodes=(*names, *outside.nodes[outside.servers :]),
        source=np.concatenate([np.stack([begin, end], 1).ravel(), number[outside.source]]).astype(np.int32),
        target=np.concatenate([np.stack([end, begin], 1).ravel(), number[outside.target]]).astype(np.int32),
        bandwidth=np.concatenate([rates, outside.bandwidth]),
        latency=np.concatenate([delays, outside.latency]),
        route=AttachedRoutes(cluster, as_routes(outside.route), pxn),
        degree=outside.degree,
        interface_bandwidth=outside.interface_bandwidth,
        channels=Channels(rings={group: rings(cluster, group) for group in groups}),
        is_ideal=outside.is_ideal,
        cluster=cluster,
    )


def _replaced(fabric: Fabric, listed: LinkList) -> Fabric:
    """Return a network of GPUs with the bandwidth and latency of ``listed`` links inside nodes."""
    number = {name: node for node, name in enumerate(fabric.nodes)}
    link_of = {ends: link for link, ends in enumerate(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))}
    bandwidth, latency = fabric.bandwidth.copy(), fabric.latency.copy()
    for row, (begin, end) in enumerate(zip(listed.source.tolist(), listed.target.tolist(), strict=True)):
        ends = listed.nodes[begin], listed.nodes[end]
        link = link_of.get((number.get(ends[0], -1), number.get(ends[1], -1)))
        if link is None:
            raise ValueError(f"fabric: links: must be links that paths of GPUs take, got {ends[0]!r} to {ends[1]!r}")
        bandwidth[link], latency[link] = listed.bandwidth[row], listed.latency[row]
    return replace(fabric, bandwidth=bandwidth, latency=latency)


def cluster_bill(cluster: Cluster) -> tuple[Item, ...]:
    """Return the GPUs, each with its share of the rest of its node; NICs are in the bill of the network."""
    model = cluster.node.gpu.lower() or "unknown"
    return Item(f"gpu_{model}", cluster.gpus), Item(f"host_{model}", cluster.gpus)


def fold(fabric: Fabric, size: int = 0) -> Fabric:
    """Return a network of GPUs with nodes as endpoints, for jobs in which the GPUs of a node do the same.

    The devices of one kind in a node are one, and so are the links between two kinds, and the cables of its NICs to one
    switch or to the leaves of all rails. A connection between two nodes is one between each two GPUs with the same
    number, and each carries an equal part. One from a node to itself, on channel s, goes from each GPU to the s-th
    next. A flow of a folded world stands for as many equal flows as a node has GPUs, so that it takes as long as these
    where they meet equal links.

    With the GPUs of several nodes in an endpoint (``size``), as all of a pipeline rank, the nodes of an endpoint are
    one, and so are the switches of a layer that join the same endpoints, or the same switches below them. A flow shares
    the links between two of these with others as if they were one link. It has a limit: what it could send if it were
    alone on the links that its flows take.
    """
    assert fabric.cluster is not None
    size = size or fabric.cluster.per_node
    by_wiring, bundle, chosen = _folded(SameWiring.of(fabric), size)
    rows = fabric.bandwidth.reshape(-1, fabric.links)
    bandwidth = np.array([np.bincount(bundle, row) for row in rows]).reshape(*fabric.bandwidth.shape[:-1], len(chosen))
    folded = by_wiring.with_speeds(bandwidth, fabric.latency[..., chosen], fabric.interface_bandwidth, fabric.bill)
    if size == fabric.cluster.per_node:
        return folded
    return replace(folded, route=FoldedRoutes(fabric, size, bundle))  # whose paths have limits by their speeds


@cached_wiring
def _folded(network: SameWiring, size: int) -> tuple[Fabric, Index, Index]:
    """Return the network with the speeds of one of those that equal ``network``.

    Also returns the link in place of each of its links, and the first link that each stands for.
    """
    fabric = network.fabric
    cluster = fabric.cluster
    assert cluster is not None
    inside = NodeLinks.of(cluster)
    kinds = [*dict.fromkeys(device.kind for device in inside.others)]
    endpoints = cluster.gpus // size
    of_node = np.arange(cluster.nodes) * cluster.per_node // size
    of_kind = np.array([kinds.index(device.kind) for device in inside.others], np.int64)
    devices = endpoints + of_node[:, None] * len(kinds) + of_kind
    switches = len(fabric.nodes) - cluster.gpus - devices.size
    number = np.concatenate(
        [np.arange(cluster.gpus) // size, devices.ravel(), endpoints * (1 + len(kinds)) + np.arange(switches)]
    )
    switch = number >= endpoints * (1 + len(kinds))  # [N]
    shared = ~(switch[fabric.source] & switch[fabric.target])  # [L] links that every flow of a node takes evenly
    cables = np.flatnonzero(switch[fabric.source] & ~switch[fabric.target])
    if size > cluster.per_node:
        number, shared = _joined_layers(fabric, number, switch), np.ones(fabric.links, np.bool_)
    elif len(np.unique(fabric.target[cables])) < len(cables):  # several planes, of which a flow takes one
        shared[np.arange(fabric.links) >= 2 * len(inside.links) * cluster.nodes] = False
    else:
        below: dict[int, list[int]] = {}  # switch -> nodes that are cabled to it
        for leaf, node in zip(fabric.source[cables].tolist(), number[fabric.target[cables]].tolist(), strict=True):
            below.setdefault(leaf, []).append(node)
        same: dict[tuple[int, ...], int] = {}  # nodes -> the first switch of these, which stands for all
        for leaf, of_leaf in below.items():
            number[leaf] = number[same.setdefault(tuple(sorted(of_leaf)), leaf)]
    pair = number[fabric.source] * len(number) + number[fabric.target]
    pair[~shared] = -1 - np.flatnonzero(~shared)  # these stay apart
    _, first, place = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)  # links keep their order
    bundle, chosen = np.argsort(order)[place.reshape(-1)], first[order]
    names = [f"{cluster.endpoint(size)} {endpoint}" for endpoint in range(endpoints)]
    names += [f"{kind} {endpoint}" for endpoint in range(endpoints) for kind in kinds]
    names += fabric.nodes[len(fabric.nodes) - switches :]
    remaining, number = np.unique(number, return_inverse=True)  # without the switches that others stand for
    folded = replace(
        fabric,
        servers=endpoints,
        nodes=tuple(names[node] for node in remaining.tolist()),
        source=number[fabric.source[chosen]].astype(np.int32),
        target=number[fabric.target[chosen]].astype(np.int32),
        bandwidth=np.bincount(bundle, fabric.bandwidth).astype(np.float64),
        latency=fabric.latency[chosen],
        route=FoldedRoutes(fabric, size, bundle),
        folded=size,
        channels=Channels(),
    )
    return folded, bundle, chosen


def _joined_layers(fabric: Fabric, number: Index, switch: Mask) -> Index:
    """Return the ``number`` [N] of each node, with one for all switches of a layer that join the same parts below.

    Where links join switches of a layer, all keep their own numbers.
    """
    joined, known = number.copy(), ~switch
    while not known.all():
        links = np.flatnonzero(known[fabric.source] & ~known[fabric.target])
        below: dict[int, set[int]] = {}
        for part, above in zip(joined[fabric.source[links]].tolist(), fabric.target[links].tolist(), strict=True):
            below.setdefault(above, set()).add(part)
        if not below:  # the rest is joined to nothing
            break
        same: dict[frozenset[int], int] = {}
        for above, parts in below.items():
            joined[above] = joined[same.setdefault(frozenset(parts), above)]
            known[above] = True
    return number if np.any(joined[fabric.source] == joined[fabric.target]) else joined


class FoldedRoutes(ContentHashed, Routes):
    """Paths between nodes, or groups of them, of which each GPU takes its own.

    ``gpus`` is the network of GPUs, and ``bundle`` the link in place of each of its links. An endpoint has ``size``
    GPUs.
    """

    def __init__(self, gpus: Fabric, size: int, bundle: Index) -> None:
        self.gpus, self.size, self._bundle = gpus, size, bundle
        assert gpus.cluster is not None
        self.joins_nodes = size > gpus.cluster.per_node
        self._routes = as_routes(gpus.route)

    def has_equal_lengths(self) -> bool:
        return self._routes.has_equal_lengths()

    def choices(self, source: Index, target: Index) -> Index:
        """Return the choices of the first GPUs of two nodes."""
        return self._routes.choices(source * self.size, target * self.size)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return the links between the first GPUs of two nodes."""
        return self.merged(self._routes.links(source * self.size, target * self.size, number))

    def merged(self, links: Links) -> Links:
        """Return the links in place of links of the network of GPUs."""
        merged: Links = np.where(links == NO_LINK, NO_LINK, self._bundle[links]).astype(np.int32)
        return merged

    def unfolded(self, source: Index, target: Index, channel: Index) -> tuple[Index, Index, Index]:
        """Return source, target and channel of the connections between GPUs, ``size`` for each one of endpoints."""
        gpu = np.tile(np.arange(self.size), len(source))
        first, last, channel = (np.repeat(column, self.size) for column in (source, target, channel))
        step = np.where(first == last, channel, 0)
        begin, end = first * self.size + gpu, last * self.size + (gpu + step) % self.size
        return begin, end, np.where(first == last, 0, channel)


def rings(cluster: Cluster, group: Group) -> Orders:
    """Return a ring for each GPU of a node: it enters nodes on the rail of that GPU and leaves on the one before.

    Every second node is passed the other way round, so that a cable joins equal rails (NCCL, ``NCCL_CROSS_NIC=2``).
    Where GPUs are joined in pairs, rings take steps of different lengths, and so different links. A group with unequal
    numbers of GPUs on its nodes has its own order.
    """
    members: dict[int, list[int]] = {}
    for gpu in sorted(group):
        members.setdefault(gpu // cluster.per_node, []).append(gpu)
    sizes = {len(gpus) for gpus in members.values()}
    if len(sizes) > 1:
        return (tuple(sorted(group)),)
    (size,) = sizes
    strides = [1] if cluster.node.switched else [step for step in range(1, size) if gcd(step, size) == 1] or [1]
    orders = []
    for first in range(size if len(members) > 1 else len(strides)):
        places = [(first + turn * strides[first % len(strides)]) % size for turn in range(size)]
        order: list[int] = []
        for turn, gpus in enumerate(members.values()):
            passed = [gpus[place] for place in places]
            order += passed if turn % 2 == 0 else passed[::-1]
        orders.append(tuple(order))
    return tuple(orders)


@dataclass(frozen=True)
class NodeLinks:
    """The links of a node that paths between GPUs, and from GPUs to ports, take."""

    links: tuple[Link, ...]
    between: tuple[tuple[Walk, ...], ...]  # [g][g]
    to_port: Mapping[tuple[int, int], Walk]  # GPU and one of its nearest ports, as many of each GPU -> links

    @staticmethod
    @cached_wiring
    def of(cluster: Cluster) -> NodeLinks:
        """Return the links of a cluster's node."""
        node, gpus = cluster.node, cluster.devices
        number: dict[Link, int] = {}

        def walk(source: Device, target: Device) -> Walk:
            here, taken = source, []
            for link in node.path(source, target):
                taken.append(2 * number.setdefault(link, len(number)) + (link.ends[0] != here))
                here = link.ends[0] if link.ends[1] == here else link.ends[1]
            return tuple(taken)

        between = tuple(tuple(walk(gpu, other) for other in gpus) for gpu in gpus)
        nearest = [node.ports_of(gpu) for gpu in gpus]
        least = min(map(len, nearest))
        to_port = {
            (place, cluster.ports.index(port)): walk(gpu, port.nic)
            for place, gpu in enumerate(gpus)
            for port in nearest[place][:least]
        }
        return NodeLinks(tuple(number), between, to_port)

    def ends_in(self, cluster: Cluster, node: Index, side: int) -> Index:
        """Return the number of the device at one end of each link, in each ``node`` [N, 1], as one row [N l].

        GPUs of all nodes come first, then the other devices of each node.
        """
        place = {gpu: number for number, gpu in enumerate(cluster.devices)}
        ends = [link.ends[side] for link in self.links]
        is_gpu = np.array([end in place for end in ends])
        local = np.array([place.get(end, self.others.get(end, 0)) for end in ends], np.int64)
        first = np.where(is_gpu, node * cluster.per_node, cluster.gpus + node * len(self.others))
        number: Index = (first + local).ravel()
        return number

    @cached_property
    def others(self) -> dict[Device, int]:
        """The devices other than GPUs, with their numbers."""
        devices = dict.fromkeys(end for link in self.links for end in link.ends if end.kind != "GPU")
        return {device: number for number, device in enumerate(devices)}

    def exits(self, ports: int) -> Links:
        """Return the links [g P, H] from each GPU to each of the ports, by way of the GPU next to a port (PXN)."""
        owner = {port: gpu for gpu, port in reversed([*self.to_port])}
        walks = []
        for gpu in range(len(self.between)):
            for port in range(ports):
                via = gpu if (gpu, port) in self.to_port else owner.get(port, gpu)
                walks.append((*self.between[gpu][via], *self.to_port.get((via, port), ())))
        return padded(walks)

    def entries(self, ports: int) -> Links:
        """Return the links [g P, H] to each GPU from its ports; none from others."""
        gpus = range(len(self.between))
        walks = [self.to_port.get((gpu, port), ()) for gpu in gpus for port in range(ports)]
        return padded([tuple(link ^ 1 for link in reversed(walk)) for walk in walks])


def network_links(fabric: Fabric) -> range:
    """Return the links that are no part of a node."""
    first = fabric.route.links_inside if isinstance(fabric.route, AttachedRoutes) else 0
    return range(first, fabric.links)


class AttachedRoutes(ContentHashed, Routes):
    """Paths between GPUs: branches are the port of the target, then those of the network between the nodes."""

    def __init__(self, cluster: Cluster, outside: Routes, pxn: bool) -> None:
        self.cluster, self.outside, self.pxn = cluster, outside, pxn
        inside, gpus = NodeLinks.of(cluster), range(cluster.per_node)
        self._links = 2 * len(inside.links)  # of a node
        self.links_inside = self._links * cluster.nodes  # which come before those of the network
        self._between = padded([inside.between[a][b] for a in gpus for b in gpus])
        self._ports_of = np.array([port for _, port in inside.to_port], np.int64).reshape(cluster.per_node, -1)
        self._ports = max(len(cluster.ports), 1)
        self._out, self._in = inside.exits(self._ports), inside.entries(self._ports)

    def has_equal_lengths(self) -> bool:
        return self.outside.has_equal_lengths()

    def choices(self, source: Index, target: Index) -> Index:
        crosses = self._crosses_nodes(source, target)
        ports = np.where(crosses, max(self._ports_of.shape[1], 1), 1)
        if not crosses.any():
            return ports[:, None]
        first = np.zeros_like(source)
        begin, end = self._ends(source, target, first)
        outside = self.outside.choices(np.where(crosses, begin, 0), np.where(crosses, end, 0))
        return np.column_stack([ports, np.where(crosses[:, None], outside, 1)])

    def links(self, source: Index, target: Index, number: Index) -> Links:
        crosses, size = self._crosses_nodes(source, target), self.cluster.per_node
        rows = [self._in_node(self._between[source % size * size + target % size], source // size, ~crosses)]
        if crosses.any():
            choice, rest = np.divmod(number, self._paths_outside(source, target, crosses))
            begin, end = (np.where(crosses, port, 0) for port in self._ends(source, target, choice))
            out = self._out[source % size * self._ports + begin % self._ports]
            into = self._in[target % size * self._ports + end % self._ports]
            between = self.outside.links(begin, end, rest)
            between = np.where((between == NO_LINK) | ~crosses[:, None], NO_LINK, between + self.links_inside)
            rows += [self._in_node(out, source // size, crosses), between, self._in_node(into, target // size, crosses)]
        links: Links = np.concatenate(rows, axis=1).astype(np.int32)
        return links

    def _paths_outside(self, source: Index, target: Index, crosses: Mask) -> Index:
        count: Index = self.choices(source, target)[:, 1:].prod(axis=1)
        paths: Index = np.maximum(count, 1)
        return paths

    def _in_node(self, links: Links, node: Index, taken: Mask) -> Links:
        here: Links = np.where((links == NO_LINK) | ~taken[:, None], NO_LINK, links + node[:, None] * self._links)
        return here

    def _crosses_nodes(self, source: Index, target: Index) -> Mask:
        crosses: Mask = source // self.cluster.per_node != target // self.cluster.per_node
        return crosses

    def _ends(self, source: Index, target: Index, choice: Index) -> tuple[Index, Index]:
        """Return the ports, as endpoints of the network, by which each pair leaves one node and enters the other."""
        size = self.cluster.per_node
        enter = self._ports_of[target % size, choice]
        leave = enter if self.pxn else self._ports_of[source % size, choice]
        return source // size * self._ports + leave, target // size * self._ports + enter
