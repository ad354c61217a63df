"""Lowering of a placement: layers on servers, in the order of a program (``program.of_placement``).

    forward    every server computes each layer for the samples it hosts; activations that were computed on another
               server are transferred first
    backward   the same in reverse order; gradients of activations return to where the activations came from
    reduce     a bucket of parameter gradients is all-reduced among its holders once all of them have computed the
               backward pass of the layer that completes it, concurrently with the rest of the backward pass
    update     once per server, after its last all-reduce (as ``optimizer.step()`` waits for DDP)

The samples of server s need layer L on ``strategy.host(L, s)``. All bytes from one server to another for the same
consumer are one transfer, as in an all-to-all (TopoOpt 2.1: one-to-many broadcast and many-to-one incast). The
all-reduces of a group run one after another, as on one NCCL communicator.

Shapes: as in ``messages.py``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow.arrays import Floats, Mask, Offsets, offsets
from topoflow.memory import check_memory
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Label, Operation, Traffic
from topoflow.traffic.buckets import Bucket, gradient_buckets
from topoflow.traffic.columns import Columns
from topoflow.traffic.messages import HolderSpread, LayerEdges, LayerRows, edges_of, messages_of, spread
from topoflow.traffic.program import of_placement
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, LayerGraph

# Peak of a comparison per row, and per edge and server. Measured: 636 to 1,840 for resnet50, bert, vgg16, candle, dlrm
# and ncf on 8,192 to 65,536 servers.
BYTES_PER_ROW = 620


class PlacementLowering:
    """A lowering of placements of one workload, which computes shared parts once."""

    def __init__(self, workload: LayerGraph) -> None:
        self.workload = workload
        self._edges: LayerEdges = edges_of(workload)
        self._times: dict[int, _Times] = {}  # number of servers -> times
        self._spreads: dict[tuple[int, tuple[int, ...]], HolderSpread] = {}  # (number of servers, holders) -> spread

    def lower(self, strategy: Placement) -> Traffic:
        """Return the traffic of one iteration. Raises ``ValueError`` where the strategy misses a layer."""
        workload = self.workload
        size = sum(len(holders) for holders in strategy.placement.values()) + len(self._edges.input) * strategy.servers
        check_memory("servers", f"{len(workload.layers)} layers on {strategy.servers} servers", size * BYTES_PER_ROW)
        rows = self._rows(strategy)
        buckets = gradient_buckets(workload, strategy)
        times = self._times.setdefault(strategy.servers, _Times(workload, strategy.servers))
        seconds = times.of(rows.layer, rows.samples, rows.is_replicated)
        iteration = _Iteration(workload, rows, self._edges, buckets, seconds)
        for instruction in of_placement(workload, buckets):
            getattr(iteration, instruction.name)(instruction.of)
        iteration.exchange()
        name = f"{workload.name} {strategy.name}"
        return iteration.tasks.traffic(name, strategy.servers, workload.gpu.exchange_bandwidth)

    def _rows(self, strategy: Placement) -> LayerRows:
        names = [layer.name for layer in self.workload.layers]
        for name in names:
            if name not in strategy.placement:
                raise ValueError(f"strategy.placement: must place every layer of {self.workload.name}, got no {name!r}")
        spreads = [self._spread_of(strategy.servers, strategy.placement[name]) for name in names]
        count = np.array([len(spread.holder) for spread in spreads])
        first = offsets(count)
        return LayerRows(
            servers=strategy.servers,
            first=first,
            layer=np.repeat(np.arange(len(spreads)), count),
            server=np.concatenate([spread.holder for spread in spreads]),
            samples=np.concatenate([spread.samples for spread in spreads]),
            of=np.array([spread.place for spread in spreads]) + first[:-1, None],
        )

    def _spread_of(self, servers: int, holders: tuple[int, ...]) -> HolderSpread:
        key = servers, holders
        if key not in self._spreads:
            self._spreads[key] = spread(servers, holders)
        return self._spreads[key]


class _Iteration:
    """The tasks so far, by what they do."""

    def __init__(
        self, workload: LayerGraph, rows: LayerRows, edges: LayerEdges, buckets: list[Bucket], seconds: Floats
    ) -> None:
        self.workload, self.rows, self.buckets, self.seconds = workload, rows, buckets, seconds
        self.messages = messages_of(rows, edges)
        self.sent = np.flatnonzero(self.messages.is_sent)
        self.sent_of = np.searchsorted(self.messages.layer[self.sent], np.arange(len(workload.layers) + 1))  # [Y+1]
        self.tasks = Columns()
        self.forwards = np.full(len(rows.layer), NONE, np.int64)  # [R] task
        self.backwards = np.full(len(rows.layer), NONE, np.int64)  # [R]
        self.activations = np.full(len(self.messages.layer), NONE, np.int64)  # [M] task of a sent message
        self.gradients = np.full(len(self.messages.layer), NONE, np.int64)  # [M]
        self.computed = np.full(rows.servers, NONE, np.int64)  # [N] the latest backward pass of each server
        self.reduced: dict[tuple[int, ...], int] = {}  # group -> its latest all-reduce

    def forward(self, layer: int) -> None:
        name = self.workload.layers[layer].name
        sent, source, target, bytes = self._sent(layer)
        self.activations[sent] = self.tasks.transfer(Label(f"activations {name}", True), source, target, bytes)
        rows = self._rows(layer)
        label = Label(f"forward {name}", True)
        self.forwards[rows] = self.tasks.compute(label, self.rows.server[rows], self.seconds[rows, 0])

    def backward(self, layer: int) -> None:
        name, rows = self.workload.layers[layer].name, self._rows(layer)
        server = self.rows.server[rows]
        computes = self.tasks.compute(Label(f"backward {name}", True), server, self.seconds[rows, 1])
        self.backwards[rows] = self.computed[server] = computes
        sent, source, target, bytes = self._sent(layer)
        self.gradients[sent] = self.tasks.transfer(Label(f"gradients {name}", True), target, source, bytes)

    def reduce(self, number: int) -> None:
        """Add the all-reduce of a bucket.

        The compute of a server is in order, so waiting for its latest backward pass waits for all layers of the bucket.
        """
        bucket = self.buckets[number]
        row = self.tasks.row(Operation("all_reduce", bucket.group, self.workload.gpus_per_server))
        task = self.tasks.collective(Label(f"bucket {number}"), np.array([row]), bucket.bytes)
        self.tasks.wait(task, self.computed[list(bucket.group)])
        self.tasks.queue(task, np.array([self.reduced.get(bucket.group, NONE)]))
        self.reduced[bucket.group] = int(task[0])

    def update(self, _: int) -> None:
        servers = np.unique(self.rows.server)
        seconds: Floats = np.bincount(self.rows.server, weights=self.seconds[:, 2])[servers].astype(np.float64)
        update = np.full(self.rows.servers, NONE, np.int64)
        update[servers] = self.tasks.compute(Label("optimizer", True), servers, seconds)
        self.tasks.wait(update[servers], self.computed[servers])
        for group, task in self.reduced.items():
            self.tasks.wait(update[list(group)], np.array([task]))

    def exchange(self) -> None:
        """Add the dependencies between passes and messages, and between passes on the same server."""
        sent, (message, producer) = self.sent, self.messages.contents
        consumer, stays = self.messages.row, self.activations[message] == NONE
        self.tasks.wait(self.activations[message[~stays]], self.forwards[producer[~stays]])
        self.tasks.wait(self.forwards[consumer[sent]], self.activations[sent])
        self.tasks.wait(self.forwards[consumer[message[stays]]], self.forwards[producer[stays]])
        self.tasks.wait(self.backwards, self.forwards)
        self.tasks.wait(self.gradients[sent], self.backwards[consumer[sent]])
        self.tasks.wait(
            self.backwards[producer], np.where(stays, self.backwards[consumer[message]], self.gradients[message])
        )

    def _rows(self, layer: int) -> slice:
        return slice(self.rows.first[layer], self.rows.first[layer + 1])

    def _sent(self, layer: int) -> tuple[Offsets, Offsets, Offsets, Floats]:
        """Return the sent messages of a layer, their source and target in the forward pass, and their bytes."""
        sent = self.sent[self.sent_of[layer] : self.sent_of[layer + 1]]
        return sent, self.messages.source[sent], self.messages.target[sent], self.messages.bytes[sent]


class _Times:
    """Compute times on up to ``servers``; layers with equal times are computed once, at first use."""

    def __init__(self, workload: LayerGraph, servers: int) -> None:
        shapes = [replace(layer, name="", after=(), sharding=None) for layer in workload.layers]
        self.workload = workload
        self.kinds: list[Layer] = list(dict.fromkeys(shapes))
        number = {layer: kind for kind, layer in enumerate(self.kinds)}
        self.kind = np.array([number[layer] for layer in shapes])  # [Y]
        self.counts = servers + 1  # numbers of servers whose samples a row can compute, from 0
        self.seconds = np.full((len(self.kinds) * self.counts * 2, 3), np.nan)  # by kind, samples, replicated

    def of(self, layer: Offsets, samples: Offsets, replicated: Mask) -> Floats:
        """Return [R, 3] seconds of forward, backward and update for the samples of ``samples`` servers [R]."""
        case = (self.kind[layer] * self.counts + samples) * 2 + replicated
        for missing in np.unique(case[np.isnan(self.seconds[case, 0])]).tolist():
            kind, servers = divmod(missing // 2, self.counts)
            self.seconds[missing] = self._times(self.kinds[kind], servers, missing % 2 == 1)
        seconds: Floats = self.seconds[case]
        return seconds

    def _times(self, layer: Layer, servers: int, replicated: bool) -> tuple[float, float, float]:
        samples = servers * self.workload.batch_per_server
        return (
            forward_seconds(self.workload, layer, samples),
            backward_seconds(self.workload, layer, samples),
            update_seconds(self.workload, layer, samples, replicated=replicated),
        )
