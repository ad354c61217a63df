"""The columns of a placement are the tasks of its oracle, which writes them one by one as a reader would."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.hybrid import Hybrid
from topoflow.strategy.placement import Placement, places
from topoflow.traffic.base import Collective, Compute, Task, Traffic, Transfer
from topoflow.traffic.buckets import gradient_buckets
from topoflow.traffic.lower import Lowerer, lower
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.bert import Bert
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.resnet50 import Resnet50

GPU = Gpu("some", {"float32": 1e12}, 1e12, 300e9, 40e9)


def lower_by_objects(workload: LayerGraph, strategy: Placement) -> list[Task]:
    iteration = _Iteration(workload, strategy)
    for layer in workload.layers:
        iteration.forward(layer)
    for layer in reversed(workload.layers):
        iteration.backward(layer)
    iteration.update()
    return iteration.tasks


@st.composite
def jobs(draw: st.DrawFn) -> tuple[LayerGraph, list[Placement]]:
    """Up to eight layers, each reading any earlier ones; two strategies that hold each on any of up to six servers."""
    layers: list[Layer] = []
    for index in range(draw(st.integers(1, 8))):
        earlier = [layer.name for layer in layers]
        after = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        kind = draw(st.sampled_from(["dense", "table"]))
        size, outputs, flops = draw(st.integers(0, 10**7)), draw(st.integers(1, 1000)), draw(st.floats(0, 1e9))
        layers.append(Layer(f"L{index}", kind, size, flops, outputs, 2 * outputs, tuple(after), sparse=kind == "table"))
    workload = LayerGraph("some", tuple(layers), draw(st.integers(1, 64)), GPU, gpus_per_server=draw(st.integers(1, 2)))
    return workload, [draw(strategies(workload)) for _ in range(2)]


@st.composite
def strategies(draw: st.DrawFn, workload: LayerGraph) -> Placement:
    servers = draw(st.integers(1, 6))
    holders = st.sets(st.integers(0, servers - 1), min_size=1)
    placement = {layer.name: tuple(sorted(draw(holders))) for layer in workload.layers}
    return Placement(
        "some", servers, placement, bucket_bytes=draw(st.sampled_from([1, 10**7])), first_bucket_bytes=10**5
    )


@given(jobs())
def test_the_columns_are_the_tasks_of_the_oracle(job: tuple[LayerGraph, list[Placement]]) -> None:
    workload, placements = job
    lowerer = Lowerer(workload)
    for strategy in placements:
        assert list(lowerer.lower(strategy).tasks) == lower_by_objects(workload, strategy)


@pytest.mark.parametrize(
    ("workload", "strategy"),
    [
        (Dlrm(GPU, tables=12).build(), Hybrid()),
        (Dlrm(GPU, tables=12).build(), DataParallel()),
        (Bert(GPU, layers=2).build(), DataParallel()),
        (Resnet50(GPU).build(), DataParallel()),
    ],
    ids=["dlrm", "dlrm_data", "bert", "resnet50"],
)
@pytest.mark.parametrize("servers", [1, 8])
def test_so_they_are_for_the_jobs_of_the_paper(
    workload: LayerGraph, strategy: Hybrid | DataParallel, servers: int
) -> None:
    placed = strategy.place(workload, servers)
    assert list(lower(workload, placed).tasks) == lower_by_objects(workload, placed)


@given(jobs())
def test_writing_tasks_and_reading_them_loses_nothing(job: tuple[LayerGraph, list[Placement]]) -> None:
    workload, (strategy, _) = job
    tasks = tuple(lower_by_objects(workload, strategy))
    assert Traffic.from_tasks("some", strategy.servers, tasks).tasks == tasks


@given(jobs())
def test_no_byte_is_lost_between_columns_and_demand(job: tuple[LayerGraph, list[Placement]]) -> None:
    workload, (strategy, _) = job
    traffic = lower(workload, strategy)
    demand = traffic.demand()
    assert demand.bytes.sum() == pytest.approx(traffic.bytes[traffic.is_transfer].sum())
    matrix = np.zeros((strategy.servers, strategy.servers))
    for task in traffic.tasks:
        if isinstance(task, Transfer):
            matrix[task.source, task.target] += task.bytes
    np.testing.assert_array_equal(demand.matrix(), matrix)
    reduced = sum(t.bytes for t in traffic.tasks if isinstance(t, Collective) and len(t.group) > 1)
    assert sum(demand.all_reduce.values()) == reduced


class _Iteration:
    """The tasks so far, and where each layer's work is. Tasks are their positions in ``tasks``."""

    def __init__(self, workload: LayerGraph, strategy: Placement) -> None:
        self.workload = workload
        self.strategy = strategy
        self.tasks: list[Task] = []
        self.layers = {layer.name: layer for layer in workload.layers}
        self.hosts = _hosts(strategy)  # layer -> host of each server's samples
        self.forwards: dict[tuple[str, int], int] = {}  # (layer, host) -> its forward task
        self.backwards: dict[tuple[str, int], int] = {}
        self.latest: dict[int, int] = {}  # host -> its latest backward task
        self.gradients: dict[tuple[str, int], list[int]] = defaultdict(list)  # ... -> what its backward task awaits
        self.reduced: dict[tuple[int, ...], int] = {}  # group -> its latest all-reduce
        self.closing = defaultdict(list)  # layer -> buckets that its backward pass completes
        for number, bucket in enumerate(gradient_buckets(workload, strategy)):
            self.closing[bucket.layers[-1]].append((number, bucket))

    def add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def samples(self, layer: str) -> dict[int, int]:
        """Host -> how many samples it computes ``layer`` for."""
        samples: dict[int, int] = defaultdict(int)
        for host in self.hosts[layer]:
            samples[host] += self.workload.batch_per_server
        return dict(sorted(samples.items()))

    def messages(self, layer: Layer) -> dict[tuple[int, int], dict[str, int]]:
        """What ``layer`` reads: (host of the input, host of the layer) -> input -> bytes."""
        messages: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for earlier in layer.after:
            size = self.workload.batch_per_server * self.layers[earlier].output_elements * self.workload.element_bytes
            for ends in zip(self.hosts[earlier], self.hosts[layer.name], strict=True):
                messages[ends][earlier] += size
        return dict(sorted(messages.items()))

    def forward(self, layer: Layer) -> None:
        inputs: dict[int, list[int]] = defaultdict(list)
        for (source, target), message in self.messages(layer).items():
            awaited = _ascending(self.forwards[earlier, source] for earlier in message)
            if source == target:
                inputs[target].extend(awaited)
            else:
                name = f"activations {layer.name} {source}>{target}"
                inputs[target].append(self.add(Transfer(sum(message.values()), source, target, awaited, name)))
        for host, samples in self.samples(layer.name).items():
            seconds = forward_seconds(self.workload, layer, samples)
            task = Compute(seconds, host, _ascending(inputs[host]), f"forward {layer.name} @{host}")
            self.forwards[layer.name, host] = self.add(task)

    def backward(self, layer: Layer) -> None:
        for host, samples in self.samples(layer.name).items():
            seconds = backward_seconds(self.workload, layer, samples)
            awaited = _ascending([self.forwards[layer.name, host], *self.gradients[layer.name, host]])
            task = Compute(seconds, host, awaited, f"backward {layer.name} @{host}")
            self.backwards[layer.name, host] = self.latest[host] = self.add(task)
        for (source, target), message in self.messages(layer).items():
            sent = self.backwards[layer.name, target]
            if source != target:
                name = f"gradients {layer.name} {target}>{source}"
                sent = self.add(Transfer(sum(message.values()), target, source, (sent,), name))
            for earlier in message:
                self.gradients[earlier, source].append(sent)
        self.all_reduce(layer)

    def all_reduce(self, layer: Layer) -> None:
        """The buckets that ``layer`` completes. Compute is in order, so its backward pass is the last to await."""
        for number, bucket in self.closing[layer.name]:
            awaited = [self.backwards[layer.name, host] for host in bucket.group]
            if bucket.group in self.reduced:
                awaited.append(self.reduced[bucket.group])
            self.reduced[bucket.group] = self.add(
                Collective(
                    op="all_reduce",
                    bytes=bucket.bytes,
                    group=bucket.group,
                    after=_ascending(awaited),
                    name=f"bucket {number}",
                    local=self.workload.gpus_per_server,
                )
            )

    def update(self) -> None:
        seconds: dict[int, float] = defaultdict(float)
        for layer in self.workload.layers:
            holders = self.strategy.placement[layer.name]
            for host, samples in self.samples(layer.name).items():
                seconds[host] += update_seconds(self.workload, layer, samples, replicated=len(holders) > 1)
        for server in sorted(seconds):
            awaited = [self.latest[server], *(task for group, task in self.reduced.items() if server in group)]
            self.add(Compute(seconds[server], server, _ascending(awaited), f"optimizer @{server}"))


def _hosts(strategy: Placement) -> dict[str, list[int]]:
    """Layer -> the server that computes it for the samples of server 0, 1, ..."""
    by_holders: dict[tuple[int, ...], list[int]] = {}
    for holders in strategy.placement.values():
        if holders not in by_holders:
            by_holders[holders] = [holders[place] for place in places(strategy.servers, holders)]
    return {layer: by_holders[holders] for layer, holders in strategy.placement.items()}


def _ascending(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(tasks)))
