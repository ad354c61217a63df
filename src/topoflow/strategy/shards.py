"""Shards: data-parallel replicas that divide the state of the model among them (ZeRO).

    stage 0    nothing is divided: data parallelism
    stage 1    the optimizer's state is divided      gradients are reduce-scattered, each rank updates its part of the
    stage 2    gradients too                         parameters, and the updated parameters are all-gathered
    stage 3    parameters too                        they are all-gathered unit by unit, before the unit's forward pass
                                                     and again before its backward pass, and freed after each

The state is divided among the GPUs of ``group`` consecutive servers. If there are more servers, such groups are
replicas of each other and all-reduce their part of the gradients (hybrid sharding).

Sources: Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", SC 2020, sections 5
and 7; Zhao et al., "PyTorch FSDP: Experiences on scaling fully sharded data parallel", VLDB 2023, sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.base import Strategy
from topoflow.strategy.memory import activation_elements, check_recompute
from topoflow.strategy.words import Row
from topoflow.units import human
from topoflow.workload.base import LayerGraph, Workload, layer_graph
from topoflow.workload.optimizer import state_bytes

STAGES = (0, 1, 2, 3)
DIVIDED = ("optimizer state", "gradients", "parameters")  # by stage


@dataclass(frozen=True)
class Shards(Strategy):
    """A division of the state in units: consecutive layers that are gathered, reduced and freed together.

    The ``root`` has the layers around the units (the embedding and the head of a transformer). It is gathered first,
    and kept until its backward pass is done, as FSDP does by default; () if every layer is in a unit.
    """

    servers: int
    stage: int  # one of STAGES
    group: int  # servers
    units: tuple[tuple[str, ...], ...]  # layers, in the order of the workload
    root: tuple[str, ...] = ()
    prefetch: int = 1  # units whose parameters may be gathered while those before them compute
    microbatches: int = 1  # parts of a GPU's samples, of which gradients are accumulated
    recompute: str = "none"  # parts of the forward pass that run again in the backward pass: none, scores or blocks
    name: str = "fsdp"

    def __post_init__(self) -> None:
        check_recompute(self.recompute)
        if self.stage not in STAGES:
            raise ValueError(f"fsdp.stage: must be one of {', '.join(map(str, STAGES))}, got {self.stage!r}")
        for name, least in (("servers", 1), ("group", 1), ("prefetch", 0), ("microbatches", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"fsdp.{name}: must be a whole number of at least {least}, got {value!r}")
        if self.servers % self.group:
            raise ValueError(f"fsdp.group: must divide the {self.servers} servers, got {self.group}")

    @property
    def gathered(self) -> tuple[tuple[str, ...], ...]:
        """Return the layers in groups that are gathered together: the root, if there is one, then the units."""
        return ((self.root,) if self.root else ()) + self.units

    def ranks(self, workload: LayerGraph) -> int:
        """Return the number of GPUs among which the state is divided."""
        return self.group * workload.gpus_per_server if self.stage else 1

    def bytes_per_gpu(self, workload: Workload) -> NDArray[np.float64]:
        """Return bytes [servers]: the part of the state, gathered tensors, and activations of the GPU's samples."""
        job = layer_graph(workload)
        states = model_state_bytes(
            job.parameters,
            weight=job.element_bytes,
            gradient=job.element_bytes,
            optimizer=state_bytes(job.optimizer, job.dtype),
            stage=self.stage,
            ranks=self.ranks(job),
        )
        activations = job.batch_per_gpu / self.microbatches * sum(activation_elements(job.layers, self.recompute))
        return np.full(self.servers, states + self.working_bytes(job) + activations * job.element_bytes)

    def working_bytes(self, workload: LayerGraph) -> float:
        """Return the bytes of gathered parameters, and of gradients that are not reduced yet, on a GPU.

        They belong to the root, to the unit that computes and, for parameters, to the units that are gathered ahead.
        """
        elements = {layer.name: layer.parameters for layer in workload.layers}
        root = sum(elements[name] for name in self.root)
        units = [sum(elements[name] for name in unit) for unit in self.units]
        needed = 0
        if self.stage >= 2:
            needed += root + max(units)
        if self.stage == 3:
            together = min(1 + self.prefetch, len(units))
            needed += root + int(np.convolve(units, np.ones(together, np.int64), "valid").max())
        return float(needed) * workload.element_bytes

    def rows(self) -> list[Row]:
        """Return the division as text: ``gradients and optimizer state divided among the GPUs of ... (ZeRO-2)``."""
        if not self.stage:
            return [("all layers", "on all servers (data parallel)")]
        state = " and ".join(filter(None, (", ".join(DIVIDED[self.stage - 1 : 0 : -1]), DIVIDED[0])))
        servers = f"{self.group} server{'s' if self.group > 1 else ''}"
        return [("all layers", f"{state} divided among the GPUs of {servers} (ZeRO-{self.stage})")]

    def alternatives(self, workload: Workload) -> list[Shards]:
        """Return every stage with every group size that divides the servers; units and prefetching stay."""
        job = layer_graph(workload)
        groups = [count for count in range(1, self.servers + 1) if self.servers % count == 0]
        options = [replace(self, stage=0, group=self.servers)]
        options += [replace(self, stage=stage, group=group) for group in groups for stage in STAGES[1:]]
        needs = [float(option.bytes_per_gpu(job).max()) for option in options]
        fits = [option for option, need in zip(options, needs, strict=True) if need <= job.gpu.usable_memory]
        if not fits:
            raise ValueError(
                f"gpu.memory: {job.name} on {self.servers} servers must fit in the {job.gpu.room} of "
                f"{job.gpu.name}, got at least {human(min(needs), 'B')} however its state is divided"
            )
        return fits

    def distance(self, other: Strategy) -> float:
        """Return the difference of the stages; another group counts more than any difference of stages."""
        assert isinstance(other, Shards)
        return abs(self.stage - other.stage) + len(STAGES) * float(self.group != other.group)


def model_state_bytes(
    parameters: float, *, weight: float, gradient: float, optimizer: float, stage: int, ranks: int
) -> float:
    """Return the bytes on each of ``ranks`` GPUs; ``weight``, ``gradient``, ``optimizer`` are bytes per parameter.

    Source: Rajbhandari et al., SC 2020, figure 1 and section 5: (2 + 2 + K) P in all. Stage 1 divides K P of them,
    stage 2 (2 + K) P, stage 3 all.
    """
    divided = sum([optimizer, gradient, weight][:stage])
    return parameters * (weight + gradient + optimizer - divided + divided / ranks)


def units_of(workload: LayerGraph, unit_bytes: float) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Return the units and the root.

    Each block of a transformer is a unit, and the layers around the blocks are the root. If there are no blocks, layers
    join a unit until it has ``unit_bytes`` of parameters, and the root is empty.
    """
    blocks: dict[int, list[str]] = {}
    root: list[str] = []
    for layer in workload.layers:
        block = None if layer.sharding is None else layer.sharding.block
        (root if block is None else blocks.setdefault(block, [])).append(layer.name)
    if blocks:
        return _tuples(list(blocks.values())), tuple(root)
    units: list[list[str]] = [[]]
    bytes = 0.0
    for layer in workload.layers:
        if bytes >= unit_bytes:
            units.append([])
            bytes = 0.0
        units[-1].append(layer.name)
        bytes += layer.parameters * workload.element_bytes
    return _tuples(units), ()


def _tuples(units: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, units))
