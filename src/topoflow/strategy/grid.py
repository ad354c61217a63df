"""Grid: the GPUs of a job as a grid of tensor, context, expert, data and pipeline ranks, among which layers are cut.

GPU r is in server r // gpus_per_server. Ranks are numbered as Megatron-LM does by default ("tp-cp-ep-dp-pp"):

    r = t + tensor (c + context (e + expert (d + data p)))

so that tensor ranks are adjacent and each stage of the pipeline has consecutive servers. Replicas of a divided state
(``replicate``) are between data and pipeline. An example with 2 servers of 4 GPUs, tensor = 2, data = 2, pipeline = 2
(one row is a server):

    stage 0     d0t0 d0t1 d1t0 d1t1        tensor groups and both data groups, t0 and t1, are inside a server
    stage 1     d0t0 d0t1 d1t0 d1t1

Parallel groups along the same axes that use the same servers are side by side: they communicate concurrently, each
between its own GPUs. Gradients of experts are reduced over context and data ranks, all others over expert ranks too.
Source: megatron/core/parallel_state.py, ``initialize_model_parallel(order="tp-cp-ep-dp-pp")``.

ZeRO divides the state of the model among the ranks that reduce gradients (Rajbhandari et al., SC 2020, section 5):

    zero 0    nothing: gradients are all-reduced once per iteration
    zero 1    the optimizer's state: gradients are reduce-scattered, and the updated parameters all-gathered
    zero 2    gradients too: they are reduce-scattered in every microbatch
    zero 3    parameters too: a unit is gathered before its forward pass and again before its backward pass. A block is
              a unit; layers around the blocks are gathered once per microbatch, as FSDP keeps its root

``replicate`` groups of ranks hold the whole state each, and all-reduce the parts of the gradients (hybrid sharding;
Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy import schedules
from topoflow.strategy.base import Strategy
from topoflow.strategy.memory import activation_elements, check_recompute, state_bytes_per_gpu
from topoflow.strategy.words import MAX_ROWS, Row, layers, on_servers
from topoflow.units import DTYPE_BYTES, check_among, check_positive, check_whole
from topoflow.workload.base import Layer, LayerGraph, Workload, layer_graph
from topoflow.workload.sharding import repeated

AXES = ("replicate", "data", "expert", "context", "tensor")  # axes of a stage, the slowest first
GRADIENTS = {"dense": ("context", "expert", "data"), "expert": ("context", "data")}  # axes that replicate a parameter
ZERO = (0, 1, 2, 3)
DIVIDED = ("optimizer state", "gradients", "parameters")  # by stage of ZeRO
OPTIONS = (  # fields that are the same with other degrees
    *("recompute", "schedule", "zero", "replicate", "prefetch", "reduce_dtype"),
    *("sequence_parallel", "async_tensor", "async_expert"),
)
DEGREES = ("tensor", "context", "expert", "data", "pipeline")
CHOSEN = ("tensor", "pipeline", "context", "expert", "microbatches")  # independent choices for a given job


@dataclass(frozen=True)
class RankGroup:
    """A group of ranks: ``local`` members on each of ``servers``, next to ``side_by_side`` - 1 equal groups."""

    servers: tuple[int, ...]
    local: int
    side_by_side: int
    stride: int = 1  # GPUs from a member to the next on a server


@dataclass(frozen=True)
class ParallelGrid(Strategy):
    """Parallel degrees and the layers of every stage, in order. A microbatch is a part of a replica's samples.

    ``schedule`` says which stages each pipeline rank has, and the order of its passes (``strategy.schedules``).

    Constraints: a stage has whole servers; tensor, tensor * context and tensor * context * expert each divide the GPUs
    of a server or are a multiple of them, so that every server has the same number of a group's members.
    """

    tensor: int
    context: int
    expert: int
    data: int
    pipeline: int
    microbatches: int
    gpus_per_server: int
    stages: tuple[tuple[str, ...], ...]
    recompute: str = "none"  # parts of the forward pass that run again in the backward pass: ``memory.RECOMPUTE``
    zero: int = 0  # one of ZERO
    replicate: int = 1  # copies of a divided state
    prefetch: int = 1  # units whose parameters may be gathered while those before them compute
    reduce_dtype: str | None = None  # of gradients while they are reduced; None: that of the workload
    schedule: str | None = None  # a name or a CSV file; None: 1F1B, interleaved if ranks have several stages
    bucket_bytes: int = 80_000_000
    name: str = "parallel"
    sequence_parallel: bool = True  # tensor ranks divide the positions of layers that they do not cut
    async_tensor: bool = False  # collectives of tensor ranks overlap with the compute of their pass
    async_expert: bool = False  # likewise those of expert ranks
    servers: int = field(init=False)
    stage_ranks: tuple[int, ...] = field(init=False, repr=False)  # the pipeline rank of each stage

    def __post_init__(self) -> None:
        for name in (*DEGREES, "replicate", "microbatches", "gpus_per_server"):
            check_whole(f"parallel.{name}", getattr(self, name), 1)
        check_positive("strategy.bucket_bytes", self.bucket_bytes)
        check_recompute(self.recompute)
        check_among(f"{self.name}.zero", self.zero, ZERO)
        if self.replicate > 1 and not self.zero:
            raise ValueError(f"{self.name}.replicate: must be 1 where ZeRO divides nothing, got {self.replicate}")
        check_whole(f"{self.name}.prefetch", self.prefetch)
        if self.reduce_dtype not in (None, *DTYPE_BYTES):
            rule = f"must be null or one of {', '.join(DTYPE_BYTES)}"
            raise ValueError(f"strategy.reduce_dtype: {rule}, got {self.reduce_dtype!r}")
        if not self.stages or len(self.stages) % self.pipeline:
            rule = f"must be a multiple of the {self.pipeline} pipeline ranks"
            raise ValueError(f"parallel.stages: {rule}, got {len(self.stages)}")
        if not may_share_experts(self.sequence_parallel, self.tensor, self.expert):
            rule = "must be true where tensor ranks share experts that are divided"
            raise ValueError(f"{self.name}.sequence_parallel: {rule}, got false with expert={self.expert}")
        if self.async_tensor and not self.sequence_parallel:
            raise ValueError(f"{self.name}.async_tensor: must be false without sequence_parallel, got true")
        if self.virtual > 1 and self.pipeline == 1:
            raise ValueError(f"parallel.virtual: must be 1 where there is one pipeline rank, got {self.virtual}")
        ranks_of = schedules.stage_ranks(self.schedule, self.pipeline, self.microbatches, len(self.stages))
        object.__setattr__(self, "stage_ranks", ranks_of)
        if self.zero > 1 and schedules.splits(self.schedule, self.pipeline):
            rule = "must be 0 or 1 where the schedule splits backward passes"
            raise ValueError(f"{self.name}.zero: {rule}, got {self.zero} with schedule={self.schedule}")
        ranks, names = 1, []
        for name in reversed(AXES):
            ranks *= getattr(self, name)
            names.append(name)
            last = name == "replicate"
            if ranks % self.gpus_per_server and (last or self.gpus_per_server % ranks):
                rule = "be a multiple of" if last else "divide or be a multiple of"
                raise ValueError(
                    f"parallel.{name}: {' * '.join(names)} must {rule} the {self.gpus_per_server} GPUs of a server, "
                    f"got {ranks}"
                )
        object.__setattr__(self, "servers", self.pipeline * self.servers_per_stage)

    @property
    def replicas(self) -> int:
        """Return the number of copies of the model, each with its own samples."""
        return self.data * self.expert * self.replicate

    @property
    def sharing(self) -> int:
        """Return the number of GPUs that share the samples of a replica in one stage."""
        return self.tensor * self.context

    @property
    def repeats(self) -> int:
        """Return the number of tensor ranks that all do the same work on layers that they do not cut."""
        return 1 if self.sequence_parallel else self.tensor

    @property
    def virtual(self) -> int:
        """Return the number of stages of each pipeline rank."""
        return len(self.stages) // self.pipeline

    @property
    def servers_per_stage(self) -> int:
        return self.sharing * self.replicas // self.gpus_per_server

    def samples(self, workload: LayerGraph) -> float:
        """Return the samples in one microbatch of one replica."""
        return workload.batch_per_gpu * self.sharing * self.pipeline / self.microbatches

    def stage_servers(self, stage: int) -> range:
        rank = self.stage_ranks[stage]
        return range(rank * self.servers_per_stage, (rank + 1) * self.servers_per_stage)

    def members(self, axes: Sequence[str]) -> int:
        """Return the number of ranks of a group along ``axes``."""
        return int(np.prod([getattr(self, axis) for axis in axes]))

    def groups(self, stage: int, axes: Sequence[str]) -> list[RankGroup]:
        """Return the groups of a stage whose ranks differ along ``axes`` only."""
        return self._groups(stage, [getattr(self, axis) for axis in AXES], [AXES.index(axis) for axis in axes])

    def expert_groups(self, stage: int, on_node: int) -> tuple[list[RankGroup], list[RankGroup]]:
        """Return the parts of groups along ``expert``: one rank of each node, and the ``on_node`` ranks of a node."""
        shape = [self.replicate, self.data, self.expert // on_node, on_node, self.context, self.tensor]
        return self._groups(stage, shape, [2]), self._groups(stage, shape, [3])

    def experts_on_node(self, workload: LayerGraph) -> int:
        """Return the number of ranks of a group along ``expert`` that share a node."""
        gpus = workload.gpus_per_node or self.gpus_per_server
        for name, ranks in (
            ("tensor * context", self.sharing),
            ("tensor * context * expert", self.sharing * self.expert),
        ):
            if gpus % ranks and ranks % gpus:
                requirement = (
                    f"{name} must divide or be a multiple of the {gpus} GPUs of a node with workload.node_limit"
                )
                raise ValueError(f"parallel.expert: {requirement}, got {ranks}")
        return min(self.expert, max(gpus // self.sharing, 1))

    def _groups(self, stage: int, shape: Sequence[int], along: Sequence[int]) -> list[RankGroup]:
        """Return the groups of a stage whose ranks have a ``shape``, and differ ``along`` some of its axes."""
        ranks = np.arange(np.prod(shape)).reshape(shape)
        size = int(np.prod([shape[axis] for axis in along]))
        members = np.moveaxis(ranks, along, range(-len(along), 0)).reshape(-1, size)
        servers = np.sort(members // self.gpus_per_server, axis=1) + self.stage_servers(stage).start
        counts = Counter(tuple(dict.fromkeys(row)) for row in servers.tolist())
        stride = int(np.diff(np.sort(members[0])[:2]).max(initial=1))
        return [
            RankGroup(group, servers.shape[1] // len(group), count, stride) for group, count in sorted(counts.items())
        ]

    def parts(self, layer: Layer) -> int:
        """Return the number of parts into which the ranks cut the parameters of ``layer``."""
        sharding = layer.sharding
        if sharding is None:
            return 1
        return (self.tensor if sharding.tensor else 1) * (self.expert if sharding.experts > 1 else 1)

    def divided(self, kind: str) -> int:
        """Return the number of ranks that divide the state of parameters of a ``kind`` (key of ``GRADIENTS``)."""
        return self.members(GRADIENTS[kind]) if self.zero else 1

    def gradient_bytes(self, workload: LayerGraph) -> int:
        """Return the bytes of an element of a gradient that is reduced."""
        return DTYPE_BYTES[self.reduce_dtype or workload.dtype]

    def gradients(self, layer: Layer) -> str:
        """Return the key of ``GRADIENTS`` for ``layer``: "expert" if its parameters are divided among expert ranks."""
        experts = layer.sharding.experts if layer.sharding is not None else 1
        return "expert" if min(experts, self.expert) > 1 else "dense"

    def rank_parameters(self, workload: LayerGraph) -> list[dict[str, float]]:
        """Return for every stage: layer -> elements that one GPU holds.

        A tied head holds a copy of the embedding's matrix where the embedding is in another stage.
        """
        layers = {layer.name: layer for layer in workload.layers}
        held: list[dict[str, float]] = []
        for stage in self.stages:
            held.append({})
            for name in stage:
                sharding = layers[name].sharding
                shares = sharding.shares if sharding is not None else None
                source = layers[name] if shares is None or shares in stage else layers[shares]
                held[-1][name] = source.parameters / self.parts(source)
        return held

    def kept_microbatches(self) -> NDArray[np.int64]:
        """Return [stages] the microbatches whose activations a stage keeps when its rank keeps the most."""
        return schedules.kept_microbatches(self.schedule, self.pipeline, self.microbatches, len(self.stages))

    def staged_bytes(
        self, workload: LayerGraph, states: NDArray[np.float64], outputs: NDArray[np.float64], working: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the bytes [pipeline] on each GPU of every pipeline rank.

        For a stage it holds ``states`` [stages] bytes of the model, keeps ``outputs`` [stages] elements per sample
        until their backward pass, and needs ``working`` elements during one.
        """
        samples = self.samples(workload) / self.sharing
        needed = states + self.kept_microbatches() * samples * outputs * workload.element_bytes
        summed = np.bincount(self.stage_ranks, weights=needed, minlength=self.pipeline).astype(np.float64)
        return summed + samples * working * workload.element_bytes

    def activations(self, workload: LayerGraph) -> tuple[NDArray[np.float64], float]:
        """Return the elements per sample that each stage keeps [stages], and those of a block in its backward pass."""
        layers = {layer.name: repeated(layer, self.repeats) for layer in workload.layers}
        elements = [activation_elements([layers[name] for name in stage], self.recompute) for stage in self.stages]
        return np.array([kept_elements for kept_elements, _ in elements]), max(working for _, working in elements)

    def bytes_per_gpu(self, workload: Workload) -> NDArray[np.float64]:
        """Return bytes [servers]; all GPUs of a pipeline rank need the same."""
        job = layer_graph(workload)
        needed = self.staged_bytes(job, self.state_bytes(job), *self.activations(job))
        return np.repeat(needed, self.servers_per_stage)

    def state_bytes(self, workload: LayerGraph) -> NDArray[np.float64]:
        """Return bytes [stages]: weights, gradients and optimizer state, and the units that are whole for a while."""
        layers = {layer.name: layer for layer in workload.layers}
        needed = []
        for held in self.rank_parameters(workload):
            elements = dict.fromkeys(GRADIENTS, 0.0)
            for name, size in held.items():
                elements[self.gradients(layers[name])] += size
            states = (
                state_bytes_per_gpu(workload, size, self.zero, self.divided(kind), self.gradient_bytes(workload))
                for kind, size in elements.items()
            )
            needed.append(sum(states) + self._whole_bytes(workload, [(layers[name], held[name]) for name in held]))
        return np.array(needed)

    def _whole_bytes(self, workload: LayerGraph, held: Sequence[tuple[Layer, float]]) -> float:
        """Return the bytes of gathered parameters, and of gradients that are not reduced yet.

        They belong to the root, to the unit that computes and, for parameters, to the units that are gathered ahead.
        """
        if self.zero < 2:
            return 0.0
        root, units = 0.0, []
        for unit in units_of(held, workload.element_bytes, self.bucket_bytes):
            size = sum(parameters for _, parameters in unit)
            if is_root(unit):
                root += size
            else:
                units.append(size)
        needed = (root + max(units, default=0.0)) * self.gradient_bytes(workload)
        if self.zero == 3:
            together = min(1 + self.prefetch, len(units))
            ahead = float(np.convolve(units, np.ones(together), "valid").max()) if units else 0.0
            needed += (root + ahead) * workload.element_bytes
        return needed

    def rows(self) -> list[Row]:
        """Return the degrees and the stages of a pipeline; if there are many, only the first ones and the last."""
        if self.name == "fsdp":
            return [("all layers", self._division())]
        head = ("all layers", self.degrees())
        if self.pipeline == 1:
            return [head]
        stages = [(layers(stage), on_servers(self.stage_servers(number))) for number, stage in enumerate(self.stages)]
        left_out = len(stages) - MAX_ROWS
        if left_out > 0:
            between = ("\N{HORIZONTAL ELLIPSIS}", f"{left_out} more stages")
            stages = [*stages[: MAX_ROWS - 1], between, stages[-1]]
        return [head, *stages]

    def _division(self) -> str:
        """Return the division as text: ``gradients and optimizer state divided among the GPUs of ... (ZeRO-2)``."""
        if not self.zero:
            return "on all servers (data parallel)"
        state = " and ".join(filter(None, (", ".join(DIVIDED[self.zero - 1 : 0 : -1]), DIVIDED[0])))
        group = self.servers // self.replicate
        return f"{state} divided among the GPUs of {group} server{'s' if group > 1 else ''} (ZeRO-{self.zero})"

    def degrees(self) -> str:
        """Return the degrees as text: ``tensor 4, context 1, expert 1, data 2, pipeline 2; 8 microbatches``."""
        named = ", ".join(f"{name} {getattr(self, name)}" for name in DEGREES)
        named += f" with {self.virtual} stages each" if self.virtual > 1 else ""
        named += f"; {self.microbatches} microbatch{'es' if self.microbatches > 1 else ''}"
        named += f"; {self.schedule}" if self.schedule and self.pipeline > 1 else ""
        named += "; no sequence parallelism" if self.repeats > 1 else ""
        for axis in ("tensor", "expert"):
            overlaps = getattr(self, f"async_{axis}") and getattr(self, axis) > 1
            named += f"; async {axis} parallelism" if overlaps else ""
        if self.zero:
            copies = f" in each of {self.replicate} replicas" if self.replicate > 1 else ""
            named += f"; ZeRO-{self.zero}{copies}"
        return named if self.recompute == "none" else f"{named}; {self.recompute} recomputation"

    def difference(self, reference: Strategy) -> str:
        return self._division() if self.name == "fsdp" else self.degrees()

    def alternatives(self, workload: Workload) -> list[ParallelGrid]:
        """Return all degrees and microbatch counts, or for FSDP all divisions of the state, that fit in memory."""
        from topoflow.strategy.space import degrees, divisions  # imported here because it imports this module

        return (divisions if self.name == "fsdp" else degrees)(layer_graph(workload), self)

    def distance(self, other: Strategy) -> float:
        """Return how many doublings and halvings of degrees lead from one grid to the other."""
        doublings = sum(abs(log2(getattr(self, axis) / getattr(other, axis))) for axis in CHOSEN)
        assert isinstance(other, ParallelGrid)
        return doublings + abs(self.zero - other.zero) + len(ZERO) * float(self.replicate != other.replicate)

    def to_json(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name) for name in (*DEGREES, "microbatches", "gpus_per_server", "stages", *OPTIONS)
        }
        return self._plan_fields(
            placement=self.layer_servers,
            bucket_bytes=self.bucket_bytes,
            first_bucket_bytes=self.bucket_bytes,
            grid=plain,
        )

    @property
    def layer_servers(self) -> dict[str, tuple[int, ...]]:
        """Return layer -> the servers of its stage."""
        return {layer: tuple(self.stage_servers(number)) for number, stage in enumerate(self.stages) for layer in stage}


def may_share_experts(sequence_parallel: bool, tensor: int, expert: int) -> bool:
    """Return whether tensor ranks may share experts that expert ranks divide: Megatron-LM's rule."""
    return sequence_parallel or min(tensor, expert) == 1


def units_of(
    held: Sequence[tuple[Layer, float]], element_bytes: int, unit_bytes: float
) -> list[list[tuple[Layer, float]]]:
    """Return the layers of a stage in runs that are gathered together with ZeRO 3, in order.

    Each block of a transformer is a unit. The layers before and after the blocks are the root, in one or two runs. If
    there are no blocks, layers join a unit until it has ``unit_bytes`` of parameters.
    """
    if any(layer.sharding is not None for layer, _ in held):
        runs = groupby(held, lambda pair: None if pair[0].sharding is None else pair[0].sharding.block)
        return [list(run) for _, run in runs]
    units: list[list[tuple[Layer, float]]] = [[]]
    gathered_bytes = 0.0
    for layer, elements in held:
        if gathered_bytes >= unit_bytes:
            units.append([])
            gathered_bytes = 0.0
        units[-1].append((layer, elements))
        gathered_bytes += elements * element_bytes
    return units


def is_root(unit: Sequence[tuple[Layer, float]]) -> bool:
    """Return whether a run of ``units_of`` is a part of the root."""
    sharding = unit[0][0].sharding
    return sharding is not None and sharding.block is None
