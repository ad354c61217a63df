"""Shards: data-parallel replicas that divide the state of the model instead of each holding all of it (ZeRO).

    stage 1    the optimizer's state is divided      gradients are reduce-scattered, each rank updates its part of the
    stage 2    gradients too                         parameters, and the updated parameters are all-gathered
    stage 3    parameters too                        they are all-gathered unit by unit, before the unit's forward pass
                                                     and again before its backward pass, and freed after each

What is divided is divided among the GPUs of ``servers`` consecutive servers. Where there are more servers than that,
such groups are replicas of each other and all-reduce their part of the gradients (hybrid sharding).

Sources: Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", SC 2020, sections 5
and 7; Zhao et al., "PyTorch FSDP: Experiences on scaling fully sharded data parallel", VLDB 2023, sections 3.2 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.workload.base import Workload

STAGES = (1, 2, 3)


@dataclass(frozen=True)
class Shards:
    """A unit is what is gathered, reduced and freed at once: consecutive layers, but for the root.

    The ``root`` are the layers around the units (the embedding and the head of a transformer). It is gathered first,
    and kept until its backward pass is done, as FSDP does by default; () where every layer is in a unit.
    """

    stage: int  # one of STAGES
    servers: int
    units: tuple[tuple[str, ...], ...]  # layers, in the order of the workload
    root: tuple[str, ...] = ()
    prefetch: int = 1  # units whose parameters may be gathered while those before them compute

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise ValueError(f"fsdp.stage: must be one of {', '.join(map(str, STAGES))}, got {self.stage!r}")
        for name, least in (("servers", 1), ("prefetch", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"fsdp.{name}: must be a whole number of at least {least}, got {value!r}")

    @property
    def gathered(self) -> tuple[tuple[str, ...], ...]:
        """All layers by what they are gathered with: the root, if there is one, then the units."""
        return ((self.root,) if self.root else ()) + self.units


def units_of(workload: Workload, unit_bytes: float) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Units and root. A block of a transformer is a unit, and what is around the blocks is the root; where there are no
    blocks, layers join a unit until it has ``unit_bytes`` of parameters, and there is no root."""
    blocks: dict[int, list[str]] = {}
    root: list[str] = []
    for layer in workload.layers:
        block = None if layer.sharding is None else layer.sharding.block
        (root if block is None else blocks.setdefault(block, [])).append(layer.name)
    if blocks:
        return tuple(map(tuple, blocks.values())), tuple(root)
    units: list[list[str]] = [[]]
    bytes = 0.0
    for layer in workload.layers:
        if bytes >= unit_bytes:
            units.append([])
            bytes = 0.0
        units[-1].append(layer.name)
        bytes += layer.parameters * workload.element_bytes
    return tuple(map(tuple, units)), ()


def model_state_bytes(
    parameters: float, *, weight: float, gradient: float, optimizer: float, stage: int, ranks: int
) -> float:
    """Bytes on each of ``ranks`` GPUs; ``weight``, ``gradient`` and ``optimizer`` are bytes per parameter.

    Source: Rajbhandari et al., SC 2020, figure 1 and section 5: (2 + 2 + K) P, of which K P, (2 + K) P and all are
    divided in stages 1, 2 and 3.
    """
    divided = [optimizer, gradient, weight][:stage]
    whole = weight + gradient + optimizer - sum(divided)
    return parameters * (whole + sum(divided) / ranks)


def working_bytes(workload: Workload, shards: Shards) -> float:
    """Bytes that a GPU needs of what is divided while it works on it: gathered parameters, and gradients that are not
    reduced yet. They are those of the root, of the unit that computes and, of parameters, of those that are gathered
    ahead."""
    elements = {layer.name: layer.parameters for layer in workload.layers}
    root = sum(elements[name] for name in shards.root)
    units = [sum(elements[name] for name in unit) for unit in shards.units]
    needed = 0
    if shards.stage >= 2:
        needed += root + max(units)
    if shards.stage == 3:
        together = min(1 + shards.prefetch, len(units))
        needed += root + int(np.convolve(units, np.ones(together, np.int64), "valid").max())
    return float(needed) * workload.element_bytes
