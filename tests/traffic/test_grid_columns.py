"""The columns of a grid are the tasks of its oracle, which writes them one by one as a reader would."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from topoflow.strategy.grid import GRADIENTS, ParallelGrid, RankGroup
from topoflow.strategy.parallel import Parallel
from topoflow.strategy.schedules import table_of
from topoflow.strategy.schedules.base import Pass
from topoflow.traffic.base import Collective, Compute, Task, Transfer
from topoflow.traffic.buckets import Bucket, fill
from topoflow.traffic.grid.pipelined import handover_bytes, lower_pipelined
from topoflow.traffic.grid.side_by_side import inside_seconds
from topoflow.traffic.grid.stage_work import AMONG, OPERATION, PassWork, backward_work, forward_work
from topoflow.traffic.lower import lower
from topoflow.traffic.roofline import step_seconds
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
SIZES = {"layers": 4, "hidden": 64, "heads": 8, "key_value_heads": 4, "feed_forward": 96, "sequence": 32}
Held = Sequence[tuple[Layer, float]]


def lower_by_objects(
    workload: LayerGraph, grid: ParallelGrid, passes: Sequence[Pass]
) -> tuple[tuple[Task, ...], dict[int, int]]:
    """The tasks, and which are queued after which."""
    iteration = _Iteration(workload, grid)
    for one in passes:
        if one.kind == "F":
            iteration.forward(one)
        else:
            iteration.backward(one)
    iteration.tied()
    iteration.update()
    return tuple(iteration.tasks.listed), iteration.queued


degrees = st.sampled_from([1, 2, 4])


@settings(max_examples=60)
@given(
    rule=st.builds(
        Parallel,
        tensor=degrees,
        pipeline=degrees,
        context=degrees,
        expert=degrees,
        microbatches=st.sampled_from([None, 1, 2, 4]),
        bucket_bytes=st.sampled_from([1, 20_000, 10**8]),
    ),
    gpus=st.sampled_from([1, 2, 4, 8]),
    servers=st.sampled_from([1, 2, 4, 8, 16]),
    mixture=st.booleans(),
)
def test_the_columns_are_the_tasks_of_the_oracle(rule: Parallel, gpus: int, servers: int, mixture: bool) -> None:
    model = Moe(A100, experts=4, top_k=2, vocabulary=1000, batch_per_gpu=4, gpus_per_server=gpus, **SIZES)
    plain = Transformer(A100, vocabulary=1000, batch_per_gpu=4, gpus_per_server=gpus, **SIZES)
    workload = model.build() if mixture else plain.build()
    try:
        grid = rule.place(workload, servers)
    except ValueError:
        assume(False)
    assert isinstance(grid, ParallelGrid)
    expected = lower_by_objects(workload, grid, table_of(None, rule.pipeline, grid.microbatches, rule.pipeline).order)
    lowered = lower(workload, grid)
    assert (lowered.tasks, lowered.queued) == expected


def gpipe(stages: int, microbatches: int) -> list[Pass]:
    """All microbatches forward, then all backward (Huang et al., "GPipe", NeurIPS 2019, section 2.3)."""
    forward = [Pass(stage, number, "F") for stage in range(stages) for number in range(microbatches)]
    return forward + [Pass(stage, number, "B") for stage in reversed(range(stages)) for number in range(microbatches)]


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_another_order_of_passes_is_another_schedule(stages: int) -> None:
    workload = Transformer(A100, layers=4).build()
    grid = Parallel(pipeline=stages, microbatches=4 * stages).place(workload, 8)
    assert isinstance(grid, ParallelGrid)
    passes = gpipe(stages, grid.microbatches)
    lowered = lower_pipelined(workload, grid, passes)
    assert (lowered.tasks, lowered.queued) == lower_by_objects(workload, grid, passes)
    other = lower(workload, grid)
    assert sorted(lowered.names()) == sorted(other.names())  # the same work in another order
    assert lowered.bytes.sum() == pytest.approx(other.bytes.sum())


class _Iteration:
    """The tasks so far, and what each server waits for."""

    def __init__(self, workload: LayerGraph, grid: ParallelGrid) -> None:
        self.workload, self.grid = workload, grid
        self.tasks = Tasks(workload.gpu.local_bandwidth)
        layers = {layer.name: layer for layer in workload.layers}
        self.held: list[Held] = [
            [(layers[name], elements) for name, elements in stage.items()] for stage in grid.rank_parameters(workload)
        ]
        self.busy: Ends = dict.fromkeys(range(grid.servers), ())  # what ended a server's latest pass
        self.arrived: dict[Pass, Ends] = {}  # what brings a pass its input
        self.reduced: Ends = dict.fromkeys(range(grid.servers), ())  # all-reduces of a server's gradients
        self.queued: dict[int, int] = {}  # a bucket -> the one before it on the same communicator
        self.handover = handover_bytes(workload, grid)
        self.works = [
            (forward_work(workload, grid, stage_layers), backward_work(workload, grid, stage_layers))
            for stage_layers in self.held
        ]
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

    def _work(self, current: Pass, work: PassWork, name: str) -> None:
        """Compute and collectives on every server of the stage."""
        arrived = self.arrived.pop(current, {})
        ends: Ends = {}
        for server in self.grid.stage_servers(current.stage):
            awaited = ascending((*self.busy[server], *arrived.get(server, ())))
            ends[server] = (self.tasks.add(Compute(work.seconds, server, awaited, f"{name} @{server}")),)
        for kind, size, calls in ((kind, *item) for kind, sizes in work.sent.items() for item in sizes.items()):
            groups = self.groups.get((current.stage, kind))
            if groups:
                op = OPERATION.get(kind, kind)
                ends = self.tasks.collective(op, size * calls, groups, ends, f"{kind} {name}", calls)
        self.busy |= ends

    def _send(self, one: Pass, stage: int, what: str) -> None:
        """From every server of the stage to the one in the same place of ``stage``."""
        bytes = self.handover[min(one.stage, stage)]
        arrived: Ends = {}
        for source, target in zip(self.grid.stage_servers(one.stage), self.grid.stage_servers(stage), strict=True):
            name = f"{what} {one.stage}.{one.microbatch} {source}>{target}"
            arrived[target] = (self.tasks.add(Transfer(bytes, source, target, self.busy[source], name)),)
        self.arrived[Pass(stage, one.microbatch, one.kind)] = arrived

    def _last_backward(self, current: Pass, name: str) -> None:
        """The pass that completes the gradients: cut behind each layer that completes a bucket."""
        closing = self._buckets(current.stage)
        latest: dict[str, Ends] = defaultdict(lambda: dict.fromkeys(self.grid.stage_servers(current.stage), ()))
        piece: list[tuple[Layer, float]] = []
        for position, held_layer in enumerate(reversed(self.held[current.stage])):
            piece.append(held_layer)
            closed = closing.get(held_layer[0].name, [])
            if closed or position == len(self.held[current.stage]) - 1:
                self._work(current, backward_work(self.workload, self.grid, piece), f"{name} {held_layer[0].name}")
                piece = []
            for kind, bucket in closed:
                after = {server: (*self.busy[server], *waits) for server, waits in latest[kind].items()}
                groups = self.groups[current.stage, kind]
                earlier = latest[kind]
                latest[kind] = self.tasks.collective(
                    "all_reduce", bucket.bytes, groups, after, f"bucket {held_layer[0].name}"
                )
                self.queued |= {
                    latest[kind][server][0]: earlier_tasks[0]
                    for server, earlier_tasks in earlier.items()
                    if earlier_tasks
                }
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
            self.reduced |= self.tasks.collective("all_reduce", bytes, [RankGroup(pair, 1, 1)], after, name)

    def update(self) -> None:
        for stage, held in enumerate(self.held):
            seconds = step_seconds(self.workload, sum(elements for _, elements in held))
            for server in self.grid.stage_servers(stage):
                awaited = ascending((*self.busy[server], *self.reduced[server]))
                self.tasks.add(Compute(seconds, server, awaited, f"optimizer @{server}"))


Ends = dict[int, tuple[int, ...]]  # server -> the tasks that its next one waits for


@dataclass
class Tasks:
    """The tasks so far; a task is its position."""

    local_bandwidth: float  # B/s of one GPU to the others of its server
    listed: list[Task] = field(default_factory=list)

    def add(self, task: Task) -> int:
        self.listed.append(task)
        return len(self.listed) - 1

    def collective(
        self,
        op: str,
        bytes: float,
        groups: Sequence[RankGroup],
        after: Mapping[int, Sequence[int]],
        name: str,
        calls: int = 1,
    ) -> Ends:
        """``op`` of ``bytes`` in every group, behind ``after`` of its servers; what ends it on each server."""
        ends: Ends = {}
        for group in groups:
            waits = {server: ascending(after[server]) for server in group.servers}
            if op == "all_to_all":
                ends |= self._all_to_all(bytes, group, waits, name, calls)
            else:
                ends |= self._one(op, bytes, group, waits, name, calls)
        return ends

    def _one(self, op: str, bytes: float, group: RankGroup, waits: Ends, name: str, calls: int) -> Ends:
        size = bytes * group.side_by_side
        shape = {"local": group.local, "stride": group.stride}
        task = Collective(op, size, group.servers, together(waits), name, **shape, calls=calls)
        return dict.fromkeys(group.servers, (self.add(task),))

    def _all_to_all(self, bytes: float, group: RankGroup, waits: Ends, name: str, calls: int) -> Ends:
        count, local = len(group.servers), group.local
        ends: Ends = dict.fromkeys(group.servers, ())
        if local > 1:
            seconds = inside_seconds("all_to_all", bytes / count, local, self.local_bandwidth)
            ends = {server: (self.add(Compute(seconds, None, after, name)),) for server, after in waits.items()}
        if count > 1:
            size = bytes * local * group.side_by_side
            between = self.add(Collective("all_to_all", size, group.servers, together(waits), name, calls=calls))
            ends = {server: (*inside_tasks, between) for server, inside_tasks in ends.items()}
        return ends


def ascending(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(tasks)))


def together(waits: Ends) -> tuple[int, ...]:
    """All that any of the servers waits for."""
    return ascending(task for tasks in waits.values() for task in tasks)
