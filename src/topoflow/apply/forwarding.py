"""Host forwarding in Linux: the commands that make each host send and relay packets along the paths of a plan.

Every destination is on link: its address has a permanent neighbour entry with the MAC of the next host, because no ARP
request would come back over simplex circuits. Packets that a host sends itself have their own routing table. A host
relays packets of other hosts by the addresses of both ends, in one of two manners:

    kernel    a routing table for each source, by ``ip rule``
    flower    ``tc flower`` rules that rewrite the MAC and redirect (as in TopoOpt: RDMA packets are not routed twice)

Source: TopoOpt (Wang et al., NSDI 2023), appendix I, "Enabling Host-based Forwarding in RDMA".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from topoflow.apply.hosts import Host, Wire
from topoflow.apply.network import Pair
from topoflow.fabric.base import Fabric
from topoflow.units import check_among

MANNERS = ("kernel", "flower")
FIRST_TABLE = 7000  # routing table and rule of packets that a host sends; 7001 + s: of those it relays for host s
PROTOCOL = 84  # rtm_protocol of our rules, routes and neighbours; iproute2's rt_protos does not use it
FLOWER = 7000  # preference of the first flower rule
Relayed = tuple[int, int, int, int]  # source, target, incoming link, outgoing link
MAX_HOSTS = {
    "kernel": 2**15 - 2 - FIRST_TABLE,  # priorities of the kernel's default rules begin at 32766
    "flower": 240,  # n * n preferences below 2**16
}


@dataclass(frozen=True)
class Command:
    """A change of a host and its reversal, as arguments of programs. Making the change twice has no further effect."""

    what: str
    do: tuple[str, ...]
    undo: tuple[str, ...]


def forwarding(
    fabric: Fabric, hosts: Sequence[Host], wires: Sequence[Wire], manner: str = "kernel"
) -> list[list[Command]]:
    """Return, for each host, the commands that make it send and relay packets as ``fabric`` routes them.

    ``fabric`` must have one path for each pair. Raises ``ValueError`` for an unknown manner, a wrong number of hosts, a
    link without wires, or too many hosts.
    """
    check_among("forwarding", manner, MANNERS)
    if len(hosts) != fabric.servers:
        raise ValueError(f"hosts: must be the {fabric.servers} servers of the plan, got {len(hosts)}")
    if len(hosts) > MAX_HOSTS[manner]:
        raise ValueError(f"hosts: must be at most {MAX_HOSTS[manner]} for {manner}, got {len(hosts)}")
    wires_of_link, relayed = _wires_of_links(fabric, wires), _relayed(fabric)
    return [_Host(at, fabric, hosts, wires_of_link, relayed[at]).commands(manner) for at in range(len(hosts))]


def _path(fabric: Fabric, source: int, target: int) -> tuple[int, ...]:
    (path,) = fabric.route(source, target)
    return path


def _relayed(fabric: Fabric) -> list[list[Relayed]]:
    """Return, for each server, the pairs whose packets it relays."""
    servers = range(fabric.servers)
    pairs: list[list[Relayed]] = [[] for _ in servers]
    for source, target in ((i, j) for i in servers for j in servers if i != j):
        for before, link in pairwise(_path(fabric, source, target)):
            pairs[fabric.source[link]].append((source, target, before, link))
    return pairs


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
    """Host number ``at``, with the network around it."""

    at: int
    fabric: Fabric
    hosts: Sequence[Host]
    wires: Sequence[Sequence[Wire]]  # of each link
    relayed: Sequence[Relayed]

    def commands(self, manner: str) -> list[Command]:
        commands = [*self._devices(manner), *self._sent()]
        commands += self._kernel() if manner == "kernel" else self._flower()
        return list({command.do: command for command in commands}.values())

    def _devices(self, manner: str) -> Iterator[Command]:
        """Yield settings: interfaces accept packets whose answers leave elsewhere, and forward if the host relays.

        The loose mode of rp_filter is not enough: it would drop packets that arrive at an interface without an address.
        """
        entries = sorted({wire.entry for wires in self.wires for wire in wires if wire.target == self.at})
        relays = manner == "kernel" and bool(self.relayed)
        yield sysctl("net.ipv4.conf.all.rp_filter", 0)
        for entry in entries:
            key = f"net.ipv4.conf.{entry.replace('.', '/')}"  # sysctl writes a dot within a name as a slash
            yield sysctl(f"{key}.rp_filter", 0)
            if relays:
                yield sysctl(f"{key}.forwarding", 1)
        if relays:
            yield sysctl("net.ipv4.conf.all.send_redirects", 0)

    def _sent(self) -> Iterator[Command]:
        yield rule(FIRST_TABLE, ("iif", "lo"), "what this host sends")
        for target, host in enumerate(self.hosts):
            if target != self.at:
                (link, *_) = _path(self.fabric, self.at, target)
                yield from self._neighbours(link, target, relayed=False)
                hops = [wire.device for wire in self.wires[link]]
                yield route(host.address, hops, FIRST_TABLE, ("src", self.hosts[self.at].address), f"to {host.name}")

    def _kernel(self) -> Iterator[Command]:
        for source, target, _, link in self.relayed:
            table, host = FIRST_TABLE + 1 + source, self.hosts[target]
            address = self.hosts[source].address
            yield rule(table, ("from", address), f"what {self.hosts[source].name} sends by this host")
            yield from self._neighbours(link, target, relayed=True)
            yield route(host.address, [wire.relay_device for wire in self.wires[link]], table, (), f"on to {host.name}")

    def _flower(self) -> Iterator[Command]:
        for source, target, before, link in self.relayed:
            wire = self.wires[link][(source + target) % len(self.wires[link])]
            ends = self.hosts[source], self.hosts[target]
            preference = str(FLOWER + source * len(self.hosts) + target)
            for entry in sorted({incoming.entry for incoming in self.wires[before]}):
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
    """Return a setting of the kernel; the script records the previous value and restores it on undo."""
    return Command(f"{key} = {value}", ("sysctl", "-q", "-w", f"{key}={value}"), ("sysctl", "-q", "-w", key))


def rule(table: int, match: Sequence[str], what: str) -> Command:
    """Return a rule by which packets that ``match`` use ``table``; rule and table have the same number."""
    number = str(table)
    return Command(
        what,
        ("ip", "rule", "add", *match, "lookup", number, "priority", number, "protocol", str(PROTOCOL)),
        ("ip", "rule", "del", *match, "lookup", number, "priority", number, "protocol", str(PROTOCOL)),
    )


def route(address: str, devices: Sequence[str], table: int, options: Sequence[str], what: str) -> Command:
    """Return an on-link route by one device, or by several with equal weights.

    With several devices, the kernel spreads connections by hash, not single packets.
    """
    hops: list[str] = ["dev", devices[0]]
    if len(devices) > 1:
        hops = [word for device in devices for word in ("nexthop", "dev", device, "weight", "1")]
    where = (f"{address}/32", "table", str(table), "proto", str(PROTOCOL))
    scope = () if len(devices) > 1 else ("scope", "link")
    return Command(what, ("ip", "route", "replace", *where, *scope, *options, *hops), ("ip", "route", "del", *where))


def as_json(host: Host, commands: Sequence[Command]) -> Mapping[str, object]:
    """Return the commands of the script for use by other programs."""
    return {
        "format": "topoflow host forwarding 1",
        "host": host.name,
        "address": host.address,
        "commands": [
            {"what": command.what, "do": list(command.do), "undo": list(command.undo)} for command in commands
        ],
    }
