"""The estimate in plain Python: the oracle of the tests, written for the reader. ``contention.py`` states it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from topoflow.collectives.algorithm import algorithms
from topoflow.engine.lowering.paths import Paths
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.engine.screen.alone import alone
from topoflow.fabric.base import Fabric
from topoflow.operations import bus_factor
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Collective, Subflow, Traffic
from topoflow.traffic.buckets import Bucket, gradient_buckets
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import Layer, LayerGraph

Pair = tuple[int, int]  # a server and another


def makespan(
    workload: LayerGraph,
    fabric: Fabric,
    strategy: Placement,
    *,
    all_reduce: str = "hierarchical",
    routing: str = "ecmp",
    seed: int = 0,
) -> float:
    """s of an iteration, with rings between servers or an all-reduce that follows a schedule."""
    lowering = Lowering(all_reduce, routing, "flows", seed)
    iteration = _Iteration(workload, fabric, strategy, lowering)
    for layer in workload.layers:
        iteration.forward(layer)
    for layer in reversed(workload.layers):
        iteration.backward(layer)
    return iteration.end()


class _Iteration:
    """The clocks of servers and links."""

    def __init__(self, workload: LayerGraph, fabric: Fabric, strategy: Placement, lowering: Lowering) -> None:
        self.workload = workload
        self.fabric = fabric
        self.lowering = lowering
        self.paths = Paths(fabric, lowering.seed, lowering.routing)
        self.reduction_paths = Paths(fabric.for_reductions, lowering.seed, lowering.routing)
        largest = max(
            [2.0 * strategy.bucket_bytes, *(layer.parameters * workload.element_bytes for layer in workload.layers)]
        )
        self.sizes = float(strategy.bucket_bytes), float(largest)
        self.layers = {layer.name: layer for layer in workload.layers}
        self.hosts = {name: [strategy.host(name, server) for server in range(strategy.servers)] for name in self.layers}
        self.holders = strategy.placement
        self.closing = {bucket.layers[-1]: bucket for bucket in gradient_buckets(workload, strategy)}
        self.clock = [0.0] * strategy.servers  # s, when a server has computed all so far
        self.update = [0.0] * strategy.servers  # s of the optimizer
        self.done: dict[str, list[float]] = {}  # layer -> the clocks after its forward pass
        self.awaited: dict[str, list[float]] = {name: [0.0] * strategy.servers for name in self.layers}  # gradients
        self.free = [0.0] * fabric.links  # s, when a link has done with what it must so far
        self.networks: dict[tuple[int, ...], tuple[dict[int, float], float, float]] = {}  # what ``network`` says
        self.inside: dict[tuple[int, ...], float] = defaultdict(float)  # s, a group's latest all-reduce, by its phases
        self.between: dict[tuple[int, ...], float] = defaultdict(float)
        self.reduced: dict[tuple[int, ...], float] = defaultdict(float)

    def forward(self, layer: Layer) -> None:
        busy = {link: bytes / self.capacity(link) for link, bytes in self.coflow(layer, back=False).items()}
        for earlier in layer.after:
            for source, target in zip(self.hosts[earlier], self.hosts[layer.name], strict=True):
                arrives = self.done[earlier][source] + self.travels((source, target), busy)
                self.clock[target] = max(self.clock[target], arrives)
        for host, samples in self.samples(layer):
            self.clock[host] += forward_seconds(self.workload, layer, samples)
            several = len(self.holders[layer.name]) > 1
            self.update[host] += update_seconds(self.workload, layer, samples, replicated=several)
        self.done[layer.name] = list(self.clock)

    def backward(self, layer: Layer) -> None:
        for host, samples in self.samples(layer):
            begins = max(self.clock[host], self.awaited[layer.name][host])
            self.clock[host] = begins + backward_seconds(self.workload, layer, samples)
        busy = self.share(self.coflow(layer, back=True))
        for earlier in layer.after:
            for source, target in zip(self.hosts[earlier], self.hosts[layer.name], strict=True):
                arrives = self.clock[target] + self.travels((target, source), busy)
                self.awaited[earlier][source] = max(self.awaited[earlier][source], arrives)
        if layer.name in self.closing:
            self.reduce(self.closing[layer.name])

    def end(self) -> float:
        """Every server updates what it holds after the all-reduces that it takes part in."""
        for group, reduced in self.reduced.items():
            for host in group:
                self.clock[host] = max(self.clock[host], reduced)
        return max(clock + update for clock, update in zip(self.clock, self.update, strict=True))

    def samples(self, layer: Layer) -> list[tuple[int, float]]:
        """Hosts, and how many samples each computes the layer for."""
        count = Counter(self.hosts[layer.name])
        return [(host, servers * self.workload.batch_per_server) for host, servers in count.items()]

    def coflow(self, layer: Layer, *, back: bool) -> dict[int, float]:
        """B on every link of what travels into the layer, or of the gradients that travel out of it again."""
        load: dict[int, float] = defaultdict(float)
        for earlier in layer.after:
            size = self.workload.batch_per_server * self.layers[earlier].output_elements * self.workload.element_bytes
            for source, target in zip(self.hosts[earlier], self.hosts[layer.name], strict=True):
                for link, weight in self.hops((target, source) if back else (source, target)):
                    load[link] += weight * size
        return load

    def hops(self, ends: Pair) -> list[tuple[int, float]]:
        """The links between two servers and the share of the bytes that crosses each."""
        return crossed(self.paths.subflows(*ends, 0))

    def travels(self, ends: Pair, busy: dict[int, float]) -> float:
        """s of one transfer, as long as its fullest link is busy."""
        hops = self.hops(ends)
        latency = sum(weight * float(self.fabric.latency[link]) for link, weight in hops)
        return latency + max((busy[link] for link, _ in hops), default=0.0)

    def share(self, load: dict[int, float]) -> dict[int, float]:
        """s that links are busy with gradients of activations: twice as long where they meet something earlier."""
        began, busy = min(self.clock), {}
        for link, bytes in load.items():
            alone = bytes / self.capacity(link)
            busy[link] = 2 * alone if self.free[link] > began else alone
            if bytes > 0:
                self.free[link] = max(self.free[link], began) + alone
        return busy

    def reduce(self, bucket: Bucket) -> None:
        """Between the servers of the group, after and before half an all-reduce inside each of them."""
        members, group = self.workload.gpus_per_server, bucket.group
        hierarchical = algorithms()[self.lowering.all_reduce].hierarchical
        local = bus_factor("reduce_scatter", members) / self.workload.gpu.exchange_bandwidth if hierarchical else 0.0
        inside = local * bucket.bytes
        if group not in self.networks:
            self.networks[group] = self.network(group, 2 * local)
        load, latency, slowness = self.networks[group]
        free = self.inside[group] if load else self.reduced[group]
        self.inside[group] = max(free, *(self.clock[host] for host in group)) + inside
        ready = max(self.inside[group], self.between[group])
        busy = {link: share * bucket.bytes / self.capacity(link) for link, share in load.items()}
        for link, seconds in busy.items():
            self.free[link] = max(self.free[link], ready) + seconds
        alone = ready + latency + slowness * bucket.bytes
        self.between[group] = max([alone, *(self.free[link] for link in busy)])
        self.reduced[group] = max(self.between[group], self.reduced[group]) + inside

    def network(self, group: tuple[int, ...], local: float) -> tuple[dict[int, float], float, float]:
        """The share of the bytes on every link, and s and s/B of an all-reduce alone that is not inside servers.

        ``local`` (s/B) is what is, before and after.
        """
        if self.lowering.all_reduce == "hierarchical":
            load, latency = self.ring(group)
            slowest = max((share / self.capacity(link) for link, share in load.items()), default=0.0)
            return load, 2 * (len(group) - 1) * latency, slowest
        waits, takes = alone(self.workload, self.fabric, [group], self.lowering, self.sizes)
        return self.scheduled(group), float(waits[0]), float(takes[0]) - local

    def scheduled(self, group: tuple[int, ...]) -> dict[int, float]:
        """The share of the bytes on every link that the sends of a schedule put there."""
        task = Collective("all_reduce", 1.0, group, local=self.workload.gpus_per_server)
        traffic = Traffic.from_tasks("alone", self.fabric.servers, [task])
        graph = Placer(self.fabric, self.lowering).place(traffic, "alone").graph
        load: dict[int, float] = defaultdict(float)
        for path, bytes in zip(graph.path.tolist(), graph.bytes.tolist(), strict=True):
            first, end = graph.path_offsets[path : path + 2].tolist() if path >= 0 else (0, 0)
            for hop in range(first, end):
                weight = 1.0 if graph.path_weight is None else float(graph.path_weight[hop])
                load[int(graph.path_links[hop])] += weight * bytes
        return load

    def ring(self, group: tuple[int, ...]) -> tuple[dict[int, float], float]:
        """The share of the bytes on every link of the group's rings, and s of their slowest hop."""
        load: dict[int, float] = defaultdict(float)
        latency = 0.0
        orders = self.fabric.channels.rings.get(group, (group,)) if len(group) > 1 else ()
        for channel, order in enumerate(orders):
            for ends in zip(order, (*order[1:], order[0]), strict=True):
                hops = crossed(self.reduction_paths.subflows(*ends, channel))
                latency = max(latency, sum(weight * float(self.fabric.latency[link]) for link, weight in hops))
                for link, weight in hops:
                    load[link] += bus_factor("all_reduce", len(group)) / len(orders) * weight
        return load, latency

    def capacity(self, link: int) -> float:
        """B/s"""
        return float(self.fabric.bandwidth[link])


def crossed(subflows: Sequence[Subflow]) -> list[tuple[int, float]]:
    """Return the links that a connection crosses, each with the share of its bytes."""
    return [(link, subflow.weight) for subflow in subflows for link in subflow.links]
