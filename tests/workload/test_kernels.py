"""Compute times: at the rate of a layer's kind, or as they were measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.engine.screen.contention import Contention
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.data_parallel import DataParallel
from topoflow.traffic.base import Compute
from topoflow.traffic.lower import lower
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.kernels import Kernels, KernelTimes
from topoflow.workload.layers import LayerModel, conv, linear, table
from topoflow.workload.ncf import Ncf
from topoflow.workload.resnet50 import Resnet50
from topoflow.workload.vgg16 import Vgg16

A100 = Gpu("A100", {"float32": 19.5e12, "tfloat32": 156e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
DENSE, TABLE = linear("a", 4096, 4096), table("E", 1000, 128, 100)


def written(folder: Path, *rows: dict[str, Any], batch: object = 4096) -> str:
    """A file as FlexFlow writes it."""
    path = folder / "measure.json"
    path.write_text(json.dumps({"batch_size": batch, "ngpus": 16, "measurements": list(rows)}))
    return str(path)


def row(name: str, parts: str, forward: object, backward: object) -> dict[str, Any]:
    return {"name": name, "pc_str": parts, "fw_time": forward, "bw_time": backward, "mem_req": 1}


@pytest.fixture
def measured(tmp_path: Path) -> Kernels:
    """4096 samples on 16 servers are 64 per GPU, on 8 servers 128; a table's are those of a server."""
    return Kernels.load(
        written(
            tmp_path,
            row("Dense_4096_4096", "2-1-16", 1.0, 3.0),
            row("Dense_4096_4096", "2-1-8", 2.0, 5.0),
            row("Embed_1000x128", "2-1-1", 8.0, 16.0),
        )
    )


def workload(*layers: Layer, **fields: Any) -> LayerGraph:
    return LayerGraph("some", layers, 64, A100, **fields)


def test_convolutions_compute_at_their_own_rate_and_nothing_else_does() -> None:
    convolution = conv("c", 256, 256, 3, 64, [], bias=False)
    plain = workload(convolution, DENSE)
    faster = replace(plain, precision={"conv": "tfloat32"})
    assert forward_seconds(plain, convolution, 256) == pytest.approx(8 * forward_seconds(faster, convolution, 256))
    assert backward_seconds(faster, convolution, 256) == 2 * forward_seconds(faster, convolution, 256)
    assert forward_seconds(plain, DENSE, 256) == forward_seconds(faster, DENSE, 256)
    assert update_seconds(plain, convolution, 256, True) == update_seconds(faster, convolution, 256, True)


@pytest.mark.parametrize("narrow", ["bfloat16", "float64"])
def test_tf32_is_how_float32_is_computed(narrow: str) -> None:
    gpu = replace(A100, flops={**A100.flops, "float64": 9.7e12})
    graph = replace(Vgg16(gpu).build(), dtype=narrow)
    assert graph.rate("conv") == narrow
    without = replace(A100, flops={"float32": 19.5e12})
    assert Vgg16(without).build().rate("conv") == "float32"


def test_a_step_of_topoopts_vgg16_takes_what_its_authors_measured() -> None:
    """100vgg_16.fbuf: each server computes for 100.5 ms; cuDNN's convolutions reached 83 TFLOP/s, not 156."""
    gpu = replace(A100, flops={**A100.flops, "tfloat32": 83e12})
    graph = Vgg16(gpu, image_size=229, padding=2, pooling=3).build()
    convolutions = [layer for layer in graph.layers if layer.kind == "conv"]
    seconds = sum(forward_seconds(graph, layer, 256) + backward_seconds(graph, layer, 256) for layer in convolutions)
    assert 0.080 < seconds < 0.120


def test_resnet50_computes_in_float32() -> None:
    graph = Resnet50(A100).build()
    assert {graph.rate(layer.kind) for layer in graph.layers} == {"float32"}


def test_a_measured_layer_takes_what_was_measured_and_others_their_roofline(measured: Kernels) -> None:
    other = linear("b", 4096, 7, ["a"])
    graph = workload(DENSE, other, kernels=measured)
    assert (forward_seconds(graph, DENSE, 256), backward_seconds(graph, DENSE, 256)) == (1e-3, 3e-3)
    assert forward_seconds(graph, other, 256) == forward_seconds(workload(DENSE, other), other, 256)


def test_a_table_is_looked_up_by_one_gpu_of_its_server(measured: Kernels) -> None:
    graph = workload(TABLE, DENSE, kernels=measured)
    assert forward_seconds(graph, TABLE, 4096) == 8e-3
    assert backward_seconds(graph, TABLE, 2048) == 8e-3


@pytest.mark.parametrize(
    ("name", "model", "unmeasured"),
    [
        ("dlrm128", Dlrm(A100), set()),
        ("dlrm128_tables128", Dlrm(A100, tables=128), set()),
        ("dlrm16", Dlrm(A100, tables=16, dimension=256, dense_size=1024, feature_size=2048), set()),
        ("ncf128", Ncf(A100), {"mf", "predict"}),  # the authors sum two outputs where NeuMF concatenates
    ],
)
def test_the_shipped_kernels_of_topoopts_authors_are_those_of_its_models(
    name: str, model: LayerModel, unmeasured: set[str]
) -> None:
    """None is faster than the roofline; tables, which one GPU looks up, take more than four times as long."""
    kernels = Kernels.load(f"topoopt/{name}")
    roofline = model.build()
    graph = replace(roofline, kernels=kernels)
    assert {layer.name for layer in graph.layers if not kernels.has(layer.kernel)} == unmeasured
    for layer in graph.layers:
        for seconds in (forward_seconds, backward_seconds):
            slower = 4 if layer.kind == "table" else 1
            assert seconds(graph, layer, 65536) >= slower * seconds(roofline, layer, 65536), layer.name


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_more_samples_take_longer(fewer: float, more: float) -> None:
    kernels = Kernels(
        "", {"Dense_1_1": {64: KernelTimes(1.0, 3.0), 128: KernelTimes(1.5, 3.5), 256: KernelTimes(4.0, 8.0)}}
    )
    fewer, more = sorted((fewer, more))
    low, high = kernels.times("Dense_1_1", fewer, 1), kernels.times("Dense_1_1", more, 1)
    assert low.forward <= high.forward * (1 + 1e-12)
    assert low.backward <= high.backward * (1 + 1e-12)


@pytest.mark.parametrize(("samples", "seconds"), [(64, 1.0), (96, 1.5), (128, 2.0), (32, 0.5), (512, 8.0)])
def test_between_measured_samples_time_is_linear_and_beyond_them_proportional(
    measured: Kernels, samples: int, seconds: float
) -> None:
    assert measured.times("Dense_4096_4096", 4 * samples, 4).forward == pytest.approx(seconds * 1e-3)


def test_lowered_tasks_take_what_was_measured(measured: Kernels) -> None:
    graph = workload(DENSE, linear("b", 4096, 4096, ["a"]), kernels=measured)
    traffic = lower(graph, DataParallel().place(graph, 2))
    tasks = [task for task in traffic.tasks if isinstance(task, Compute)]
    assert [task.seconds for task in tasks if task.name.startswith("backward")] == [3e-3] * 4


@pytest.mark.parametrize(
    ("rows", "batch", "message"),
    [
        ([{"name": "x"}], 64, r"measurements\[0\]\.pc_str: must be numbers as 2-1-128, got None"),
        ([row("x", "2-1-0", 1, 1)], 64, r"measurements\[0\]\.pc_str: must be a positive number, got 0"),
        ([row("x", "2-1-4", -1, 1)], 64, r"measurements\[0\]\.fw_time: must be a positive number, got -1"),
        ([row("x", "2-1-4", 1, True)], 64, r"measurements\[0\]\.bw_time: must be a positive number, got True"),
        ([row("", "2-1-4", 1, 1)], 64, r"measurements\[0\]\.name: must be the name of a kernel, got ''"),
        ([row("x", "2-1-4", 1, 1)] * 2, 64, r"measurements\[1\]: must be of different kernels"),
        ([3], 64, r"measurements\[0\]: must be a measured kernel, got 3"),
        ([], "many", r"batch_size: must be a positive number, got 'many'"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, rows: list[Any], batch: object, message: str) -> None:
    with pytest.raises(ValueError, match=rf"measure\.json\.{message}"):
        Kernels.load(written(tmp_path, *rows, batch=batch))


def test_kernels_of_another_model_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, row("Dense_1_2", "2-1-4", 1, 1))
    with pytest.raises(ValueError, match=r"^workload\.kernels: must have a kernel of dlrm, as Embed_10000000x128, got"):
        Dlrm(A100, kernels=path).build()


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ({"cnv": "tfloat32"}, r"workload\.precision: must be of kinds of layers, conv, pool, dense, got 'cnv'"),
        ({"conv": "tf32"}, r"workload\.precision\.conv: must be a rate of the gpu, float32, .* got 'tf32'"),
    ],
)
def test_a_precision_names_a_kind_and_a_rate(precision: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Vgg16(A100, precision=precision).build()


@pytest.mark.parametrize("samples", [32768, 65536, 131072, 262144, 524288, 1048576])
def test_dlrms_dense_layers_ran_in_float32_outside_the_tensor_cores(shared_data: Path, samples: int) -> None:
    """Measured on A100: Dense_4096_4096 at 15 to 18 TFLOP/s, of a peak of 19.5."""
    kernels = Kernels.load(f"{shared_data}/topoopt_taskgraphs/op_measurements/measure_{samples}_128.json")
    times = kernels.times("Dense_4096_4096", samples / 128, 4)
    flops = 2 * 4096 * 4096 * samples / 512
    assert 12e12 < flops / times.forward < 19.5e12
    assert 1.6 < times.backward / times.forward < 2.1


def test_the_screen_of_placements_reads_measured_times_too(measured: Kernels) -> None:
    graph = workload(DENSE, linear("b", 4096, 4096, ["a"]), kernels=measured, precision={"dense": "tfloat32"})
    network = IdealSwitch(bandwidth=12.5e9, degree=4, latency=1e-6).build(2, Demand(2))
    traffic = lower(graph, DataParallel().place(graph, 2))
    expected = Bound().simulate([place(traffic, network, name="some", rings="flows", all_reduce="ring")])[0].makespan
    estimates = Contention(graph, network, [(0, 1)], all_reduce="ring").makespans([[0, 0]])
    assert estimates == pytest.approx([expected], rel=1e-9)
    assert expected > 8e-3  # two layers of 1 + 3 ms
