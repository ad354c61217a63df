"""Lowering of sharded data parallelism (``strategy.shards``): an order of steps, and the tasks that they become.

A *segment* is a run of layers of one unit in one direction. With stage 3, of units a, b and a root r around them,

    gather     r a      b        b'   a'
    compute    r  [a] [b] [r] [r] [b']  [a'] [r']  update
    reduce                            b     a    r

parameters are gathered before the segments of their unit, at most ``prefetch`` segments ahead (then the unit before
those has been freed), and gradients are reduced after the last. With stages 1 and 2 nothing is gathered before the
update, and all units after it. Gathers and reductions of one group of GPUs run one after another, in the order in which
they are issued, as on one NCCL communicator; with hybrid sharding, the all-reduces between groups run on another.

Bytes that each of n ranks sends, of P bytes of parameters: 2 (n-1)/n P with stages 1 and 2, as data parallelism does,
and 3 (n-1)/n P with stage 3 (2 of the root, which is gathered once).

Sources: Rajbhandari et al., "ZeRO", SC 2020, section 7; Zhao et al., "PyTorch FSDP", VLDB 2023, sections 3.3
(prefetching, rate limiting: two units at a time) and 3.2.2 (hybrid sharding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Group
from topoflow.strategy.shards import Shards
from topoflow.traffic.base import Compute, Traffic
from topoflow.traffic.roofline import backward_seconds, forward_seconds, step_seconds
from topoflow.traffic.side_by_side import Ends, Tasks, ascending
from topoflow.workload.base import Workload


class Segment(NamedTuple):
    """Layers of one unit, computed one after another."""

    unit: int  # of ``Shards.gathered``
    layers: tuple[str, ...]
    forward: bool


@dataclass(frozen=True)
class Step:
    """``op`` is "gather" or "reduce" of a unit, "compute" of the next segment, or "update", once at the end.

    A gather waits for the segment ``after``, or for the update if it is the number of segments; -1: for nothing.
    """

    op: str
    unit: int = 0
    after: int = -1


def segments_of(shards: Shards, layers: Sequence[str]) -> list[Segment]:
    """Forward in the order of ``layers``, then backward."""
    unit_of = {name: number for number, unit in enumerate(shards.gathered) for name in unit}
    forward = [Segment(unit, tuple(names), True) for unit, names in groupby(layers, unit_of.__getitem__)]
    return forward + [Segment(each.unit, each.layers[::-1], False) for each in reversed(forward)]


def steps_of(shards: Shards, segments: Sequence[Segment]) -> list[Step]:
    """One iteration, in the order in which a rank issues it."""
    waiting = _gathers(shards, segments)[::-1]
    last = {segment.unit: number for number, segment in enumerate(segments)}
    steps = []
    for number, segment in enumerate(segments):
        while waiting and waiting[-1][0] <= number + shards.prefetch and waiting[-1][1].after < number:
            steps.append(waiting.pop()[1])
        steps.append(Step("compute"))
        if last[segment.unit] == number:
            steps.append(Step("reduce", segment.unit))
    steps.append(Step("update"))
    updated = range(0 if shards.stage == 3 else len(shards.gathered))
    return steps + [Step("gather", unit, len(segments)) for unit in updated]


def _gathers(shards: Shards, segments: Sequence[Segment]) -> list[tuple[int, Step]]:
    """Of stage 3: every segment whose parameters are not there, and their gather.

    It waits for the segment that frees the unit before, and for an earlier one of its own unit.
    """
    found = []
    latest: dict[int, int] = {}
    for number, (unit, *_) in enumerate(segments):
        kept = shards.root and unit == 0 and unit in latest
        if shards.stage == 3 and not kept:
            after = max(number - 1 - shards.prefetch, latest.get(unit, -1))
            found.append((number, Step("gather", unit, max(after, -1))))
        latest[unit] = number
    return found


def lower_sharded(workload: Workload, strategy: Strategy, shards: Shards) -> Traffic:
    """The traffic of one iteration."""
    segments = segments_of(shards, [layer.name for layer in workload.layers])
    iteration = _Iteration(workload, strategy, shards, segments)
    for step in steps_of(shards, segments):
        iteration.add(step)
    return Traffic(
        name=f"{workload.name} {strategy.name}",
        servers=strategy.servers,
        tasks=tuple(iteration.tasks.listed),
        local_bandwidth=workload.gpu.local_bandwidth,
    )


class _Iteration:
    """The tasks so far; servers work alike, so what ends is known by server."""

    def __init__(self, workload: Workload, strategy: Strategy, shards: Shards, segments: Sequence[Segment]) -> None:
        self.workload, self.shards, self.segments = workload, shards, segments
        self.tasks = Tasks(workload.gpu.local_bandwidth)
        self.servers = range(strategy.servers)
        gpus = workload.gpus_per_server
        nothing: Ends = dict.fromkeys(self.servers, ())
        within, ranks = shards.servers, shards.servers * gpus
        starts = self.servers[::within]
        self.ranks = ranks  # that divide a copy
        self.divided = [Group(tuple(range(start, start + within)), gpus, 1) for start in starts] if ranks > 1 else []
        replicas = [Group(tuple(self.servers[place::within]), 1, gpus) for place in range(within)]
        self.replicas = replicas if len(starts) > 1 else []
        layers = {layer.name: layer for layer in workload.layers}
        self.layers = layers
        self.elements = [sum(layers[name].parameters for name in unit) for unit in shards.gathered]
        self.computed: list[Ends] = []  # by segment, and at last the update
        self.gathered: dict[int, Ends] = {}  # by unit, its latest gather
        self.issued: Ends = nothing  # the latest collective that divides or gathers
        self.reduced: Ends = nothing  # the latest all-reduce between replicas

    def add(self, step: Step) -> None:
        if step.op == "compute":
            self._compute(self.segments[len(self.computed)])
        elif step.op == "update":
            self._update()
        elif self.elements[step.unit]:
            (self._gather if step.op == "gather" else self._reduce)(step)

    def _compute(self, segment: Segment) -> None:
        of_layer = forward_seconds if segment.forward else backward_seconds
        samples = self.workload.batch_per_server
        seconds = sum(of_layer(self.workload, self.layers[name], samples) for name in segment.layers)
        name = f"{'forward' if segment.forward else 'backward'} {_named(segment.layers)}"
        before = self.computed[-1] if self.computed else {}
        self.computed.append(self._on_servers(seconds, name, before, self.gathered.get(segment.unit, {})))

    def _update(self) -> None:
        """Of a rank's part of all parameters."""
        seconds = step_seconds(self.workload, sum(self.elements) / self.ranks)
        self.computed.append(self._on_servers(seconds, "optimizer", self.computed[-1], self.issued, self.reduced))

    def _on_servers(self, seconds: float, name: str, *awaited: Mapping[int, Sequence[int]]) -> Ends:
        ends: Ends = {}
        for server in self.servers:
            after = ascending(task for tasks in awaited for task in tasks.get(server, ()))
            ends[server] = (self.tasks.add(Compute(seconds, server, after, f"{name} @{server}")),)
        return ends

    def _gather(self, step: Step) -> None:
        self._issue("all_gather", step.unit, self.computed[step.after] if step.after >= 0 else {})
        self.gathered[step.unit] = self.issued

    def _reduce(self, step: Step) -> None:
        self._issue("reduce_scatter", step.unit, self.computed[-1])
        if self.replicas:
            bytes = self._bytes(step.unit) / self.ranks
            waits = _both(self.reduced, self.issued if self.divided else self.computed[-1])
            self.reduced = self.tasks.collective("all_reduce", bytes, self.replicas, waits, self._name(step.unit))

    def _issue(self, op: str, unit: int, after: Ends) -> None:
        if self.divided:
            waits = _both(self.issued, after)
            self.issued = self.tasks.collective(op, self._bytes(unit), self.divided, waits, f"{op} {self._name(unit)}")

    def _bytes(self, unit: int) -> float:
        return float(self.elements[unit]) * self.workload.element_bytes

    def _name(self, unit: int) -> str:
        return _named(self.shards.gathered[unit])


def _both(one: Ends, other: Ends) -> Ends:
    return {server: (*tasks, *other.get(server, ())) for server, tasks in one.items()}


def _named(layers: Sequence[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
