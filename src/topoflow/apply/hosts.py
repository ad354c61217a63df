"""The hosts that a plan is applied to, and the interfaces at both ends of each circuit."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topoflow.fields import Fields, parse_json
from topoflow.files import read_bytes
from topoflow.search.base import Plan

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")  # IFNAMSIZ of Linux is 16 with the end
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True)
class Interface:
    """A network interface of a host. Interface k is connected to optical switch k.

    ``forward``: the NIC partition (NPAR) whose packets go to the kernel; RDMA would drop packets for other hosts
    (TopoOpt, appendix I). An interface without a partition hands all packets to the kernel.
    """

    device: str
    mac: str
    forward_device: str
    forward_mac: str


@dataclass(frozen=True)
class Host:
    """A server of a plan."""

    name: str
    address: str  # IPv4, the destination of packets to this host
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True)
class Wire:
    """A circuit as its two hosts see it.

    ``mac`` is for packets to the target host, ``forward_mac`` for packets that the target relays.
    """

    source: int
    target: int
    device: str  # of the source, for packets that it sends itself
    relay_device: str  # of the source, for packets that it relays
    entry: str  # of the target, for packets that it relays
    mac: str
    forward_mac: str


def read_hosts(path: Path, plan: Plan) -> tuple[Host, ...]:
    """Read ``{"hosts": [{"name", "address", "interfaces": [{"device", "mac", "forward": {"device", "mac"}}]}]}``.

    Raises ``ValueError`` that names file, field, rule and value, also if the numbers of hosts or interfaces differ from
    the plan's, or if two hosts have the same name, address or MAC.
    """
    top = Fields.of(f"{path}: ", parse_json(str(path), read_bytes(path), unique=True))
    items = top.items("hosts")
    if len(items) != plan.servers:
        raise ValueError(f"{path}: hosts: must be the {plan.servers} servers of the plan, got {len(items)}")
    hosts = tuple(_host(Fields.of(f"{path}: hosts[{at}].", item), plan.degree) for at, item in enumerate(items))
    macs = [mac for host in hosts for port in host.interfaces for mac in {port.mac, port.forward_mac}]
    for what, values in (
        ("names", [host.name for host in hosts]),
        ("addresses", [host.address for host in hosts]),
        ("MACs", macs),
    ):
        for value, times in Counter(values).items():
            if times > 1:
                raise ValueError(f"{path}: hosts: must have different {what}, got {value!r} twice")
    return hosts


def _host(fields: Fields, degree: int) -> Host:
    address = fields.text("address")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        fields.fail("address", "must be an IPv4 address")
    items = fields.items("interfaces")
    if len(items) != degree:
        raise ValueError(f"{fields.place}interfaces: must be {degree}, one at each optical switch, got {len(items)}")
    interfaces = tuple(_interface(Fields.of(f"{fields.place}interfaces[{k}].", item)) for k, item in enumerate(items))
    devices = [device for port in interfaces for device in {port.device, port.forward_device}]
    if len(set(devices)) < len(devices):
        raise ValueError(f"{fields.place}interfaces: must have different devices, got {', '.join(devices)}")
    return Host(_matching(fields, "name", NAME, "letters, digits, _ . -"), address, interfaces)


def _interface(fields: Fields) -> Interface:
    device, mac = _port(fields)
    if not fields.has("forward"):
        return Interface(device, mac, device, mac)
    return Interface(device, mac, *_port(Fields.of(f"{fields.place}forward.", fields.require("forward"))))


def _port(fields: Fields) -> tuple[str, str]:
    device = _matching(fields, "device", DEVICE, "at most 15 letters, digits, _ . @ -")
    return device, _matching(fields, "mac", MAC, "like 02:00:00:00:00:01, in small letters")


def _matching(fields: Fields, field: str, pattern: re.Pattern[str], rule: str) -> str:
    """Return a text that is safe in a shell script without quotes."""
    text = fields.text(field)
    if not pattern.fullmatch(text):
        fields.fail(field, f"must be {rule}")
    return text


def wires(plan: Plan, hosts: Sequence[Host]) -> list[Wire]:
    """Return a wire for each circuit: at switch k, it joins interface k of both hosts."""
    joined = []
    for number, switch in enumerate(plan.circuits):
        for source, target in enumerate(switch):
            if target is not None:
                leaves, enters = hosts[source].interfaces[number], hosts[target].interfaces[number]
                devices = leaves.device, leaves.forward_device, enters.forward_device
                joined.append(Wire(source, target, *devices, enters.mac, enters.forward_mac))
    return joined
