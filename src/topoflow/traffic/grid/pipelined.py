"""Lowering of a strategy with a grid: stages, microbatches, and the collectives of tensor, context and expert ranks.

    forward    per microbatch and stage, in the order of the program (``program.of_grid``): every server of the stage
    backward   computes its layers, then come the collectives that the layers need
    send       the activations, or their gradients, go to the server in the same place of the next stage
    reduce     the backward pass that completes the gradients is cut where it completes a bucket, which is then
               all-reduced among the replicas, at the same time as the rest
    tie        a tied head and its embedding, in two stages, add up their gradients
    update     once per server, after its last all-reduce

What is aggregated: the GPUs of a server work alike, so a pass is one task per server; the collectives of one kind in a
pass are one task with the bytes of all its layers, after its compute, where a real job has two per block in between.
Bytes and seconds are those of all of them; of the latency of the network there is that of one. A GPU begins its next
pass when these collectives are done, and what it sends to the next stage goes at the same time as that.

Left out, as it is small: the all-reduces of norms' gradients among tensor ranks, and of the loss.

Shapes: N servers, n of a stage; Ends [N, w] as in ``side_by_side.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from topoflow.arrays import Offsets
from topoflow.strategy.grid import GRADIENTS, Grid
from topoflow.traffic.base import Label, Traffic
from topoflow.traffic.buckets import fill
from topoflow.traffic.columns import Columns
from topoflow.traffic.grid.one_f_one_b import Pass, interleaved, one_f_one_b
from topoflow.traffic.grid.side_by_side import Exchange, Groups
from topoflow.traffic.grid.stage_work import AMONG, Work, backward_work, forward_work
from topoflow.traffic.program import Instruction, Part, of_grid
from topoflow.traffic.roofline import step_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, LayerGraph

Held = Sequence[tuple[Layer, float]]  # layers, and the parameters that a GPU holds of each


class StageBucket(NamedTuple):
    """Gradients of one stage that are reduced at once."""

    stage: int
    kind: str  # of ``GRADIENTS``: among which replicas
    bytes: float
    layer: str  # that completes it


class Tie(NamedTuple):
    """A matrix that two stages hold."""

    stages: tuple[int, int]
    bytes: float
    layer: str


def lower_pipelined(workload: LayerGraph, grid: Grid, passes: Sequence[Pass] | None = None) -> Traffic:
    """The traffic of one iteration; ``passes`` in an order of their own, None: 1F1B, interleaved if
    ranks have several stages."""
    iteration = _Iteration(workload, grid)
    if passes is None:
        passes = (
            one_f_one_b(grid.pipeline, grid.microbatches)
            if grid.virtual == 1
            else interleaved(grid.pipeline, grid.microbatches, grid.virtual)
        )
    parts = [iteration.parts(stage) for stage in range(len(grid.stages))]
    for instruction in of_grid(passes, parts, len(iteration.ties)):
        getattr(iteration, instruction.name)(instruction)
    name = f"{workload.name} {grid.name}"
    return iteration.tasks.traffic(name, grid.servers, workload.gpu.exchange_bandwidth)


class _Iteration:
    """The tasks so far, and what each server waits for."""

    def __init__(self, workload: LayerGraph, grid: Grid) -> None:
        self.workload, self.grid = workload, grid
        self.tasks = Columns()
        self.exchange = Exchange(self.tasks, grid.servers, workload.gpu.exchange_bandwidth)
        self.held = held_by_stage(workload, grid)
        self.servers = [np.array(grid.stage_servers(stage)) for stage in range(len(grid.stages))]
        self.busy = self.exchange.none(2)  # what ended a server's latest pass
        self.arrived: dict[Pass, Offsets] = {}  # [n] what brings each server of a stage the input of a pass
        self.reduced = self.exchange.none(len(GRADIENTS))  # a server's latest all-reduce of each kind
        self.handover = handover_bytes(workload, grid)
        self.works = [(forward_work(workload, grid, held), backward_work(workload, grid, held)) for held in self.held]
        self.groups = {
            (stage, kind): Groups.of(grid.groups(stage, along))
            for stage in range(len(grid.stages))
            for kind, along in (AMONG | GRADIENTS).items()
            if grid.members(along) > 1
        }
        self.buckets = [bucket for stage in range(len(grid.stages)) for bucket in self._buckets_of(stage)]
        self.ties = ties_of(workload, grid)

    def parts(self, stage: int) -> list[Part]:
        """The last backward pass of a stage, cut after each layer that completes a bucket."""
        layers = [layer.name for layer, _ in reversed(self.held[stage])]
        completes = {bucket.layer: number for number, bucket in enumerate(self.buckets) if bucket.stage == stage}
        ends = [number + 1 for number, name in enumerate(layers) if name in completes or name == layers[-1]]
        return [
            Part(slice(first, end), completes.get(layers[end - 1]))
            for first, end in zip([0, *ends], ends, strict=False)
        ]

    def forward(self, one: Instruction) -> None:
        self._work(one, True, self.works[one.of][0], f"forward {one.of}.{one.microbatch}")

    def backward(self, one: Instruction) -> None:
        name, work = f"backward {one.of}.{one.microbatch}", self.works[one.of][1]
        if one.part is not None:
            part = self.held[one.of][::-1][one.part]
            name, work = f"{name} {part[-1][0].name}", backward_work(self.workload, self.grid, part)
        self._work(one, False, work, name)

    def _work(self, one: Instruction, forward: bool, work: Work, name: str) -> None:
        """Compute and collectives on every server of the stage."""
        servers = self.servers[one.of]
        own = self.tasks.compute(Label(name, True), servers, work.seconds)
        self.tasks.wait(own[:, None], self.busy[servers])
        arrived = self.arrived.pop(Pass(one.of, one.microbatch, forward), None)
        if arrived is not None:
            self.tasks.wait(own, arrived)
        ends = self.exchange.none(2)
        ends[servers, 0] = own
        for op, bytes in work.sent.items():
            groups = self.groups.get((one.of, op))
            if groups is not None and bytes:
                ends = self.exchange.collective(op, bytes, groups, ends, Label(f"{op} {name}"))
        self.busy[servers] = ends[servers]

    def send(self, one: Instruction) -> None:
        """From every server of the stage to the one in the same place of the other."""
        forward, source = one.to > one.of, self.servers[one.of]
        label = Label(f"{'activations' if forward else 'gradients'} {one.of}.{one.microbatch}", True)
        own = self.tasks.transfer(label, source, self.servers[one.to], self.handover[min(one.of, one.to)])
        self.tasks.wait(own[:, None], self.busy[source])
        self.arrived[Pass(one.to, one.microbatch, forward)] = own

    def reduce(self, one: Instruction) -> None:
        stage, kind, bytes, layer = self.buckets[one.of]
        label, servers = Label(f"bucket {layer}"), self.servers[stage]
        own = self.exchange.queued("all_reduce", bytes, self.groups[stage, kind], self.busy, label)
        self.reduced[servers, list(GRADIENTS).index(kind)] = own[servers]

    def tie(self, one: Instruction) -> None:
        """Gradients of a matrix that two stages hold are added up, between GPUs in the same place."""
        stages, bytes, layer = self.ties[one.of]
        pairs = np.stack([self.servers[stage] for stage in stages], axis=1)
        after = np.concatenate([self.busy, self.reduced], axis=1)
        ends = self.exchange.collective("all_reduce", bytes, Groups(pairs, 1, 1), after, Label(f"tied {layer}"))
        self.reduced[pairs] = NONE
        self.reduced[pairs, 0] = ends[pairs, 0]

    def update(self, one: Instruction) -> None:
        servers = self.servers[one.of]
        seconds = step_seconds(self.workload, sum(elements for _, elements in self.held[one.of]))
        own = self.tasks.compute(Label("optimizer", True), servers, seconds)
        self.tasks.wait(own[:, None], np.concatenate([self.busy, self.reduced], axis=1)[servers])

    def _buckets_of(self, stage: int) -> list[StageBucket]:
        buckets = []
        for kind in GRADIENTS:
            sizes = [
                (layer.name, elements * self.workload.element_bytes)
                for layer, elements in reversed(self.held[stage])
                if elements and self.grid.gradients(layer) == kind
            ]
            if (stage, kind) in self.groups:
                filled = fill((), sizes, self.grid.bucket_bytes, self.grid.bucket_bytes)
                buckets += [StageBucket(stage, kind, bucket.bytes, bucket.layers[-1]) for bucket in filled]
        return buckets


def held_by_stage(workload: LayerGraph, grid: Grid) -> list[Held]:
    """What a GPU of each stage holds."""
    layers = {layer.name: layer for layer in workload.layers}
    return [[(layers[name], size) for name, size in stage.items()] for stage in grid.rank_parameters(workload)]


def ties_of(workload: LayerGraph, grid: Grid) -> list[Tie]:
    """The matrices that two stages hold, with the bytes of all GPUs of a server."""
    stage_of = {name: stage for stage, names in enumerate(grid.stages) for name in names}
    ties = []
    for stage, held in enumerate(held_by_stage(workload, grid)):
        for layer, elements in held:
            shares = layer.sharding.shares if layer.sharding is not None else None
            if shares is not None and stage_of[shares] != stage:
                bytes = elements * workload.element_bytes * grid.gpus_per_server
                ties.append(Tie((stage_of[shares], stage), bytes, layer.name))
    return ties


def handover_bytes(workload: LayerGraph, grid: Grid) -> list[float]:
    """Bytes of a microbatch that a server sends from stage i to i + 1: each tensor and context rank sends its part.

    What a later stage than the next one reads is passed on. Source: Narayanan et al., SC 2021, section 4.1
    (scatter/gather).
    """
    stage_of = {name: stage for stage, names in enumerate(grid.stages) for name in names}
    last = {layer.name: stage_of[layer.name] for layer in workload.layers}  # stage that reads it last
    for layer in workload.layers:
        for earlier in layer.after:
            last[earlier] = max(last[earlier], stage_of[layer.name])
    ranks = grid.gpus_per_server / grid.sharing  # replicas whose part a server has
    return [
        sum(layer.output_elements for layer in workload.layers if stage_of[layer.name] <= stage < last[layer.name])
        * grid.samples(workload)
        * workload.element_bytes
        * ranks
        for stage in range(len(grid.stages) - 1)
    ]
