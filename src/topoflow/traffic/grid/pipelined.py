"""Lowering of a grid strategy: stages, microbatches, and the collectives of tensor, context and expert ranks.

    forward    per microbatch and stage, in the order of the program (``program.of_grid``): every server of the stage
    backward   computes its layers, then the collectives of the layers follow
    send       activations, or their gradients, go to the server at the same position of the next stage
    reduce     the backward pass that completes the gradients is cut where it completes a bucket; the bucket is then
               all-reduced among the replicas, concurrently with the rest of the pass
    tie        a tied head and its embedding, in two stages, add up their gradients
    update     once per server, after its last all-reduce

Aggregation: the GPUs of a server do equal work, so a pass is one task per server. The collectives of one kind in a pass
are one task after its compute, with the bytes of all its layers; a real job has two per block, between its computes.
Bytes and seconds are complete, but the network's latency counts once instead of once per collective. A GPU begins its
next pass when these collectives are done; the send to the next stage overlaps with that pass.

The all-reduces of norms' gradients among tensor ranks, and of the loss, are left out, since they are small.

Shapes: N servers, n of a stage; Ends [N, w] as in ``side_by_side.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from topoflow.arrays import Offsets
from topoflow.strategy.grid import GRADIENTS, ParallelGrid
from topoflow.traffic.base import Label, Traffic
from topoflow.traffic.buckets import fill
from topoflow.traffic.columns import Columns
from topoflow.traffic.grid.one_f_one_b import Pass, interleaved, one_f_one_b
from topoflow.traffic.grid.side_by_side import CollectiveWriter, EqualGroups
from topoflow.traffic.grid.stage_work import AMONG, PassWork, backward_work, forward_work
from topoflow.traffic.program import BackwardPart, Instruction, of_grid
from topoflow.traffic.roofline import step_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, LayerGraph

Held = Sequence[tuple[Layer, float]]  # layers, and the parameters that a GPU holds of each


class StageBucket(NamedTuple):
    """Gradients of one stage that are reduced together."""

    stage: int
    kind: str  # key of ``GRADIENTS``: the axes of the replicas
    bytes: float
    layer: str  # the layer whose gradients complete the bucket


class Tie(NamedTuple):
    """A matrix that two stages hold."""

    stages: tuple[int, int]
    bytes: float
    layer: str


def lower_pipelined(workload: LayerGraph, grid: ParallelGrid, passes: Sequence[Pass] | None = None) -> Traffic:
    """Return the traffic of one iteration; ``passes`` None is 1F1B, interleaved if ranks have several stages."""
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
    """The tasks so far, and the tasks that each server waits for."""

    def __init__(self, workload: LayerGraph, grid: ParallelGrid) -> None:
        self.workload, self.grid = workload, grid
        self.tasks = Columns()
        self.exchange = CollectiveWriter(self.tasks, grid.servers, workload.gpu.exchange_bandwidth)
        self.held = held_by_stage(workload, grid)
        self.servers = [np.array(grid.stage_servers(stage)) for stage in range(len(grid.stages))]
        self.busy = self.exchange.none(2)  # the tasks that end a server's latest pass
        self.arrived: dict[Pass, Offsets] = {}  # pass -> [n] the transfers that bring its input to each server
        self.reduced = self.exchange.none(len(GRADIENTS))  # a server's latest all-reduce of each kind
        self.handover = handover_bytes(workload, grid)
        self.works = [(forward_work(workload, grid, held), backward_work(workload, grid, held)) for held in self.held]
        self.groups = {
            (stage, kind): EqualGroups.of(grid.groups(stage, along))
            for stage in range(len(grid.stages))
            for kind, along in (AMONG | GRADIENTS).items()
            if grid.members(along) > 1
        }
        self.buckets = [bucket for stage in range(len(grid.stages)) for bucket in self._buckets_of(stage)]
        self.ties = ties_of(workload, grid)

    def parts(self, stage: int) -> list[BackwardPart]:
        """Return the last backward pass of a stage, cut after each layer that completes a bucket."""
        layers = [layer.name for layer, _ in reversed(self.held[stage])]
        completes = {bucket.layer: number for number, bucket in enumerate(self.buckets) if bucket.stage == stage}
        ends = [number + 1 for number, name in enumerate(layers) if name in completes or name == layers[-1]]
        return [
            BackwardPart(slice(first, end), completes.get(layers[end - 1]))
            for first, end in zip([0, *ends], ends, strict=False)
        ]

    def forward(self, instruction: Instruction) -> None:
        stage = instruction.of
        self._work(instruction, True, self.works[stage][0], f"forward {stage}.{instruction.microbatch}")

    def backward(self, instruction: Instruction) -> None:
        stage = instruction.of
        name, work = f"backward {stage}.{instruction.microbatch}", self.works[stage][1]
        if instruction.part is not None:
            part = self.held[stage][::-1][instruction.part]
            name, work = f"{name} {part[-1][0].name}", backward_work(self.workload, self.grid, part)
        self._work(instruction, False, work, name)

    def _work(self, instruction: Instruction, forward: bool, work: PassWork, name: str) -> None:
        """Add compute and collectives on every server of the stage."""
        servers = self.servers[instruction.of]
        computes = self.tasks.compute(Label(name, True), servers, work.seconds)
        self.tasks.wait(computes[:, None], self.busy[servers])
        arrived = self.arrived.pop(Pass(instruction.of, instruction.microbatch, forward), None)
        if arrived is not None:
            self.tasks.wait(computes, arrived)
        ends = self.exchange.none(2)
        ends[servers, 0] = computes
        for op, bytes in work.sent.items():
            groups = self.groups.get((instruction.of, op))
            if groups is not None and bytes:
                ends = self.exchange.collective(op, bytes, groups, ends, Label(f"{op} {name}"))
        self.busy[servers] = ends[servers]

    def send(self, instruction: Instruction) -> None:
        """Add transfers from every server of the stage to the server at the same position of the other stage."""
        stage, to, microbatch = instruction.of, instruction.to, instruction.microbatch
        forward, source = to > stage, self.servers[stage]
        label = Label(f"{'activations' if forward else 'gradients'} {stage}.{microbatch}", True)
        sends = self.tasks.transfer(label, source, self.servers[to], self.handover[min(stage, to)])
        self.tasks.wait(sends[:, None], self.busy[source])
        self.arrived[Pass(to, microbatch, forward)] = sends

    def reduce(self, instruction: Instruction) -> None:
        stage, kind, bytes, layer = self.buckets[instruction.of]
        label, servers = Label(f"bucket {layer}"), self.servers[stage]
        reduces = self.exchange.queued("all_reduce", bytes, self.groups[stage, kind], self.busy, label)
        self.reduced[servers, list(GRADIENTS).index(kind)] = reduces[servers]

    def tie(self, instruction: Instruction) -> None:
        """Add up the gradients of a matrix that two stages hold, between GPUs at the same position."""
        stages, bytes, layer = self.ties[instruction.of]
        pairs = np.stack([self.servers[stage] for stage in stages], axis=1)
        after = np.concatenate([self.busy, self.reduced], axis=1)
        ends = self.exchange.collective("all_reduce", bytes, EqualGroups(pairs, 1, 1), after, Label(f"tied {layer}"))
        self.reduced[pairs] = NONE
        self.reduced[pairs, 0] = ends[pairs, 0]

    def update(self, instruction: Instruction) -> None:
        servers = self.servers[instruction.of]
        seconds = step_seconds(self.workload, sum(elements for _, elements in self.held[instruction.of]))
        updates = self.tasks.compute(Label("optimizer", True), servers, seconds)
        self.tasks.wait(updates[:, None], np.concatenate([self.busy, self.reduced], axis=1)[servers])

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


def held_by_stage(workload: LayerGraph, grid: ParallelGrid) -> list[Held]:
    """Return the layers that a GPU of each stage holds, with the elements of each."""
    layers = {layer.name: layer for layer in workload.layers}
    return [[(layers[name], size) for name, size in stage.items()] for stage in grid.rank_parameters(workload)]


def ties_of(workload: LayerGraph, grid: ParallelGrid) -> list[Tie]:
    """Return the matrices that two stages hold, with the bytes of all GPUs of a server."""
    stage_of = {name: stage for stage, names in enumerate(grid.stages) for name in names}
    ties = []
    for stage, held in enumerate(held_by_stage(workload, grid)):
        for layer, elements in held:
            shares = layer.sharding.shares if layer.sharding is not None else None
            if shares is not None and stage_of[shares] != stage:
                bytes = elements * workload.element_bytes * grid.gpus_per_server
                ties.append(Tie((stage_of[shares], stage), bytes, layer.name))
    return ties


def handover_bytes(workload: LayerGraph, grid: ParallelGrid) -> list[float]:
    """Return the bytes of a microbatch that a server sends from stage i to i + 1.

    Each tensor and context rank sends its part (scatter/gather; Narayanan et al., SC 2021, section 4.1). Outputs that
    only a later stage reads are passed on by the stages between.
    """
    stage_of = {name: stage for stage, names in enumerate(grid.stages) for name in names}
    last = {layer.name: stage_of[layer.name] for layer in workload.layers}  # layer -> the last stage that reads it
    for layer in workload.layers:
        for earlier in layer.after:
            last[earlier] = max(last[earlier], stage_of[layer.name])
    ranks = grid.gpus_per_server / grid.sharing  # replicas on a server; less than 1 if a replica has several servers
    return [
        sum(layer.output_elements for layer in workload.layers if stage_of[layer.name] <= stage < last[layer.name])
        * grid.samples(workload)
        * workload.element_bytes
        * ranks
        for stage in range(len(grid.stages) - 1)
    ]
