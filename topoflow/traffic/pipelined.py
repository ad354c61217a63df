"""Lowering of a strategy with a grid: stages, microbatches, and the collectives of tensor, context and expert ranks.

    pass        per microbatch, stage and direction, in 1F1B order: every server of the stage computes its layers, then
                come the collectives that the layers need, and the activations (or their gradients) go to the server in
                the same place of the next stage
    gradients   the backward pass of the last microbatch is cut where it completes a bucket, which is then all-reduced
                among the replicas, beside the rest; a tied head and its embedding add up theirs at the end
    optimizer   one update per server, behind its last all-reduce

What is aggregated: the GPUs of a server work alike, so a pass is one task per server; the collectives of one kind in a
pass are one task with the bytes of all its layers, behind its compute, where a real job has two per block in between.
Bytes and seconds are those of all of them; of the latency of the network there is that of one. A GPU begins its next
pass when these collectives are done; what it sends to the next stage goes beside that.

Left out, as it is small: the all-reduces of norms' gradients among tensor ranks, and of the loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from topoflow.strategy.grid import GRADIENTS, Grid, Group
from topoflow.traffic.base import Compute, Traffic, Transfer
from topoflow.traffic.buckets import Bucket, fill
from topoflow.traffic.one_f_one_b import Pass, one_f_one_b
from topoflow.traffic.roofline import step_seconds
from topoflow.traffic.side_by_side import Ends, Tasks, ascending
from topoflow.traffic.stage_work import AMONG, Work, backward_work, forward_work
from topoflow.workload.base import Layer, LayerGraph

Held = Sequence[tuple[Layer, float]]  # layers, and the parameters that a GPU holds of each


def lower_pipelined(workload: LayerGraph, grid: Grid) -> Traffic:
    """The traffic of one iteration."""
    iteration = _Iteration(workload, grid)
    for one in one_f_one_b(grid.pipeline, grid.microbatches):
        if one.forward:
            iteration.forward(one)
        else:
            iteration.backward(one)
    iteration.tied()
    iteration.update()
    return Traffic.from_tasks(
        name=f"{workload.name} {grid.name}",
        servers=grid.servers,
        tasks=iteration.tasks.listed,
        local_bandwidth=workload.gpu.local_bandwidth,
    )


class _Iteration:
    """The tasks so far, and what each server waits for."""

    def __init__(self, workload: LayerGraph, grid: Grid) -> None:
        self.workload, self.grid = workload, grid
        self.tasks = Tasks(workload.gpu.local_bandwidth)
        layers = {layer.name: layer for layer in workload.layers}
        self.held: list[Held] = [
            [(layers[name], elements) for name, elements in stage.items()] for stage in grid.rank_parameters(workload)
        ]
        self.busy: Ends = dict.fromkeys(range(grid.servers), ())  # what ended a server's latest pass
        self.arrived: dict[Pass, Ends] = {}  # what brings a pass its input
        self.reduced: Ends = dict.fromkeys(range(grid.servers), ())  # all-reduces of a server's gradients
        self.parcels = parcels(workload, grid)
        self.works = [(forward_work(workload, grid, held), backward_work(workload, grid, held)) for held in self.held]
        self.groups = {
            (stage, kind): grid.groups(stage, along)
            for stage in range(grid.pipeline)
            for kind, along in (AMONG | GRADIENTS).items()
            if grid.members(along) > 1
        }

    def forward(self, one: Pass) -> None:
        self._work(one, self.works[one.stage][0], f"forward {one.stage}.{one.microbatch}")
        if one.stage + 1 < self.grid.pipeline:
            self._send(one, one.stage + 1, "activations")

    def backward(self, one: Pass) -> None:
        name = f"backward {one.stage}.{one.microbatch}"
        if one.microbatch == self.grid.microbatches - 1:
            self._last_backward(one, name)
        else:
            self._work(one, self.works[one.stage][1], name)
        if one.stage > 0:
            self._send(one, one.stage - 1, "gradients")

    def _work(self, one: Pass, work: Work, name: str) -> None:
        """Compute and collectives on every server of the stage."""
        arrived = self.arrived.pop(one, {})
        ends: Ends = {}
        for server in self.grid.stage_servers(one.stage):
            awaited = ascending((*self.busy[server], *arrived.get(server, ())))
            ends[server] = (self.tasks.add(Compute(work.seconds, server, awaited, f"{name} @{server}")),)
        for op, bytes in work.sent.items():
            groups = self.groups.get((one.stage, op))
            if groups and bytes:
                ends = self.tasks.collective(op, bytes, groups, ends, f"{op} {name}")
        self.busy |= ends

    def _send(self, one: Pass, stage: int, what: str) -> None:
        """From every server of the stage to the one in the same place of ``stage``."""
        bytes = self.parcels[min(one.stage, stage)]
        arrived: Ends = {}
        for source, target in zip(self.grid.stage_servers(one.stage), self.grid.stage_servers(stage), strict=True):
            name = f"{what} {one.stage}.{one.microbatch} {source}>{target}"
            arrived[target] = (self.tasks.add(Transfer(bytes, source, target, self.busy[source], name)),)
        self.arrived[Pass(stage, one.microbatch, one.forward)] = arrived

    def _last_backward(self, one: Pass, name: str) -> None:
        """The pass that completes the gradients: cut behind each layer that completes a bucket."""
        closing = self._buckets(one.stage)
        latest: dict[str, Ends] = defaultdict(lambda: dict.fromkeys(self.grid.stage_servers(one.stage), ()))
        piece: list[tuple[Layer, float]] = []
        for position, held in enumerate(reversed(self.held[one.stage])):
            piece.append(held)
            closed = closing.get(held[0].name, [])
            if closed or position == len(self.held[one.stage]) - 1:
                self._work(one, backward_work(self.workload, self.grid, piece), f"{name} {held[0].name}")
                piece = []
            for kind, bucket in closed:
                after = {server: (*self.busy[server], *waits) for server, waits in latest[kind].items()}
                groups = self.groups[one.stage, kind]
                latest[kind] = self.tasks.collective(
                    "all_reduce", bucket.bytes, groups, after, f"bucket {held[0].name}"
                )
        for ends in latest.values():
            self.reduced |= {server: (*self.reduced[server], *waits) for server, waits in ends.items()}

    def _buckets(self, stage: int) -> Mapping[str, list[tuple[str, Bucket]]]:
        """Layer -> (kind, bucket) that its backward pass completes."""
        closing: dict[str, list[tuple[str, Bucket]]] = defaultdict(list)
        for kind in GRADIENTS:
            sizes = [
                (layer.name, elements * self.workload.element_bytes)
                for layer, elements in reversed(self.held[stage])
                if elements and self.grid.gradients(layer) == kind
            ]
            if (stage, kind) in self.groups:
                for bucket in fill((), sizes, self.grid.bucket_bytes, self.grid.bucket_bytes):
                    closing[bucket.layers[-1]].append((kind, bucket))
        return closing

    def tied(self) -> None:
        """Gradients of a matrix that two stages hold are added up, between GPUs in the same place."""
        stage_of = {name: stage for stage, names in enumerate(self.grid.stages) for name in names}
        for stage, held in enumerate(self.held):
            for layer, elements in held:
                shares = layer.sharding.shares if layer.sharding is not None else None
                if shares is None or stage_of[shares] == stage:
                    continue
                bytes = elements * self.workload.element_bytes * self.grid.gpus_per_server
                self._add_up(stage_of[shares], stage, bytes, f"tied {layer.name}")

    def _add_up(self, first: int, second: int, bytes: float, name: str) -> None:
        for pair in zip(self.grid.stage_servers(first), self.grid.stage_servers(second), strict=True):
            after = {server: (*self.busy[server], *self.reduced[server]) for server in pair}
            self.reduced |= self.tasks.collective("all_reduce", bytes, [Group(pair, 1, 1)], after, name)

    def update(self) -> None:
        for stage, held in enumerate(self.held):
            seconds = step_seconds(self.workload, sum(elements for _, elements in held))
            for server in self.grid.stage_servers(stage):
                awaited = ascending((*self.busy[server], *self.reduced[server]))
                self.tasks.add(Compute(seconds, server, awaited, f"optimizer @{server}"))


def parcels(workload: LayerGraph, grid: Grid) -> list[float]:
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
        for stage in range(grid.pipeline - 1)
    ]
