"""When an iteration does what: laws that hold for every graph of layers and every placement."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.base import Strategy
from topoflow.strategy.hybrid import Hybrid
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu

GPU = Gpu("some", {"float32": 1e12}, 1e12, 300e9, 40e9)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[LayerGraph, Strategy]:
    """Up to eight layers, each reading any earlier ones and held by any of up to six servers."""
    servers = draw(st.integers(1, 6))
    layers: list[Layer] = []
    placement = {}
    for index in range(draw(st.integers(1, 8))):
        name = f"L{index}"
        earlier = [layer.name for layer in layers]
        after = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        kind = draw(st.sampled_from(["dense", "table"]))
        size = draw(st.integers(0, 10**7))
        outputs = draw(st.integers(1, 1000))
        flops = draw(st.floats(0, 1e9))
        layers.append(Layer(name, kind, size, flops, outputs, 2 * outputs, tuple(after), sparse=kind == "table"))
        placement[name] = tuple(sorted(draw(st.sets(st.integers(0, servers - 1), min_size=1))))
    batch = draw(st.integers(1, 64))
    return LayerGraph("some", tuple(layers), batch, GPU, gpus_per_server=2), Placement("some", servers, placement)


def named(traffic: Traffic) -> dict[str, int]:
    return {task.name: index for index, task in enumerate(traffic.tasks)}


def ancestors(traffic: Traffic) -> list[set[int]]:
    """What must have finished before each task starts: by ``after``, and by the order of each server's compute."""
    before: list[set[int]] = []
    latest: dict[int, int] = {}
    for index, task in enumerate(traffic.tasks):
        awaited = set(task.after)
        if isinstance(task, Compute) and task.server is not None:
            awaited |= {latest[task.server]} if task.server in latest else set()
            latest[task.server] = index
        before.append(awaited.union(*(before[earlier] for earlier in awaited)))
    return before


@given(jobs())
def test_every_sample_is_computed_once_by_every_layer(job: tuple[LayerGraph, Strategy]) -> None:
    workload, strategy = job
    parts = defaultdict(list)
    for task in lower(workload, strategy).tasks:
        if isinstance(task, Compute) and task.name.startswith("forward"):
            parts[task.name.split()[1]].append(task.seconds)
    for layer in workload.layers:
        # seconds are samples / gpus * the slower of flops and bytes, and parameters once per host and GPU
        samples = strategy.servers * workload.batch_per_server / workload.gpus_per_server
        hosts = {strategy.host(layer.name, server) for server in range(strategy.servers)}
        assert len(parts[layer.name]) == len(hosts)
        arithmetic = samples * layer.forward_flops / 1e12
        memory = 4 * (samples * layer.memory_elements + (0 if layer.sparse else len(hosts) * layer.parameters)) / 1e12
        total = sum(parts[layer.name])
        assert max(arithmetic, memory) <= total * (1 + 1e-12)
        assert total <= (arithmetic + memory) * (1 + 1e-12)


@given(jobs())
def test_gradients_go_back_the_way_the_activations_came(job: tuple[LayerGraph, Strategy]) -> None:
    workload, strategy = job
    moved = {kind: np.zeros((strategy.servers, strategy.servers)) for kind in ("activations", "gradients")}
    for task in lower(workload, strategy).tasks:
        if isinstance(task, Transfer):
            moved[task.name.split()[0]][task.source, task.target] += task.bytes
    np.testing.assert_array_equal(moved["activations"], moved["gradients"].T)
    expected = np.zeros((strategy.servers, strategy.servers))
    outputs = {layer.name: layer.output_elements for layer in workload.layers}
    for layer in workload.layers:
        for earlier in layer.after:
            for server in range(strategy.servers):
                ends = strategy.host(earlier, server), strategy.host(layer.name, server)
                expected[ends] += workload.batch_per_server * outputs[earlier] * 4
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(moved["activations"], expected)


@given(jobs())
def test_a_pair_of_servers_exchanges_one_message_per_consumer(job: tuple[LayerGraph, Strategy]) -> None:
    names = [task.name for task in lower(*job).tasks]
    assert len(set(names)) == len(names)


@given(jobs())
def test_a_layer_waits_for_its_inputs_and_its_gradients(job: tuple[LayerGraph, Strategy]) -> None:
    workload, strategy = job
    traffic = lower(workload, strategy)
    before, names = ancestors(traffic), named(traffic)
    for layer in workload.layers:
        for server in range(strategy.servers):
            host = strategy.host(layer.name, server)
            forward, backward = names[f"forward {layer.name} @{host}"], names[f"backward {layer.name} @{host}"]
            assert forward in before[backward]
            for earlier in layer.after:
                source = strategy.host(earlier, server)
                assert names[f"forward {earlier} @{source}"] in before[forward]
                assert backward in before[names[f"backward {earlier} @{source}"]]


@given(jobs())
def test_a_bucket_waits_for_its_layers_on_all_holders_and_for_the_bucket_before(
    job: tuple[LayerGraph, Strategy],
) -> None:
    workload, strategy = job
    traffic = lower(workload, strategy)
    before, names = ancestors(traffic), named(traffic)
    sizes = {layer.name: 4 * layer.parameters for layer in workload.layers}
    previous: dict[tuple[int, ...], int] = {}
    queues: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for layer in reversed(workload.layers):
        group = strategy.placement[layer.name]
        if layer.parameters and (len(group) > 1 or not layer.sparse):  # a server has two GPUs, a table is sharded
            queues[group].append(layer.name)
    for index, task in enumerate(traffic.tasks):
        if isinstance(task, Collective):
            remaining = task.bytes
            while remaining > 0:
                name = queues[task.group].pop(0)
                remaining -= sizes[name]
                assert {names[f"backward {name} @{host}"] for host in task.group} <= before[index]
            assert remaining == 0
            assert previous.setdefault(task.group, index) in before[index] | {index}
            previous[task.group] = index
    assert not any(queues.values())


@given(jobs())
def test_the_iteration_ends_with_an_update_on_every_server_that_computed(job: tuple[LayerGraph, Strategy]) -> None:
    traffic = lower(*job)
    computed = {task.server for task in traffic.tasks if isinstance(task, Compute)}
    last = traffic.tasks[-len(computed) :]
    assert [task.name for task in last] == [
        f"optimizer @{server}" for server in sorted(s for s in computed if s is not None)
    ]
    before = ancestors(traffic)
    finished = set().union(*before[-len(computed) :]) | set(range(len(before) - len(computed), len(before)))
    assert finished == set(range(len(before)))  # nothing is left to run after the updates


@given(jobs(), st.floats(0.1, 10))
def test_a_gpu_k_times_as_fast_computes_k_times_as_fast(job: tuple[LayerGraph, Strategy], k: float) -> None:
    workload, strategy = job
    faster = Gpu("faster", {"float32": k * 1e12}, k * 1e12, 300e9, 40e9)
    ours = lower(workload, strategy)
    theirs = lower(
        LayerGraph("some", workload.layers, workload.batch_per_gpu, faster, workload.gpus_per_server), strategy
    )
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        assert one.after == other.after
        if isinstance(one, Compute) and isinstance(other, Compute):
            assert other.seconds == pytest.approx(one.seconds / k)
        else:
            assert one == other


def test_all_reduces_overlap_with_the_backward_pass() -> None:
    workload = Dlrm(GPU).build()
    traffic = lower(workload, Hybrid().place(workload, 4))
    before, names = ancestors(traffic), named(traffic)
    # the first bucket is ready before the bottom of the model has begun its backward pass
    assert not any(names[f"backward bottom6 @{server}"] in before[names["bucket 0"]] for server in range(4))


def test_tables_are_looked_up_and_sent_before_the_bottom_mlp_is_done() -> None:
    workload = Dlrm(GPU).build()
    traffic = lower(workload, Hybrid().place(workload, 4))
    before, names = ancestors(traffic), named(traffic)
    sent = before[names["activations top0 1>0"]]
    assert not any(names[f"forward bottom6 @{server}"] in sent for server in range(4))


def test_one_layer_on_one_server_takes_its_roofline() -> None:
    # 2 GPUs, 8 samples each of 1e9 FLOP: 8e9 / 1e12 = 8 ms forward, 16 ms backward; SGD of 1e6 parameters moves
    # 3 * 4 * 1e6 B / 1e12 B/s = 12 us
    layer = Layer("L", "dense", 10**6, 1e9, 10, 20)
    workload = LayerGraph("one", (layer,), batch_per_gpu=8, gpu=GPU, gpus_per_server=2)
    tasks = lower(workload, Placement("one", 1, {"L": (0,)})).tasks
    seconds = {task.name: task.seconds for task in tasks if isinstance(task, Compute)}
    assert seconds == pytest.approx({"forward L @0": 8e-3, "backward L @0": 16e-3, "optimizer @0": 12e-6})


def test_a_table_is_read_and_updated_by_the_row() -> None:
    # 2 GPUs, 8 samples each, bag of 10 rows of 100 elements: (8 * (1000 + 100)) * 4 B / 1e12 B/s = 35.2 ns forward;
    # the update touches 16 * 1000 of the 1e9 elements, half on each GPU: 3 * 4 * 8000 B / 1e12 B/s = 96 ns
    workload = LayerGraph(
        "one",
        (Layer("E", "table", 10**9, 1000.0, 100, 1100, sparse=True),),
        batch_per_gpu=8,
        gpu=GPU,
        gpus_per_server=2,
    )
    tasks = lower(workload, Placement("one", 1, {"E": (0,)})).tasks
    seconds = {task.name: task.seconds for task in tasks if isinstance(task, Compute)}
    assert seconds == pytest.approx({"forward E @0": 35.2e-9, "backward E @0": 70.4e-9, "optimizer @0": 96e-9})
