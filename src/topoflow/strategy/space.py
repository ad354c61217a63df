"""Space: the parallel degrees that a job can have on a number of servers, within the memory of its GPUs.

A search tries all degrees that the constraints of ``ParallelGrid`` and of the layers allow, each with one to
``MAX_MICROBATCHES_PER_STAGE`` (M) microbatches per stage. With fewer than one, stages are idle; with M the bubble,
(p - 1) / m of the work, is below 1 / M of it (Huang et al., "GPipe", 2019, section 2.3, call a bubble with four
microbatches per stage "negligible").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.grid import OPTIONS, ZERO, ParallelGrid, may_share_experts
from topoflow.strategy.parallel import Parallel, blocks, shardings, stage_slots
from topoflow.strategy.placement import servers_to_place
from topoflow.strategy.schedules import check_microbatches, stages_per_rank
from topoflow.units import human
from topoflow.workload.base import LayerGraph

MAX_MICROBATCHES_PER_STAGE = 8


def degrees(workload: LayerGraph, grid: ParallelGrid) -> list[ParallelGrid]:
    """Return the grids of all degrees and microbatch counts that fit in memory; what else ``grid`` says stays."""
    same = {name: getattr(grid, name) for name in ("virtual", "bucket_bytes", *OPTIONS)}
    return [
        choice.place(workload, grid.servers) for choice in parallel_choices(workload, grid.servers, Parallel(**same))
    ]


def divisions(workload: LayerGraph, grid: ParallelGrid) -> list[ParallelGrid]:
    """Return every stage of ZeRO with every number of replicas that fits in memory; what else ``grid`` says stays."""
    ranks = grid.data * grid.replicate
    options = [replace(grid, zero=0, replicate=1, data=ranks)]
    for group in _divisors(grid.servers):
        copies = grid.servers // group
        options += [replace(grid, zero=zero, replicate=copies, data=ranks // copies) for zero in ZERO[1:]]
    needs = [float(option.bytes_per_gpu(workload).max()) for option in options]
    fits = [option for option, need in zip(options, needs, strict=True) if need <= workload.gpu.usable_memory]
    if not fits:
        raise ValueError(
            f"gpu.memory: {workload.name} on {grid.servers} servers must fit in the {workload.gpu.room} of "
            f"{workload.gpu.name}, got at least {human(min(needs), 'B')} however its state is divided"
        )
    return fits


def parallel_choices(workload: LayerGraph, servers: int, base: Parallel | None = None) -> list[Parallel]:
    """Return all choices that fit in memory, in the order of (pipeline, tensor, context, expert, microbatches).

    All but the degrees and the microbatches are those of ``base``; None: the defaults. A pipeline rank has its virtual
    stages, or one if there are fewer blocks than stages. Raises ``ValueError`` for a workload that is no transformer,
    and where nothing fits.
    """
    servers_to_place("parallel", workload, servers)
    fits: list[Parallel] = []
    least: tuple[float, Parallel] | None = None
    needs = _Needs(workload)
    for choice in _degrees(workload, servers, base or Parallel()):
        if not choice.divides(workload):
            continue
        grid = None
        for microbatches in _microbatches(choice.replica_samples(workload), choice.pipeline):
            if check_microbatches(choice.schedule, choice.pipeline, microbatches, choice.virtual):
                continue
            grid = grid or replace(choice, microbatches=microbatches).place(workload, servers)
            need = needs.of(replace(grid, microbatches=microbatches))
            candidate = replace(choice, microbatches=microbatches)
            if need <= workload.gpu.usable_memory:
                fits.append(candidate)
            if least is None or need < least[0]:
                least = need, candidate
    if least is None:
        samples = servers * workload.batch_per_server
        raise ValueError(f"global_batch: must be a multiple of the replicas of some degrees, got {samples:g}")
    if not fits:
        raise ValueError(_nothing_fits(workload, servers, *least))
    return fits


def _nothing_fits(workload: LayerGraph, servers: int, need: float, choice: Parallel) -> str:
    names = ("tensor", "pipeline", "context", "expert", "microbatches")
    settings = " ".join(f"{name}={getattr(choice, name)}" for name in names)
    return (
        f"gpu.memory: {workload.name} on {servers} servers must fit in the {workload.gpu.room} of {workload.gpu.name}, "
        f"got at least {human(need, 'B')} with {settings}"
    )


def _degrees(workload: LayerGraph, servers: int, base: Parallel) -> Iterator[Parallel]:
    """Yield every valid combination of degrees, without microbatches."""
    cuts = shardings(workload)
    heads = np.gcd.reduce([cut.heads for cut in cuts])  # 0 without heads; every number divides 0
    positions = np.gcd.reduce([cut.positions for cut in cuts])
    experts = np.gcd.reduce([cut.experts for cut in cuts if cut.experts > 1] or [1])
    for pipeline in _divisors(servers):
        ranks, remainder = divmod(servers // pipeline * workload.gpus_per_server, base.replicate)
        if remainder or pipeline > blocks(workload):
            continue
        virtual = stages_per_rank(base.schedule, base.virtual, pipeline)
        stages = pipeline * virtual
        chunks = virtual if pipeline > 1 and stages <= stage_slots(blocks(workload), stages) else 1
        if chunks < virtual and pipeline > 1 and base.schedule is not None:
            continue
        for tensor in _divisors(ranks, heads):
            for context in _divisors(ranks // tensor, positions):
                for expert in _divisors(ranks // tensor // context, experts):
                    even = _even(workload.gpus_per_server, tensor, context, expert)
                    if even and may_share_experts(base.sequence_parallel, tensor, expert):
                        yield replace(
                            base,
                            tensor=tensor,
                            pipeline=pipeline,
                            context=context,
                            expert=expert,
                            virtual=chunks,
                            microbatches=None,
                            micro_batch=None,
                        )


def _even(gpus: int, *degrees: int) -> bool:
    """Return whether every server has equally many members of a group, as ``ParallelGrid`` requires."""
    return all(gpus % ranks == 0 or ranks % gpus == 0 for ranks in np.cumprod(degrees).tolist())


def _divisors(number: int, other: int = 0) -> list[int]:
    """Return the common divisors of ``number`` and ``other``, ascending; every number divides 0."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0 and other % divisor == 0]


def _microbatches(samples: int, pipeline: int) -> list[int]:
    return [count for count in _divisors(samples) if pipeline <= count <= MAX_MICROBATCHES_PER_STAGE * pipeline]


class _Needs:
    """The bytes of the fullest GPU for many grids; sums that grids share are computed once."""

    def __init__(self, workload: LayerGraph) -> None:
        self.workload = workload
        self.states: dict[tuple[int, ...], NDArray[np.float64]] = {}
        self.outputs: dict[tuple[int, int], tuple[NDArray[np.float64], float]] = {}

    def of(self, grid: ParallelGrid) -> float:
        cuts = (len(grid.stages), grid.tensor, grid.expert, *((grid.context, grid.data) if grid.zero else ()))
        if cuts not in self.states:
            self.states[cuts] = grid.state_bytes(self.workload)
        outputs = len(grid.stages), grid.repeats
        if outputs not in self.outputs:
            self.outputs[outputs] = grid.activations(self.workload)
        needed = grid.staged_bytes(self.workload, self.states[cuts], *self.outputs[outputs])
        return float(needed.max())
