"""What a cut transformer sends and how long it takes, against closed forms."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.grid import ParallelGrid
from topoflow.strategy.parallel import Parallel
from topoflow.strategy.schedules import table_of
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer
from topoflow.traffic.grid.pipelined import held_by_stage
from topoflow.traffic.grid.stage_work import backward_work, forward_work, split_backward_work
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.traffic.roofline import step_seconds
from topoflow.workload.base import Layer, LayerGraph, Sharding, Workload
from topoflow.workload.bert import Bert
from topoflow.workload.efficiency import measured_gpus
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
SIZES = {"layers": 4, "hidden": 64, "heads": 8, "key_value_heads": 4, "feed_forward": 96, "sequence": 32}
MIXTURE = Moe(A100, batch_per_gpu=2, gpus_per_server=1, experts=4, top_k=2, vocabulary=1000, **SIZES).build()
EVERYTHING = Parallel(tensor=2, pipeline=2, context=2, expert=2, microbatches=4)
COSTS_NOTHING = {"bandwidth": 1e18, "degree": 1, "latency": 0.0}


def simulate(traffic: Traffic, **switch: float) -> Timeline:
    settings = {"bandwidth": 12.5e9, "degree": 4, "latency": 1e-6} | switch
    fabric = IdealSwitch(**settings).build(traffic.servers, traffic.demand())
    return Fluid().simulate([place(traffic, fabric, name="one", all_reduce="hierarchical", rings="flows")])[0]


def network_bytes(workload: Workload, rule: Parallel, servers: int) -> dict[str, float]:
    """The closed form, one GPU per server: bytes of all servers by kind. h columns, s positions, 2 bytes per element.

    Reduced (Narayanan et al., SC 2021, 3.2): each of b s h elements twice per block and pass, 2 (t-1)/t sent of it. Of
    a mixture the second is of top_k times the tokens.
    """
    t, c, e, p, m = rule.tensor, rule.context, rule.expert, rule.pipeline, rule.microbatches or 1
    replicas = servers // (t * c * p)
    stream = rule.replica_samples(workload) / m * 64 * 32 * 2  # b s h of a microbatch
    experts = sum(layer.parameters for layer in workload.layers if layer.kind == "expert")
    replicated = sum(layer.parameters for layer in workload.layers if layer.kind == "norm" or "router" in layer.name)
    split = workload.parameters - experts - replicated
    ends = 2  # the embedding's outputs, the gradients of the head's inputs
    dense, sparse = replicas * c, replicas * c // e  # replicas of a parameter
    return {
        "tensor": m * replicas * 2 * (t - 1) * stream * (4 * 2 * (1 + 2) + ends),
        "context": m * replicas * 4 * 3 * (c - 1) * stream,  # 2 * 32 columns of keys and values are h
        "expert": m * replicas * 4 * 4 * (e - 1) / e * 2 * stream,
        "pipeline": m * replicas * 2 * (p - 1) * stream,
        "data": 2 * 2 * ((dense - 1) * (split + t * replicated) + (sparse - 1) * experts),
    }


@pytest.mark.parametrize(
    "rule",
    [
        Parallel(),
        Parallel(tensor=4),
        Parallel(context=4, microbatches=2),
        Parallel(expert=4),
        Parallel(pipeline=4, microbatches=8),
        EVERYTHING,
    ],
    ids=lambda rule: f"t{rule.tensor}c{rule.context}e{rule.expert}p{rule.pipeline}",
)
def test_a_mixture_sends_its_closed_form(rule: Parallel) -> None:
    traffic = lower(MIXTURE, rule.place(MIXTURE, 32))
    sent = simulate(traffic).link_bytes.sum() / 2  # every byte goes up a link and down another
    assert sent == pytest.approx(sum(network_bytes(MIXTURE, rule, 32).values()))


@pytest.mark.parametrize("rule", [EVERYTHING, Parallel(pipeline=4, microbatches=2)], ids=["everything", "pipeline"])
def test_the_closed_form_holds_kind_by_kind(rule: Parallel) -> None:
    sent: dict[str, float] = defaultdict(float)
    for task in lower(MIXTURE, rule.place(MIXTURE, 32)).tasks:
        if isinstance(task, Transfer):
            sent["pipeline"] += task.bytes
        elif isinstance(task, Collective):
            n, kind = len(task.group), task.name.split()[0]
            factor = 2 * (n - 1) if kind == "bucket" else n - 1
            sent[kind] += factor * task.bytes
    expected = network_bytes(MIXTURE, rule, 32)
    assert sent["gather_inputs"] == sent["scatter_outputs"] == pytest.approx(expected["tensor"] / 2)
    assert sent["all_gather"] == pytest.approx(2 * sent["reduce_scatter"])
    assert sent["all_gather"] + sent["reduce_scatter"] == pytest.approx(expected["context"])
    assert sent["all_to_all"] == pytest.approx(expected["expert"])
    assert sent["pipeline"] == pytest.approx(expected["pipeline"])
    assert sent["bucket"] == pytest.approx(expected["data"])


def test_a_gpt_reduces_8_b_s_h_per_block() -> None:
    # Narayanan et al., SC 2021, 3.2: 8 b s h (t-1)/t per layer, device and microbatch, here of 2 bytes, for 12 blocks,
    # 16 microbatches of 3 samples, 4 devices; and once the embedding's outputs and the head's inputs, 2 and 2
    workload = Transformer(A100, gpus_per_server=1).build()
    rule = Parallel(tensor=4, microbatches=16)
    sent = simulate(lower(workload, rule.place(workload, 4))).link_bytes.sum() / 2
    bsh = 3 * 1024 * 768
    assert sent == pytest.approx(16 * 4 * (12 * 8 + 4) * 3 / 4 * bsh * 2)


def test_a_tied_matrix_is_added_up_between_the_first_and_the_last_stage() -> None:
    workload = Transformer(A100).build()
    tasks = lower(workload, Parallel(tensor=2, pipeline=4, microbatches=4).place(workload, 8)).tasks
    tied = [task for task in tasks if isinstance(task, Collective) and task.name == "tied head"]
    assert [task.group for task in tied] == [(0, 6), (1, 7)]
    assert {task.bytes for task in tied} == {4 * 50257 * 768 / 2 * 2}  # 4 GPUs, each half of the matrix, 2 bytes


def test_what_is_inside_a_server_does_not_enter_the_network() -> None:
    workload = Transformer(A100).build()
    rule = Parallel(tensor=2, context=2, pipeline=2, microbatches=12)
    demand = lower(workload, rule.place(workload, 8)).demand()
    # 12 * 4 * 2 samples of 1024 * 768 elements of 2 bytes there and back, for each replica: one per server
    stream = 96 * 1024 * 768 * 2
    expected = np.zeros((8, 8))
    expected[[0, 1, 2, 3], [4, 5, 6, 7]] = expected[[4, 5, 6, 7], [0, 1, 2, 3]] = stream
    np.testing.assert_allclose(demand.matrix(), expected)
    assert set(demand.all_reduce) == {(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7)}


JOBS = [Transformer(A100).build(), Bert(A100).build(), Moe(A100, layers=4).build()]


@pytest.mark.parametrize("workload", JOBS, ids=lambda workload: workload.name)
def test_degrees_of_one_are_data_parallel(workload: Workload) -> None:
    """The same buckets at the same time, and the same phases of each."""
    caps = {"bucket_bytes": 25 * 2**20}

    plain = DataParallel(first_bucket_bytes=caps["bucket_bytes"], **caps)
    for gpus in (1, 8):
        job = replace(workload, gpus_per_server=gpus)
        ours, theirs = lower(job, Parallel(**caps).place(job, 4)), lower(job, plain.place(job, 4))
        buckets = [[task.bytes for task in one.tasks if isinstance(task, Collective)] for one in (ours, theirs)]
        assert buckets[0] == buckets[1]
        assert ours.demand().all_reduce == theirs.demand().all_reduce
        for switch in ({}, COSTS_NOTHING, {"bandwidth": 1e9}):
            assert simulate(ours, **switch).makespan == pytest.approx(simulate(theirs, **switch).makespan, rel=1e-9)


def equal_blocks(count: int) -> Workload:
    """Blocks of 3.12 TFLOP per sample, 10 ms on an A100, without parameters."""
    layers = [
        Layer(
            name=f"block{index}",
            kind="dense",
            parameters=0,
            forward_flops=3.12e12,
            output_elements=1000,
            memory_elements=2000,
            after=(f"block{index - 1}",) if index else (),
            sharding=Sharding(index),
        )
        for index in range(count)
    ]
    return LayerGraph("blocks", tuple(layers), 1, A100, gpus_per_server=1, dtype="bfloat16")


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("samples", [1, 3])
def test_the_bubble_is_p_minus_1_over_m(stages: int, samples: int) -> None:
    """Narayanan et al., SC 2021, 2.2.1: (p - 1) (forward + backward) are lost where communication is free."""
    workload = replace(equal_blocks(24), batch_per_gpu=samples)
    microbatches = samples * stages
    rule = Parallel(pipeline=stages, microbatches=microbatches)
    makespan = simulate(lower(workload, rule.place(workload, stages)), **COSTS_NOTHING).makespan
    ideal = samples * 24 * 3 * 10e-3  # s of one GPU, forward and backward; a stage has a part of that of all samples
    assert makespan == pytest.approx(ideal * (1 + (stages - 1) / microbatches))


@pytest.mark.parametrize(("ranks", "virtual"), [(2, 2), (2, 12), (3, 2), (4, 3), (4, 6)])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_the_interleaved_bubble_is_p_minus_1_over_m_v(ranks: int, virtual: int, groups: int) -> None:
    """Narayanan et al., SC 2021, 2.2.2: stages of 1/v of the layers divide the bubble by v."""
    workload = replace(equal_blocks(24), batch_per_gpu=groups)
    rule = Parallel(pipeline=ranks, microbatches=groups * ranks, virtual=virtual)
    strategy = rule.place(workload, ranks)
    assert (len(strategy.stages), strategy.virtual) == (ranks * virtual, virtual)
    makespan = simulate(lower(workload, strategy), **COSTS_NOTHING).makespan
    ideal = groups * 24 * 3 * 10e-3
    assert makespan == pytest.approx(ideal * (1 + (ranks - 1) / (groups * ranks * virtual)))


@pytest.mark.parametrize("virtual", [1, 2, 3])
def test_interleaved_stages_hand_over_v_times_as_often(virtual: int) -> None:
    # v p - 1 handovers of a microbatch in each direction instead of p - 1, of as many bytes
    workload = Transformer(A100, gpus_per_server=1, tied=False).build()
    tasks = lower(workload, Parallel(pipeline=4, microbatches=8, virtual=virtual).place(workload, 4)).tasks
    sent = [task.bytes for task in tasks if isinstance(task, Transfer)]
    assert len(sent) == 8 * 2 * (4 * virtual - 1)
    assert len(set(sent)) == 1


@pytest.mark.parametrize("rule", [Parallel(tensor=2, pipeline=2, microbatches=4, virtual=2)])
def test_what_is_cut_otherwise_sends_the_same_if_interleaved(rule: Parallel) -> None:
    plain = replace(rule, virtual=1)
    sums = []
    for variant in (plain, rule):
        totals: dict[str, float] = defaultdict(float)
        for task in lower(MIXTURE, variant.place(MIXTURE, 16)).tasks:
            if isinstance(task, Collective):
                totals[task.op] += task.bytes
            elif isinstance(task, Compute):
                totals[f"seconds of {task.server}"] += task.seconds
        sums.append(totals)
    assert sums[0] == pytest.approx(sums[1])


def test_a_slow_network_adds_its_latency_to_every_handover() -> None:
    # 1 microbatch through 4 stages of 6 blocks, 10 ms: 3 * 60 ms each, and 6 times 2 links of 5 ms
    workload = equal_blocks(24)
    traffic = lower(workload, Parallel(pipeline=4, microbatches=1).place(workload, 4))
    samples = 4  # of the replica
    makespan = simulate(traffic, bandwidth=1e18, degree=1, latency=5e-3).makespan
    assert makespan == pytest.approx(samples * 24 * 30e-3 + 6 * 10e-3)


def test_tensor_ranks_wait_for_their_gathers_and_reductions() -> None:
    # 2 servers of one GPU, 4 microbatches: compute as on half of the samples, then 1/2 of b s h of 4 * 12 + 2 gathers
    # and as many reductions of a microbatch cross 12.5 GB/s; nothing overlaps, and there is one replica
    workload = Transformer(A100, gpus_per_server=1, tied=False).build()
    strategy = Parallel(tensor=2, microbatches=4).place(workload, 2)
    traffic = lower(workload, strategy)
    computing = sum(task.seconds for task in traffic.tasks if isinstance(task, Compute)) / 2
    reducing = 4 * (4 * 12 + 2) * (6 * 1024 * 768 * 2) / 12.5e9
    timeline = simulate(traffic, bandwidth=12.5e9, degree=1, latency=0.0)
    assert timeline.makespan == pytest.approx(computing + reducing)


@pytest.mark.parametrize("rule", [EVERYTHING, Parallel(tensor=4, expert=4), Parallel(pipeline=4), Parallel(context=8)])
def test_every_flop_is_done_once(rule: Parallel) -> None:
    """All GPUs together do three times the forward pass of all samples, however the job is cut."""
    gpu = Gpu("arithmetic", {"bfloat16": 1e12}, 1e30, 300e9, 40e9)
    workload = replace(MIXTURE, gpu=gpu)
    tasks = lower(workload, rule.place(workload, 32)).tasks
    seconds = sum(task.seconds for task in tasks if isinstance(task, Compute) and "optimizer" not in task.name)
    flops = sum(layer.forward_flops for layer in workload.layers)
    assert seconds == pytest.approx(3 * 32 * 2 * flops / 1e12)


@pytest.mark.parametrize("rule", [EVERYTHING, Parallel(pipeline=4, microbatches=8), Parallel(tensor=2)])
def test_the_iteration_ends_with_an_update_that_waits_for_all(rule: Parallel) -> None:
    traffic = lower(MIXTURE, rule.place(MIXTURE, 32))
    updates = traffic.tasks[-32:]
    assert [task.name for task in updates] == [f"optimizer @{server}" for server in range(32)]
    awaited = {earlier for task in traffic.tasks for earlier in task.after}
    assert awaited == set(range(len(traffic.tasks) - 32))  # nothing else is left to run


def test_gradients_are_reduced_beside_the_last_backward_pass() -> None:
    workload = Transformer(A100, layers=24).build()
    strategy = Parallel(tensor=4, pipeline=2, microbatches=4).place(workload, 8)
    traffic = lower(workload, strategy)
    timeline = simulate(traffic)
    buckets = [index for index, task in enumerate(traffic.tasks) if task.name.startswith("bucket")]
    passes = [index for index, task in enumerate(traffic.tasks) if task.name.startswith("backward 0.3")]
    assert timeline.task_start[buckets].min() < timeline.task_finish[passes].max()
    for index in buckets:  # but none before its stage has seen the last microbatch
        bucket = traffic.tasks[index]
        assert isinstance(bucket, Collective)
        stage = 0 if 0 in bucket.group else 1
        begin = [number for number, task in enumerate(traffic.tasks) if task.name.startswith(f"backward {stage}.3")]
        assert timeline.task_start[index] >= timeline.task_finish[begin].min()


def test_a_server_does_one_pass_at_a_time() -> None:
    """The collectives of a pass hold its GPUs: no server begins another pass before they are done."""
    traffic = lower(MIXTURE, EVERYTHING.place(MIXTURE, 32))
    timeline = simulate(traffic, bandwidth=1e9)
    for server in (0, 31):
        mine = [
            index
            for index, task in enumerate(traffic.tasks)
            if (isinstance(task, Compute) and task.name.endswith(f" @{server}") and "optimizer" not in task.name)
            or (isinstance(task, Collective) and server in task.group and "ward" in task.name)
        ]
        ends = timeline.task_finish[mine]
        starts = [
            timeline.task_start[index] if isinstance(traffic.tasks[index], Collective) else ends[place] - seconds(task)
            for place, index in enumerate(mine)
            if (task := traffic.tasks[index])
        ]
        order = np.argsort(starts)
        assert np.all(np.array(starts)[order][1:] >= ends[order][:-1] - 1e-12)


def seconds(task: object) -> float:
    assert isinstance(task, Compute)
    return task.seconds


def test_a_job_of_128_servers_is_tens_of_thousands_of_tasks() -> None:
    workload = Moe(A100, gpus_per_server=8).build()
    traffic = lower(workload, Parallel(tensor=8, pipeline=8, expert=8, microbatches=64).place(workload, 128))
    assert 16_384 < len(traffic.tasks) < 100_000


def test_a_placement_is_lowered_layer_by_layer() -> None:
    workload = Transformer(A100, layers=2).build()
    strategy = DataParallel().place(workload, 2)
    assert any("ffn_up @1" in task.name for task in lower(workload, strategy).tasks)


SPLIT = {"zb_h1": 1, "zb_v": 1, "dualpipe_v": 1, "gpipe": 3, "one_f_one_b": 3}  # idle F per gap between ranks


@pytest.mark.parametrize("schedule", SPLIT)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_schedule_takes_its_work_and_its_bubble(schedule: str, ranks: int) -> None:
    """Equal stages, F = I = W, sending takes no time; the unit is F of a stage."""
    plain = equal_blocks(2 * ranks)
    layers = tuple(replace(layer, parameters=1) for layer in plain.layers)  # so that W has work
    workload = replace(plain, layers=layers, batch_per_gpu=4)
    rule = Parallel(pipeline=ranks, microbatches=4 * ranks, schedule=schedule)
    grid = rule.place(workload, ranks)
    unit = 2 // grid.virtual * 10e-3  # blocks of a stage
    took = simulate(lower(workload, grid), **COSTS_NOTHING).makespan
    work = 3 * grid.virtual * grid.microbatches + SPLIT[schedule] * (ranks - 1)
    assert took == pytest.approx(work * unit, rel=1e-6)
    assert least_seconds(workload, grid) <= took * (1 + 1e-9)


@pytest.mark.parametrize("schedule", [*SPLIT, "interleaved"])
def test_a_schedule_changes_neither_the_batch_nor_what_a_link_sends(schedule: str) -> None:
    plain = Parallel(tensor=2, pipeline=2, microbatches=8, schedule="gpipe").place(MIXTURE, 16)
    virtual = 2 if schedule == "interleaved" else 1
    grid = Parallel(tensor=2, pipeline=2, microbatches=8, virtual=virtual, schedule=schedule).place(MIXTURE, 16)
    assert grid.samples(MIXTURE) * grid.microbatches * grid.replicas == 16 * MIXTURE.batch_per_gpu
    assert grid.samples(MIXTURE) == plain.samples(MIXTURE)
    timeline = simulate(lower(MIXTURE, grid))
    turns = sum(a != b for a, b in pairwise(grid.stage_ranks))
    expected = network_bytes(MIXTURE, Parallel(tensor=2, pipeline=2, microbatches=8), 16)
    expected["pipeline"] *= turns
    assert timeline.link_bytes.sum() / 2 == pytest.approx(sum(expected.values()))
    assert least_seconds(MIXTURE, grid, 4 * 12.5e9) <= timeline.makespan


def test_gradients_of_weights_wait_for_nothing_but_their_rank() -> None:
    """The split backward pass takes as long as the whole one."""
    grid = Parallel(tensor=2, pipeline=2, microbatches=8, schedule="zb_v").place(MIXTURE, 16)
    for stage in held_by_stage(MIXTURE, grid):
        inputs, weights = split_backward_work(MIXTURE, grid, stage)
        backward = backward_work(MIXTURE, grid, stage)
        assert inputs.seconds + weights.seconds == pytest.approx(backward.seconds)
        assert 0 < weights.seconds < backward.seconds
        assert (inputs.sent, weights.sent) == (backward.sent, {})


def test_a_csv_is_the_schedule_that_it_was_written_from(tmp_path: Path) -> None:
    named = Parallel(tensor=2, pipeline=2, microbatches=8, schedule="zb_v").place(MIXTURE, 16)
    file = tmp_path / "table.csv"
    rows = table_of("zb_v", 2, 8, 4).rows
    file.write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    restored = Parallel(tensor=2, pipeline=2, microbatches=8, schedule=str(file)).place(MIXTURE, 16)
    assert (restored.virtual, restored.stage_ranks) == (2, named.stage_ranks)
    assert simulate(lower(MIXTURE, restored)).makespan == simulate(lower(MIXTURE, named)).makespan
    assert restored.bytes_per_gpu(MIXTURE).tolist() == named.bytes_per_gpu(MIXTURE).tolist()
    with pytest.raises(ValueError, match=r"must have 4 microbatches, got 8"):
        Parallel(tensor=2, pipeline=2, microbatches=4, schedule=str(file)).place(MIXTURE, 16)


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_small_pass_takes_as_long_as_its_host_launches_kernels(tensor: int) -> None:
    workload = Transformer(A100, gpus_per_server=1, layers=4, batch_per_gpu=1).build()
    for recompute, launches in (("none", 1 + 2), ("full", 1 + 1 + 2)):
        grid = Parallel(tensor=tensor, recompute=recompute).place(workload, tensor)

        def simulated(block_launch: float, grid: ParallelGrid = grid) -> float:
            return simulate(lower(replace(workload, block_launch=block_launch), grid)).makespan

        update = step_seconds(workload, sum(size for _, size in held_by_stage(workload, grid)[0]))
        assert simulated(0.5) == pytest.approx(4 * 0.5 * launches + update)
        # The host launches the kernels of collectives too: a launch between the two times costs nothing.
        layers = held_by_stage(workload, grid)[0]
        passes = forward_work(workload, grid, layers).seconds, backward_work(workload, grid, layers).seconds
        assert simulated(0.99 * min(passes[0], passes[1] / (launches - 1)) / 4) == simulated(0.0)
        if tensor > 1:
            assert simulated(1.01 * max(passes[0], passes[1] / (launches - 1)) / 4) == pytest.approx(simulated(0.0))


@pytest.mark.parametrize("overlap", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("network", ["slow", "fast"])
def test_compute_waits_for_the_part_of_reductions_that_does_not_overlap(
    network: str, overlap: float, tmp_path: Path
) -> None:
    """On a slow network reductions follow each other; on a fast one all but the last hide ``overlap`` of their time."""
    table = json.loads(measured_gpus()["a100"].read_text())
    (tmp_path / "table.json").write_text(json.dumps({**table, "overlap": overlap}))
    gpu = replace(A100, efficiency=str(tmp_path / "table.json"))
    workload = Transformer(gpu, gpus_per_server=1, layers=4, batch_per_gpu=4).build()
    grid = Parallel(bucket_bytes=1).place(workload, 2)
    layers = held_by_stage(workload, grid)[0]
    bandwidth = {"slow": 1e5, "fast": 1e15}[network]
    sizes = [size * workload.element_bytes / bandwidth for _, size in reversed(layers) if size]  # s, of two servers
    first = next(number for number, (_, size) in enumerate(reversed(layers)) if size)
    forward, backward = (work(workload, grid, layers).seconds for work in (forward_work, backward_work))
    expected = {
        "slow": forward + backward_work(workload, grid, layers[::-1][: first + 1]).seconds + sum(sizes),
        "fast": forward + backward + (1 - overlap) * sum(sizes) + overlap * sizes[-1],
    }[network]
    update = step_seconds(workload, sum(size for _, size in layers))
    makespan = simulate(lower(workload, grid), bandwidth=bandwidth, degree=1, latency=0.0).makespan
    assert makespan == pytest.approx(expected + update, rel=1e-9)
