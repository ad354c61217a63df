"""Bounds: the memory of very many recipes, and a time that no simulation of them on any network is below.

Stage i of a pipeline begins when a microbatch has passed the stages before it; its rank works on all microbatches; then
the last one goes back through the stages before it. f and b are the times of the passes of a stage with their
collectives, W_i = m (f + b) of all stages of rank i, D_i the collectives of data ranks for which compute waits: where
``Efficiency.overlap`` is less than 1 all reductions, as the rest of each follows its concurrent part (but where experts
are divided only the rest, as two kinds are reduced at a time), and the rest of the gathers. The last backward pass of a
stage takes l = b + d, as it sends its gradients to the stage before it when compute no longer waits for its reductions
d. With ZeRO 2 and 3 d is not counted:

    f_0 + .. + f_{i-1}  +  W_i + D_i  +  l_{i-1} + .. + l_0  +  update

``pipelined`` goes through all passes in their order. With ZeRO 0 and 1 it goes through the last backward pass of a
stage by its parts: a bucket's reduction runs next to the part that follows, and compute then waits for the rest of it.

With v stages on a rank, the last rank ends the last pass of the last stage s before the last p passes of each of its
other stages o, and then that microbatch goes back through all stages:

    f_0 + .. + f_{p-2}  +  W_{p-1} - p (b_o + ..)  +  d_s + l_{s-1} + .. + l_0  +  update

There with ZeRO 0 and 1, l is at least the time of all reductions of the stage but the last one, as compute waits for
the rest of each before the next one begins.

Collectives of one communicator follow each other, so that all of them together are a bound too. A collective takes at
least what ``nccl_flows`` says of it alone. ``Collectives`` has that time for powers of two, by what NCCL chooses for
them or for the next ones, and takes for a size between two of them the longer of the time of the smaller one, and of
the same part of the larger one.

Layers that take equally long are one kind, and stages with the same kinds in the same order are one type: work is
computed once for each kind, mesh and microbatch.

Of ranks with equal stages the last one has the largest bound, as the most stages are before it.

Shapes: R recipes, K kinds of layers, U types of stages, p pipeline ranks with v stages each, V of them with different
stages, C meshes with a microbatch. CUTS are four: parameters that no ranks cut, that tensor ranks cut, expert ranks,
both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.collectives import nccl_flows
from topoflow.collectives.nccl_flows import Nccl
from topoflow.hardware.cluster import Cluster
from topoflow.processes import start
from topoflow.search.pipeline_passes import BucketReduction, LastPasses, PassPart, pipeline_ends
from topoflow.search.recipes import Recipes
from topoflow.strategy.grid import GRADIENTS, ParallelGrid, is_root, units_of
from topoflow.strategy.memory import RECOMPUTE, activation_elements, state_bytes_per_gpu
from topoflow.strategy.parallel import Parallel
from topoflow.strategy.schedules import kept_microbatches
from topoflow.traffic.buckets import Bucket, fill
from topoflow.traffic.grid.pipelined import Held, cut_after, gradient_sizes, handover_bytes, held_by_stage
from topoflow.traffic.grid.stage_work import (
    AMONG,
    OPERATION,
    TO_NODES,
    Calls,
    all_bytes,
    backward_seconds,
    backward_work,
    forward_seconds,
    forward_work,
    hidden_part,
)
from topoflow.traffic.roofline import step_seconds
from topoflow.units import DTYPE_BYTES
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.sharding import repeated

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

PARTS = ("compute", "tensor", "context", "expert", "pipeline", "data")  # of a step
SINGLE: dict[str, Any] = {
    "tensor": 1,
    "context": 1,
    "expert": 1,
    "replicate": 1,
    "zero": 0,
    "microbatches": None,
    "micro_batch": None,
}
BATCH = 2**21  # recipes times pipeline ranks that are bounded at once
PassArguments = tuple[LayerGraph, ParallelGrid, Held]
Shapes = dict[
    tuple[str, ...], tuple[list["GroupShape"], Numbers]
]  # axes -> shapes of groups, and the number of each recipe's
MERGED = 1e-3  # part of a transfer's duration by which ``fluid`` may end it early (``fluid.merge``)
SMALLEST, LARGEST = 10, 44  # powers of two of the sizes (B) of ``Collectives``
REPLICAS = ("replicate",)
FORWARD = len(RECOMPUTE)  # the forward pass, next to the backward passes by their recomputation
NODES = "nodes"  # of axes: one rank of each node
SENT = AMONG | {TO_NODES: ("expert", NODES)}  # collectives of a pass that follow each other
STRIDES = ("tensor", "context", "expert", "data", "replicate")  # axes of a stage, the fastest first


class GroupShape(NamedTuple):
    """The shape of a group of ranks: how many nodes it has, and the most ranks on one."""

    nodes: int
    on_node: int


@dataclass
class Collectives:
    """The least times of collectives, in tables of sizes for each operation and group."""

    cluster: Cluster
    nccl: Nccl | None  # None: they take no time, as other algorithms have no bound here
    tables: dict[tuple[str, GroupShape], tuple[Floats, Floats]] = field(default_factory=dict)

    def seconds(
        self, op: str, groups: Sequence[GroupShape], group: Numbers, bytes: Floats, queued: bool = False
    ) -> Floats:
        """Return [R, ..] the least times of ``bytes`` [R, ..] in the group with the number ``group`` [R].

        ``queued``: without the wait before the first byte, during which an earlier collective may still send.
        """
        if self.nccl is None or not bytes.any():
            return np.zeros(bytes.shape)
        tables = np.array([self._table(op, shape)[queued] for shape in groups])
        size = np.maximum(bytes, 1.0)
        power = np.clip(np.frexp(size)[1] - 1, SMALLEST, LARGEST - 1)
        of = group.reshape(-1, *(1,) * (bytes.ndim - 1))
        below, above = tables[of, power - SMALLEST], tables[of, power + 1 - SMALLEST]
        part = size * np.exp2(-(power + 1.0))
        least: Floats = np.maximum(np.where(part >= 0.5, below, 0.0), np.minimum(part, 1.0) * above)
        return np.where(bytes > 0, least, 0.0)

    def _table(self, op: str, group: GroupShape) -> tuple[Floats, Floats]:
        """Return the least times of powers of two: with the wait before the first byte, and without."""
        if (op, group) not in self.tables:
            sizes = [2.0**power for power in range(SMALLEST, LARGEST + 1)]
            assert self.nccl is not None
            whole, sending = np.array(nccl_flows.least_alone(self.cluster.node, self.nccl, op, sizes, *group)).T
            self.tables[op, group] = _least(whole), _least(sending)
        return self.tables[op, group]


def _least(seconds: Floats) -> Floats:
    """Return times that no larger size undercuts, and of which half a size takes at least half."""
    times = np.minimum.accumulate(seconds[::-1])[::-1]
    sizes = np.exp2(np.arange(len(seconds)))
    least: Floats = np.minimum.accumulate(times / sizes) * sizes
    return least


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least times of R recipes (s), and the bytes that each needs on its fullest GPU."""

    seconds: Floats  # [R] inf where the memory is too small
    memory: Floats  # [R]
    parts: Mapping[str, Floats]  # [R] of ``seconds`` by what takes them


@dataclass(frozen=True, eq=False)
class StageTypes:
    """The stages of a pipeline of p ranks with v stages each: U types, and where there are stages of each."""

    counts: Floats  # [U, K] layers of each kind
    parameters: Floats  # [U, CUTS] elements by how they are cut
    root: Floats  # [U, CUTS] those of layers around the blocks
    units: Floats  # [U, X, CUTS] those of units that are gathered together; 0 pads fewer
    ahead: Floats  # [U, Y, CUTS] those of units that are gathered ahead
    of_rank: Floats  # [V, U] stages of a rank
    before: Floats  # [V, U] stages before the first one of a rank, of equal ranks the last
    first: Numbers  # [V] the type of the first stage of a rank
    equal: Numbers  # [p] the position of each rank among the V
    of_stage: Numbers  # [p v] the type of each stage
    back: Floats  # [U] stages before the last one, less p times the other ones of the last rank
    behind: Floats  # [U] stages before the last one
    sent: Floats  # [p v - 1] B of a sample from a stage to the next
    held: Sequence[Held]  # [U] layers, and the elements of each on all ranks
    activations: dict[tuple[int, int], tuple[Floats, float]] = field(default_factory=dict)

    def activation_elements(self, recompute: int, repeats: int) -> tuple[Floats, float]:
        """Return [v, p] the elements per sample that a stage keeps, and those of a block in its backward pass.

        ``repeats`` tensor ranks do the same work (``ParallelGrid.repeats``).
        """
        if (recompute, repeats) not in self.activations:
            held = ([repeated(layer, repeats) for layer, _ in layers] for layers in self.held)
            elements = np.array([activation_elements(layers, RECOMPUTE[recompute]) for layers in held])
            of_stage = elements[self.of_stage, 0].reshape(-1, len(self.equal))
            self.activations[recompute, repeats] = of_stage, elements[:, 1].max()
        return self.activations[recompute, repeats]


@dataclass(frozen=True, eq=False)
class Work:
    """The passes of each kind of layer, by recomputation (last: the forward pass), and by mesh and microbatch."""

    number: Numbers  # [R] the mesh and microbatch of a recipe
    seconds: Floats  # [RECOMPUTE + 1, C, K]
    calls: Floats  # [RECOMPUTE + 1, C, K, SENT, 2] bytes and number of collectives


class RecipeBound:
    """Bounds of recipes of one job on nodes of GPUs; ``workload`` has one GPU per server."""

    def __init__(self, workload: LayerGraph, cluster: Cluster, nccl: Nccl | None, rule: Parallel) -> None:
        self.workload, self.cluster, self.rule = replace(workload, batch_per_gpu=1), cluster, rule
        self.collectives = Collectives(cluster, nccl)
        self.layers = {layer.name: layer for layer in workload.layers}
        first = {workload.alike[layer.name]: layer for layer in reversed(workload.layers)}
        self.kinds = [first[kind] for kind in range(len(first))]
        self.types: dict[tuple[int, int], StageTypes] = {}
        self.shares: dict[float, LayerGraph] = {}  # samples on a GPU -> the job with them
        self.grids: dict[tuple[int, int, int, str], ParallelGrid] = {}
        self.seconds: dict[tuple[tuple[int, ...], int], list[float]] = {}
        self.calls: dict[tuple[tuple[int, ...], int], Floats] = {}
        measured = workload.gpu.measured
        self.waiting = 0.0 if measured is None else 1 - measured.overlap  # part of a gather that compute waits for
        self.gradient_bytes = DTYPE_BYTES[rule.reduce_dtype or workload.dtype]

    def of(self, recipes: Recipes, most: float = np.inf, processes: int = 1) -> Bounds:
        """Return the bounds of all recipes, without a time for those that need more than ``most`` bytes.

        Each of ``processes`` bounds the recipes of some meshes.
        """
        _, mesh = _distinct(recipes.tensor, recipes.context, recipes.expert)
        shares = [np.flatnonzero(mesh % processes == number) for number in range(min(processes, mesh.max() + 1))]
        bound = partial(self._of, most=most)
        others = [start(bound, recipes.at(rows), "strategy: must be bounded") for rows in shares[1:]]
        shares_bounds = [bound(recipes.at(shares[0])), *(wait() for wait in others)]
        order = np.argsort(np.concatenate(shares))
        return Bounds(
            np.concatenate([share.seconds for share in shares_bounds])[order],
            np.concatenate([share.memory for share in shares_bounds])[order],
            {name: np.concatenate([share.parts[name] for share in shares_bounds])[order] for name in PARTS},
        )

    def _of(self, recipes: Recipes, most: float) -> Bounds:
        seconds, memory = np.full(len(recipes), np.inf), np.zeros(len(recipes))
        parts = {name: np.zeros(len(recipes)) for name in PARTS}
        work = self._work(recipes)
        pipelines, pipeline_number = _distinct(recipes.pipeline, recipes.virtual)
        for number, (pipeline, virtual) in enumerate(pipelines.tolist()):
            types = self._types(pipeline, virtual)
            same = np.flatnonzero(pipeline_number == number)
            for rows in np.array_split(same, -(-len(same) * pipeline // BATCH)):
                chosen = recipes.at(rows)
                memory[rows] = self._memory(chosen, types, _cuts(chosen))
                rows = rows[memory[rows] <= most]
                if not len(rows):
                    continue
                chosen = recipes.at(rows)
                cut = _cuts(chosen)
                seconds[rows], seconds_by_part = self._time(chosen, types, cut, replace(work, number=work.number[rows]))
                for name, values in seconds_by_part.items():
                    parts[name][rows] = values
        return Bounds(seconds, memory, parts)

    def _work(self, recipes: Recipes) -> Work:
        unique, number = _distinct(recipes.tensor, recipes.context, recipes.expert, recipes.micro_batch)
        meshes, shape = unique.tolist(), (len(RECOMPUTE) + 1, len(unique), len(self.kinds))
        seconds, calls = np.zeros(shape), np.zeros((*shape, len(SENT), 2))
        for how in (*np.unique(recipes.recompute).tolist(), FORWARD):
            seconds[how] = [self._seconds(tuple(mesh), how) for mesh in meshes]
            calls[how] = [self._calls(tuple(mesh[:3]), how) for mesh in meshes]
        calls[..., 0] *= unique[:, 3, None, None]
        return Work(number, seconds, calls)

    def _seconds(self, mesh: tuple[int, ...], how: int) -> list[float]:
        """Return [K] the seconds of a pass through each kind of layer; ``mesh`` has the microbatch too."""
        if (mesh, how) not in self.seconds:
            seconds = forward_seconds if how == FORWARD else backward_seconds
            self.seconds[mesh, how] = [seconds(*work) for work in self._passes_of(mesh, how)]
        return self.seconds[mesh, how]

    def _calls(self, degrees: tuple[int, ...], how: int) -> Floats:
        """Return [K, SENT, 2] the bytes and the number of the collectives of a pass with one sample."""
        if (degrees, how) not in self.calls:
            work = forward_work if how == FORWARD else backward_work
            sent = [work(*arguments).sent for arguments in self._passes_of((*degrees, 1), how)]
            calls = [[pass_sent.get(op, Calls()) for op in SENT] for pass_sent in sent]
            self.calls[degrees, how] = np.array(
                [[(all_bytes(calls_of_op), calls_of_op.total()) for calls_of_op in pass_calls] for pass_calls in calls]
            )
        return self.calls[degrees, how]

    def _passes_of(self, mesh: tuple[int, ...], how: int) -> Iterator[PassArguments]:
        """Yield the arguments of ``forward_work`` or ``backward_work`` for each kind of layer."""
        tensor, context, expert, size = mesh
        share = size / (tensor * context)
        if share not in self.shares:
            self.shares[share] = replace(self.workload, batch_per_gpu=share)
        grid = self._grid(tensor, context, expert, "none" if how == FORWARD else RECOMPUTE[how])
        for layer in self.kinds:
            yield self.shares[share], grid, [(layer, layer.parameters / grid.parts(layer))]

    def _grid(self, tensor: int, context: int, expert: int, recompute: str = "none") -> ParallelGrid:
        """Return the grid of one replica without a pipeline."""
        key = tensor, context, expert, recompute
        if key not in self.grids:
            self.grids[key] = ParallelGrid(
                tensor=tensor, context=context, expert=expert, data=1, pipeline=1, microbatches=1, gpus_per_server=1,
                stages=(tuple(self.layers),), recompute=recompute, sequence_parallel=self.rule.sequence_parallel,
            )  # fmt: skip
        return self.grids[key]

    def _types(self, pipeline: int, virtual: int) -> StageTypes:
        if (pipeline, virtual) not in self.types:
            self.types[pipeline, virtual] = self._describe_types(pipeline, virtual)
        return self.types[pipeline, virtual]

    def _describe_types(self, pipeline: int, virtual: int) -> StageTypes:
        grid = replace(self.rule, pipeline=pipeline, virtual=virtual, **SINGLE).place(self.workload, pipeline)
        types = dict[Any, int]()
        held, number = list[Held](), np.zeros(pipeline * virtual, np.int64)
        for stage, layers in enumerate(held_by_stage(self.workload, grid)):
            number[stage] = types.setdefault(self._kinds_of(layers), len(types))
            if number[stage] == len(held):
                held.append(layers)
        described, windows = [], []
        for layers in held:
            runs = units_of(layers, 1, np.inf)
            cuts = [np.sum([size * self._cut(layer) for layer, size in run], axis=0) for run in runs]
            roots = [cut for run, cut in zip(runs, cuts, strict=True) if is_root(run)]
            units = np.array([cut for run, cut in zip(runs, cuts, strict=True) if not is_root(run)]).reshape(-1, 4)
            together = min(1 + self.rule.prefetch, len(units))
            ahead = (
                np.lib.stride_tricks.sliding_window_view(units, together, axis=0).sum(axis=-1) if together else units
            )
            windows.append((np.unique(units, axis=0), np.unique(ahead, axis=0)))
            counts = np.bincount([self.workload.alike[layer.name] for layer, _ in layers], minlength=len(self.kinds))
            described.append(np.concatenate([counts, np.sum(cuts, axis=0), np.sum([np.zeros(4), *roots], axis=0)]))
        unique, stages = np.array(described), np.eye(len(held))[number]
        kinds_count = len(self.kinds)
        of_rank = stages.reshape(virtual, pipeline, -1).sum(axis=0)
        before = np.cumsum(stages[:pipeline], axis=0) - stages[:pipeline]
        first = number[:pipeline]
        distinct, equal = np.unique(np.column_stack([of_rank, first]), axis=0, return_inverse=True)
        last = np.zeros(len(distinct), np.int64)
        np.maximum.at(last, equal.ravel(), np.arange(pipeline))
        return StageTypes(
            counts=unique[:, :kinds_count],
            parameters=unique[:, kinds_count : kinds_count + 4],
            root=unique[:, kinds_count + 4 :],
            units=_padded([units for units, _ in windows]),
            ahead=_padded([ahead for _, ahead in windows]),
            of_rank=of_rank[last],
            before=before[last],
            first=first[last],
            equal=equal.ravel(),
            of_stage=number,
            back=stages[:-1].sum(axis=0) - pipeline * stages[pipeline - 1 : -1 : pipeline].sum(axis=0),
            behind=stages[:-1].sum(axis=0),
            sent=np.array(handover_bytes(self.workload, grid)),
            held=held,
        )

    def _kinds_of(self, held: Held) -> tuple[Any, ...]:
        """Return the kinds, sizes and blocks of the layers of a stage, equal for stages of one type."""
        blocks = [None if layer.sharding is None else layer.sharding.block for layer, _ in held]
        first = next((block for block in blocks if block is not None), 0)
        return tuple(
            (self.workload.alike[layer.name], size, None if block is None else block - first)
            for (layer, size), block in zip(held, blocks, strict=True)
        )

    def _cut(self, layer: Layer) -> Floats:
        """Return [CUTS] 1 at the cut of the layer's parameters."""
        sharding = layer.sharding
        assert sharding is not None
        cut: Floats = np.eye(4)[int(sharding.tensor) + 2 * int(sharding.experts > 1)]
        return cut

    def _memory(self, recipes: Recipes, types: StageTypes, cut: Floats) -> Floats:
        """Return [R] what ``ParallelGrid.bytes_per_gpu`` says of each recipe."""
        workload, needed = self.workload, np.zeros(len(recipes))
        state_bytes: Any = state_bytes_per_gpu  # of arrays too
        for zero in np.unique(recipes.zero).tolist():
            rows = np.flatnonzero(recipes.zero == zero)
            some, share = recipes.at(rows), cut[rows]
            states = _sum(
                state_bytes(workload, elements, zero, _divided(some, kind)[:, None], self.gradient_bytes)
                for kind, elements in _elements(some, types.parameters, share).items()
            )
            if zero >= 2:
                root, unit = share @ types.root.T, np.einsum("rc,uxc->rux", share, types.units).max(axis=2)
                states = states + (root + unit) * self.gradient_bytes
            if zero == 3:
                ahead = np.einsum("rc,uxc->rux", share, types.ahead).max(axis=2)
                states = states + (root + ahead) * workload.element_bytes
            needed_here = (states @ types.of_rank.T)[:, types.equal]
            samples = (some.micro_batch / (some.tensor * some.context))[:, None] * workload.element_bytes
            needed[rows] = (needed_here + samples * self._activations(some, types)).max(axis=1)
        return needed

    def _activations(self, recipes: Recipes, types: StageTypes) -> Floats:
        """Return [R, p] the elements per sample on each rank."""
        pipeline, stages = len(types.equal), len(types.of_stage)
        repeats = np.ones_like(recipes.tensor) if self.rule.sequence_parallel else recipes.tensor
        unique, number = _distinct(recipes.recompute, repeats, recipes.microbatches)
        microbatches = {
            many: kept_microbatches(None, pipeline, many, stages).reshape(-1, pipeline)
            for many in set(unique[:, 2].tolist())
        }
        elements = []
        for how, ranks, many in unique.tolist():
            of_stage, working = types.activation_elements(how, ranks)
            elements.append((microbatches[many] * of_stage).sum(axis=0) + working)
        activations: Floats = np.array(elements)[number]
        return activations

    def _time(self, recipes: Recipes, types: StageTypes, cut: Floats, work: Work) -> tuple[Floats, dict[str, Floats]]:
        """Return [R] the least seconds, and the seconds of its parts."""
        shapes = self._shapes(recipes)
        passes = self._passes(recipes, types.counts, work, shapes)
        forward, backward = _sum(passes.forward.values()), _sum(passes.backward.values())
        count = recipes.microbatches[:, None]
        on_rank = {
            name: count * ((passes.forward[name] + passes.backward[name]) @ types.of_rank.T) for name in passes.forward
        }
        worked = _sum(on_rank.values())
        data = self._data(recipes, types, cut, shapes)
        before, later = forward @ types.before.T, backward @ types.before.T
        last = backward[:, types.first]
        alone = worked + np.maximum(data.waits, np.maximum(data.last - last, data.queued - worked))
        ends = before + alone + data.update + data.gather
        after = (data.update + data.gather)[:, types.equal[:1]]
        through = before + worked + data.waits - data.waits_at_end + later + after
        chain = backward @ types.back
        if self.waiting:
            early = np.maximum.reduce([self._early(recipes, types, kind, shapes) for kind in GRADIENTS])
            chain += np.maximum(self.waiting * early, early - backward) @ types.behind
        last_rank = types.equal[-1]
        chained = (before + worked)[:, last_rank] + chain + after[:, 0]  # with ZeRO 0 and 1
        through[:, last_rank] = np.maximum(through[:, last_rank], np.where(recipes.zero < 2, chained, 0.0))
        rank = np.maximum(ends, through).argmax(axis=1)[:, None]
        least = (1 - MERGED) * np.take_along_axis(np.maximum(ends, through), rank, axis=1)[:, 0]
        parts = {name: np.take_along_axis(values, rank, axis=1)[:, 0] for name, values in on_rank.items()}
        bubble = np.where(through > ends, before + later, before)
        parts["pipeline"] = np.take_along_axis(bubble, rank, axis=1)[:, 0]
        parts["data"] = np.maximum(least - sum(parts.values()), 0.0)
        return least, parts

    def _passes(self, recipes: Recipes, counts: Floats, work: Work, shapes: Shapes) -> Passes:
        """Return the seconds of one pass through ``counts`` [U, K] layers of each kind, by what takes them."""
        pass_seconds = Passes({}, {})
        for passes, how in zip(pass_seconds, (np.full(len(recipes), FORWARD), recipes.recompute), strict=True):
            passes["compute"] = work.seconds[how, work.number] @ counts.T
            calls = work.calls[how, work.number]
            for place, (op, axes) in enumerate(SENT.items()):
                bytes, number = calls[:, :, place, 0], np.maximum(calls[:, :, place, 1], 1.0)
                seconds = number * self.collectives.seconds(OPERATION.get(op, op), *shapes[axes], bytes / number)
                seconds *= 1 - hidden_part(self.workload, self.rule, op)
                passes[axes[0]] = passes.get(axes[0], 0.0) + seconds @ counts.T
        return pass_seconds

    def pipelined(self, recipes: Recipes) -> Floats:
        """Return higher bounds of few recipes [R]: all passes in their order, with what they send to each other."""
        work, least = self._work(recipes), np.zeros(len(recipes))
        for row in range(len(recipes)):
            one = recipes.at(np.array([row]))
            types = self._types(int(one.pipeline[0]), int(one.virtual[0]))
            least[row] = self._pipelined(one, types, replace(work, number=work.number[[row]]))
        return least

    def _pipelined(self, recipe: Recipes, types: StageTypes, work: Work) -> float:
        shapes, cut = self._shapes(recipe), _cuts(recipe)
        passes = self._passes(recipe, np.eye(len(self.kinds)), work, shapes)
        of_kind = [_sum(times.values())[0] for times in (passes.forward, passes.backward)]
        data = self._data(recipe, types, cut, shapes)
        pipeline, virtual, many = int(recipe.pipeline[0]), int(recipe.virtual[0]), int(recipe.microbatches[0])
        sent = types.sent * float((recipe.micro_batch / (recipe.tensor * recipe.context))[0])
        stages = types.of_stage
        forward, backward = ((types.counts @ times)[stages].tolist() for times in of_kind)
        parts = self._last_parts(recipe, types, of_kind[1].tolist(), shapes) if recipe.zero[0] < 2 else None
        last = LastPasses(pipeline, parts, stages.tolist(), backward)
        messages = (sent / self._send_rate(pipeline)).tolist()
        ends = pipeline_ends(pipeline, virtual, many, forward, backward, messages, last)
        after = (data.update + data.gather)[0, types.equal]
        return float((1 - MERGED) * (np.array(ends) + after).max())

    def _last_parts(
        self, recipe: Recipes, types: StageTypes, backward: Sequence[float], shapes: Shapes
    ) -> list[list[PassPart]]:
        """Return [U] the parts of the last backward pass through a stage of each type, in their order.

        ``backward`` has the seconds of each kind of layer.
        """
        tensor, context, expert = (int(axis[0]) for axis in (recipe.tensor, recipe.context, recipe.expert))
        grid = self._grid(tensor, context, expert)
        op = "reduce_scatter" if recipe.zero[0] else "all_reduce"
        of_parts = np.array([[1 - self.waiting], [self.waiting]])
        parts = []
        for layers in types.held:
            reductions = defaultdict[str, list[BucketReduction]](list)  # by the layer that completes a bucket
            for kind in GRADIENTS:
                buckets = self._buckets(layers, grid, kind)
                whole = np.array([bucket.bytes for bucket in buckets]) * (
                    self.gradient_bytes / self.workload.element_bytes
                )
                sums = [(op, kind, GRADIENTS[kind], whole)]
                if recipe.replicate[0] > 1:
                    sums.append(("all_reduce", "replicate", REPLICAS, whole / _divided(recipe, kind)))
                for operation, communicator, axes, bytes in sums:
                    groups, group = shapes[axes]
                    times = self.collectives.seconds(operation, groups, group.repeat(2), of_parts * bytes, queued=True)
                    for bucket, (concurrent, waits) in zip(buckets, times.T.tolist(), strict=True):
                        reductions[bucket.layers[-1]].append(BucketReduction(kind, communicator, concurrent, waits))
            names = [layer.name for layer, _ in reversed(layers)]
            seconds = [backward[self.workload.alike[name]] for name in names]
            parts.append(
                [
                    PassPart(sum(seconds[first:end]), reductions[names[end - 1]])
                    for first, end in cut_after(names, [*reductions])
                ]
            )
        return parts

    def _buckets(self, layers: Held, grid: ParallelGrid, kind: str) -> list[Bucket]:
        """Return the buckets of a stage with gradients of a ``kind``; ``layers`` have the elements on all ranks."""
        held = [(layer, size / grid.parts(layer)) for layer, size in layers]
        cap = self.rule.bucket_bytes
        return fill((), gradient_sizes(self.workload, grid, held, kind), cap, cap)

    def _early(self, recipes: Recipes, types: StageTypes, kind: str, shapes: Shapes) -> Floats:
        """Return [R, U] the least time of the reductions that end before the last one of a stage begins."""
        unique, number = _distinct(recipes.tensor, recipes.expert)
        bytes = np.zeros((len(unique), len(types.held)))
        for row, (tensor, expert) in enumerate(unique.tolist()):
            grid = self._grid(tensor, 1, expert)
            for stage, layers in enumerate(types.held):
                bytes[row, stage] = sum(bucket.bytes for bucket in self._buckets(layers, grid, kind)[:-1])
        elements = bytes[number] / self.workload.element_bytes
        return self._reduced(elements, recipes.zero[:, None], recipes, kind, shapes)

    def _send_rate(self, pipeline: int) -> float:
        """Return the most bytes per second from a GPU to the next stage; inf within nodes."""
        if self.cluster.gpus // pipeline < self.cluster.per_node:
            return np.inf
        ports = self.cluster.node.ports_of
        return max(sum(port.bandwidth for port in ports(gpu)) for gpu in self.cluster.devices) or np.inf

    def _data(self, recipes: Recipes, types: StageTypes, cut: Floats, shapes: Shapes) -> DataWork:
        """Return the collectives of data ranks and the updates."""
        zero, many = recipes.zero[:, None], recipes.microbatches[:, None]
        num_reductions = np.where(zero >= 2, many, 1)  # reductions in an iteration
        # Reductions follow one another; gathers of one kind of parameters, and reductions of the other, may coincide
        reductions, queued, gather, update, replicated = (np.zeros((len(recipes), len(types.first))) for _ in range(5))
        elements, roots = _elements(recipes, types.parameters, cut), _elements(recipes, types.root, cut)
        of_stage, replicated_of_stage = list[Floats](), list[Floats]()
        for kind in GRADIENTS:
            held = elements[kind] @ types.of_rank.T
            around = roots[kind] @ types.of_rank.T
            reduced = self._reduced(held, zero, recipes, kind, shapes)
            bytes = held * self.workload.element_bytes
            gathered = self.collectives.seconds("all_gather", *shapes[GRADIENTS[kind]], bytes, queued=True)
            in_blocks = self.collectives.seconds(
                "all_gather", *shapes[GRADIENTS[kind]], (held - around) * self.workload.element_bytes, queued=True
            )
            gather = np.maximum(gather, np.where((zero == 1) | (zero == 2), gathered, 0.0))
            passes = np.where(zero == 3, many * (gathered + in_blocks), 0.0)
            queued = np.maximum(queued, num_reductions * reduced + passes)
            of_stage.append(self._reduced(elements[kind], zero, recipes, kind, shapes))
            among_replicas = self._replicated(held, recipes, kind, shapes)
            replicated += num_reductions * among_replicas
            reductions += reduced + among_replicas
            replicated_of_stage.append(self._replicated(elements[kind], recipes, kind, shapes))
            update += held / _divided(recipes, kind)[:, None] * step_seconds(self.workload, 1.0)
        waits, queued = np.maximum(num_reductions * reductions, queued), np.maximum(queued, replicated)
        reduced = _sum(replicated_of_stage)
        last = np.maximum.reduce([*of_stage, reduced])[:, types.first]
        return DataWork(self.waiting * waits, self.waiting * reductions, queued, gather, last, update)

    def _reduced(self, elements: Floats, zero: Numbers, recipes: Recipes, kind: str, shapes: Shapes) -> Floats:
        """Return the least time of the reductions of gradients of a kind, of ``elements`` on a GPU."""
        bytes = elements * self.gradient_bytes
        whole = self.collectives.seconds(
            "all_reduce", *shapes[GRADIENTS[kind]], np.where(zero == 0, bytes, 0.0), queued=True
        )
        parts = self.collectives.seconds(
            "reduce_scatter", *shapes[GRADIENTS[kind]], np.where(zero > 0, bytes, 0.0), queued=True
        )
        return whole + parts

    def _replicated(self, elements: Floats, recipes: Recipes, kind: str, shapes: Shapes) -> Floats:
        """Return the least time of the all-reductions between replicas, of divided ``elements``."""
        part = (recipes.replicate > 1) / _divided(recipes, kind)
        bytes = elements * self.gradient_bytes * part[:, None]
        return self.collectives.seconds("all_reduce", *shapes[REPLICAS], bytes, queued=True)

    def _shapes(self, recipes: Recipes) -> Shapes:
        """Return for each set of axes the shapes of its groups, and the number [R] of that of a recipe."""
        unique, number = _distinct(*(getattr(recipes, axis) for axis in STRIDES))
        shapes: Shapes = {}
        meshes = [*map(tuple, unique.tolist())]
        for axes in {*SENT.values(), *GRADIENTS.values(), REPLICAS}:
            groups = [_group(mesh, axes, self.cluster.per_node) for mesh in meshes]
            numbers = {group: place for place, group in enumerate(dict.fromkeys(groups))}
            shapes[axes] = [*numbers], np.array([numbers[group] for group in groups])[number]
        return shapes


class Passes(NamedTuple):
    """Seconds [R, U] of one pass through each type of stage, by what takes them (of ``PARTS``)."""

    forward: dict[str, Floats]
    backward: dict[str, Floats]


class DataWork(NamedTuple):
    """The work of data ranks on each rank of a pipeline [R, V] (s)."""

    waits: Floats  # collectives before the update for which compute waits
    waits_at_end: Floats  # of these, as many as may follow the last pass
    queued: Floats  # those of the busiest communicator
    gather: Floats  # those of the busiest communicator after the update
    last: Floats  # reductions of the stage whose gradients are complete last
    update: Floats


def _sum(arrays: Iterable[Floats]) -> Floats:
    total: Floats = np.sum([*arrays], axis=0)
    return total


def _distinct(*columns: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct rows of ``columns``, and the number of that of each row."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        key = key * len(values) + number
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return np.stack(columns, axis=1)[first], number


@lru_cache(maxsize=2**16)
def _group(mesh: tuple[int, ...], axes: tuple[str, ...], per_node: int) -> GroupShape:
    """Return the shape of the first group along ``axes``; ``mesh`` has the degrees of ``STRIDES``."""
    ranks, stride = np.zeros(1, np.int64), 1
    for axis, degree in zip(STRIDES, mesh, strict=True):
        if axis in axes:
            ranks = (ranks[:, None] + stride * np.arange(degree)).ravel()
        stride *= degree
    counts = np.bincount(ranks // per_node)
    return GroupShape(int((counts > 0).sum()), 1 if NODES in axes else int(counts.max()))


def _cuts(recipes: Recipes) -> Floats:
    """Return [R, CUTS] the part of the parameters of each cut that a GPU holds."""
    whole = np.ones(len(recipes))
    return 1 / np.stack([whole, recipes.tensor, recipes.expert, recipes.tensor * recipes.expert], axis=1)


def _elements(recipes: Recipes, parameters: Floats, cut: Floats) -> dict[str, Floats]:
    """Return by key of ``GRADIENTS`` the elements [R, U] on a GPU of ``parameters`` [U, CUTS]."""
    experts = cut * np.array([False, False, True, True]) * (recipes.expert > 1)[:, None]
    return {"dense": (cut - experts) @ parameters.T, "expert": experts @ parameters.T}


def _divided(recipes: Recipes, kind: str) -> Numbers:
    """Return [R] the ranks that divide the state of parameters of a ``kind``."""
    ranks: Numbers = np.prod([getattr(recipes, axis) for axis in GRADIENTS[kind]], axis=0)
    return np.where(recipes.zero > 0, ranks, 1)


def _padded(windows: Sequence[Floats]) -> Floats:
    longest = max(1, *map(len, windows))
    return np.array([np.pad(window, ((0, longest - len(window)), (0, 0))) for window in windows])
