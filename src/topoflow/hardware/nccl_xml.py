"""NCCL's topology files: what ``NCCL_TOPO_DUMP_FILE`` writes and ``NCCL_TOPO_FILE`` names.

A file that a cloud ships leaves to NCCL what it reads on the machine: NVLinks, speeds of ports, classes of devices.
The node then has a note. Source of the format: NVIDIA/nccl 2.30.7, ``src/graph/xml.cc`` and ``topo.cc``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

from topoflow.files import read_bytes
from topoflow.hardware.node import Device, DeviceKind, Link, Node, Port
from topoflow.hardware.presets import CPU_TO_CPU, NVLINK, join, pcie, sockets

MAX_BYTES = 16 * 2**20
CLASSES: dict[str, DeviceKind] = {"0x0604": "PCI", "0x0302": "GPU", "0x0300": "GPU", "0x0200": "NIC", "0x0207": "NIC"}
MODELS = {"0x1db": ("V100", 70), "0x20b": ("A100", 80), "0x233": ("H100", 90)}  # first digits of the PCI device id
VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
NVSWITCH = "0x068000"  # the class of what an NVLink leads to


def read(path: Path) -> Node:
    """Return the node of a file; raise ``ValueError`` in one line where it is not a topology of NCCL."""
    text = read_bytes(path)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{path}: must have at most {MAX_BYTES} bytes, got {len(text)}")
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ValueError(f"{path}: must not declare a document type or entities")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ValueError(f"{path}: is no complete XML: {error}") from None
    if root.tag == "graphs":
        raise ValueError(f"{path}: is a graph of channels (NCCL_GRAPH_FILE), not a topology (NCCL_TOPO_FILE)")
    if root.tag != "system":
        raise ValueError(f"{path}: the first element must be <system>, got <{root.tag}>")
    return _Reader(path).node(root)


@dataclass
class _Reader:
    path: Path
    links: list[Link] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    buses: dict[str, Device] = field(default_factory=dict)  # bus id -> GPU
    nvlinks: list[tuple[Device, str, str, int, str]] = field(default_factory=list)  # GPU, target, class, count, place
    models: list[tuple[str, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def node(self, root: ElementTree.Element) -> Node:
        """Walk over the CPUs, then join GPUs by NVLink and CPUs by SYS."""
        cpus = [element for element in root if element.tag == "cpu"]
        if not cpus:
            raise ValueError(f"{self.path}: <system>: must have a <cpu>, got none")
        for place, element in enumerate(cpus):
            cpu = self._new("CPU")
            for child in element:
                self._below(child, cpu, pcie(8), f"cpu[{place}]")
        gpu, sm = Counter(self.models).most_common(1)[0][0] if self.models else ("", 0)
        self._join_gpus(sm)
        vendor = VENDORS.get(cpus[0].get("vendor", ""), "arm" if cpus[0].get("arch") == "arm64" else "")
        self.links += sockets(len(cpus), CPU_TO_CPU.get(vendor, CPU_TO_CPU["intel"]))
        if not self.buses:
            self.notes["it names no GPU: classes of devices are left to NCCL"] = None
        elif not any(link.kind == "NVL" for link in self.links):
            self.notes["it names no NVLink"] = None
        return Node(self.path.stem, gpu, sm, vendor, tuple(self.links), tuple(self.ports), tuple(self.notes))

    def _below(self, element: ElementTree.Element, parent: Device, rate: float, place: str) -> None:
        if element.tag == "nic":
            nic = self._new("NIC") if parent.kind != "NIC" else parent
            if nic != parent:
                self.links.append(join(nic, parent, "PCI", rate, 16))
            for net in element.iter("net"):
                speed = self._whole(net, "speed", f"{place}/net[{net.get('name', '')}]", 10_000)
                self.ports.append(Port(nic, len(self.ports), max(speed, 1) * 1e6 / 8))
        if element.tag != "pci":
            return
        bus = element.get("busid")
        place = f"{place}/pci[{bus}]"
        if bus is None:
            raise ValueError(f"{self.path}: {place}: busid: must be there, got none")
        lanes = self._whole(element, "link_width", place, 16) or 16
        bandwidth = pcie(self._speed(element, place), lanes) if element.get("link_speed") else rate
        device = self._new(CLASSES.get(element.get("class", "")[:6], "PCI"))
        self.links.append(join(device, parent, "PCI", bandwidth, lanes))
        if device.kind == "GPU":
            self._gpu(element, device, bus, place)
        ports = len(self.ports)
        for child in element:
            self._below(child, device, bandwidth, place)
        if device.kind == "NIC" and len(self.ports) == ports:
            self.ports.append(Port(device, len(self.ports), bandwidth))
            self.notes["it does not say how fast the ports of the NICs are: they are as fast as their PCIe links"] = (
                None
            )

    def _gpu(self, element: ElementTree.Element, device: Device, bus: str, place: str) -> None:
        if bus in self.buses:
            raise ValueError(f"{self.path}: {place}: busid: must be that of one GPU, got {bus} twice")
        self.buses[bus] = device
        name, sm = next((m for digits, m in MODELS.items() if element.get("device", "").startswith(digits)), ("", 0))
        for gpu in element.iter("gpu"):
            sm = self._whole(gpu, "sm", f"{place}/gpu", sm)
            for link in gpu.iter("nvlink"):
                count, target = self._whole(link, "count", f"{place}/nvlink", 1), link.get("target", "")
                self.nvlinks.append((device, target, link.get("tclass", ""), count, f"{place}/nvlink"))
        self.models.append((name, sm))

    def _join_gpus(self, sm: int) -> None:
        rate = NVLINK.get(sm, NVLINK[80])
        switched: Counter[Device] = Counter()
        for gpu, target, kind, count, place in self.nvlinks:
            if not 0 < count <= 64:
                raise ValueError(f"{self.path}: {place}: count: must be within 1..64, got {count}")
            peer = self.buses.get(target)
            if kind == NVSWITCH:
                switched[gpu] += count
            elif peer is None:
                raise ValueError(f"{self.path}: {place}: target: must be the busid of a GPU, got {target!r}")
            elif peer == gpu:
                self.notes["its NVLinks lead from a GPU to itself, and are left out"] = None
            elif gpu < peer:
                self.links.append(join(gpu, peer, "NVL", count * rate, count))
        for gpu, count in switched.items():
            self.links.append(join(gpu, Device("NVS", 0), "NVL", count * rate, count))

    def _new(self, kind: DeviceKind) -> Device:
        assert kind in get_args(DeviceKind)
        self.counts[kind] += 1
        return Device(kind, self.counts[kind] - 1)

    def _whole(self, element: ElementTree.Element, name: str, place: str, default: int) -> int:
        text = element.get(name, str(default))
        if not re.fullmatch(r"\d{1,9}", text):
            raise ValueError(f"{self.path}: {place}: {name}: must be a whole number, got {text!r}")
        return int(text)

    def _speed(self, element: ElementTree.Element, place: str) -> float:
        text = element.get("link_speed", "")
        match = re.fullmatch(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?", text)
        if match is None or float(match[1]) <= 0:
            raise ValueError(f"{self.path}: {place}: link_speed: must be N GT/s, got {text!r}")
        return float(match[1])
