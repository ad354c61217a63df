"""The time of a collective of NCCL: launch, latency of its steps, bytes over links, chunks that fill a pipeline.

A time is a sum of terms, each a coefficient times what the algorithm does:

    launch                                        of a kernel on all GPUs
    hops * hop[protocol]                          a step inside a node
    bytes / link rate * cost[protocol]            cost 1 is the data sheet; LL sends a flag for 4 bytes: 2
    own bytes / link rate * copy                  a rank's own part, which moves within its memory
    steps * (network hop + chunk / port rate)     between nodes; the port is busy with the chunk before it
    bytes / port rate / efficiency                of all ports of a node

NVLink and ports work at the same time, so the slower one counts. Coefficients are calibrated on part of the
measurements and judged on the rest: docs/accuracy.md says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from topoflow.collectives.algorithms import named
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import Choice, Overrides, choose
from topoflow.collectives.tuning_tables import PROTOCOLS, Algorithm, Triple
from topoflow.hardware import Node
from topoflow.operations import bus_factor

STEP_BYTES = {"LL": 32768, "LL128": 576000, "Simple": 524288}  # data in an eighth of a buffer (``NCCL_STEPS``)
WIRE = {"LL": 2.0, "LL128": 128 / 120, "Simple": 1.0}  # bytes sent per byte of data
NIC = "NIC"
RING_STEPS = {"LL": 1, "LL128": 1, "Simple": 4}  # of a buffer in one chunk of a ring (``ALLREDUCE_CHUNKSTEPS``)


@dataclass(frozen=True)
class Inside:
    """Coefficients of a node; triples are (LL, LL128, Simple)."""

    launch: float  # s
    hop: Triple  # s
    cost: Triple  # times the data sheet
    copy: float
    copy_all_reduce: float
    nvls_hop: float  # s
    nvls_cost: float
    p2p_hop: Triple  # s
    p2p_peer: float  # s, of each peer in the node
    p2p_cost: Triple  # of LL: times a message to one peer, besides the bytes to all
    p2p_copy: float


@dataclass(frozen=True)
class NetworkCoefficients:
    """Coefficients of a network between nodes; triples are (LL, LL128, Simple)."""

    hop: Triple  # s, of an empty message
    message: float  # s more of a long one with LL
    half: float  # B of a message that takes half of that
    efficiency: float  # of a port
    peer: float  # s, of each peer in another node in an all-to-all


# Fitted by ``benchmarks/calibration/nccl_calibration.py``: least relative error over all-reduce, all-gather,
# reduce-scatter and all-to-all of half precision in one host, of 1 KiB, 4 KiB, ... 256 MiB, with NCCL 2.27 to 2.29 on
# A100 (ampere), H100 (hopper), B200 (blackwell), RTX PRO 6000 and two L40S (pcie). Source: aiconfigurator-core 0.12.0
# (NVIDIA, Apache-2.0), systems/data/*/nccl. All other sizes, versions, types of GPUs and elements are predicted. Costs
# are not below the bytes that a protocol sends.
INSIDE: Mapping[str, Inside] = {
    "ampere": Inside(
        launch=9.98e-6,
        hop=(0.794e-6, 2.28e-6, 11.3e-6),
        cost=(3.61, 1.8, 1.22),
        copy=0.92,
        copy_all_reduce=0.784,
        nvls_hop=0.0,
        nvls_cost=1.0,
        p2p_hop=(0.576e-6, 0.0, 4.78e-6),
        p2p_peer=0.344e-6,
        p2p_cost=(50.4, 0.0, 1.64),
        p2p_copy=0.399,
    ),
    "hopper": Inside(
        launch=5.35e-6,
        hop=(0.766e-6, 2.54e-6, 6.58e-6),
        cost=(2.77, 1.44, 1.12),
        copy=0.956,
        copy_all_reduce=0.85,
        nvls_hop=14.1e-6,
        nvls_cost=1.68,
        p2p_hop=(0.921e-6, 0.0, 7.36e-6),
        p2p_peer=0.158e-6,
        p2p_cost=(75.9, 0.0, 1.49),
        p2p_copy=0.205,
    ),
    "blackwell": Inside(
        launch=7.78e-6,
        hop=(1.31e-6, 4.12e-6, 8.21e-6),
        cost=(3.42, 2.22, 1.09),
        copy=1.13,
        copy_all_reduce=1.14,
        nvls_hop=21.8e-6,
        nvls_cost=2.15,
        p2p_hop=(0.982e-6, 0.0, 6.73e-6),
        p2p_peer=0.343e-6,
        p2p_cost=(138.0, 0.0, 1.55),
        p2p_copy=1.41,
    ),
    "pcie": Inside(
        launch=4.45e-6,
        hop=(1.42e-6, 0.0, 3.59e-6),
        cost=(2.0, 1.07, 1.0),
        copy=0.0912,
        copy_all_reduce=0.0287,
        nvls_hop=0.0,
        nvls_cost=1.0,
        p2p_hop=(1.04e-6, 0.0, 4.96e-6),
        p2p_peer=0.859e-6,
        p2p_cost=(8.42, 0.0, 1.09),
        p2p_copy=0.0,
    ),
}
# Hops: NCCL's own for trees (``hwLatencies``). InfiniBand: ``message`` is what NCCL's bandwidth of a tree with LL over
# four nodes is at 64 KiB, by hop (20.4 GB/s of LL, times 0.85, 0.5 and the correction 0.6); ``efficiency`` is the
# fastest speed of NCCL's search below a port of 50 GB/s (48). Slingshot: all but the hops of LL128 and Simple are
# fitted to all-reduces on 2, 4 and 8 nodes of Alps (boeschf/nccl-benchmark-on-alps-2025) by that script.
# ``peer``: the slope of the latencies of all-to-all on 8 to 32 nodes of 8 H100 in meta-pytorch/autoparallel
# (``h100_nvswitch_roce_400g.py``, fitted there): 174, 324 and 636 us.
NETWORKS: Mapping[str, NetworkCoefficients] = {
    "infiniband": NetworkCoefficients(
        hop=(5.0e-6, 8.5e-6, 14e-6), message=3.2e-6, half=5000, efficiency=0.96, peer=2.4e-6
    ),
    "slingshot": NetworkCoefficients(
        hop=(5.03e-6, 8.5e-6, 14e-6), message=13.0e-6, half=6240, efficiency=0.912, peer=2.4e-6
    ),
}


@dataclass(frozen=True)
class NcclPrediction:
    """The choice of NCCL for one collective, and its time."""

    op: str
    size: int  # B
    choice: Choice
    terms: Mapping[str, float]  # s by limit; of NIC and the links inside nodes the longer counts
    ranks: int

    @property
    def time(self) -> float:
        """The time of the collective (s)."""
        parallel = [self.terms[name] for name in self.bandwidths]
        return sum(self.terms.values()) - sum(parallel) + max(parallel)

    @property
    def bandwidths(self) -> tuple[str, ...]:
        """The terms that run at the same time: bytes over links."""
        return tuple(name for name in self.terms if name != "launch" and not name.endswith(" latency"))

    @property
    def algbw(self) -> float:
        """Bytes of the buffer over the time (B/s)."""
        return self.size / self.time

    @property
    def busbw(self) -> float:
        """The bandwidth that nccl-tests calls bus bandwidth (B/s)."""
        return self.algbw * bus_factor(self.op, self.ranks)

    @property
    def limit(self) -> str:
        """The term that takes the most time."""
        return max(self.terms, key=lambda name: self.terms[name])


def predict(
    comm: Communicator,
    op: str,
    size: int,
    *,
    network: str = "infiniband",
    rails: bool = True,
    dtype_bytes: int = 4,
    overrides: Overrides | None = None,
    coefficients: tuple[Inside, NetworkCoefficients] | None = None,
) -> NcclPrediction:
    """Return the choice of NCCL and its time, by the ``coefficients`` of a calibration or those that are shipped."""
    choice = choose(comm, op, size, dtype_bytes=dtype_bytes, overrides=overrides)
    inside, between = coefficients or (INSIDE[calibrated(comm)], network_named(network))
    return NcclPrediction(op, size, choice, terms(comm, op, size, choice, inside, between, rails=rails), comm.ranks)


def network_named(name: str) -> NetworkCoefficients:
    """Return the coefficients of a network; raise ``ValueError`` if there are none of that name."""
    if name not in NETWORKS:
        raise ValueError(f"network: must be one of {', '.join(NETWORKS)}, got {name!r}")
    return NETWORKS[name]


def network_of(node: Node) -> str:
    """Return the name of the network that nodes of this kind are sold with."""
    return "slingshot" if node.name == "gh200" else "infiniband"


def calibrated(comm: Communicator) -> str:
    """Return the name of the coefficients for a node; Volta, of which no rows were measured, has those of Ampere."""
    return "pcie" if comm.inside != "NVL" else comm.generation.replace("volta", "ampere")


@dataclass(frozen=True)
class CollectiveRun:
    """One collective with what runs it."""

    comm: Communicator
    op: str
    size: int  # B
    choice: Choice
    inside: Inside
    network: NetworkCoefficients

    @property
    def place(self) -> int:
        """The place of the protocol in a triple."""
        return PROTOCOLS.index(self.choice.protocol)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, which is one of NCCL's tables."""
        return cast(Algorithm, self.choice.algorithm)

    @property
    def sent(self) -> float:
        """The bytes that a rank sends without reduction in the network."""
        return self.size * bus_factor(self.op, self.comm.ranks)

    @property
    def copied_bytes(self) -> float:
        """Return the bytes of a rank's own part that are copied."""
        return self.size / self.comm.ranks * (self.choice.protocol == "Simple")

    @property
    def port_rate(self) -> float:
        """The rate (B/s) at which all ports of a node send data of the protocol."""
        return sum(self.comm.ports) * self.network.efficiency / WIRE[self.choice.protocol]

    @property
    def link_rate(self) -> float:
        """The rate (B/s) of a GPU to its node: of its links, or of the channels where these are few."""
        if self.choice.algorithm not in ("ring", "tree") or self.comm.inside != "NVL":
            return self.comm.link_rate
        per_channel = self.comm.tables.ring_ll128[self.comm.generation][0] * 1e9
        return min(self.comm.link_rate, self.comm.channels * per_channel)

    def message(self, size: float) -> float:
        """Return the latency (s) of one step between nodes."""
        long = 0.0 if self.choice.protocol == "Simple" else self.network.message * size / (size + self.network.half)
        return self.network.hop[self.place] + long


class CollectiveWork(NamedTuple):
    """The bytes and the steps of a collective."""

    within: float  # B over the links of a GPU, times their cost
    latency: float  # s of steps inside nodes
    crossing: float = 0.0  # B over the ports of a node
    between: float = 0.0  # s of steps between nodes


def terms(
    comm: Communicator,
    op: str,
    size: int,
    choice: Choice,
    inside: Inside,
    network: NetworkCoefficients,
    *,
    rails: bool = True,
) -> dict[str, float]:
    """Return the time (s) of each limit: see ``NcclPrediction.terms``.

    With ``rails``, what an all-to-all sends to another rail crosses NVLink first (PXN).
    """
    run = CollectiveRun(comm, op, size, choice, inside, network)
    work = work_of(run, rails)
    link = "NVLink" if comm.inside == "NVL" else "PCIe"
    seconds = {"launch": inside.launch, f"{link} latency": work.latency, link: work.within / run.link_rate}
    if comm.nodes > 1:
        seconds |= {f"{NIC} latency": work.between, NIC: work.crossing / run.port_rate}
    return seconds


def work_of(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return what the chosen algorithm sends, and the steps that it waits for."""
    work: CollectiveWork = named(run.choice.algorithm).work(run, rails)
    return work
