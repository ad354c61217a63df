"""Lowering of FSDP and ZeRO (``strategy.shards``): data parallelism whose replicas divide the state of the model.

    gather     the parameters of a unit, once the passes before it in the program are done (``of_shards``)
    forward    every server computes a segment, a run of layers of one unit, for its own samples
    backward   the same in reverse order
    scatter    the gradients of a unit are reduce-scattered, and all-reduced between replicas of the divided state
    update     each rank updates its part of the state, after all of these

Gathers and reduce-scatters among the same GPUs are queued in the order of the program, as on one NCCL communicator;
all-reduces between replicas have another one.

For P bytes of parameters, each of n ranks sends 2 (n-1)/n P bytes with stages 1 and 2, as in data parallelism, and
3 (n-1)/n P with stage 3 (for the root, which is gathered once, 2 (n-1)/n P).

Sources: Rajbhandari et al., "ZeRO", SC 2020, section 7; Zhao et al., "PyTorch FSDP", VLDB 2023, sections 3.2.2 (hybrid
sharding) and 3.3 (prefetching, at most two units at a time).

Shapes: N servers, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from topoflow.arrays import Offsets
from topoflow.operations import bus_factor
from topoflow.strategy.memory import is_recomputed
from topoflow.strategy.shards import Shards
from topoflow.traffic.base import Label, Operation, Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.least_seconds import at_least
from topoflow.traffic.lower import Lowerer, lowering
from topoflow.traffic.program import BACKWARD, FORWARD, UPDATE, Instruction, Program
from topoflow.traffic.roofline import backward_seconds, forward_seconds, step_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, LayerGraph, Workload, layer_graph

GATHER, SCATTER = "gather", "scatter"  # the parameters of a unit, and its gradients


@lowering.register
def lower_shards(strategy: Shards, lowerer: Lowerer) -> Traffic:
    """Return the traffic of one iteration."""
    workload = layer_graph(lowerer.workload)
    unit_of = {name: number for number, unit in enumerate(strategy.gathered) for name in unit}
    segments = [(unit, list(layers)) for unit, layers in groupby(workload.layers, lambda layer: unit_of[layer.name])]
    iteration = _Iteration(workload, strategy, segments)
    for instruction in of_shards(strategy, [unit for unit, _ in segments]):
        getattr(iteration, instruction.name)(instruction.of)
    name = f"{workload.name} {strategy.name}"
    return iteration.tasks.traffic(name, strategy.servers, workload.gpu.exchange_bandwidth)


@at_least.register
def least_seconds_of_shards(strategy: Shards, workload: Workload, bandwidth: float) -> float:
    """Return the larger of a server's compute time and the time of all its sends (s)."""
    job = layer_graph(workload)
    samples = job.batch_per_server / strategy.microbatches
    forward = sum(forward_seconds(job, layer, samples) for layer in job.layers)
    backward = sum(_backward_seconds(job, strategy, layer, samples) for layer in job.layers)
    passes = strategy.microbatches * (forward + backward)
    update = step_seconds(job, job.parameters / strategy.ranks(job))
    bytes = job.parameters * job.element_bytes
    copies = strategy.servers // strategy.group
    if strategy.stage == 0:
        sent = bus_factor("all_reduce", strategy.servers)
    else:
        sent = 2 * bus_factor("all_gather", strategy.group) + bus_factor("all_reduce", copies) / strategy.group
    return max(passes + update, sent * bytes / bandwidth)


def _backward_seconds(workload: LayerGraph, shards: Shards, layer: Layer, samples: float) -> float:
    """Return the seconds of the backward pass, and of the forward pass where it runs again."""
    again = forward_seconds(workload, layer, samples) if is_recomputed(layer, shards.recompute) else 0.0
    return backward_seconds(workload, layer, samples) + again


class _Iteration:
    """The tasks so far. Servers do equal work: the tasks that each of them waits for are an array [N]."""

    def __init__(self, workload: LayerGraph, shards: Shards, segments: list[tuple[int, list[Layer]]]) -> None:
        self.workload, self.shards, self.segments = workload, shards, segments
        self.samples = workload.batch_per_server / shards.microbatches  # of a server and microbatch
        self.tasks = Columns()
        self.servers = np.arange(shards.servers)
        self.divided = self.servers.reshape(-1, shards.group)  # [G, servers of a group]
        self.ranks = shards.ranks(workload)
        elements = {layer.name: layer.parameters for layer in workload.layers}
        self.elements = [sum(elements[name] for name in unit) for unit in shards.gathered]
        nothing = np.full(shards.servers, NONE, np.int64)
        self.computed = nothing  # [N] the latest pass of each server
        self.issued = nothing  # [N] the latest gather or reduce-scatter
        self.reduced = nothing  # [N] the latest all-reduce between replicas
        self.gathered: dict[int, Offsets] = {}  # unit -> [N] its latest gather

    def gather(self, unit: int) -> None:
        if self.ranks > 1 and self.elements[unit]:
            self.issued = self._collective("all_gather", unit, self.divided, self.issued, self.computed)
            self.gathered[unit] = self.issued

    def forward(self, segment: int) -> None:
        unit, layers = self.segments[segment]
        seconds = sum(forward_seconds(self.workload, layer, self.samples) for layer in layers)
        self._compute(Label(f"forward {_name([layer.name for layer in layers])}", True), seconds, unit)

    def backward(self, segment: int) -> None:
        unit, layers = self.segments[segment]
        seconds = sum(_backward_seconds(self.workload, self.shards, layer, self.samples) for layer in layers)
        self._compute(Label(f"backward {_name([layer.name for layer in layers])}", True), seconds, unit)

    def scatter(self, unit: int) -> None:
        if not self.elements[unit]:
            return
        done = self.computed
        if self.shards.stage == 0:
            if self.shards.servers * self.workload.gpus_per_server > 1:
                self.reduced = self._collective("all_reduce", unit, self.servers[None], self.reduced, done)
            return
        if self.ranks > 1:
            done = self.issued = self._collective("reduce_scatter", unit, self.divided, self.issued, done)
        if len(self.divided) > 1:
            self.reduced = self._collective("all_reduce", unit, self.divided.T, self.reduced, done)

    def update(self, _: int) -> None:
        seconds = step_seconds(self.workload, sum(self.elements) / self.ranks)
        before = self.computed
        self.computed = self.tasks.compute(Label("optimizer", True), self.servers, seconds)
        for earlier in (before, self.issued, self.reduced):
            self.tasks.wait(self.computed, earlier)

    def _compute(self, label: Label, seconds: float, unit: int) -> None:
        before = self.computed
        self.computed = self.tasks.compute(label, self.servers, seconds)
        self.tasks.wait(self.computed, before)
        if unit in self.gathered:
            self.tasks.wait(self.computed, self.gathered[unit])

    def _collective(self, op: str, unit: int, groups: Offsets, earlier: Offsets, awaited: Offsets) -> Offsets:
        """Add a collective in each of ``groups`` [G, n]; return the task [N] of each server.

        It waits for the tasks ``awaited`` [N], and is queued after the ``earlier`` [N] collectives of the same groups.
        Between replicas of the divided state, GPUs at the same position reduce their part, side by side.
        """
        bytes = float(self.elements[unit]) * self.workload.element_bytes
        local, algorithm = self.workload.gpus_per_server, None
        if op == "all_reduce" and self.shards.stage:
            bytes, local = bytes / self.shards.group, 1
        elif op != "all_reduce" and local > 1:
            algorithm = "hierarchical"
        operations = [Operation(op, tuple(group), local, algorithm=algorithm) for group in groups.tolist()]
        rows = np.array([self.tasks.row(operation) for operation in operations])
        tasks = self.tasks.collective(Label(f"{op} {_name(self.shards.gathered[unit])}"), rows, bytes)
        task_of = np.zeros(len(self.servers), np.int64)
        task_of[groups] = tasks[:, None]
        self.tasks.wait(task_of, awaited)
        self.tasks.queue(tasks, earlier[groups[:, 0]])
        return task_of


def of_shards(shards: Shards, units: Sequence[int]) -> Program:
    """Return the program of segments whose units are ``units``.

    For units 1 and 2 and a root 0 around them, with stage 3 and one unit gathered ahead, it is:

        GATHER 0, GATHER 1, FORWARD 0, GATHER 2, FORWARD 1, FORWARD 2, FORWARD 3, GATHER 2, BACKWARD 3, GATHER 1,
        BACKWARD 2, SCATTER 2, BACKWARD 1, SCATTER 1, BACKWARD 0, SCATTER 0, UPDATE

    A gather comes as early as ``shards.prefetch`` allows, but after the last segment that frees the unit. With stages 1
    and 2 all units are gathered at the end instead. Each microbatch repeats this except the update; gradients that are
    not divided (stages 0 and 1) are accumulated, and reduced in the last microbatch.
    """
    updated = range(len(shards.gathered) if shards.stage in (1, 2) else 0)
    accumulated = _microbatch(shards, units, reduces=shards.stage >= 2) * (shards.microbatches - 1)
    last = _microbatch(shards, units, reduces=True)
    return [*accumulated, *last, Instruction(UPDATE), *(Instruction(GATHER, unit) for unit in updated)]


def _microbatch(shards: Shards, units: Sequence[int], reduces: bool) -> list[Instruction]:
    """Return the instructions of one microbatch; ``reduces`` includes those that reduce gradients."""
    passes = [Instruction(FORWARD, segment) for segment in range(len(units))]
    passes += [Instruction(BACKWARD, segment) for segment in reversed(range(len(units)))]
    waiting = _gathers(shards, [units[instruction.of] for instruction in passes])
    program: list[Instruction] = []
    for position, instruction in enumerate(passes):
        while waiting and waiting[0][0] <= position:
            program.append(Instruction(GATHER, waiting.pop(0)[1]))
        program.append(instruction)
        if reduces and instruction.name == BACKWARD and units.index(units[instruction.of]) == instruction.of:
            program.append(Instruction(SCATTER, units[instruction.of]))
    return program


def _gathers(shards: Shards, units: Sequence[int]) -> list[tuple[int, int]]:
    """Return (pass, unit) for each gather of stage 3, in order: the pass before which it comes.

    ``units`` are the units of all passes.
    """
    gathers: list[tuple[int, int]] = []
    latest: dict[int, int] = {}
    for position, unit in enumerate(units):
        stays = shards.root and unit == 0 and unit in latest
        if shards.stage == 3 and not stays:
            earliest = max(position - shards.prefetch, latest.get(unit, -1) + 1)
            gathers.append((max(earliest, gathers[-1][0] if gathers else 0), unit))
        latest[unit] = position
    return gathers


def _name(layers: Sequence[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
