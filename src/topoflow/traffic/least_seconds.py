"""A lower bound of the iteration time of a grid on any network whose servers send at a limited rate (B/s).

Stage i begins when a microbatch has passed the stages before it, and works on all microbatches; then the last one goes
back through the stages before it. f and b are the times of its passes, including collectives, h that of a handover:

    f_0 + h + .. + f_{i-1} + h  +  m (f_i + b_i)  +  h + b_{i-1} + .. + h + b_0

Gradients are not reduced before the last backward pass has begun, a server sends its bytes one after another, and the
update comes last. The longest of these chains is the bound. A simulation reaches it if all stages are equal and nothing
is sent concurrently (1F1B). The bound needs no tasks, so a search does not lower degrees whose bound
exceeds the time of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import accumulate
from math import inf

from topoflow.strategy import schedules
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import GRADIENTS, ParallelGrid
from topoflow.traffic.grid.pipelined import handover_bytes, held_by_stage
from topoflow.traffic.grid.side_by_side import least_seconds_of, least_seconds_queued, outside_seconds
from topoflow.traffic.grid.stage_work import (
    IN_NODES,
    OPERATION,
    PassWork,
    all_bytes,
    backward_work,
    forward_work,
    hidden_part,
    pass_groups,
    split_backward_work,
)
from topoflow.traffic.lower import find_lowering
from topoflow.traffic.roofline import step_seconds
from topoflow.workload.base import Layer, LayerGraph, Workload, layer_graph


def least_seconds(workload: Workload, strategy: Strategy, bandwidth: float = inf) -> float:
    """Return a lower bound (s) of ``fluid``'s iteration time if each server sends at most ``bandwidth`` (B/s)."""
    find_lowering(type(strategy))
    return at_least(strategy, workload, bandwidth)


@singledispatch
def at_least(strategy: Strategy, workload: Workload, bandwidth: float) -> float:
    """Return ``least_seconds``, by the kind of the strategy; 0 where no bound is known."""
    return 0.0


@at_least.register
def of_grid(grid: ParallelGrid, workload: Workload, bandwidth: float) -> float:
    workload = layer_graph(workload)
    least = _Least(workload, grid, bandwidth)
    stages = held_by_stage(workload, grid)
    works = [(forward_work(workload, grid, stage), backward_work(workload, grid, stage)) for stage in stages]
    forward = [least.of_pass(ahead) for ahead, _ in works]
    backward = [least.of_pass(back) for _, back in works]
    inputs = backward  # until the gradients of the inputs are known
    if schedules.splits(grid.schedule, grid.pipeline):
        inputs = [least.of_pass(split_backward_work(workload, grid, stage)[0]) for stage in stages]
    handovers = [bytes / bandwidth for bytes in handover_bytes(workload, grid)]
    before = [0.0, *accumulate(ahead + sent for ahead, sent in zip(forward, handovers, strict=False))]
    later = [0.0, *accumulate(back + sent for back, sent in zip(inputs, handovers, strict=False))]
    divided = {kind: grid.divided(kind) for kind in GRADIENTS}
    updates = [
        step_seconds(workload, sum(size / divided[grid.gradients(layer)] for layer, size in stage)) for stage in stages
    ]
    ends = []
    for number, stage in enumerate(stages):
        worked = before[number] + grid.microbatches * (forward[number] + backward[number])
        reduced = worked - backward[number] + least.of_gradients(stage)
        neighbours = sum(handovers[max(number - 1, 0) : number + 1])
        loaded = least.of_port(works[number], neighbours) + least.of_gradients(stage, inside=False)
        known = before[number] + grid.microbatches * (forward[number] + inputs[number])
        ends += [max(worked, reduced, loaded) + updates[number], known + later[number] + updates[0]]
    for rank in range(grid.pipeline):  # a rank works on one of its stages at a time
        rank_stages = [stage for stage, owner in enumerate(grid.stage_ranks) if owner == rank]
        work = grid.microbatches * sum(forward[stage] + backward[stage] for stage in rank_stages)
        ends.append(min(before[stage] for stage in rank_stages) + work + sum(updates[stage] for stage in rank_stages))
    return max(ends)


class _Least:
    """Lower bounds of the parts of an iteration (s); groups along the same axes have equal shapes."""

    def __init__(self, workload: LayerGraph, grid: ParallelGrid, bandwidth: float) -> None:
        self.workload, self.grid = workload, grid
        self.rates = workload.gpu.exchange_bandwidth, bandwidth
        groups = pass_groups(workload, grid, 0) | {kind: grid.groups(0, axes) for kind, axes in GRADIENTS.items()}
        self.groups = {kind: groups_of_kind[0] for kind, groups_of_kind in groups.items()}

    def of_pass(self, work: PassWork) -> float:
        """Return the time of the compute and of the collectives that follow it one after another."""
        sent = (
            (1 - hidden_part(self.workload, self.grid, kind))
            * least_seconds_of(OPERATION.get(kind, kind), all_bytes(calls), self.groups[kind], *self.rates)
            for kind, calls in work.sent.items()
            if kind in self.groups and kind != IN_NODES  # which is concurrent with that between nodes
        )
        return max(work.seconds + sum(sent), work.launch)

    def of_port(self, works: Iterable[PassWork], handovers: float) -> float:
        """Return the time in which a server sends all bytes of its passes, one after another."""
        sent = (
            outside_seconds(OPERATION.get(kind, kind), all_bytes(calls), self.groups[kind], self.rates[1])
            for work in works
            for kind, calls in work.sent.items()
            if kind in self.groups
        )
        return self.grid.microbatches * (handovers + sum(sent))

    def of_gradients(self, held: Sequence[tuple[Layer, float]], inside: bool = True) -> float:
        """Return the time of a stage's reductions: both kinds are queued and share the same ports.

        A reduce-scatter, which ZeRO has in place of an all-reduce, takes half as long. Its gathers are left out.
        """
        longest = outside = 0.0
        for kind in GRADIENTS:
            elements = sum(size for layer, size in held if self.grid.gradients(layer) == kind)
            bytes = elements * self.grid.gradient_bytes(self.workload) * (0.5 if self.grid.zero else 1.0)
            longest = max(longest, least_seconds_queued(bytes, self.groups[kind], *self.rates))
            outside += outside_seconds("all_reduce", bytes, self.groups[kind], self.rates[1])
        return max(longest, outside) if inside else outside
