"""Hosts: which servers a plan is applied to, and which of their interfaces a circuit begins and ends at."""

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
    """One of a host's interfaces, at the optical switch of its number.

    ``forward``: the partition of a NIC (NPAR) whose packets go to the kernel, where RDMA would drop what is for others
    (TopoOpt, appendix I); an interface without one hands all packets to the kernel.
    """

    device: str
    mac: str
    forward_device: str
    forward_mac: str


@dataclass(frozen=True)
class Host:
    """A server of a plan."""

    name: str
    address: str  # IPv4, by which others know it
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True)
class Wire:
    """A circuit as the hosts at its ends see it. ``mac`` is for packets to the host at its end, ``forward_mac`` for
    those that it passes on."""

    source: int
    target: int
    device: str  # of the source, by which its own packets leave ...
    relay_device: str  # ... and those of others
    entry: str  # of the target, where packets to be passed on arrive
    mac: str
    forward_mac: str


def read_hosts(path: Path, plan: Plan) -> tuple[Host, ...]:
    """``{"hosts": [{"name", "address", "interfaces": [{"device", "mac", "forward": {"device", "mac"}}]}]}``.

    Raises ``ValueError`` that names file, field, law and value: also where there are not as many hosts and interfaces
    as the plan has, or two have the same name, address or MAC.
    """
    top = Fields.of(f"{path}: ", parse_json(str(path), read_bytes(path), unique=True))
    items = top.items("hosts")
    if len(items) != plan.servers:
        raise ValueError(f"{path}: hosts: must be the {plan.servers} servers of the plan, got {len(items)}")
    hosts = tuple(_host(Fields.of(f"{path}: hosts[{at}].", item), plan.degree) for at, item in enumerate(items))
    macs = [mac for host in hosts for each in host.interfaces for mac in {each.mac, each.forward_mac}]
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
    interfaces = tuple(_interface(Fields.of(f"{fields.place}interfaces[{k}].", each)) for k, each in enumerate(items))
    devices = [device for each in interfaces for device in {each.device, each.forward_device}]
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
    """A text that can stand in a shell script as it is."""
    text = fields.text(field)
    if not pattern.fullmatch(text):
        fields.fail(field, f"must be {rule}")
    return text


def wires(plan: Plan, hosts: Sequence[Host]) -> list[Wire]:
    """A wire for each circuit: interface k of both hosts, at switch k."""
    found = []
    for number, switch in enumerate(plan.circuits):
        for source, target in enumerate(switch):
            if target is not None:
                leaves, enters = hosts[source].interfaces[number], hosts[target].interfaces[number]
                devices = leaves.device, leaves.forward_device, enters.forward_device
                found.append(Wire(source, target, *devices, enters.mac, enters.forward_mac))
    return found
