"""ResultRow: the numbers of one result in SI units, and their computation.

Shapes: T tasks, H hops, P ordered pairs of servers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.engine.base import LoweredGraph
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import as_routes, mean_lengths
from topoflow.traffic.base import Traffic
from topoflow.units import counted


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One row of a result table. ``COLUMNS`` describes each column for the reader."""

    world: str = ""
    workload: str
    strategy: str
    fabric: str
    servers: int
    gpus: int | None
    bandwidth: float = 0.0
    degree: int
    latency: float = 0.0
    all_reduce: str
    routing: str
    rings: str
    fidelity: str
    seed: int
    iteration_time: float = 0.0
    compute_time: float | None
    host_time: float | None
    network_time: float | None = None
    bandwidth_tax: float = 0.0
    path_length_mean: float = 0.0
    cost_usd: float | None = None
    power_w: float | None = None
    usd_per_step: float | None = None
    usd_per_million_tokens: float | None = None
    memory_per_gpu: float | None
    recorded_time: float | None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    goodput: float | None = None
    failures_per_day: float | None = None
    checkpoint_interval: float | None = None


COLUMNS = {
    "world": "name of this combination, unique in the report",
    "workload": "the training job; of a motif its own name",
    "strategy": "how the job is spread over the servers",
    "fabric": "the network that joins the servers",
    "servers": "servers that take part (one has several GPUs); with node, endpoints",
    "gpus": "GPUs of nodes (null: without node); the endpoints are these, or nodes whose GPUs do the same",
    "bandwidth": "B/s of one network interface of a server, in each direction",
    "degree": "network interfaces per server",
    "latency": "seconds that a bit takes over one link",
    "all_reduce": "how an all-reduce is carried out",
    "routing": "what takes one of several equal paths; ecmp: each connection, by a hash; spray: each packet, in turn; "
    "dmodk: the target; valiant: each packet, by way of a server in the middle. Of routers that forward by address, "
    "minimal: the fewest links; valiant_group: by way of another group; adaptive_local, ugal: one of these two, by how "
    "full their ports are",
    "rings": "what the sends of a ring are; steps: each waits for those before; flows: one for each pair of neighbours",
    "fidelity": "how the network is simulated; fluid: links are shared max-min fairly; bound: the least time it takes; "
    "packet: switches with queues, packet by packet; slotted: cells that follow a schedule of slots; fitting: slotted "
    "where the network has slots, else fluid",
    "seed": "of random wiring and of the choice among equal paths",
    "iteration_time": "seconds for one training step: until the last computation and transfer are done",
    "compute_time": "seconds that the busiest server computes in one step (null: nobody recorded it)",
    "host_time": "seconds in which its GPU waits for its host, which has launched no kernel, as recorded (null: not)",
    "network_time": "seconds that remain, iteration_time - compute_time - host_time: transfers that are not hidden "
    "and, in a pipeline, waiting for other stages",
    "bandwidth_tax": "bytes sent by servers, relayed ones included, over bytes asked for; 1 if no server relays",
    "path_length_mean": "links between two servers, mean over all ordered pairs",
    "cost_usd": "price of the network's parts in US dollars, with node also of GPUs and hosts "
    "(null: no bill of materials, or GPUs without a price)",
    "power_w": "watts that these parts draw (null: no price)",
    "usd_per_step": "US dollars of a step: the price over the years of use, and electricity "
    "(null: no price, or a price list without years)",
    "usd_per_million_tokens": "the same for a million tokens of a run of weeks, with its goodput "
    "(null: layers without a sequence)",
    "memory_per_gpu": "bytes that the strategy needs on the fullest GPU, at least (null: a recorded job)",
    "recorded_time": "seconds that the step took when the job was recorded (null: it was not, or without times)",
    "samples_per_second": "samples that all servers train on per second (null: a job without layers)",
    "tokens_per_second": "the same in positions of the sequence (null: layers without a sequence)",
    "mfu": "model FLOP/s of forward and backward pass, as a share of the peak of all GPUs (null: a job without layers)",
    "goodput": "share of a run of weeks in which new steps are trained: the rest are restarts, repeated steps, "
    "checkpoints and slow GPUs (null: without node)",
    "failures_per_day": "failures that end a step, in a day (null: without node)",
    "checkpoint_interval": "seconds of training between two checkpoints (null: without node, or nothing fails)",
}


MAX_PAIRS = 2**20  # ordered pairs of 1,024 servers; the mean over a sample of this size is within 0.1 %
PAIRS_PER_CHUNK = 2**18  # a path of 6 links takes some 200 bytes while it is computed
MAX_WIRINGS = 8  # whose lengths of paths are kept, of up to 8 MB each; networks of a sweep differ in speed alone

_lengths: dict[str, tuple[NDArray[np.float64], float]] = {}  # by wiring, and their mean


def endpoints(servers: int, gpus: int | None) -> str:
    """Return what a job runs on as text: ``16 servers``, or ``64 GPUs`` of nodes."""
    return counted(servers, "server") if gpus is None else counted(gpus, "GPU")


def compute_time(traffic: Traffic) -> float:
    """Return the seconds that the busiest server computes, a lower bound of the iteration time."""
    return float(_seconds_of_servers(traffic).max()) * traffic.rounds


def host_time(traffic: Traffic) -> float:
    """Return the seconds that the GPU of the busiest server waits for its host."""
    return traffic.idle.get(int(_seconds_of_servers(traffic).argmax()), 0.0) * traffic.rounds


def _seconds_of_servers(traffic: Traffic) -> NDArray[np.float64]:
    """Return the seconds that each server computes."""
    occupied = traffic.server >= 0
    return np.bincount(traffic.server[occupied], traffic.seconds[occupied], traffic.servers).astype(np.float64)


def bandwidth_tax(graph: LoweredGraph, fabric: Fabric) -> float:
    """Return the bytes that servers send, including relayed ones, over the bytes of the flows (TopoOpt 5.4).

    A flow of S bytes whose path is relayed by k servers is sent 1 + k times. Without traffic the tax is 1.
    """
    if fabric.wiring not in graph.taxes:
        graph.taxes[fabric.wiring] = _bandwidth_tax(graph, fabric)
    return graph.taxes[fabric.wiring]


def _bandwidth_tax(graph: LoweredGraph, fabric: Fabric) -> float:
    weight = 1.0 if graph.path_weight is None else graph.path_weight
    is_relay = weight * (fabric.target[graph.path_links] < fabric.servers)  # [H]; the last hop of a path is no relay
    passed = np.concatenate(([0], np.cumsum(is_relay)))
    relays = np.maximum(passed[graph.path_offsets[1:]] - passed[graph.path_offsets[:-1]] - 1, 0)  # [P]
    path_bytes = graph.path_bytes
    if not path_bytes.sum() > 0:
        return 1.0
    return float((path_bytes * (1 + relays)).sum() / path_bytes.sum())


def path_lengths(fabric: Fabric) -> NDArray[np.float64]:
    """Return the number of links between two servers [P] for all ordered pairs, as the mean over a pair's paths.

    If there are more than ``MAX_PAIRS`` pairs, a random sample of this size with a fixed seed is used.
    """
    return _lengths_of(fabric)[0]


def mean_path_length(fabric: Fabric) -> float:
    """Return the mean of ``path_lengths``; 0 for a server alone."""
    return _lengths_of(fabric)[1]


def _lengths_of(fabric: Fabric) -> tuple[NDArray[np.float64], float]:
    if fabric.wiring not in _lengths:
        if len(_lengths) >= MAX_WIRINGS:
            _lengths.clear()
        lengths = _path_lengths(fabric)
        _lengths[fabric.wiring] = lengths, float(lengths.mean()) if lengths.size else 0.0
    return _lengths[fabric.wiring]


def _path_lengths(fabric: Fabric) -> NDArray[np.float64]:
    routes, servers = as_routes(fabric.route), fabric.servers
    pairs = servers * (servers - 1)
    if pairs > MAX_PAIRS:
        chosen = np.random.Generator(np.random.Philox(key=[servers, 0])).integers(pairs, size=MAX_PAIRS)
    else:
        chosen = np.arange(pairs)
    source, index = np.divmod(chosen, max(servers - 1, 1))
    target = index + (index >= source)  # skips the source
    cuts = range(PAIRS_PER_CHUNK, len(chosen), PAIRS_PER_CHUNK)
    parts = zip(np.split(source, cuts), np.split(target, cuts), strict=True)
    return np.concatenate([mean_lengths(routes, *part) for part in parts])


def flows_between(graph: LoweredGraph, servers: NDArray[np.int64]) -> Demand:
    """Return the end-to-end bytes by pair that flow among ``servers`` (ascending) in one step.

    Servers are numbered by their position in ``servers``.
    """
    flows = (graph.path >= 0) & (graph.bytes > 0)
    source, target = (np.searchsorted(servers, end[flows]) for end in (graph.source, graph.target))
    return Demand.from_pairs(len(servers), source, target, graph.bytes[flows] * graph.rounds, {})


def flow_matrix(graph: LoweredGraph, servers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the flows as a matrix [n, n], for few servers."""
    return flows_between(graph, servers).matrix()
