"""NCCL's choice of algorithm, protocol and channels for a collective.

NCCL estimates latency + bytes / bandwidth for each algorithm and protocol, and takes the least. Its estimate is made
for choosing, not for predicting: ``nccl_time`` has the times.

Source: NVIDIA/nccl 2.30.7, ``src/graph/tuning.cc`` (``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``) and
``src/enqueue.cc`` (``updateCollCostTable``, ``topoGetAlgoInfo``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topoflow.collectives.algorithms import named
from topoflow.collectives.communicator import MAX_NVLS_HEADS, Communicator
from topoflow.collectives.tuning_tables import (
    ALGORITHMS,
    BASE,
    HOP,
    OLD_PLATEAU,
    PLATEAU,
    PROTOCOLS,
    TREE_CORRECTION,
    Algorithm,
    Protocol,
)
from topoflow.operations import ring_passes

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
NAMES: dict[str, Algorithm] = {name.replace("_", ""): name for name in ALGORITHMS}
NVLS_DTYPE_BYTES = 2  # NVLink SHARP reduces types of two bytes and more
OVERHEAD = {"amd": 2.0}  # us to post to a NIC; 1 with other CPUs
THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
BYTES_PER_THREAD = {"LL": 8, "LL128": 8, "Simple": 64}
P2P_LL_BYTES = 16384  # NCCL_P2P_LL_THRESHOLD: smaller messages to a peer use LL


@dataclass(frozen=True)
class Choice:
    """The algorithm, protocol and channels of a collective."""

    algorithm: Algorithm | str  # "p2p" for an all-to-all, which is sends and receives
    protocol: Protocol
    channels: int
    estimate: float  # s, NCCL's own


@dataclass(frozen=True)
class Overrides:
    """NCCL_ALGO and NCCL_PROTO: names, comma-separated; ^ excludes them."""

    algo: str = ""
    proto: str = ""

    def algorithms(self) -> tuple[Algorithm, ...]:
        """Return the algorithms that may run; raise ``ValueError`` for an unknown name."""
        names = {name.lower() for name in _names(self.algo)}
        _check("NCCL_ALGO", names, NAMES)
        return tuple(a for a in ALGORITHMS if _is_allowed(self.algo, {NAMES[name] for name in names}, a))

    def protocols(self) -> tuple[Protocol, ...]:
        """Return the protocols that may run."""
        names = {name.lower() for name in _names(self.proto)}
        _check("NCCL_PROTO", names, {protocol.lower(): protocol for protocol in PROTOCOLS})
        return tuple(p for p in PROTOCOLS if _is_allowed(self.proto, names, p.lower()))


def _names(text: str) -> list[str]:
    return [name for name in text.removeprefix("^").split(",") if text]


def _check(field: str, names: set[str], known: dict[str, Algorithm] | dict[str, Protocol]) -> None:
    for name in sorted(names - set(known)):
        raise ValueError(f"{field}: must be of {', '.join(known)}, got {name!r}")


def _is_allowed(text: str, names: set[Algorithm] | set[str], name: str) -> bool:
    return not text or (name in names) != text.startswith("^")


def choose(
    comm: Communicator, op: str, size: int, *, dtype_bytes: int = 4, overrides: Overrides | None = None
) -> Choice:
    """Return what NCCL runs an operation of ``size`` bytes with; raise ``ValueError`` where nothing may run it.

    ``size`` is the larger of the buffers, as nccl-tests counts it.
    """
    return choose_each(comm, op, [size], dtype_bytes=dtype_bytes, overrides=overrides)[0]


def choose_each(
    comm: Communicator, op: str, sizes: Sequence[int], *, dtype_bytes: int = 4, overrides: Overrides | None = None
) -> list[Choice]:
    """Return what ``choose`` does for each of ``sizes``."""
    if op not in OPERATIONS:
        raise ValueError(f"operation: must be one of {', '.join(OPERATIONS)}, got {op!r}")
    if op == "all_to_all":
        fits = [size / comm.ranks <= P2P_LL_BYTES for size in sizes]
        return [Choice("p2p", "LL" if small else "Simple", comm.channels, 0.0) for small in fits]
    runs = _allowed_runs(comm, op, dtype_bytes, overrides or Overrides())
    return [min((run.at(comm, op, size) for run in runs), key=lambda choice: choice.estimate) for size in sizes]


def estimates(comm: Communicator, op: str, size: int, dtype_bytes: int, overrides: Overrides) -> list[Choice]:
    """Return NCCL's estimate for each algorithm and protocol that may run."""
    return [run.at(comm, op, size) for run in _allowed_runs(comm, op, dtype_bytes, overrides)]


class AllowedRun(NamedTuple):
    """An algorithm and a protocol that may run an operation, with NCCL's numbers of the operation at any size."""

    algorithm: Algorithm
    protocol: Protocol
    bandwidth: float  # GB/s of the buffer
    latency: float  # us

    @staticmethod
    def of(comm: Communicator, op: str, algorithm: Algorithm, protocol: Protocol) -> AllowedRun:
        """Return the numbers of an algorithm and a protocol."""
        rates = _bandwidth(comm, op, algorithm, protocol), _latency(comm, op, algorithm, protocol)
        return AllowedRun(algorithm, protocol, *rates)

    def at(self, comm: Communicator, op: str, size: int) -> Choice:
        """Return the choice of this for ``size`` bytes, with its estimate."""
        channels = _channels(comm, self.algorithm, self.protocol, size)
        return Choice(self.algorithm, self.protocol, channels, self.estimate(comm, op, size))

    def estimate(self, comm: Communicator, op: str, size: int) -> float:
        """Return NCCL's estimate (s)."""
        algorithm, protocol, bandwidth, latency = self
        place = (size >> 6).bit_length() - 1
        if algorithm == "tree" and 0 <= place < len(TREE_CORRECTION[protocol]):
            bandwidth *= TREE_CORRECTION[protocol][place]
        if algorithm == "ring" and protocol == "Simple" and op == "all_reduce" and comm.nodes > 1:
            many = size / (comm.channels * comm.ranks) >= 64
            latency *= (PLATEAU if comm.node.sm >= 80 else OLD_PLATEAU) if many else 1
        return latency * 1e-6 + size / (bandwidth * 1e9)


def _allowed_runs(comm: Communicator, op: str, dtype_bytes: int, overrides: Overrides) -> list[AllowedRun]:
    """Return the algorithms and protocols that may run; raise ``ValueError`` where there are none."""
    refusals, runs = [], []
    for algorithm in overrides.algorithms():
        refusal = why_not(comm, op, algorithm, dtype_bytes)
        if refusal:
            refusals.append(f"{algorithm}: {refusal}")
            continue
        for protocol in overrides.protocols():
            if algorithm not in ("ring", "tree") and protocol != "Simple":
                refusals.append(f"{algorithm} runs with Simple only")
            elif protocol == "LL128" and not comm.ll128:
                refusals.append(f"LL128: is not enabled over {comm.inside} of node {comm.node.name}")
            else:
                runs.append(AllowedRun.of(comm, op, algorithm, protocol))
    if not runs:
        raise ValueError(f"NCCL_ALGO, NCCL_PROTO: nothing may run {op}: {'; '.join(dict.fromkeys(refusals))}")
    return runs


def why_not(comm: Communicator, op: str, algorithm: Algorithm, dtype_bytes: int) -> str:
    """Return why an algorithm does not run an operation on a communicator, or ""."""
    if op not in named(algorithm).OPERATIONS:
        return f"has no {op}"
    if algorithm in ("collnet_direct", "collnet_chain"):
        if not comm.collnet or comm.nodes == 1:
            return "needs nodes joined by switches that reduce (NCCL_COLLNET_ENABLE=1)"
        if algorithm == "collnet_direct" and not comm.node.switched:
            return f"needs NVSwitches, node {comm.node.name} has none"
    if algorithm in ("nvls", "nvls_tree"):
        if comm.node.sm < 90 or not comm.node.switched:
            return f"needs NVSwitches and GPUs from Hopper on, node {comm.node.name} has none"
        if comm.graph(algorithm).channels < 2:
            return "needs two channels"
        if dtype_bytes < NVLS_DTYPE_BYTES and op != "all_gather":
            return f"reduces elements of {NVLS_DTYPE_BYTES} bytes and more, got {dtype_bytes}"
        if algorithm == "nvls" and comm.nodes > 1 and not (comm.collnet and op == "all_reduce"):
            return f"needs switches that run {op} between nodes (NCCL_COLLNET_ENABLE=1 for all_reduce)"
        if algorithm == "nvls_tree" and comm.nodes == 1:
            return "runs between nodes"
        if op != "all_reduce" and comm.used > MAX_NVLS_HEADS:
            return f"gathers at most {MAX_NVLS_HEADS} GPUs of a node, got {comm.used}"
    if algorithm == "pat" and (comm.used > 1 or comm.number < (2, 23)):
        return f"runs with one GPU per node, got {comm.used}"
    return ""


def _bandwidth(comm: Communicator, op: str, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return NCCL's bandwidth (GB/s) of the buffer."""
    table, nodes, ranks = comm.tables, comm.nodes, comm.ranks
    column, generation = min(nodes, 3) - 1, comm.generation
    graph = comm.graph(algorithm)
    row = generation if nodes == 1 else "ampere" if comm.node.cpu == "amd" else "volta"
    ll = table.ll[row][column]
    bandwidth = graph.bandwidth
    if algorithm in ("nvls", "nvls_tree"):
        bandwidth = graph.channels * _nvls_speed(comm, op, algorithm)
    elif algorithm == "ring" and protocol == "LL":
        bandwidth = min(ll, bandwidth / 2)
    elif algorithm == "ring" and protocol == "LL128":
        bandwidth = min(bandwidth * 0.92, graph.channels * table.ring_ll128[generation][column])
    elif algorithm == "tree":
        bandwidth = min(bandwidth * 0.92, graph.channels * table.tree[generation][column])
        if protocol == "LL":
            bandwidth = min(bandwidth / 3.8, ll)
        elif protocol == "LL128":
            part = 7 / 9 if nodes == 1 else 120 / 128
            bandwidth = min(bandwidth * part, graph.channels * table.tree_ll128[generation][column])
        if comm.node.sm >= 90:  # the search ends with the plain pattern
            bandwidth *= 0.85
    elif algorithm == "collnet_direct":
        bandwidth *= 2 / (1 + comm.used / graph.channels) * (0.85 if comm.node.sm >= 90 else 1)  # GPUs by NIC
    elif algorithm == "pat":
        bandwidth *= table.pat
    if algorithm == "ring" or (algorithm in ("nvls", "nvls_tree") and op == "all_reduce"):
        steps = ring_passes(op) * (ranks - 1)
        if algorithm != "ring" and not table.nvls:
            return bandwidth * 5 / 6
        return bandwidth * ranks / steps
    return bandwidth * (0.5 if op == "all_reduce" else 1)


def _nvls_speed(comm: Communicator, op: str, algorithm: Algorithm) -> float:
    """Return NCCL's bandwidth (GB/s) of a channel of NVLS."""
    graph, table = comm.graph(algorithm), comm.tables
    rest = 1.0 if op == "all_reduce" else (comm.used - 1) / comm.used
    if not table.nvls:
        if algorithm == "nvls_tree" and comm.nodes > 2:
            return graph.speed / 2
        return graph.speed * (1.0 if op == "all_reduce" else min(rest, 0.9))
    inside = graph.speed * table.nvls[comm.generation] * (graph.channels - 1) / graph.channels
    inside *= 2 if op == "all_reduce" else rest
    if algorithm == "nvls":
        return inside if comm.nodes == 1 else min(inside, graph.speed)
    between = graph.speed * (2 if comm.nodes == 2 else 1)
    return min(inside, between, table.nvls_tree[comm.generation][min(comm.nodes, 3) - 1])


def _latency(comm: Communicator, op: str, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return NCCL's latency (us)."""
    place, nodes = PROTOCOLS.index(protocol), comm.nodes
    inside = HOP[comm.inside][algorithm][place]
    between = HOP["NET"]["tree" if comm.used == 1 else algorithm][place]
    if algorithm == "nvls_tree" and comm.used > 1:
        between = comm.tables.nvls_tree_network_hop
    base = BASE[algorithm][place]
    depth = nodes.bit_length() - 1
    if algorithm == "ring":
        twice = ring_passes(op)
        if nodes > 1:
            overhead = OVERHEAD.get(comm.node.cpu, 1.0) * (3 if protocol == "Simple" else 1)
            inside = max(inside, overhead)
        hops = twice * (nodes - 1) if nodes > 1 else 0
        return base + (twice * (comm.ranks - 1) - hops) * inside + hops * between
    if algorithm == "tree":
        return base + 2 * ((comm.used - 1) * inside + depth * between)
    if algorithm == "collnet_direct":
        return 2 * (min(1, comm.used - 1) * inside + (comm.used - 1) * 0.4) + between
    if algorithm == "collnet_chain":
        return 2 * (comm.used - 1) * inside + between
    if algorithm == "nvls":
        return inside + (between if nodes > 1 else 0.0)
    if algorithm == "nvls_tree":
        return base + inside + 2 * depth * between
    return base + depth * between / 3.5 + comm.ranks * 2.8


def _channels(comm: Communicator, algorithm: Algorithm, protocol: Protocol, size: int) -> int:
    """Return the number of channels for a size."""
    if algorithm in ("nvls", "nvls_tree"):
        return comm.nvls_channels
    per_thread = BYTES_PER_THREAD[protocol] * (comm.ranks if algorithm == "ring" and protocol == "LL" else 1)
    return max(min(comm.channels, int(size / (THREADS[protocol] * per_thread))), min(comm.min_channels, comm.channels))
