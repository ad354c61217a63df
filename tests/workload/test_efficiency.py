"""Measured efficiencies: the laws of the times they give, the shipped tables, and what is wrong with a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.traffic.roofline import SharingDegrees, gpu_times
from topoflow.workload import efficiency
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.efficiency import Efficiency
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

SHIPPED = sorted(Path(efficiency.__file__).parent.glob("*.json"))
H100 = Gpu("H100", {"bfloat16": 989.5e12, "float8_e4m3fn": 1979e12, "float32": 67e12}, 3.35e12, 450e9, 80e9)
MEASURED = replace(H100, efficiency="measured")


def plain() -> dict[str, Any]:
    """Half of every peak, and a quarter of it for matrices of 64 columns."""
    sizes = {"rows": [1], "inputs": [1], "outputs": [64, 256], "reached": [[[0.25, 0.5]]]}
    heads = {"size": [64], "sequence": [1024], "heads": [1], "reached": [[[0.5]]]}
    return {
        "gpu": "some",
        "origin": "made up",
        "matmul": {"bfloat16": sizes},
        "attention": {"bfloat16": heads},
        "flash2": None,
        "backward": {"inputs": 1.0, "parameters": 0.5, "attention": 1.0},
        "memory": 0.5,
        "launch_us": 2.0,
        "links": 0.5,
        "overlap": 1.0,
    }


def half(tmp_path: Path, changed: dict[str, Any] | None = None) -> Gpu:
    path = tmp_path / "half.json"
    path.write_text(json.dumps(plain() | (changed or {})))
    return Gpu("some", {"bfloat16": 100e12}, 1e12, 100e9, 40e9, efficiency=str(path))


def job(gpu: Gpu, **fields: Any) -> LayerGraph:
    return Transformer(gpu, layers=2, hidden=256, heads=4, key_value_heads=4, sequence=1024, **fields).build()


def layer(workload: LayerGraph, name: str) -> Layer:
    return next(layer for layer in workload.layers if layer.name == name)


def test_a_matrix_multiplication_takes_its_flops_over_the_part_of_the_peak(tmp_path: Path) -> None:
    workload = job(half(tmp_path), feed_forward=1024)
    up = replace(layer(workload, "block0.ffn_up"), elementwise=0)
    times = gpu_times(workload, up, 1000.0, up.parameters)
    seconds = 1000 * up.forward_flops / (0.5 * 100e12)
    assert times.forward == pytest.approx(seconds)
    assert times.backward == pytest.approx(seconds + 2 * seconds)  # gradients of parameters reach half as much


def test_a_kernel_that_moves_memory_takes_its_launch_and_its_bytes(tmp_path: Path) -> None:
    workload = job(half(tmp_path))
    norm = layer(workload, "block0.norm1")
    moved = 2 * (10 * norm.memory_elements + norm.parameters)
    times = gpu_times(workload, norm, 10.0, norm.parameters)
    assert times.forward == pytest.approx(2e-6 + moved / (0.5 * 1e12))


def test_an_older_attention_kernel_is_never_faster() -> None:
    """On an H100, FlashAttention-2 reaches 335 TFLOP/s forward and 322 backward with long sequences (Shah et al.)."""
    kernels = ("flash", "flash2", "flash1")
    for sequence in (1024, 16384):
        times = []
        for kernel in kernels:
            workload = job(MEASURED, attention=kernel) if sequence == 1024 else long_job(kernel)
            times.append(gpu_times(workload, layer(workload, "block0.attention"), 16.0, 0))
        assert [time.forward for time in times] == sorted(time.forward for time in times)
        assert [time.backward for time in times] == sorted(time.backward for time in times)
    workload = long_job("flash2")
    attention = layer(workload, "block0.attention")
    computed = 16 * attention.forward_flops / 2
    times = gpu_times(workload, attention, 16.0, 0)
    assert computed / times.forward == pytest.approx(335e12, rel=0.01)
    assert 2.5 * computed / times.backward == pytest.approx(322e12, rel=0.01)


def long_job(kernel: str) -> LayerGraph:
    sizes = {"layers": 1, "hidden": 2048, "heads": 16, "key_value_heads": 16, "sequence": 16384}
    return Transformer(MEASURED, attention=kernel, **sizes).build()


def test_an_attention_kernel_that_was_not_measured_is_refused() -> None:
    workload = job(replace(MEASURED, name="B200"), attention="flash2")
    rule = "must be flash, as FlashAttention-2 was not measured on B200"
    with pytest.raises(ValueError, match=f"^workload.attention: {rule}, got flash2$"):
        gpu_times(workload, layer(workload, "block0.attention"), 1.0, 0)


def test_causal_attention_computes_half_of_the_scores(tmp_path: Path) -> None:
    workload = job(half(tmp_path))
    causal = layer(workload, "block0.attention")
    ahead = gpu_times(workload, causal, 1000.0, 0).forward
    assert gpu_times(workload, replace(causal, causal=False), 1000.0, 0).forward == pytest.approx(2 * ahead)


def test_columns_and_rows_of_a_matrix_are_divided_among_tensor_ranks(tmp_path: Path) -> None:
    """4 ranks have 64 of 256 columns each, of which a quarter of the peak is reached; rows keep their 256 columns."""
    workload = job(half(tmp_path), feed_forward=256)
    for name, reached in (("block0.ffn_up", 0.25), ("block0.ffn_down", 0.5)):
        matrix = replace(layer(workload, name), elementwise=0)
        times = gpu_times(workload, matrix, 1000.0, matrix.parameters / 4, SharingDegrees(tensor=4))
        assert times.forward == pytest.approx(1000 * matrix.forward_flops / (reached * 100e12))


@given(
    st.sampled_from(["a100", "h100", "h200", "b200", "gb200", "gb300"]),
    st.floats(0.01, 100),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 8),
    st.sampled_from([512, 2048, 8192]),
)
def test_nothing_but_causal_attention_is_faster_than_the_roofline(
    name: str, samples: float, tensor: int, hidden: int, sequence: int
) -> None:
    gpu = replace(H100, name=name.upper(), efficiency="measured")
    peak = replace(gpu, efficiency="roofline")
    sizes = {"hidden": 1024 * hidden, "heads": 8 * hidden, "key_value_heads": 8 * hidden, "sequence": sequence}
    graph = Moe(gpu, layers=1, experts=8, **sizes).build()
    ideal = replace(graph, gpu=peak)
    for node in graph.layers:
        if not node.causal:
            held = node.parameters / tensor
            slow, fast = (
                gpu_times(variant, node, samples, held, SharingDegrees(tensor, 1, 2)) for variant in (graph, ideal)
            )
            assert slow.forward >= fast.forward * (1 - 1e-12)
            assert slow.backward >= fast.backward * (1 - 1e-12)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_table_names_its_gpu_and_its_origin(path: Path) -> None:
    table = Efficiency.load(str(path))
    assert table.gpu == path.stem.upper()
    assert "aiconfigurator" in table.origin
    assert "SimuMax" in table.origin
    assert 0.5 < table.reached("matmul", "bfloat16", 8192, 8192, 8192) < 0.9
    assert table.reached("matmul", "float16", 100, 300, 500) == table.reached("matmul", "bfloat16", 100, 300, 500)


def test_measured_points_are_met_and_sizes_between_them_lie_between() -> None:
    table = Efficiency.load(str(SHIPPED[0])).tables["matmul"]["bfloat16"]
    assert table.at(1024, 2048, 4096) == pytest.approx(table.reached[2, 3, 4])
    low, high = sorted((table.at(1024, 2048, 4096), table.at(2048, 2048, 4096)))
    assert low <= table.at(1500, 2048, 4096) <= high
    assert table.at(1e9, 1e9, 1e9) == pytest.approx(table.reached[-1, -1, -1])


WRONG = [
    ({"memory": 1.1}, r"half\.json\.memory: must be within 1e-09\.\.1 of the peak, got 1\.1"),
    ({"links": 0}, r"half\.json\.links: must be within 1e-09\.\.1 of the peak, got 0"),
    (
        {"backward": {"inputs": 1.0, "parameters": 0.5, "attention": 5e-324}},  # half of it rounds to no speed at all
        r"half\.json\.backward\.attention: must be within 1e-09\.\.1 of the peak, got 5e-324",
    ),
    ({"launch_us": -1}, r"half\.json\.launch_us: must be a number of at least 0, got -1"),
    ({"launch_us": 10**400}, r"half\.json\.launch_us: must be a number of at least 0, got a whole number of 1329 bits"),
    ({"speed": 2}, r"half\.json: must have the fields gpu, origin, .*, got gpu, .*, speed"),
    ({"origin": ""}, r"half\.json\.origin: must be text, got ''"),
    ({"matmul": {}}, r"half\.json\.matmul: must be tables by rate, as bfloat16, got \{\}"),
    (
        {"attention": {"bfloat16": {"size": [64], "sequence": [2, 1], "heads": [1], "reached": [[[1], [1]]]}}},
        r"half\.json\.attention\.bfloat16\.sequence: must be ascending, got \[2, 1\]",
    ),
    (
        {"attention": {"bfloat16": {"size": [64], "sequence": [1, 2], "heads": [1], "reached": [[[1]]]}}},
        r"half\.json\.attention\.bfloat16\.reached\[0\]: must be a list of 2, one for each size, got 1",
    ),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        half(tmp_path, changed)


def test_a_precision_without_measurements_is_an_error_that_names_the_file() -> None:
    workload = job(MEASURED, dtype="float32")
    with pytest.raises(
        ValueError, match=r"h100\.json\.matmul: must have the rate float32 .*, got bfloat16, float8_e4m3fn"
    ):
        gpu_times(workload, layer(workload, "block0.ffn_up"), 1.0, 1.0)


def test_a_gpu_without_measurements_is_an_error_that_names_those_with() -> None:
    with pytest.raises(
        ValueError, match=r"^gpu\.efficiency: must be roofline or a file for mine, as only A100, B200, "
    ):
        replace(MEASURED, name="mine")
