"""A node: the devices that NCCL's topology knows, and the links between them.

A node is what NCCL counts as one: the GPUs that one NVLink domain or one host joins. An NVL72 rack is one node.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from topoflow.units import check_among, check_bandwidth, check_not_negative

DeviceKind = Literal["GPU", "NVS", "PCI", "CPU", "NIC"]  # NVS: all NVSwitches of the node; CPU: a NUMA domain
LinkKind = Literal["NVL", "C2C", "PCI", "SYS"]  # SYS: between CPUs
PathKind = Literal["LOC", "NVL", "C2C", "PIX", "PXB", "P2C", "PHB", "SYS"]  # NCCL's path types, nearest first


@dataclass(frozen=True, order=True)
class Device:
    """A device of a node; ``index`` counts the devices of its kind."""

    kind: DeviceKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"


@dataclass(frozen=True)
class Link:
    """A link of both directions between two devices."""

    ends: tuple[Device, Device]
    kind: LinkKind
    bandwidth: float  # B/s in each direction, by the data sheet
    latency: float  # s
    width: int = 1  # NVLinks or PCIe lanes that it bundles


@dataclass(frozen=True)
class Port:
    """A port of a NIC, with the rail that its cable belongs to."""

    nic: Device
    rail: int
    bandwidth: float  # B/s in each direction
    plane: int = 0


@dataclass(frozen=True)
class Node:
    """A typed graph of devices, in the vocabulary of NCCL's ``src/graph/topo.h``."""

    name: str
    gpu: str  # the name of the GPU model, "" where it is not known
    sm: int  # compute capability times ten, as NCCL writes it: 90 is Hopper; 0 for GPUs of other vendors
    cpu: str  # intel, amd, arm, or "" where it is not known
    links: tuple[Link, ...]
    ports: tuple[Port, ...]
    notes: tuple[str, ...] = ()  # what a file leaves open

    def __hash__(self) -> int:
        return hash(self.name)  # that of all links takes 0.1 ms; few nodes have the same name

    def __post_init__(self) -> None:
        for link in self.links:
            place = f"node {self.name}: link {link.ends[0]} - {link.ends[1]}"
            if link.ends[0] == link.ends[1]:
                raise ValueError(f"{place}: must join two devices")
            check_among(f"{place}: kind", link.kind, get_args(LinkKind))
            check_bandwidth(f"{place}: bandwidth", link.bandwidth)
            check_not_negative(f"{place}: latency", link.latency)
        for port in self.ports:
            check_bandwidth(f"node {self.name}: port of {port.nic}: bandwidth", port.bandwidth)
        if not self.links:
            raise ValueError(f"node {self.name}: links: must join at least two devices, got none")
        for gpu in self.gpus if self.ports else ():
            if not any(port.nic in self._reached[gpu] for port in self.ports):
                raise ValueError(f"node {self.name}: {gpu}: must have a way to a NIC, got none")

    @staticmethod
    def from_nccl_xml(path: Path) -> Node:
        """Return the node of a topology file of NCCL (``NCCL_TOPO_DUMP_FILE`` writes one)."""
        from topoflow.hardware.nccl_xml import read

        return read(path)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices that a link or a port names."""
        return tuple(sorted({end for link in self.links for end in link.ends} | {port.nic for port in self.ports}))

    def of_kind(self, kind: DeviceKind) -> tuple[Device, ...]:
        """Return the devices of one kind."""
        return tuple(device for device in self.devices if device.kind == kind)

    @cached_property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs, in the order of NCCL's local ranks."""
        return self.of_kind("GPU")

    @cached_property
    def switched(self) -> bool:
        """Return whether NVSwitches join the GPUs."""
        return bool(self.of_kind("NVS"))

    @property
    def rails(self) -> int:
        """The number of rails that the ports belong to."""
        return len({port.rail for port in self.ports})

    def nvlink_width(self, gpu: Device) -> int:
        """Return the number of NVLinks of a GPU."""
        return sum(link.width for link in self.links if link.kind == "NVL" and gpu in link.ends)

    def nvlink_bandwidth(self, gpu: Device) -> float:
        """Return the bandwidth of all NVLinks of a GPU (B/s, each direction)."""
        return sum(link.bandwidth for link in self.links if link.kind == "NVL" and gpu in link.ends)

    def path(self, source: Device, target: Device) -> tuple[Link, ...]:
        """Return the links of the nearest path, which forwards through no GPU; raise ``ValueError`` without one."""
        links = []
        while target != source:
            if target not in self._reached[source]:
                raise ValueError(f"node {self.name}: {source}: must have a way to {target}, got none")
            link = self._reached[source][target]
            links.append(link)
            target = link.ends[0] if link.ends[1] == target else link.ends[1]
        return tuple(reversed(links))

    def path_kind(self, source: Device, target: Device) -> PathKind:
        """Return NCCL's type of the path between two devices (``PATH_*`` in ``src/graph/graph.h``)."""
        links = self.path(source, target)
        kinds = {link.kind for link in links}
        if not links:
            return "LOC"
        if "SYS" in kinds:
            return "SYS"
        if kinds <= {"NVL"}:
            return "NVL"
        if kinds == {"C2C"}:
            return "C2C"
        inner = [device for link in links for device in link.ends if device not in (source, target)]
        if any(device.kind == "CPU" for device in inner):
            return "P2C" if "C2C" in kinds else "PHB"
        return "PXB" if len({device for device in inner if device.kind == "PCI"}) > 1 else "PIX"

    def ports_of(self, gpu: Device) -> tuple[Port, ...]:
        """Return the nearest ports of a GPU: those with the nearest type of path, shared evenly.

        GPUs at the same distance from the same ports take turns, as NCCL's ``ncclTopoGetLocalNet`` does.
        """
        nearest = self._nearest[gpu]
        rivals = [rival for rival in self.gpus if self._nearest[rival] == nearest]
        place = rivals.index(gpu)
        if len(rivals) >= len(nearest):
            return nearest[place % len(nearest) :][:1] if nearest else ()
        return nearest[place :: len(rivals)]

    @cached_property
    def _nearest(self) -> Mapping[Device, tuple[Port, ...]]:
        """GPU -> all ports at the nearest type of path."""
        kinds = get_args(PathKind)
        nearest = {}
        for gpu in self.gpus:
            reached = [port for port in self.ports if port.nic in self._reached[gpu]]
            distances = [kinds.index(self.path_kind(gpu, port.nic)) for port in reached]
            least = min(distances, default=0)
            nearest[gpu] = tuple(p for p, distance in zip(reached, distances, strict=True) if distance == least)
        return nearest

    @cached_property
    def _reached(self) -> Mapping[Device, Mapping[Device, Link]]:
        """Source -> device -> the last link of the shortest path; among equal ones that without CPUs."""
        adjacent: defaultdict[Device, list[Link]] = defaultdict(list)
        order = {kind: place for place, kind in enumerate(get_args(LinkKind))}
        for link in sorted(self.links, key=lambda link: order[link.kind]):
            for end in link.ends:
                adjacent[end].append(link)
        reached: dict[Device, dict[Device, Link]] = {}
        for source in self.devices:
            last: dict[Device, Link] = {}
            waiting = deque([source])
            while waiting:
                device = waiting.popleft()
                if device.kind in ("GPU", "NIC") and device != source:
                    continue  # it forwards nothing
                for link in adjacent[device]:
                    far = link.ends[0] if link.ends[1] == device else link.ends[1]
                    if far != source and far not in last:
                        last[far] = link
                        waiting.append(far)
            reached[source] = last
        return reached
