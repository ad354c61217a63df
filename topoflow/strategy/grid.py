"""Grid: the GPUs of a job as tensor, context, expert, data and pipeline ranks, and who is in a group with whom.

GPU r works on server r // gpus_per_server. Ranks are numbered as Megatron-LM does by default ("tp-cp-ep-dp-pp"):

    r = t + tensor (c + context (e + expert (d + data p)))

so that tensor ranks are next to each other and a stage of the pipeline is a run of servers. 2 servers of 4 GPUs,
tensor = 2, data = 2, pipeline = 2 (one row is a server):

    stage 0     d0t0 d0t1 d1t0 d1t1        tensor groups inside the server; the two data groups, t0 and t1, too
    stage 1     d0t0 d0t1 d1t0 d1t1

Groups that differ in other ranks only and use the same servers are side by side: they talk at the same time, each with
GPUs of its own. Source: megatron/core/parallel_state.py, ``initialize_model_parallel(order="tp-cp-ep-dp-pp")``; there
as here, gradients of experts are reduced over context and data ranks, all others over expert ranks too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from topoflow.workload.base import Layer, Workload

AXES = ("data", "expert", "context", "tensor")  # of a stage, the slowest first
GRADIENTS = {"dense": ("context", "expert", "data"), "expert": ("context", "data")}  # replicas of a parameter


@dataclass(frozen=True)
class Group:
    """``local`` members on each of ``servers``, on which there are ``side_by_side`` such groups, of other GPUs."""

    servers: tuple[int, ...]
    local: int
    side_by_side: int


@dataclass(frozen=True)
class Grid:
    """Degrees, and the names of the layers of every stage, in order. A microbatch is a part of a replica's samples.

    Laws: a stage has whole servers; tensor, tensor * context and tensor * context * expert each divide the GPUs of a
    server or are a multiple of them, so that every server has the same number of a group's members.
    """

    tensor: int
    context: int
    expert: int
    data: int
    pipeline: int
    microbatches: int
    gpus_per_server: int
    stages: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"parallel.{field.name}: must be a positive integer, got {value!r}")
        if len(self.stages) != self.pipeline:
            raise ValueError(f"parallel.stages: must be {self.pipeline}, one per pipeline rank, got {len(self.stages)}")
        ranks, names = 1, []
        for name in ("tensor", "context", "expert", "data"):
            ranks *= getattr(self, name)
            names.append(name)
            if ranks % self.gpus_per_server and (name == "data" or self.gpus_per_server % ranks):
                law = "be a multiple of" if name == "data" else "divide or be a multiple of"
                raise ValueError(
                    f"parallel.{name}: {' * '.join(names)} must {law} the {self.gpus_per_server} GPUs of a server, "
                    f"got {ranks}"
                )

    @property
    def replicas(self) -> int:
        """Copies of the model, each of which has samples of its own."""
        return self.data * self.expert

    @property
    def ways(self) -> int:
        """GPUs that share the samples of a replica in one stage."""
        return self.tensor * self.context

    @property
    def servers_per_stage(self) -> int:
        return self.ways * self.replicas // self.gpus_per_server

    def samples(self, workload: Workload) -> float:
        """Of one microbatch of one replica."""
        return workload.batch_per_gpu * self.ways * self.pipeline / self.microbatches

    def servers(self, stage: int) -> range:
        return range(stage * self.servers_per_stage, (stage + 1) * self.servers_per_stage)

    def members(self, axes: Sequence[str]) -> int:
        """Ranks of a group along ``axes``."""
        return int(np.prod([getattr(self, axis) for axis in axes]))

    def groups(self, stage: int, axes: Sequence[str]) -> list[Group]:
        """The groups of a stage whose ranks differ along ``axes`` only."""
        shape = [getattr(self, axis) for axis in AXES]
        ranks = np.arange(np.prod(shape)).reshape(shape)
        along = [AXES.index(axis) for axis in axes]
        members = np.moveaxis(ranks, along, range(-len(along), 0)).reshape(-1, self.members(axes))
        servers = np.sort(members // self.gpus_per_server, axis=1) + self.servers(stage).start
        found = Counter(tuple(dict.fromkeys(row)) for row in servers.tolist())
        return [Group(group, servers.shape[1] // len(group), count) for group, count in sorted(found.items())]

    def parts(self, layer: Layer) -> int:
        """Into how many parts the ranks cut the parameters of ``layer``."""
        sharding = layer.sharding
        if sharding is None:
            return 1
        return (self.tensor if sharding.tensor else 1) * (self.expert if sharding.experts > 1 else 1)

    def gradients(self, layer: Layer) -> str:
        """Which of ``GRADIENTS`` those of ``layer`` are: of an expert rank's own parameters, or of all others."""
        experts = layer.sharding.experts if layer.sharding is not None else 1
        return "expert" if min(experts, self.expert) > 1 else "dense"

    def rank_parameters(self, workload: Workload) -> list[dict[str, float]]:
        """For every stage: layer -> elements that one GPU holds.

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
