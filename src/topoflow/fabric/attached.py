"""A network attached to nodes of GPUs: GPU 0..G-1 are the endpoints, links inside nodes come first.

Paths between nodes are GPU -> NIC, NIC -> NIC as the network routes it, NIC -> GPU. With PXN, NCCL's default
(``NCCL_PXN_DISABLE=0``), a GPU first hands its data over NVLink to the GPU of its node whose NIC is on the rail of the
target, so that no leaf is left: GPU 0 -> GPU 3 -> NIC 3 -> leaf of rail 3 -> NIC 3 -> GPU 3.
Source: NVIDIA/nccl 2.30.7, ``src/graph/search.cc`` (``ncclTopoGetNetDev``), ``paths.cc`` (``addInterStep``, PXN).

Shapes: g GPUs, P ports and l links of a node, F pairs, H hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoflow.demand import Demand, Group
from topoflow.fabric.base import Channels, Fabric, FabricDesign, Orders
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Mask, Routes, as_routes, padded
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.node import Device, Link

Walk = tuple[int, ...]  # directed links of a node: 2 i along ``NodeLinks.links[i]``, 2 i + 1 against it


@dataclass(frozen=True)
class Attached:
    """A design whose endpoints are the ports of nodes, seen from the GPUs."""

    design: FabricDesign
    cluster: Cluster
    pxn: bool = True

    def build(self, servers: int, demand: Demand) -> Fabric:
        """Return the network of ``servers`` GPUs. Raises ``ValueError`` where ports are not what the design wires."""
        cluster = self.cluster
        if servers != cluster.gpus:
            raise ValueError(f"gpus: must be the {cluster.gpus} of the cluster, got {servers}")
        build_ports = getattr(self.design, "build_ports", None)
        ports = max(len(cluster.ports), 1)
        if build_ports is not None:
            outside: Fabric = build_ports(cluster.nodes, ports)
        else:
            outside = self.design.build(cluster.nodes * ports, Demand(cluster.nodes * ports))
        return attach(cluster, outside, demand, pxn=self.pxn)


def attach(cluster: Cluster, outside: Fabric, demand: Demand, *, pxn: bool = True) -> Fabric:
    """Return one network of all links inside nodes and those of ``outside``; its endpoint n P + p is port p of node n.

    Rings of the groups of ``demand`` go through nodes as NCCL's channels do. Raises ``ValueError`` unless ``outside``
    joins ports by switches.
    """
    ends = np.stack([outside.source, outside.target])
    if not outside.is_static or np.any((ends < outside.servers).all(axis=0)):
        rule = f"must join the ports of {cluster.node.name} by switches that stay as they are"
        raise ValueError(f"fabric: {rule}, got {outside.name}, which wires whole servers")
    inside = NodeLinks.of(cluster)
    gpus, nodes = cluster.gpus, cluster.nodes
    others = inside.others
    place = {gpu: number for number, gpu in enumerate(cluster.devices)}
    number = np.array([[place.get(end, len(place) + others.get(end, 0)) for end in link.ends] for link in inside.links])
    first = np.arange(nodes)[:, None, None]  # of each node: GPUs, then other devices
    is_gpu = number < cluster.per_node
    local = np.where(
        is_gpu, first * cluster.per_node + number, gpus + first * len(others) + number - cluster.per_node
    ).reshape(-1, 2)
    nics = np.array([others[port.nic] for port in cluster.ports] or [0])
    of_port = (gpus + np.arange(nodes)[:, None] * len(others) + nics).ravel()
    switches = gpus + nodes * len(others) - outside.servers  # what is added to the number of a switch
    renumber = np.concatenate([of_port, np.arange(outside.servers, len(outside.nodes)) + switches])
    forward, far = local.T
    names = [f"GPU {node}.{gpu}" for node in range(nodes) for gpu in range(cluster.per_node)]
    names += [f"{device.kind} {node}.{device.index}" for node in range(nodes) for device in others]
    rates = np.tile(np.repeat([link.bandwidth for link in inside.links], 2), nodes)
    delays = np.tile(np.repeat([link.latency for link in inside.links], 2), nodes)
    return Fabric(
        name=outside.name,
        servers=gpus,
        nodes=(*names, *outside.nodes[outside.servers :]),
        source=np.concatenate([np.stack([forward, far], 1).ravel(), renumber[outside.source]]).astype(np.int32),
        target=np.concatenate([np.stack([far, forward], 1).ravel(), renumber[outside.target]]).astype(np.int32),
        bandwidth=np.concatenate([rates, outside.bandwidth]),
        latency=np.concatenate([delays, outside.latency]),
        route=AttachedRoutes(cluster, inside, as_routes(outside.route), pxn),
        degree=outside.degree,
        interface_bandwidth=outside.interface_bandwidth,
        bill=outside.bill,
        channels=Channels(rings={group: rings(cluster, group) for group in demand.all_reduce}),
        is_ideal=outside.is_ideal,
        cluster=cluster,
    )


def rings(cluster: Cluster, group: Group) -> Orders:
    """Return a ring for each GPU of a node: it enters nodes on the rail of that GPU and leaves on the one before.

    Every second node is passed the other way round, so that a cable joins equal rails (NCCL, ``NCCL_CROSS_NIC=2``). A
    group with unequal numbers of GPUs on its nodes has its own order.
    """
    members: dict[int, list[int]] = {}
    for gpu in sorted(group):
        members.setdefault(gpu // cluster.per_node, []).append(gpu)
    sizes = {len(gpus) for gpus in members.values()}
    if len(sizes) > 1:
        return (tuple(sorted(group)),)
    (size,) = sizes
    orders = []
    for first in range(size if len(members) > 1 else 1):
        order: list[int] = []
        for turn, gpus in enumerate(members.values()):
            turned = gpus[first:] + gpus[:first]
            order += turned if turn % 2 == 0 else turned[::-1]
        orders.append(tuple(order))
    return tuple(orders)


@dataclass(frozen=True)
class NodeLinks:
    """The links of a node that paths between GPUs, and from GPUs to ports, take."""

    links: tuple[Link, ...]
    between: tuple[tuple[Walk, ...], ...]  # [g][g]
    to_port: Mapping[tuple[int, int], Walk]  # GPU and one of its nearest ports, as many of each GPU -> links

    @staticmethod
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


class AttachedRoutes(Routes):
    """Paths between GPUs: branches are the port of the target, then those of the network between the nodes."""

    def __init__(self, cluster: Cluster, inside: NodeLinks, outside: Routes, pxn: bool) -> None:
        self.cluster, self.outside, self.pxn = cluster, outside, pxn
        gpus = range(cluster.per_node)
        self._links = 2 * len(inside.links)  # of a node
        self._between = padded([inside.between[a][b] for a in gpus for b in gpus])
        self._ports_of = np.array([port for _, port in inside.to_port], np.int64).reshape(cluster.per_node, -1)
        self._ports = max(len(cluster.ports), 1)
        self._out, self._in = inside.exits(self._ports), inside.entries(self._ports)

    def is_minimal(self, kind: str) -> bool:
        return False  # with PXN

    def choices(self, source: Index, target: Index, kind: str) -> Index:
        apart = self._apart(source, target)
        ports = np.where(apart, max(self._ports_of.shape[1], 1), 1)
        if not apart.any():
            return ports[:, None]
        first = np.zeros_like(source)
        begin, end = self._ends(source, target, first)
        outside = self.outside.choices(np.where(apart, begin, 0), np.where(apart, end, 0), kind)
        return np.column_stack([ports, np.where(apart[:, None], outside, 1)])

    def links(self, source: Index, target: Index, number: Index, kind: str) -> Links:
        apart, size = self._apart(source, target), self.cluster.per_node
        rows = [self._in_node(self._between[source % size * size + target % size], source // size, ~apart)]
        if apart.any():
            choice, rest = np.divmod(number, self._paths_outside(source, target, apart, kind))
            begin, end = (np.where(apart, each, 0) for each in self._ends(source, target, choice))
            out = self._out[source % size * self._ports + begin % self._ports]
            into = self._in[target % size * self._ports + end % self._ports]
            between = self.outside.links(begin, end, rest, kind)
            shift = self.cluster.nodes * self._links
            between = np.where((between == NO_LINK) | ~apart[:, None], NO_LINK, between + shift)
            rows += [self._in_node(out, source // size, apart), between, self._in_node(into, target // size, apart)]
        links: Links = np.concatenate(rows, axis=1).astype(np.int32)
        return links

    def _paths_outside(self, source: Index, target: Index, apart: Mask, kind: str) -> Index:
        count: Index = self.choices(source, target, kind)[:, 1:].prod(axis=1)
        paths: Index = np.maximum(count, 1)
        return paths

    def _in_node(self, links: Links, node: Index, taken: Mask) -> Links:
        here: Links = np.where((links == NO_LINK) | ~taken[:, None], NO_LINK, links + node[:, None] * self._links)
        return here

    def _apart(self, source: Index, target: Index) -> Mask:
        apart: Mask = source // self.cluster.per_node != target // self.cluster.per_node
        return apart

    def _ends(self, source: Index, target: Index, choice: Index) -> tuple[Index, Index]:
        """Return the ports, as endpoints of the network, by which each pair leaves one node and enters the other."""
        size = self.cluster.per_node
        enter = self._ports_of[target % size, choice]
        leave = enter if self.pxn else self._ports_of[source % size, choice]
        return source // size * self._ports + leave, target // size * self._ports + enter
