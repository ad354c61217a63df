"""Lowering of a grid strategy: stages, microbatches, and the collectives of tensor, context and expert ranks.

    forward    per microbatch and stage, in the order of the program (``program.of_grid``): every server of the stage
    backward   computes its layers, then the collectives of the layers follow
    send       activations, or their gradients, go to the server at the same position of the next stage
    reduce     the backward pass that completes the gradients is cut where it completes a bucket; the bucket is then
               all-reduced among the replicas, concurrently with the rest of the pass. With ZeRO it is reduce-scattered,
               with ZeRO 2 and 3 in every microbatch, and all-reduced between replicas of the divided state
    gather     parameters are all-gathered after the update (ZeRO 1 and 2), or before the passes of their unit (ZeRO 3),
               at most ``prefetch`` units ahead
    tie        a tied head and its embedding, in two stages, add up their gradients
    update     once per server, after its last reduction; with ZeRO each rank updates its part

Aggregation: the GPUs of a server do equal work, so a pass is one task per server. The collectives of one kind and
size in a pass are one task after its compute, with the number of those of all its layers; a real job has two per block,
between its computes. NCCL takes the time of as many calls; by other algorithms the network's latency counts once. A GPU
begins its next pass when these collectives are done; the send to the next stage overlaps with that pass.

Overlap: while a collective runs, multiplications run at ``Efficiency.overlap`` of their speed. So that part of each
gather and reduction is concurrent with compute, and compute waits for the rest. With ``async_tensor`` and
``async_expert`` the same is true of the collectives of a pass: they begin with its compute.

The all-reduces of norms' gradients among tensor ranks, and of the loss, are left out, since they are small.

All passes of a stage of one kind are equal. The tasks of one are written once and pasted for every microbatch.

Shapes: n servers of a stage, G groups; ``PastedTasks`` [n, w] are up to w tasks of each server of a stage, in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from topoflow.arrays import Offsets
from topoflow.strategy.grid import GRADIENTS, ParallelGrid, is_root, units_of
from topoflow.strategy.schedules import table_of
from topoflow.strategy.schedules.base import Pass
from topoflow.traffic.base import Label, Traffic
from topoflow.traffic.buckets import fill
from topoflow.traffic.columns import Columns, Part, PastedTasks
from topoflow.traffic.grid.side_by_side import CollectiveWriter, Ends, EqualGroups
from topoflow.traffic.grid.stage_work import (
    GATHER_INPUTS,
    IN_NODES,
    OPERATION,
    Calls,
    PassWork,
    backward_work,
    forward_work,
    hidden_part,
    pass_groups,
    split_backward_work,
)
from topoflow.traffic.program import Instruction, LayerGroup, StageParts, of_grid
from topoflow.traffic.roofline import step_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, LayerGraph

PASS_NAMES = {"F": "forward", "B": "backward", "I": "input gradients", "W": "weight gradients"}
Held = Sequence[tuple[Layer, float]]  # layers, and the parameters that a GPU holds of each


class StageBucket(NamedTuple):
    """Parameters of one stage that are gathered and reduced together."""

    stage: int
    kind: str  # key of ``GRADIENTS``: the axes of the replicas
    elements: float
    layers: tuple[str, ...]  # in the order of the backward pass

    @property
    def layer(self) -> str:
        """Return the layer whose gradients complete the bucket."""
        return self.layers[-1]


class StagePass(NamedTuple):
    """The tasks of a pass: n that begin it, then compute and collectives, of which ``ends`` [n, w] end it.

    They wait until the parameters of the buckets ``needed`` are gathered.
    """

    tasks: Part
    ends: Offsets
    needed: Sequence[int]


class CallsOfGroups(NamedTuple):
    """Equal collectives of a pass, in each of some groups."""

    kind: str  # of ``stage_work.AMONG``
    bytes: float  # of one member's buffer
    calls: int
    groups: EqualGroups


class Reduction(NamedTuple):
    """The part of a bucket's reduction that is not yet written."""

    op: str
    bytes: float
    bucket: StageBucket
    kind: str  # of its communicator


class Tie(NamedTuple):
    """A matrix that two stages hold."""

    stages: tuple[int, int]
    bytes: float
    layer: str


def lower_pipelined(workload: LayerGraph, grid: ParallelGrid, passes: Sequence[Pass] | None = None) -> Traffic:
    """Return the traffic of one iteration; ``passes`` None are those of the grid's schedule."""
    iteration = _Iteration(workload, grid)
    if passes is None:
        passes = table_of(grid.schedule, grid.pipeline, grid.microbatches, len(grid.stages)).order
    parts = [iteration.parts(stage) for stage in range(len(grid.stages))]
    gathered = len(iteration.buckets) if grid.zero in (1, 2) else 0
    for instruction in of_grid(passes, parts, len(iteration.ties), gathered):
        getattr(iteration, instruction.name)(instruction)
    name = f"{workload.name} {grid.name}"
    return iteration.tasks.traffic(name, grid.servers, workload.gpu.exchange_bandwidth, grid.gpus_per_server)


class _Iteration:
    """The tasks so far, and the tasks that each server waits for."""

    def __init__(self, workload: LayerGraph, grid: ParallelGrid) -> None:
        self.workload, self.grid = workload, grid
        self.tasks = Columns()
        self.exchange = CollectiveWriter(self.tasks, grid.servers, workload.gpu.exchange_bandwidth)
        self.held = held_by_stage(workload, grid)
        self.servers = [np.array(grid.stage_servers(stage)) for stage in range(len(grid.stages))]
        self.order = np.arange(grid.servers_per_stage)  # [n]
        self.passes: dict[tuple[int, str, tuple[int, int] | None], StagePass] = {}
        self.works: dict[object, PassWork] = {}
        self.sends: dict[tuple[int, int], Part] = {}
        self.collectives: dict[tuple[str, float, int, str, Label], Part] = {}
        self.busy: dict[int, PastedTasks] = {}  # pipeline rank -> [n, w] the tasks that end its latest pass
        # (stage, microbatch, forward) -> [n] the transfers that bring the input of this pass to each server
        self.arrived: dict[tuple[int, int, bool], PastedTasks] = {}
        # pipeline rank -> kind of its latest reductions -> [n] these
        self.reduced: dict[int, dict[str, PastedTasks]] = {rank: {} for rank in range(grid.pipeline)}
        self.unreduced: dict[int, list[Reduction]] = {rank: [] for rank in self.reduced}  # likewise, of each rank
        self.latest: dict[tuple[int, str], PastedTasks] = {}  # communicator -> [G] its latest collective
        self.of_groups: dict[tuple[int, int], Offsets] = {}
        measured = workload.gpu.measured
        self.overlap = 1.0 if measured is None else measured.overlap
        self.gathered: dict[int, PastedTasks] = {}  # bucket -> [n] the latest gather
        self.incomplete: set[int] = set()  # buckets whose latest gather is the part that is concurrent with compute
        self.handover = handover_bytes(workload, grid)
        stage_of = dict(zip(grid.stage_ranks, range(len(grid.stages)), strict=True))  # pipeline rank -> a stage
        state = {
            kind: along
            for kind, along in (GRADIENTS | {"replicate": ("replicate",)}).items()
            if grid.members(along) > 1
        }
        self.groups = {
            (rank, kind): EqualGroups.of(groups)
            for rank, stage in stage_of.items()
            for kind, groups in (
                pass_groups(workload, grid, stage) | {kind: grid.groups(stage, along) for kind, along in state.items()}
            ).items()
        }
        runs = [self._units(held) for held in self.held]
        self.units = [[tuple(layer.name for layer, _ in run) for run in stage] for stage in runs]
        self.root = {run[0][0].name for stage in runs for run in stage if is_root(run)}  # first layers of its runs
        self.buckets = [bucket for stage in range(len(grid.stages)) for bucket in self._buckets_of(stage)]
        self.needed = self._needed() if grid.zero == 3 else {}
        self.ties = ties_of(workload, grid)

    def _units(self, held: Held) -> list[list[tuple[Layer, float]]]:
        return units_of(held, self.workload.element_bytes, self.grid.bucket_bytes) if self.grid.zero == 3 else []

    def _needed(self) -> dict[str, tuple[int, ...]]:
        """Return the buckets that a pass of each unit needs, by the first layer of the unit, in both directions."""
        bucket_of = defaultdict[str, list[int]](list)
        for number, bucket in enumerate(self.buckets):
            for name in bucket.layers:
                bucket_of[name].append(number)
        needed = {}
        for unit in (unit for stage in self.units for unit in stage):
            buckets = tuple(dict.fromkeys(number for name in unit for number in bucket_of[name]))
            needed[unit[0]] = needed[unit[-1]] = buckets
        return needed

    def parts(self, stage: int) -> StageParts:
        """Return the parts of the passes of a stage.

        The last backward pass is cut after each layer that completes a bucket, with ZeRO 2 and 3 every one. With ZeRO 3
        all passes are cut between units too.
        """
        names = [layer.name for layer, _ in self.held[stage]]
        completes = {bucket.layer: number for number, bucket in enumerate(self.buckets) if bucket.stage == stage}
        units = self.units[stage]
        forward = cut_after(names, [unit[-1] for unit in units])
        gathers = self._gathers_ahead([names[first] for first, _ in forward], {unit[0]: unit for unit in units})
        names.reverse()
        backward = cut_after(names, [*completes, *(unit[0] for unit in units)])
        again = {unit[-1]: unit for unit in units if unit[0] not in self.root}
        gathers_again = self._gathers_ahead([names[first] for first, _ in backward], again)
        last = [
            LayerGroup(slice(first, end), gathers, completes.get(names[end - 1]))
            for (first, end), gathers in zip(backward, gathers_again, strict=True)
        ]
        if self.grid.zero < 2:
            return StageParts([LayerGroup()], [LayerGroup()], last)
        if self.grid.zero == 2:
            return StageParts([LayerGroup()], last, last)
        ahead = [LayerGroup(slice(*run), buckets) for run, buckets in zip(forward, gathers, strict=True)]
        return StageParts(ahead, last, last)

    def _gathers_ahead(self, firsts: Sequence[str], units: Mapping[str, Sequence[str]]) -> list[tuple[int, ...]]:
        """Return the buckets that are gathered before each part of a pass: ``prefetch`` units before they are needed.

        ``firsts`` has the first layer of each part, ``units`` the gathered units by their first layer in the pass. A
        bucket is gathered once in a pass.
        """
        starts = [number for number, first in enumerate(firsts) if first in self.needed]
        ahead: list[tuple[int, ...]] = [() for _ in firsts]
        issued: set[int] = set()
        for number, start in enumerate(starts):
            unit = units.get(firsts[start], ())
            buckets = dict.fromkeys(bucket for name in unit for bucket in self.needed.get(name, ()))
            ahead[starts[max(number - self.grid.prefetch, 0)]] += tuple(buckets.keys() - issued)
            issued |= buckets.keys()
        return ahead

    def stage_pass(self, instruction: Instruction) -> None:
        """Add compute and collectives of a pass on every server of the stage."""
        _, stage, microbatch, kind, part, _ = instruction
        rank = self.grid.stage_ranks[stage]
        key = stage, kind, part and (part.start, part.stop)
        written = self.passes.get(key)
        if written is None:
            written = self.passes[key] = self._pass(stage, kind, part)
        for bucket in written.needed:
            self._gather_rest(bucket)
        computes = PastedTasks(self.tasks.paste(written.tasks, microbatch), self.order)
        earlier = [self.busy.get(rank), *(self.gathered.get(bucket) for bucket in written.needed)]
        if kind != "W":
            earlier.append(self.arrived.pop((stage, microbatch, kind == "F"), None))
        for tasks in earlier:
            if tasks is not None:
                self.tasks.followed.add(computes, tasks)
        self.busy[rank] = PastedTasks(computes.first, written.ends)

    def _pass(self, stage: int, kind: str, layers: slice | None) -> StagePass:
        """Return the tasks of a pass through ``layers`` of a stage, in the order of the pass; None: all."""
        part, stem, rest = self.held[stage], f"{PASS_NAMES[kind]} {stage}.", ""
        if layers is not None:
            part = (part if kind == "F" else part[::-1])[layers]
            rest = f" {part[-1][0].name}"
        work, tasks = self._work(kind, part), self.tasks.part()
        exchange, servers = self.exchange.into(tasks), self.servers[stage]
        hidden, exposed = self._calls(stage, kind, layers, work)
        ends = exchange.none(2)
        if hidden:
            ends[servers, 0] = begin = tasks.compute(Label(f"begin {stem}", True, rest), servers, 0.0)
            overlapping = _in_turn(exchange, hidden, ends, f"hidden {stem}", rest)
        ends[servers, 0] = computes = tasks.compute(Label(stem, True, rest), servers, work.seconds)
        if hidden:
            tasks.wait(computes, begin)
            ends = np.concatenate([ends, overlapping], axis=1)
        ends = _in_turn(exchange, exposed, ends, stem, rest)[servers]
        if work.launch > work.seconds:  # the GPU waits for its host, which launches the collectives too
            label, seconds = Label(f"launches {stem}", rest=rest), work.launch - work.seconds
            launches = tasks.compute(label, np.full(len(servers), NONE), seconds)
            tasks.wait(launches, computes)
            ends = np.column_stack([ends, launches])
        needed = [bucket for layer, _ in part for bucket in self.needed.get(layer.name, ())] if self.needed else []
        return StagePass(tasks, ends, needed)

    def _calls(
        self, stage: int, kind: str, layers: slice | None, work: PassWork
    ) -> tuple[list[CallsOfGroups], list[CallsOfGroups]]:
        """Return the collectives of a pass that overlap with its compute, and those that follow it."""
        hidden, exposed = list[CallsOfGroups](), list[CallsOfGroups]()
        for kind_of, sizes in (*self._gathered_input(stage, kind, layers), *work.sent.items()):
            groups = self.groups.get((self.grid.stage_ranks[stage], kind_of))
            if groups is None:
                continue
            part = hidden_part(self.workload, self.grid, kind_of)
            for bytes, calls in sizes.items():
                overlapping = int(part * calls)
                hidden.append(CallsOfGroups(kind_of, bytes, overlapping, groups))
                exposed.append(CallsOfGroups(kind_of, bytes, calls - overlapping, groups))
        return [calls for calls in hidden if calls.calls], [calls for calls in exposed if calls.calls]

    def _gathered_input(self, stage: int, kind: str, layers: slice | None) -> list[tuple[str, Calls]]:
        """Return the gather of the parts that tensor ranks receive from another stage, if they do not divide positions.

        Source: Narayanan et al., SC 2021, section 4.1.
        """
        sent = [0.0, *self.handover, 0.0][stage if kind == "F" else stage + 1]
        begins = kind != "W" and (layers is None or not layers.start)
        if self.grid.repeats == 1 or not begins or not sent:
            return []
        return [(GATHER_INPUTS, Calls([sent * self.grid.tensor / self.grid.gpus_per_server]))]

    def _work(self, kind: str, part: Held) -> PassWork:
        """Return the work of a pass, which parts with equal layers share."""
        cuts = [layer.sharding for layer, _ in part]
        in_block = tuple(cut is not None and cut.block is not None for cut in cuts)
        alike = tuple((self.workload.alike[layer.name], elements) for layer, elements in part)
        key = kind, alike, in_block
        if key not in self.works:
            if kind in "IW":
                self.works[key] = split_backward_work(self.workload, self.grid, part)[kind == "W"]
            else:
                work_of = forward_work if kind == "F" else backward_work
                self.works[key] = work_of(self.workload, self.grid, part)
        return self.works[key]

    def gather(self, instruction: Instruction) -> None:
        """Gather the parameters of a bucket: with ZeRO 3 the part that is concurrent with compute."""
        bucket = instruction.of
        if self.grid.zero < 3:
            self._gather(bucket, 1.0)
        else:
            for earlier in sorted(self.incomplete):
                self._gather_rest(earlier)
            self._gather(bucket, self.overlap)
            self.incomplete.add(bucket)

    def _gather_rest(self, bucket: int) -> None:
        if bucket in self.incomplete and self.overlap < 1:
            self._gather(bucket, 1 - self.overlap)
        self.incomplete.discard(bucket)

    def _gather(self, number: int, part: float) -> None:
        bucket = self.buckets[number]
        rank = self.grid.stage_ranks[bucket.stage]
        if (rank, bucket.kind) in self.groups:
            bytes, label = part * bucket.elements * self.workload.element_bytes, Label(f"all_gather {bucket.layer}")
            after = filter(None, [self.busy.get(rank)])
            self.gathered[number] = self._queued("all_gather", bytes, bucket.stage, bucket.kind, after, label)

    def _queued(
        self, op: str, bytes: float, stage: int, kind: str, after: Iterable[PastedTasks], label: Label
    ) -> PastedTasks:
        """Add a collective of every group, next on its communicator. Return the task [n] of each server."""
        groups = self.groups[self.grid.stage_ranks[stage], kind]
        key = op, bytes, stage, kind, label
        if key not in self.collectives:
            self.collectives[key] = self.tasks.part()
            self.collectives[key].collective(label, self.exchange.rows(op, groups), bytes * groups.side_by_side)
        tasks = PastedTasks(self.tasks.paste(self.collectives[key]), groups.number)
        for first, offset in after:
            of_groups = self.of_groups.setdefault((id(offset), id(groups)), offset[groups.places])
            self.tasks.followed.add(tasks, PastedTasks(first, of_groups))
        if (stage, kind) in self.latest:
            for followed in (self.tasks.followed, self.tasks.followed_in_queues):
                followed.add(tasks, self.latest[stage, kind])
        self.latest[stage, kind] = tasks
        return PastedTasks(tasks.first, groups.number_at)

    def send(self, instruction: Instruction) -> None:
        """Add transfers from every server of the stage to the server at the same position of the other stage."""
        stage, to, microbatch = instruction.of, instruction.to, instruction.microbatch
        rank = self.grid.stage_ranks[stage]
        if rank == self.grid.stage_ranks[to]:
            return  # a rank does its passes in order
        forward = to > stage
        if (stage, to) not in self.sends:
            self.sends[stage, to] = self.tasks.part()
            label = Label(f"{'activations' if forward else 'gradients'} {stage}.", True)
            ends = self.servers[stage], self.servers[to]
            self.sends[stage, to].transfer(label, *ends, self.handover[min(stage, to)])
        sends = PastedTasks(self.tasks.paste(self.sends[stage, to], microbatch), self.order)
        self.tasks.followed.add(sends, self.busy[rank])
        self.arrived[to, microbatch, forward] = sends

    def reduce(self, instruction: Instruction) -> None:
        """Reduce the gradients of a bucket: the part that is concurrent with compute."""
        bucket = self.buckets[instruction.of]
        rank = self.grid.stage_ranks[bucket.stage]
        self._reduce_rest(rank)
        whole = bucket.elements * self.grid.gradient_bytes(self.workload)
        op = "reduce_scatter" if self.grid.zero else "all_reduce"
        for reduction in (
            Reduction(op, whole, bucket, bucket.kind),
            Reduction("all_reduce", whole / self.grid.divided(bucket.kind), bucket, "replicate"),
        ):
            if (rank, reduction.kind) in self.groups:
                self.reduced[rank][f"{bucket.kind} {reduction.kind}"] = self._reduce(reduction, self.overlap)
                self.unreduced[rank].append(reduction)

    def _reduce_rest(self, rank: int) -> None:
        """Reduce the rest of the latest bucket of a pipeline rank, for which its compute waits."""
        if self.overlap < 1:
            for reduction in self.unreduced[rank]:
                self.busy[rank] = self._reduce(reduction, 1 - self.overlap)
                self.reduced[rank][f"{reduction.bucket.kind} {reduction.kind}"] = self.busy[rank]
        self.unreduced[rank] = []

    def _reduce(self, reduction: Reduction, part: float) -> PastedTasks:
        op, bytes, bucket, kind = reduction
        rank = self.grid.stage_ranks[bucket.stage]
        label = Label(f"{op} {bucket.layer}" if self.grid.zero else f"bucket {bucket.layer}")
        after = self._latest_of(rank) if kind == "replicate" else [self.busy[rank]]
        return self._queued(op, part * bytes, bucket.stage, kind, after, label)

    def _latest_of(self, rank: int) -> list[PastedTasks]:
        """Return the tasks that end the latest pass and the latest reductions of a pipeline rank."""
        return [self.busy[rank], *self.reduced[rank].values()]

    def tie(self, instruction: Instruction) -> None:
        """Add up the gradients of a matrix that two stages hold, between GPUs at the same position."""
        stages, bytes, layer = self.ties[instruction.of]
        ranks = [self.grid.stage_ranks[stage] for stage in stages]
        for rank in ranks:
            self._reduce_rest(rank)
        pairs = EqualGroups(np.stack([self.servers[stage] for stage in stages], axis=1), 1, 1)
        added = self.tasks.collective(Label(f"tied {layer}"), self.exchange.rows("all_reduce", pairs), bytes)
        tasks = PastedTasks(int(added[0]), self.order)
        for earlier in (earlier for rank in ranks for earlier in self._latest_of(rank)):
            self.tasks.followed.add(tasks, earlier)
        for rank in ranks:
            self.reduced[rank] = {"tied": tasks}

    def update(self, instruction: Instruction) -> None:
        servers, rank = self.servers[instruction.of], self.grid.stage_ranks[instruction.of]
        self._reduce_rest(rank)
        elements = (size / self.grid.divided(self.grid.gradients(layer)) for layer, size in self.held[instruction.of])
        added = self.tasks.compute(Label("optimizer", True), servers, step_seconds(self.workload, sum(elements)))
        updates = PastedTasks(int(added[0]), self.order)
        for earlier in self._latest_of(rank):
            self.tasks.followed.add(updates, earlier)
        if self.grid.zero:
            self.busy[rank] = updates

    def _buckets_of(self, stage: int) -> list[StageBucket]:
        """Return the buckets of a stage: by size, or with ZeRO 3 those of each unit and of the root."""
        rank, cap, buckets = self.grid.stage_ranks[stage], self.grid.bucket_bytes, []
        for kind in GRADIENTS:
            if not ({(rank, kind), (rank, "replicate")} & self.groups.keys()):
                continue
            sizes = gradient_sizes(self.workload, self.grid, self.held[stage], kind)
            if self.grid.zero < 3:
                filled = fill((), sizes, cap, cap)
            else:
                filled = [
                    bucket
                    for names in self._gathered_together(stage)
                    for bucket in fill((), [size for size in sizes if size[0] in names], inf, inf)
                ]
            buckets += [
                StageBucket(stage, kind, bucket.bytes / self.workload.element_bytes, bucket.layers) for bucket in filled
            ]
        return buckets

    def _gathered_together(self, stage: int) -> list[tuple[str, ...]]:
        """Return the layers of the root, and those of each unit."""
        root = tuple(name for unit in self.units[stage] if unit[0] in self.root for name in unit)
        return [root, *(unit for unit in self.units[stage] if unit[0] not in self.root)]


def _in_turn(exchange: CollectiveWriter, calls: Sequence[CallsOfGroups], begun: Ends, stem: str, rest: str) -> Ends:
    """Add collectives one after another; those in nodes run with those between nodes. Return the tasks that end all."""
    ends = begun
    for kind, bytes, number, groups in calls:
        begun = begun if kind == IN_NODES else ends
        label = Label(f"{kind} {stem}", rest=rest)
        added = exchange.collective(OPERATION.get(kind, kind), bytes * number, groups, begun, label, number)
        ends = np.concatenate([ends, added], axis=1) if kind == IN_NODES else added
    return ends


def gradient_sizes(workload: LayerGraph, grid: ParallelGrid, held: Held, kind: str) -> list[tuple[str, float]]:
    """Return the layers with gradients of a ``kind`` (key of ``GRADIENTS``) and their bytes, in backward order."""
    return [
        (layer.name, elements * workload.element_bytes)
        for layer, elements in reversed(held)
        if elements and grid.gradients(layer) == kind
    ]


def cut_after(names: Sequence[str], last: Collection[str]) -> list[tuple[int, int]]:
    """Return the bounds of the parts of a pass over the layers ``names``, which end with the layers ``last``."""
    ends = [number + 1 for number, name in enumerate(names) if name in last or name == names[-1]]
    return list(zip([0, *ends], ends, strict=False))


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
    sent = [0.0] * (len(grid.stages) - 1)  # elements of a sample
    for layer in workload.layers:
        for stage in range(stage_of[layer.name], last[layer.name]):
            sent[stage] += layer.output_elements
    return [
        elements
        * grid.samples(workload)
        * workload.element_bytes
        * ranks
        * (grid.stage_ranks[stage] != grid.stage_ranks[stage + 1])
        for stage, elements in enumerate(sent)
    ]
