"""Nodes that exist. Bandwidths are those of data sheets, in each direction; each function names its sources.

Rates that several nodes share:

- NVLink 3 (A100) and 4 (Hopper): 25 GB/s per link; 5 (Blackwell): 50 GB/s (NVIDIA, data sheets of A100, H100, B200).
- PCIe: 16 lanes of Gen4 (16 GT/s) 31.5 GB/s, of Gen5 (32 GT/s) 63.0 GB/s after 128b/130b coding (PCI-SIG).
- Between CPUs (SYS): what NCCL counts (``src/graph/topo.h``: ``SRP_QPI_BW``, ``AMD_BW``, ``ARM_BW``).
- Latency of a link: half of the hop of NCCL's protocol LL, which crosses two links (``src/graph/tuning.cc``,
  ``hwLatencies``: ring 0.6 us over NVLink, 1.0 us over PCIe); SYS and C2C have the latency of PCIe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from topoflow.hardware.node import Device, Link, LinkKind, Node, Port
from topoflow.units import gbps

NVLINK = {70: 25e9, 80: 25e9, 90: 25e9, 100: 50e9, 103: 50e9}  # B/s of a link in each direction, by compute capability
LATENCY = {"NVL": 0.3e-6, "C2C": 0.5e-6, "PCI": 0.5e-6, "SYS": 0.5e-6}  # s
CPU_TO_CPU = {"intel": 22e9, "amd": 16e9, "arm": 6e9}  # B/s


def pcie(gigatransfers: float, lanes: int = 16) -> float:
    """Return the bandwidth (B/s) of a PCIe link: 8b/10b coding below 8 GT/s, 128b/130b from there on."""
    return gigatransfers * 1e9 * lanes / 8 * (8 / 10 if gigatransfers < 8 else 128 / 130)


def join(a: Device, b: Device, kind: LinkKind, bandwidth: float, width: int = 1) -> Link:
    """Return a link with the latency of its kind."""
    return Link((a, b), kind, bandwidth, LATENCY[kind], width)


def sockets(count: int, bandwidth: float) -> list[Link]:
    """Return the links between all CPUs."""
    pairs = [(a, b) for a in range(count) for b in range(a)]
    return [join(Device("CPU", b), Device("CPU", a), "SYS", bandwidth) for a, b in pairs]


def _switched(gpus: int, sm: int, links: int) -> list[Link]:
    """Join every GPU by ``links`` NVLinks to the NVSwitches."""
    return [join(Device("GPU", g), Device("NVS", 0), "NVL", links * NVLINK[sm], links) for g in range(gpus)]


def _mesh(gpus: int, bandwidth: float, links: int = 1) -> list[Link]:
    """Join every two GPUs directly."""
    pairs = [(a, b) for b in range(gpus) for a in range(b)]
    return [join(Device("GPU", a), Device("GPU", b), "NVL", bandwidth, links) for a, b in pairs]


def _pcie_switches(gpus: int, nics: int, switches: int, cpus: int, lane: float) -> list[Link]:
    """Hang GPUs and NICs evenly below PCIe switches, and these below CPUs; ``lane`` is in GT/s."""
    below = [(Device("GPU", g), g * switches // gpus) for g in range(gpus)]
    below += [(Device("NIC", n), n * switches // nics) for n in range(nics)]
    links = [join(device, Device("PCI", switch), "PCI", pcie(lane), 16) for device, switch in below]
    up = [(Device("PCI", s), Device("CPU", s * cpus // switches)) for s in range(switches)]
    return links + [join(switch, cpu, "PCI", pcie(lane), 16) for switch, cpu in up]


def _ports(nics: int, gigabits: float) -> tuple[Port, ...]:
    return tuple(Port(Device("NIC", n), n, gbps(gigabits)) for n in range(nics))


def dgx_a100() -> Node:
    """Return a DGX A100: 12 NVLinks per GPU, 8 ConnectX-6 of 200 Gb/s, two GPUs and NICs per PCIe switch.

    Source: NVIDIA DGX A100 User Guide; Azure ND A100 v4 (azhpc-images, topology/ndv4-topo.xml) has four NUMA domains.
    """
    links = _switched(8, 80, 12) + _pcie_switches(8, 8, 4, 4, 16) + sockets(4, CPU_TO_CPU["amd"])
    return Node("dgx_a100", "A100", 80, "amd", tuple(links), _ports(8, 200))


def _hgx(name: str, gpu: str, sm: int, gigabits: float = 400) -> Node:
    links = _switched(8, sm, 18) + _pcie_switches(8, 8, 8, 2, 32) + sockets(2, CPU_TO_CPU["intel"])
    return Node(name, gpu, sm, "intel", tuple(links), _ports(8, gigabits))


def hgx_h100() -> Node:
    """Return an HGX H100: 18 NVLinks per GPU, a ConnectX-7 of 400 Gb/s next to each GPU.

    Source: NVIDIA DGX H100 User Guide; Azure ND H100 v5 (azhpc-images, topology/ndv5-topo.xml).
    """
    return _hgx("hgx_h100", "H100", 90)


def hgx_h200() -> Node:
    """Return an HGX H200: the wiring of HGX H100. Source: NVIDIA DGX H200 User Guide."""
    return _hgx("hgx_h200", "H200", 90)


def hgx_b200() -> Node:
    """Return an HGX B200: 18 NVLinks 5 per GPU, a ConnectX-7 of 400 Gb/s per GPU. Source: DGX B200 User Guide."""
    return _hgx("hgx_b200", "B200", 100)


def hgx_b300() -> Node:
    """Return an HGX B300: 18 NVLinks 5 per GPU, a ConnectX-8 of 800 Gb/s per GPU. Source: DGX B300 User Guide."""
    return _hgx("hgx_b300", "B300", 103, 800)


def _nvl72(name: str, gpu: str, sm: int, gigabits: float) -> Node:
    """18 trays of 4 GPUs and 2 Grace CPUs; a CPU joins 2 GPUs by C2C and 2 NICs by PCIe."""
    links = _switched(72, sm, 18)
    links += [join(Device("GPU", g), Device("CPU", g // 2), "C2C", 450e9) for g in range(72)]
    links += [join(Device("NIC", n), Device("CPU", n // 2), "PCI", pcie(32, int(gigabits / 25)), 16) for n in range(72)]
    links += [join(Device("CPU", c), Device("CPU", c + 1), "SYS", CPU_TO_CPU["arm"]) for c in range(0, 36, 2)]
    ports = tuple(Port(Device("NIC", n), n % 4, gbps(gigabits)) for n in range(72))
    return Node(name, gpu, sm, "arm", tuple(links), ports)


def gb200_nvl72() -> Node:
    """Return a rack of 72 GB200: 18 NVLinks 5 per GPU, a ConnectX-7 of 400 Gb/s per GPU, 4 rails.

    Source: NVIDIA GB200 NVL72 data sheet; DGX GB200 User Guide (NVLink-C2C 900 GB/s in both directions).
    """
    return _nvl72("gb200_nvl72", "GB200", 100, 400)


def gb300_nvl72() -> Node:
    """Return a rack of 72 GB300: as GB200, with a ConnectX-8 of 800 Gb/s per GPU. Source: GB300 NVL72 data sheet."""
    return _nvl72("gb300_nvl72", "GB300", 103, 800)


def gh200() -> Node:
    """Return a node of Alps: 4 GH200, every two joined by 6 NVLinks 4, each with its own Slingshot NIC of 200 Gb/s.

    Source: Fusco et al., Understanding Data Movement in Tightly Coupled Heterogeneous Systems (2024), figure 1;
    NVIDIA Grace Hopper data sheet (NVLink-C2C 900 GB/s in both directions). The NIC is on 16 lanes of PCIe Gen4.
    """
    links = _mesh(4, 6 * NVLINK[90], 6) + sockets(4, 100e9)
    links += [join(Device("GPU", g), Device("CPU", g), "C2C", 450e9) for g in range(4)]
    links += [join(Device("NIC", n), Device("CPU", n), "PCI", pcie(16), 16) for n in range(4)]
    return Node("gh200", "GH200", 90, "arm", tuple(links), _ports(4, 200))


def mi300x() -> Node:
    """Return 8 MI300X: every two joined by an Infinity Fabric link of 64 GB/s, a NIC of 400 Gb/s per GPU.

    Source: AMD Instinct MI300X Platform data sheet (128 GB/s per link in both directions).
    """
    links = _mesh(8, 64e9) + _pcie_switches(8, 8, 8, 2, 32) + sockets(2, CPU_TO_CPU["amd"])
    return Node("mi300x", "MI300X", 0, "amd", tuple(links), _ports(8, 400))


def mi355x() -> Node:
    """Return 8 MI355X: as MI300X, with links of 76.8 GB/s. Source: AMD Instinct MI355X data sheet (153.6 GB/s)."""
    links = _mesh(8, 76.8e9) + _pcie_switches(8, 8, 8, 2, 32) + sockets(2, CPU_TO_CPU["amd"])
    return Node("mi355x", "MI355X", 0, "amd", tuple(links), _ports(8, 400))


def _pcie_cards(name: str, gpu: str, sm: int, lane: float) -> Node:
    """8 GPUs, 2 below each NUMA domain, and 2 NICs; data sheets of cards do not say, so this is assumed."""
    links = [join(Device("GPU", g), Device("CPU", g // 2), "PCI", pcie(lane), 16) for g in range(8)]
    links += [join(Device("NIC", n), Device("CPU", 2 * n), "PCI", pcie(lane), 16) for n in range(2)]
    return Node(name, gpu, sm, "intel", tuple(links + sockets(4, CPU_TO_CPU["intel"])), _ports(2, 200))


def l40s() -> Node:
    """Return 8 L40S on PCIe Gen4, without NVLink. Source: NVIDIA L40S data sheet; see ``_pcie_cards``."""
    return _pcie_cards("l40s", "L40S", 89, 16)


def rtx_pro_6000() -> Node:
    """Return 8 RTX PRO 6000 Blackwell on PCIe Gen5, without NVLink. Source: its data sheet; see ``_pcie_cards``."""
    return _pcie_cards("rtx_pro_6000", "RTX PRO 6000", 120, 32)


_NVIDIA = (dgx_a100, hgx_h100, hgx_h200, hgx_b200, hgx_b300, gb200_nvl72, gb300_nvl72, gh200, l40s, rtx_pro_6000)
PRESETS: Mapping[str, Callable[[], Node]] = MappingProxyType(
    {factory.__name__: factory for factory in (*_NVIDIA, mi300x, mi355x)}
)


@cache
def preset(name: str) -> Node:
    """Return the node of that name; raise ``ValueError`` if there is none."""
    if name not in PRESETS:
        raise ValueError(f"node: must be one of {', '.join(PRESETS)} or a file NAME.xml, got {name!r}")
    return PRESETS[name]()


def load(name: str) -> Node:
    """Return the node of a preset's name, or of a topology file of NCCL."""
    return Node.from_nccl_xml(Path(name)) if name.endswith(".xml") else preset(name)
