"""Lowering of shards (``strategy.shards``): data parallelism whose replicas divide the state of the model.

    gather     the parameters of a unit, once the passes before it in the program are done (``program.of_shards``)
    forward    every server computes a segment, a run of layers of one unit, for its own samples
    backward   the same in reverse
    scatter    the gradients of a unit are reduce-scattered; between replicas of what is divided, all-reduced
    update     of the part that a rank has, after all of these

Gathers and reduce-scatters among the same GPUs run one after another in the order of the program, as on one NCCL
communicator; all-reduces between replicas have another one.

Bytes that each of n ranks sends, of P bytes of parameters: 2 (n-1)/n P with stages 1 and 2, as data parallelism does,
and 3 (n-1)/n P with stage 3 (2 of the root, which is gathered once).

Sources: Rajbhandari et al., "ZeRO", SC 2020, section 7; Zhao et al., "PyTorch FSDP", VLDB 2023, sections 3.2.2 (hybrid
sharding) and 3.3 (prefetching, at most two units at a time).

Shapes: N servers, G groups.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from topoflow.arrays import Offsets
from topoflow.strategy.base import Strategy
from topoflow.strategy.shards import Shards
from topoflow.traffic.base import Label, Operation, Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.program import of_shards
from topoflow.traffic.roofline import backward_seconds, forward_seconds, step_seconds
from topoflow.traffic.tasks import NONE
from topoflow.workload.base import Layer, Workload


def lower_sharded(workload: Workload, strategy: Strategy, shards: Shards) -> Traffic:
    """The traffic of one iteration."""
    unit_of = {name: number for number, unit in enumerate(shards.gathered) for name in unit}
    segments = [(unit, list(layers)) for unit, layers in groupby(workload.layers, lambda layer: unit_of[layer.name])]
    iteration = _Iteration(workload, strategy.servers, shards, segments)
    for instruction in of_shards(shards, [unit for unit, _ in segments]):
        getattr(iteration, instruction.name)(instruction.of)
    name = f"{workload.name} {strategy.name}"
    return iteration.tasks.traffic(name, strategy.servers, workload.gpu.local_bandwidth)


class _Iteration:
    """The tasks so far. Servers work alike: what each of them waits for is an array [N] of tasks."""

    def __init__(
        self, workload: Workload, servers: int, shards: Shards, segments: list[tuple[int, list[Layer]]]
    ) -> None:
        self.workload, self.shards, self.segments = workload, shards, segments
        self.tasks = Columns()
        self.servers = np.arange(servers)
        self.divided = self.servers.reshape(-1, shards.servers)  # [G, servers of a group]
        self.replicas = self.divided.T
        self.ranks = shards.servers * workload.gpus_per_server  # among which a copy is divided
        elements = {layer.name: layer.parameters for layer in workload.layers}
        self.elements = [sum(elements[name] for name in unit) for unit in shards.gathered]
        nothing = np.full(servers, NONE, np.int64)
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
        samples = self.workload.batch_per_server
        seconds = sum(forward_seconds(self.workload, layer, samples) for layer in layers)
        self._compute(Label(f"forward {_name([layer.name for layer in layers])}", True), seconds, unit)

    def backward(self, segment: int) -> None:
        unit, layers = self.segments[segment]
        samples = self.workload.batch_per_server
        seconds = sum(backward_seconds(self.workload, layer, samples) for layer in layers)
        self._compute(Label(f"backward {_name([layer.name for layer in layers])}", True), seconds, unit)

    def scatter(self, unit: int) -> None:
        if not self.elements[unit]:
            return
        done = self.computed
        if self.ranks > 1:
            done = self.issued = self._collective("reduce_scatter", unit, self.divided, self.issued, done)
        if self.replicas.shape[1] > 1:
            self.reduced = self._collective("all_reduce", unit, self.replicas, self.reduced, done)

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

    def _collective(self, op: str, unit: int, groups: Offsets, *awaited: Offsets) -> Offsets:
        """One in each of ``groups`` [G, n]; returns [N] that of each server.

        Between replicas, GPUs in the same place reduce their part of what is divided: they are side by side.
        """
        bytes = float(self.elements[unit]) * self.workload.element_bytes
        local = self.workload.gpus_per_server
        if op == "all_reduce":
            bytes, local = bytes / self.shards.servers, 1
        algorithm = "hierarchical" if local > 1 else None
        operations = [Operation(op, tuple(group), local, algorithm=algorithm) for group in groups.tolist()]
        rows = np.array([self.tasks.row(each) for each in operations])
        tasks = self.tasks.collective(Label(f"{op} {_name(self.shards.gathered[unit])}"), rows, bytes)
        own = np.zeros(len(self.servers), np.int64)
        own[groups] = tasks[:, None]
        for earlier in awaited:
            self.tasks.wait(own, earlier)
        return own


def _name(layers: list[str] | tuple[str, ...]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]}..{layers[-1]}"
