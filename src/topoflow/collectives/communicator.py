"""A communicator of NCCL: the GPUs of equal nodes, and the channels that NCCL's graph search finds for them.

Source: NVIDIA/nccl 2.30.7, ``src/graph/topo.h`` (rates of links), ``search.cc`` (speeds, channels), ``connect.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from topoflow.collectives.tuning_tables import ALGORITHMS, Algorithm, Tier, TuningTables, tables
from topoflow.hardware import Device, Node
from topoflow.units import check_count

NVLINK = {70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}  # GB/s of a link, by the least compute capability
PCI = 24 / 31.5  # part of a PCIe link's rate that NCCL counts (Gen4 x16: 24 GB/s)
INTEL_OVERHEAD = 6 / 5  # of PCIe bandwidth, of traffic between GPUs that crosses an Intel CPU
MAX_CHANNELS = 64
MAX_RING_CHANNELS = MAX_CHANNELS // 2
MAX_NVLS_HEADS = 32
MAX_DIRECT_HEADS = 8  # of CollNet direct (``NCCL_MAX_DIRECT_ARITY`` + 1)
NVLS_CHANNELS = {"hopper": 16, "blackwell": 24}  # of one node; 32 of several nodes of Blackwell (``transport/nvls.cc``)
# GB/s of a channel that the search tries, for one node and for several, by the least compute capability
SPEEDS_INSIDE = {
    0: (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    90: (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    100: (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
SPEEDS_BETWEEN = {
    0: (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    90: (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    100: (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}


@dataclass(frozen=True)
class ChannelGraph:
    """The channels of an algorithm through a node."""

    channels: int
    speed: float  # GB/s of a channel

    @property
    def bandwidth(self) -> float:
        """The bandwidth of all channels (GB/s)."""
        return self.channels * self.speed


@dataclass(frozen=True)
class Communicator:
    """The ranks of a collective: ``per_node`` GPUs on each of several equal nodes."""

    node: Node
    ranks: int
    per_node: int = 0  # 0: as many as the node has
    version: str = ""  # of NCCL; "": the newest that is known
    min_channels: int = 1
    max_channels: int = MAX_CHANNELS
    collnet: bool = False  # NCCL_COLLNET_ENABLE: switches between nodes reduce (SHARP)

    def __post_init__(self) -> None:
        check_count("gpus", self.ranks)
        size = len(self.node.gpus)
        if size == 0:
            raise ValueError(f"node {self.node.name}: must have GPUs, got none")
        if not self.node.sm:
            got = self.node.gpu or "a file without it (NCCL_TOPO_DUMP_FILE writes it)"
            raise ValueError(f"node {self.node.name}: sm: must be the compute capability of NVIDIA GPUs, got {got}")
        if not 0 <= self.per_node <= size:
            raise ValueError(f"gpus_per_node: must be within 1..{size} of node {self.node.name}, got {self.per_node}")
        if self.ranks < 2:
            raise ValueError(f"gpus: must be 2 or more, got {self.ranks}")
        if self.ranks % self.used:
            raise ValueError(f"gpus: must fill whole nodes of {self.used}, got {self.ranks}")
        if self.nodes > 1 and not self.node.ports:
            raise ValueError(f"gpus: node {self.node.name} has no NIC, so at most {size}, got {self.ranks}")
        if not 1 <= self.min_channels <= self.max_channels <= MAX_CHANNELS:
            got = f"got {self.min_channels} and {self.max_channels}"
            raise ValueError(
                f"NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS: must be 1 <= MIN <= MAX <= {MAX_CHANNELS}, {got}"
            )
        _ = self.tables

    @cached_property
    def used(self) -> int:
        """The number of GPUs used on each node."""
        return min(self.per_node or len(self.node.gpus), self.ranks)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.ranks // self.used

    @property
    def heads(self) -> int:
        """The number of GPUs of a node from which NVLS pulls at the same time."""
        return min(self.used, MAX_NVLS_HEADS)

    @property
    def gpus(self) -> Sequence[Device]:
        """The GPUs used of a node."""
        return self.node.gpus[: self.used]

    @cached_property
    def tables(self) -> TuningTables:
        """The constants of the version of NCCL."""
        return tables(self.version)

    @property
    def generation(self) -> str:
        """The row of NCCL's tables."""
        sm = self.node.sm
        return "blackwell" if sm >= 100 else "hopper" if sm >= 90 else "ampere" if sm >= 80 else "volta"

    @cached_property
    def inside(self) -> Tier:
        """The kind of links between the GPUs of a node."""
        first = self.gpus[0]
        kinds = {self.node.path_kind(first, other) for other in self.gpus[1:]}
        return "NVL" if kinds <= {"NVL"} else "PCI"

    @cached_property
    def ll128(self) -> bool:
        """Return whether NCCL enables LL128: NVLink inside, and near NICs (NVIDIA/nccl, ``tuning.cc``, ``pEnable``)."""
        if self.inside != "NVL":
            return False
        if self.nodes == 1:
            return True
        kinds = {self.node.path_kind(gpu, port.nic) for gpu in self.gpus for port in self.node.ports_of(gpu)}
        far = {"PHB", "SYS"} if self.node.sm >= 90 and self.number >= (2, 27, 5) else {"PHB", "SYS", "P2C", "C2C"}
        return not kinds & far

    @property
    def number(self) -> tuple[int, ...]:
        """The version of NCCL, to be compared."""
        return tuple(int(part) for part in self.version.split(".")) if self.version else (3,)

    @cached_property
    def ports(self) -> Sequence[float]:
        """The rates (B/s) of the ports that the GPUs of a node use."""
        return [port.bandwidth for port in {port: 0 for gpu in self.gpus for port in self.node.ports_of(gpu)}]

    @cached_property
    def link_rate(self) -> float:
        """The rate (B/s, each direction) by which one GPU reaches those of its node.

        By the data sheet of NVLink; over PCIe by what NCCL counts of it.
        """
        if self.used == 1:
            return float("inf")
        if self.inside == "PCI":
            first = self.gpus[0]
            part = {"PCI": PCI / (INTEL_OVERHEAD if self.node.cpu == "intel" else 1)}
            ways = [self.node.path(first, other) for other in self.gpus[1:]]
            return min(link.bandwidth * part.get(link.kind, 1.0) for way in ways for link in way)
        return self.node.nvlink_bandwidth(self.gpus[0]) * (1 if self.node.switched else self._meshed)

    @property
    def _meshed(self) -> float:
        """The part of a GPU's NVLinks that lead to the GPUs used, in a node without NVSwitches."""
        first = self.gpus[0]
        links = [link for link in self.node.links if link.kind == "NVL" and first in link.ends]
        return sum(link.bandwidth for link in links if set(link.ends) <= set(self.gpus)) / sum(
            link.bandwidth for link in links
        )

    @cached_property
    def _total(self) -> float:
        """The bandwidth (GB/s) of a GPU to the others of its node, as NCCL counts it."""
        if self.used == 1:
            return min(sum(self.ports) / 1e9, 5000.0)
        if self.inside == "NVL":
            per_link = next(rate for sm, rate in sorted(NVLINK.items(), reverse=True) if sm <= max(self.node.sm, 70))
            return per_link * self.node.nvlink_width(self.gpus[0]) * (1 if self.node.switched else self._meshed)
        return self.link_rate / 1e9

    def graph(self, algorithm: Algorithm) -> ChannelGraph:
        """Return the channels of an algorithm."""
        return self._graphs[algorithm]

    @cached_property
    def _graphs(self) -> Mapping[Algorithm, ChannelGraph]:
        return {algorithm: self._search(algorithm) for algorithm in ALGORITHMS}

    def _search(self, algorithm: Algorithm) -> ChannelGraph:
        """Return what NCCL's search finds, in short: the speed that gives the most bandwidth."""
        heads = algorithm in ("nvls", "nvls_tree", "collnet_direct")
        total = self._total * (self.used / (self.used - 1) if heads and self.used > 1 and self.nodes > 1 else 1.0)
        kinds = SPEEDS_BETWEEN if self.nodes > 1 else SPEEDS_INSIDE
        speeds = next(row for sm, row in sorted(kinds.items(), reverse=True) if sm <= self.node.sm)
        most = min(self.heads, MAX_DIRECT_HEADS) if algorithm == "collnet_direct" else self.heads
        most = most if heads else MAX_RING_CHANNELS
        best = ChannelGraph(1, speeds[-1])
        for speed in speeds:
            channels = min(int(total / speed), most)
            if self.nodes > 1:
                channels = min(channels, sum(int(min(rate / 1e9, self._to_nic) / speed) for rate in self.ports))
            if heads and self.nodes == 1:  # all GPUs are pulled from evenly
                channels = most * (speed * most <= total)
            if channels * speed > best.bandwidth:
                best = ChannelGraph(channels, speed)
        raised = (algorithm == "tree" and self.nodes == 2) or algorithm in ("collnet_direct", "collnet_chain")
        if raised:  # the search then raises the speed inside the nodes
            inside = [speed for speed in speeds if speed <= 2 * best.speed and speed * best.channels <= total]
            return ChannelGraph(best.channels, max(inside, default=best.speed))
        if heads or best.speed < 25 or (self.node.sm > 80 and best.speed < 50 and best.channels > 4):
            return best
        doubled = min(best.channels * 2, MAX_RING_CHANNELS)  # ``ncclTopoDupChannels``
        return ChannelGraph(doubled, best.speed / -(-doubled // best.channels))

    @cached_property
    def _to_nic(self) -> float:
        """The bandwidth (GB/s) between a GPU and its NIC, as NCCL counts it."""
        first = self.gpus[0]
        ways = [self.node.path(first, port.nic) for port in self.node.ports_of(first)]
        return min(link.bandwidth / 1e9 * (PCI if link.kind == "PCI" else 1) for way in ways for link in way)

    @cached_property
    def channels(self) -> int:
        """The number of channels of rings and trees: twice those of the search (``ncclTopoPostset``)."""
        ring = self.graph("ring")
        channels = min(2 * ring.channels, MAX_CHANNELS)
        if self.node.sm >= 90 and self.nodes > 1 and ring.speed > 45 and channels < 16:
            channels *= 2
        return max(min(channels, self.max_channels), self.min_channels)

    @property
    def nvls_channels(self) -> int:
        """The number of channels of NVLS."""
        channels = 32 if self.generation == "blackwell" and self.nodes > 1 else NVLS_CHANNELS.get(self.generation, 0)
        return max(min(channels, self.max_channels), self.min_channels)
