"""Recipes: every mesh of ranks, division of state, recomputation and microbatch that can train a transformer.

A recipe is a row of columns. The mesh has the axes ``pipeline``, ``replicate``, ``data``, ``expert``, ``context`` and
``tensor`` of ``ParallelGrid``. No choice changes the global batch. A pipeline rank has several stages only where all
stages are equal, as Megatron-LM requires.

Shapes: R recipes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.grid import ZERO, may_share_experts
from topoflow.strategy.memory import RECOMPUTE
from topoflow.strategy.parallel import ROUNDING, blocks, shardings, stage_slots
from topoflow.workload.base import LayerGraph

Column = NDArray[np.int64]
# The chosen keys of ``strategy=parallel``; the data degree and the number of microbatches follow from them.
CHOSEN = ("tensor", "context", "expert", "pipeline", "virtual", "replicate", "zero", "recompute", "micro_batch")


@dataclass(frozen=True, eq=False)
class Recipes:
    """R recipes of one job. ``recompute`` is an index of ``memory.RECOMPUTE``."""

    tensor: Column
    context: Column
    expert: Column
    pipeline: Column
    virtual: Column
    replicate: Column
    zero: Column
    recompute: Column
    micro_batch: Column
    data: Column
    microbatches: Column

    def __len__(self) -> int:
        return len(self.tensor)

    def at(self, rows: NDArray[Any]) -> Recipes:
        """Return the recipes of ``rows``, which are numbers or a mask."""
        return replace(self, **{name: getattr(self, name)[rows] for name in (*CHOSEN, "data", "microbatches")})

    def chosen(self, row: int) -> dict[str, Any]:
        """Return the keys of ``strategy=parallel`` for one recipe."""
        plain = {name: int(getattr(self, name)[row]) for name in CHOSEN}
        return {**plain, "recompute": RECOMPUTE[plain["recompute"]]}


def recipes(workload: LayerGraph, gpus: int, fixed: Mapping[str, Any], sequence_parallel: bool = True) -> Recipes:
    """Return all recipes of a job with ``workload.batch_per_gpu`` samples on each of ``gpus``.

    The values of ``fixed`` (of ``CHOSEN``) are not searched. Tensor ranks share divided experts only with
    ``sequence_parallel``. Raises ``ValueError`` where nothing can be divided so.
    """
    cuts = shardings(workload)
    heads = np.gcd.reduce([cut.heads for cut in cuts])
    positions = np.gcd.reduce([cut.positions for cut in cuts])
    experts = np.gcd.reduce([cut.experts for cut in cuts if cut.experts > 1] or [1])
    kinds = [how for how in RECOMPUTE if how != "selective" or _has_scores(workload) or fixed.get("recompute") == how]
    again = [*map(RECOMPUTE.index, kinds)]
    rows = []
    for pipeline in divisors(gpus):
        ranks = gpus // pipeline
        for tensor, context, expert in product(divisors(ranks, heads), divisors(ranks, positions), divisors(experts)):
            copies, remainder = divmod(ranks, tensor * context * expert)
            samples = workload.batch_per_gpu * tensor * context * pipeline
            if remainder or round(samples) < 1 or abs(samples - round(samples)) > ROUNDING * samples:
                continue
            mesh = {"tensor": tensor, "context": context, "expert": expert, "pipeline": pipeline}
            if any(fixed.get(axis, degree) != degree for axis, degree in mesh.items()):
                continue
            if not may_share_experts(sequence_parallel, tensor, expert):
                continue
            stages, divisions = _virtual(workload, pipeline), _divisions(copies, context * expert)
            sizes = divisors(round(samples))
            rows += [
                (*mesh.values(), virtual, copied, zero, how, size, copies // copied, round(samples) // size)
                for virtual, (copied, zero), how, size in product(stages, divisions, again, sizes)
                if virtual == 1 or round(samples) // size % pipeline == 0
            ]
    all_recipes = Recipes(*np.array(rows, np.int64).reshape(-1, len(CHOSEN) + 2).T)
    for name, value in fixed.items():
        number = RECOMPUTE.index(value) if name == "recompute" and value in RECOMPUTE else value
        all_recipes = all_recipes.at(getattr(all_recipes, name) == number)
        if not len(all_recipes):
            raise ValueError(f"strategy.{name}: must be that of some recipe on {gpus} GPUs, got {value!r}")
    if not len(all_recipes):
        requirement = "must be a multiple of the replicas of some mesh"
        raise ValueError(f"global_batch: {requirement}, got {workload.batch_per_gpu * gpus:g} on {gpus} GPUs")
    return all_recipes


def _has_scores(workload: LayerGraph) -> bool:
    return any(layer.scores for layer in workload.layers)


def _virtual(workload: LayerGraph, pipeline: int) -> list[int]:
    """Return the numbers of stages of a pipeline rank; none where there are more ranks than blocks."""
    number = blocks(workload)
    if pipeline > stage_slots(number, pipeline):
        return []
    counts = [(virtual, pipeline * virtual) for virtual in range(2, number // pipeline + 1 if pipeline > 1 else 0)]
    return [1, *(virtual for virtual, count in counts if stage_slots(number, count) % count == 0)]


def _divisions(copies: int, others: int) -> list[tuple[int, int]]:
    """Return (replicate, zero): the state of ``copies`` * ``others`` ranks is divided where there are several."""
    divided = [copied for copied in divisors(copies) if copies // copied * others > 1]
    return [(1, 0), *product(divided, ZERO[1:])]


def divisors(number: int, other: int = 0) -> list[int]:
    """Return the common divisors of ``number`` and ``other``, ascending; every number divides 0."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    both = sorted({*small, *(number // divisor for divisor in small)})
    return [divisor for divisor in both if other % divisor == 0]
