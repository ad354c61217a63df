"""Host forwarding in Linux: what each host is to do so that packets take the paths of a plan.

Every destination is on link: its address has a permanent neighbour entry with the MAC of the next host, since no ARP
request would come back over simplex circuits. A host's own packets take a routing table of their own. Packets of others
are passed on by the addresses of both ends, in one of two manners:

    kernel    a routing table for each source, by ``ip rule``
    flower    ``tc flower`` rules that rewrite the MAC and redirect (TopoOpt's: RDMA packets are not routed twice)

Source: TopoOpt (Wang et al., NSDI 2023), appendix I, "Enabling Host-based Forwarding in RDMA".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from topoflow.apply.hosts import Host, Wire
from topoflow.apply.network import Pair
from topoflow.fabric.base import Fabric

MANNERS = ("kernel", "flower")
OWN = 7000  # routing table and rule of what a host sends itself; 7001 + s: of what it passes on for host s
PROTOCOL = 84  # of our rules, routes and neighbours (rtm_protocol): none of those in iproute2's rt_protos
FLOWER = 7000  # preference of the first flower rule
Relayed = tuple[int, int, int, int]  # source, target, incoming link, outgoing link
LARGEST = {  # hosts
    "kernel": 2**15 - 2 - OWN,  # priorities of the kernel's own rules begin at 32766
    "flower": 240,  # n * n preferences below 2**16
}


@dataclass(frozen=True)
class Command:
    """One change of a host and how it is undone, as arguments of programs. It may be made twice."""

    what: str
    do: tuple[str, ...]
    undo: tuple[str, ...]


def forwarding(
    fabric: Fabric, hosts: Sequence[Host], wires: Sequence[Wire], manner: str = "kernel"
) -> list[list[Command]]:
    """For each host, the commands that make it send and pass on as ``fabric`` routes, which has one path for each pair.

    Raises ``ValueError`` for another manner, another number of hosts, a link without wires, or too many hosts.
    """
    if manner not in MANNERS:
        raise ValueError(f"forwarding: must be one of {', '.join(MANNERS)}, got {manner!r}")
    if len(hosts) != fabric.servers:
        raise ValueError(f"hosts: must be the {fabric.servers} servers of the plan, got {len(hosts)}")
    if len(hosts) > LARGEST[manner]:
        raise ValueError(f"hosts: must be at most {LARGEST[manner]} for {manner}, got {len(hosts)}")
    of_link, relayed = _wires_of_links(fabric, wires), _relayed(fabric)
    return [_Host(at, fabric, hosts, of_link, relayed[at]).commands(manner) for at in range(len(hosts))]


def _path(fabric: Fabric, source: int, target: int) -> tuple[int, ...]:
    (path,) = fabric.route(source, target, "mp")
    return path


def _relayed(fabric: Fabric) -> list[list[Relayed]]:
    """[servers] the pairs that each server relays."""
    servers = range(fabric.servers)
    found: list[list[Relayed]] = [[] for _ in servers]
    for source, target in ((i, j) for i in servers for j in servers if i != j):
        for before, link in pairwise(_path(fabric, source, target)):
            found[fabric.source[link]].append((source, target, before, link))
    return found


def _wires_of_links(fabric: Fabric, wires: Sequence[Wire]) -> list[list[Wire]]:
    by_ends: dict[Pair, list[Wire]] = {}
    for wire in wires:
        by_ends.setdefault((wire.source, wire.target), []).append(wire)
    ends = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    for source, target in ends:
        if (source, target) not in by_ends:
            raise ValueError(f"wires: must have one from server {source} to {target}, got none")
    return [by_ends[pair] for pair in ends]


@dataclass(frozen=True)
class _Host:
    """Host number ``at``."""

    at: int
    fabric: Fabric
    hosts: Sequence[Host]
    wires: Sequence[Sequence[Wire]]  # of each link
    relayed: Sequence[Relayed]

    def commands(self, manner: str) -> list[Command]:
        found = [*self._devices(manner), *self._own()]
        found += self._kernel() if manner == "kernel" else self._flower()
        return list({command.do: command for command in found}.values())

    def _devices(self, manner: str) -> Iterator[Command]:
        """Packets may come in where answers do not go out; who relays in the kernel forwards.

        The loose mode of rp_filter would still drop what arrives at an interface without an address.
        """
        entries = sorted({wire.entry for wires in self.wires for wire in wires if wire.target == self.at})
        relays = manner == "kernel" and bool(self.relayed)
        yield sysctl("net.ipv4.conf.all.rp_filter", 0)
        for entry in entries:
            key = f"net.ipv4.conf.{entry.replace('.', '/')}"  # as sysctl writes a dot within a name
            yield sysctl(f"{key}.rp_filter", 0)
            if relays:
                yield sysctl(f"{key}.forwarding", 1)
        if relays:
            yield sysctl("net.ipv4.conf.all.send_redirects", 0)

    def _own(self) -> Iterator[Command]:
        yield rule(OWN, ("iif", "lo"), "what this host sends")
        for target, host in enumerate(self.hosts):
            if target != self.at:
                (link, *_) = _path(self.fabric, self.at, target)
                yield from self._neighbours(link, target, relayed=False)
                hops = [wire.device for wire in self.wires[link]]
                yield route(host.address, hops, OWN, ("src", self.hosts[self.at].address), f"to {host.name}")

    def _kernel(self) -> Iterator[Command]:
        for source, target, _, link in self.relayed:
            table, host = OWN + 1 + source, self.hosts[target]
            address = self.hosts[source].address
            yield rule(table, ("from", address), f"what {self.hosts[source].name} sends by this host")
            yield from self._neighbours(link, target, relayed=True)
            yield route(host.address, [wire.relay_device for wire in self.wires[link]], table, (), f"on to {host.name}")

    def _flower(self) -> Iterator[Command]:
        for source, target, before, link in self.relayed:
            wire = self.wires[link][(source + target) % len(self.wires[link])]
            ends = self.hosts[source], self.hosts[target]
            preference = str(FLOWER + source * len(self.hosts) + target)
            for entry in sorted({each.entry for each in self.wires[before]}):
                yield Command(
                    f"classifier of {entry}",
                    ("tc", "qdisc", "add", "dev", entry, "clsact"),
                    ("tc", "qdisc", "del", "dev", entry, "clsact"),
                )
                where = ("dev", entry, "ingress", "protocol", "ip", "pref", preference)
                match = ("flower", "src_ip", ends[0].address, "dst_ip", ends[1].address)
                rewrite = ("action", "pedit", "ex", "munge", "eth", "dst", "set", self._mac(wire, target))
                send = ("pipe", "action", "mirred", "egress", "redirect", "dev", wire.relay_device)
                yield Command(
                    f"{ends[0].name} to {ends[1].name}",
                    ("tc", "filter", "replace", *where, "handle", "1", *match, *rewrite, *send),
                    ("tc", "filter", "del", *where),
                )

    def _mac(self, wire: Wire, target: int) -> str:
        return wire.mac if wire.target == target else wire.forward_mac

    def _neighbours(self, link: int, target: int, relayed: bool) -> Iterator[Command]:
        address, name = self.hosts[target].address, self.hosts[target].name
        for wire in self.wires[link]:
            device = wire.relay_device if relayed else wire.device
            yield Command(
                f"next on the way to {name}: {self.hosts[wire.target].name}",
                (
                    "ip",
                    "neigh",
                    "replace",
                    address,
                    "lladdr",
                    self._mac(wire, target),
                    "dev",
                    device,
                    "nud",
                    "permanent",
                    "protocol",
                    str(PROTOCOL),
                ),
                ("ip", "neigh", "del", address, "dev", device),
            )


def sysctl(key: str, value: int) -> Command:
    """A setting of the kernel; the script keeps what it was and undoes it."""
    return Command(f"{key} = {value}", ("sysctl", "-q", "-w", f"{key}={value}"), ("sysctl", "-q", "-w", key))


def rule(table: int, match: Sequence[str], what: str) -> Command:
    """Packets that ``match`` use ``table``; rule and table have the same number."""
    number = str(table)
    return Command(
        what,
        ("ip", "rule", "add", *match, "lookup", number, "priority", number, "protocol", str(PROTOCOL)),
        ("ip", "rule", "del", *match, "lookup", number, "priority", number, "protocol", str(PROTOCOL)),
    )


def route(address: str, devices: Sequence[str], table: int, options: Sequence[str], what: str) -> Command:
    """On link by one device, or by several in equal parts: connections, hashed, not packets."""
    hops: list[str] = ["dev", devices[0]]
    if len(devices) > 1:
        hops = [word for device in devices for word in ("nexthop", "dev", device, "weight", "1")]
    where = (f"{address}/32", "table", str(table), "proto", str(PROTOCOL))
    scope = () if len(devices) > 1 else ("scope", "link")
    return Command(what, ("ip", "route", "replace", *where, *scope, *options, *hops), ("ip", "route", "del", *where))


def as_json(host: Host, commands: Sequence[Command]) -> Mapping[str, object]:
    """For programs: the same commands as the script's."""
    return {
        "format": "topoflow host forwarding 1",
        "host": host.name,
        "address": host.address,
        "commands": [{"what": each.what, "do": list(each.do), "undo": list(each.undo)} for each in commands],
    }
