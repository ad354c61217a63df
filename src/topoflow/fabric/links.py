"""Links: a user's own list of links, in JSON or CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, permutations
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.link_list import LinkList, first_repeated, read_links
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.hardware.cluster import Cluster

NO_NODE = -1  # of a switch outside nodes


@dataclass(frozen=True)
class Links:
    """The network of a file that lists its links.

        {"links": [{"src": "a", "dst": "b", "bandwidth": 12.5e9, "latency": 1e-6}, ...],      a ---> b
         "servers": ["a", "b"]}                                                                 <---
        src,dst,bandwidth,latency
        a,b,12.5e9,1e-6

    A link is one direction; both directions are two rows. Bandwidth is B/s, latency s. The endpoints of the traffic are
    ``hosts``, or else the file's "servers", or else all nodes in order of appearance, if their number is that of the
    servers; server i is the i-th of them. Flows are hashed over all shortest paths. Switches forward; servers forward
    if ``servers_forward`` is true, or, by default (None), in a network without switches. The bill has, at every node
    and speed, the larger number of outgoing and incoming links as ports, with a transceiver each.

    On nodes of GPUs the file may name devices as the attached network does, ``NIC 1.3``, ``GPU 0.2``, ``NVS 0.0``
    (kind, node and number): NICs are the endpoints, and a link inside a node replaces that of the node.
    """

    file: str
    hosts: Sequence[str | int] | None = None
    servers_forward: bool | None = None
    links: LinkList = field(init=False, repr=False)  # content of the file at construction

    def __post_init__(self) -> None:
        """Read the file. Raises ``ValueError`` where it is wrong, ``OSError`` where it cannot be read."""
        object.__setattr__(self, "links", read_links(FilePath(self.file)))

    def build(self, servers: int, demand: Demand) -> Fabric:
        """Return the network. Raises ``ValueError`` for too few hosts, or if a host cannot reach another."""
        links = self.links
        hosts = self._hosts(links)
        if len(hosts) < servers:
            raise ValueError(f"{self.file}: must have a host for each of {servers} servers, got {len(hosts)}")
        if len(hosts) > servers and not (self.hosts or links.servers):  # the first may as well be switches
            which = f"which of the {len(hosts)} nodes of {self.file} are the {servers} servers"
            raise ValueError(f"fabric.hosts: must say {which}, as in fabric.hosts=[a,b], got none")
        fabric = self._network(links, hosts[:servers])
        assert isinstance(fabric.route, ShortestPaths)
        _check_reachable(self.file, fabric.nodes, servers, fabric.route)
        return fabric

    def build_devices(self, cluster: Cluster) -> tuple[Fabric, LinkList]:
        """Return the network between the ports of nodes, and the links of the file that are inside nodes.

        Raises ``ValueError`` for a link that joins a device other than a NIC to what is outside its node.
        """
        links, ports = self.links, cluster.nodes * max(len(cluster.ports), 1)
        hosts = [f"NIC {node}.{port.nic.index}" for node in range(cluster.nodes) for port in cluster.ports]
        if not set(hosts) & set(links.nodes):  # its servers are the ports
            return self.build(ports, Demand(ports)), links.taken(np.zeros(len(links.source), np.bool_))
        devices = {device for link in cluster.node.links for device in link.ends}
        node_of = {f"{device.kind} {node}.{device.index}": node for node in range(cluster.nodes) for device in devices}
        node = np.array([node_of.get(name, NO_NODE) for name in links.nodes])
        inside = (node[links.source] == node[links.target]) & (node[links.source] != NO_NODE)
        for link in np.flatnonzero(~inside).tolist():
            ends = [links.nodes[side[link]] for side in (links.source, links.target)]
            for name in ends:
                if name in node_of and name not in hosts:
                    rule = "must join devices of one node, or a NIC that GPUs use and a switch"
                    raise ValueError(f"{self.file}: links: {rule}, got {ends[0]!r} and {ends[1]!r}")
        return self._network(links.taken(~inside), hosts), links.taken(inside)

    def _network(self, links: LinkList, hosts: Sequence[str]) -> Fabric:
        """Return the network of links between hosts, which come first."""
        servers = len(hosts)
        order = list(dict.fromkeys([*hosts, *links.nodes]))
        place = {name: node for node, name in enumerate(order)}
        renumber = np.array([place[name] for name in links.nodes], dtype=np.int32)
        source, target = renumber[links.source], renumber[links.target]
        forward = len(order) == servers if self.servers_forward is None else self.servers_forward
        route = ShortestPaths(order, source, target, endpoints=0 if forward else servers)
        outgoing = Counter(node for node in source.tolist() if node < servers)
        at_servers = links.bandwidth[source < servers]
        return Fabric(
            name="links",
            servers=servers,
            nodes=tuple(order),
            source=source,
            target=target,
            bandwidth=links.bandwidth,
            latency=links.latency,
            route=route,
            degree=max(outgoing.values(), default=0),
            interface_bandwidth=float(at_servers.max(initial=0.0)),
            bill=_bill(servers, source, target, links.bandwidth),
        )

    def _hosts(self, links: LinkList) -> list[str]:
        named = [str(host) for host in self.hosts] if self.hosts is not None else []
        hosts = named or list(links.servers) or list(links.nodes)
        field = "links.hosts" if named else f"{self.file}: servers"
        nodes = set(links.nodes)
        for position, host in enumerate(hosts):
            if host not in nodes:
                raise ValueError(f"{field}[{position}]: must be an end of a link, got {host!r}")
        if len(set(hosts)) != len(hosts):
            raise ValueError(f"{field}: must name each host once, got {first_repeated(hosts)!r} twice")
        return hosts


def _check_reachable(file: str, nodes: Sequence[str], servers: int, route: ShortestPaths) -> None:
    """Raise ``ValueError`` unless all hosts reach each other.

    If hosts forward, it is enough that the first host reaches all and all reach the first.
    """
    first = [(0, host) for host in range(1, servers)]
    other_pairs = permutations(range(1, servers), 2) if route.endpoints else ()
    for source, target in chain(first, [pair[::-1] for pair in first], other_pairs):
        if route.hops(source, target) < 0:
            ends = f"from {nodes[source]!r} to {nodes[target]!r}"
            hint = ", unless servers forward (fabric.servers_forward=true)" if route.endpoints else ""
            raise ValueError(f"{file}: links: hosts must reach each other, got no path {ends}{hint}")


def _bill(
    servers: int, source: NDArray[np.int32], target: NDArray[np.int32], bandwidth: NDArray[np.float64]
) -> tuple[Item, ...]:
    """Return ports and fibers by speed; opposite links between two nodes share a cable."""
    bill: list[Item] = []
    for speed in np.unique(bandwidth).tolist():
        ends = list(zip(source[bandwidth == speed].tolist(), target[bandwidth == speed].tolist(), strict=True))
        count_of = Counter(ends)
        transmit, receive = Counter(start for start, _ in ends), Counter(end for _, end in ends)
        ports = transmit | receive  # the larger of the two, node by node
        at_servers = sum(count for node, count in ports.items() if node < servers)
        at_switches = ports.total() - at_servers
        fibers = sum((count_of | Counter({(b, a): count for (a, b), count in count_of.items()})).values()) / 2
        for component, count in (
            ("nic_port", at_servers),
            ("switch_port", at_switches),
            ("transceiver", at_servers + at_switches),
            ("fiber", fibers),
        ):
            if count:
                bill.append(Item(component, count, speed))
    return tuple(bill)
