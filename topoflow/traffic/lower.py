"""Lowering: a workload and a strategy become the tasks of one training iteration.

    forward    every server computes each layer for the samples it hosts, in the order of the workload; where a
               layer's input was computed on another server, the activations are transferred first
    backward   the same in reverse; gradients of activations travel back the way the activations came, and a bucket of
               parameter gradients is all-reduced as soon as its holders have computed it, beside the backward pass
    optimizer  one update per server, after its last all-reduce (as ``optimizer.step()`` waits for DDP)

The samples of server s need layer L on ``strategy.host(L, s)``. All that one server owes another for the same consumer
travels as one transfer, as an all-to-all would send it (TopoOpt 2.1: one-to-many broadcast and many-to-one incast). The
all-reduces of a group run one after another, as on one NCCL communicator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from topoflow.strategy.base import Strategy, places
from topoflow.traffic.base import Collective, Compute, Task, Traffic, Transfer
from topoflow.traffic.buckets import gradient_buckets
from topoflow.traffic.captured import lower_captured
from topoflow.traffic.pipelined import lower_pipelined
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.traffic.sharded import lower_sharded
from topoflow.workload.base import Layer, Workload


def lower(workload: Workload, strategy: Strategy) -> Traffic:
    """The traffic of one iteration. A captured workload brings its own; a grid cuts layers (``pipelined.py``), and
    shards divide their parameters (``sharded.py``).

    Raises ``ValueError`` where the strategy does not place a layer of the workload.
    """
    if workload.trace is not None:
        return lower_captured(workload, strategy)
    if strategy.grid is not None:
        return lower_pipelined(workload, strategy, strategy.grid)
    if strategy.shards is not None:
        return lower_sharded(workload, strategy, strategy.shards)
    for layer in workload.layers:
        if layer.name not in strategy.placement:
            raise ValueError(f"strategy.placement: must place every layer of {workload.name}, got no {layer.name!r}")
    iteration = _Iteration(workload, strategy)
    for layer in workload.layers:
        iteration.forward(layer)
    for layer in reversed(workload.layers):
        iteration.backward(layer)
    iteration.update()
    return Traffic(
        name=f"{workload.name} {strategy.name}",
        servers=strategy.servers,
        tasks=tuple(iteration.tasks),
        local_bandwidth=workload.gpu.local_bandwidth,
    )


class _Iteration:
    """The tasks so far, and where each layer's work is. Tasks are their positions in ``tasks``."""

    def __init__(self, workload: Workload, strategy: Strategy) -> None:
        self.workload = workload
        self.strategy = strategy
        self.tasks: list[Task] = []
        self.layers = {layer.name: layer for layer in workload.layers}
        self.hosts = _hosts(strategy)  # layer -> host of each server's samples
        self.forwards: dict[tuple[str, int], int] = {}  # (layer, host) -> its forward task
        self.backwards: dict[tuple[str, int], int] = {}
        self.latest: dict[int, int] = {}  # host -> its latest backward task
        self.gradients: dict[tuple[str, int], list[int]] = defaultdict(list)  # ... -> what its backward task awaits
        self.reduced: dict[tuple[int, ...], int] = {}  # group -> its latest all-reduce
        self.closing = defaultdict(list)  # layer -> buckets that its backward pass completes
        for number, bucket in enumerate(gradient_buckets(workload, strategy)):
            self.closing[bucket.layers[-1]].append((number, bucket))

    def add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def samples(self, layer: str) -> dict[int, int]:
        """Host -> how many samples it computes ``layer`` for."""
        samples: dict[int, int] = defaultdict(int)
        for host in self.hosts[layer]:
            samples[host] += self.workload.batch_per_server
        return dict(sorted(samples.items()))

    def parcels(self, layer: Layer) -> dict[tuple[int, int], dict[str, int]]:
        """What ``layer`` reads: (host of the input, host of the layer) -> input -> bytes."""
        parcels: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for earlier in layer.after:
            size = self.workload.batch_per_server * self.layers[earlier].output_elements * self.workload.element_bytes
            for ends in zip(self.hosts[earlier], self.hosts[layer.name], strict=True):
                parcels[ends][earlier] += size
        return dict(sorted(parcels.items()))

    def forward(self, layer: Layer) -> None:
        inputs: dict[int, list[int]] = defaultdict(list)
        for (source, target), parcel in self.parcels(layer).items():
            made = _ascending(self.forwards[earlier, source] for earlier in parcel)
            if source == target:
                inputs[target].extend(made)
            else:
                name = f"activations {layer.name} {source}>{target}"
                inputs[target].append(self.add(Transfer(sum(parcel.values()), source, target, made, name)))
        for host, samples in self.samples(layer.name).items():
            seconds = forward_seconds(self.workload, layer, samples)
            task = Compute(seconds, host, _ascending(inputs[host]), f"forward {layer.name} @{host}")
            self.forwards[layer.name, host] = self.add(task)

    def backward(self, layer: Layer) -> None:
        for host, samples in self.samples(layer.name).items():
            seconds = backward_seconds(self.workload, layer, samples)
            awaited = _ascending([self.forwards[layer.name, host], *self.gradients[layer.name, host]])
            task = Compute(seconds, host, awaited, f"backward {layer.name} @{host}")
            self.backwards[layer.name, host] = self.latest[host] = self.add(task)
        for (source, target), parcel in self.parcels(layer).items():
            sent = self.backwards[layer.name, target]
            if source != target:
                name = f"gradients {layer.name} {target}>{source}"
                sent = self.add(Transfer(sum(parcel.values()), target, source, (sent,), name))
            for earlier in parcel:
                self.gradients[earlier, source].append(sent)
        self.all_reduce(layer)

    def all_reduce(self, layer: Layer) -> None:
        """The buckets that ``layer`` completes. Compute is in order, so its backward pass is the last to await."""
        for number, bucket in self.closing[layer.name]:
            awaited = [self.backwards[layer.name, host] for host in bucket.group]
            if bucket.group in self.reduced:
                awaited.append(self.reduced[bucket.group])
            self.reduced[bucket.group] = self.add(
                Collective(
                    op="all_reduce",
                    bytes=bucket.bytes,
                    group=bucket.group,
                    after=_ascending(awaited),
                    name=f"bucket {number}",
                    local=self.workload.gpus_per_server,
                )
            )

    def update(self) -> None:
        seconds: dict[int, float] = defaultdict(float)
        for layer in self.workload.layers:
            holders = self.strategy.placement[layer.name]
            for host, samples in self.samples(layer.name).items():
                seconds[host] += update_seconds(self.workload, layer, samples, replicated=len(holders) > 1)
        for server in sorted(seconds):
            awaited = [self.latest[server], *(task for group, task in self.reduced.items() if server in group)]
            self.add(Compute(seconds[server], server, _ascending(awaited), f"optimizer @{server}"))


def _hosts(strategy: Strategy) -> dict[str, list[int]]:
    """Layer -> the server that computes it for the samples of server 0, 1, ..."""
    by_holders: dict[tuple[int, ...], list[int]] = {}
    for holders in strategy.placement.values():
        if holders not in by_holders:
            by_holders[holders] = [holders[place] for place in places(strategy.servers, holders)]
    return {layer: by_holders[holders] for layer, holders in strategy.placement.items()}


def _ascending(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(tasks)))
