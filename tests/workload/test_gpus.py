"""The roofline, and the GPUs that are shipped."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from topoflow.units import DTYPE_BYTES
from topoflow.workload.gpu import Gpu

CONFIGS = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs" / "gpu"
GPUS = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
EXAMPLE_GPU = Gpu("some", {"float32": 10e12}, 1e12, 300e9, 40e9)  # ridge at 10 FLOP per byte

amounts = st.floats(0, 1e18)


def shipped(name: str, efficiency: str = "roofline") -> Gpu:
    verb = OmegaConf.create({"efficiency": efficiency, "gpu": OmegaConf.load(CONFIGS / f"{name}.yaml")})
    gpu: Gpu = instantiate(verb.gpu)
    return gpu


def test_the_gpus_of_the_issue_are_there() -> None:
    assert {"a100", "h100", "h200", "b200"} <= set(GPUS)


def test_arithmetic_decides_above_the_ridge_and_memory_below() -> None:
    assert EXAMPLE_GPU.seconds(10e12, 1e11, "float32") == 1.0  # 100 FLOP per byte: 10 TFLOP / 10 TFLOP/s
    assert EXAMPLE_GPU.seconds(1e11, 1e12, "float32") == 1.0  # 0.1 FLOP per byte: 1 TB / 1 TB/s


@given(amounts, amounts)
def test_time_is_at_least_either_bound(flops: float, moved: float) -> None:
    seconds = EXAMPLE_GPU.seconds(flops, moved, "float32")
    assert seconds >= flops / 10e12
    assert seconds >= moved / 1e12


@given(amounts, amounts, st.floats(0, 1000))
def test_time_scales_with_the_work(flops: float, moved: float, factor: float) -> None:
    expected = factor * EXAMPLE_GPU.seconds(flops, moved, "float32")
    assert EXAMPLE_GPU.seconds(factor * flops, factor * moved, "float32") == pytest.approx(expected)


def test_a_rate_that_a_gpu_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^gpu\.flops: some has no rate for 'float64', only float32$"):
        EXAMPLE_GPU.seconds(1.0, 1.0, "float64")


@pytest.mark.parametrize("name", GPUS)
def test_a_narrower_number_is_never_slower(name: str) -> None:
    flops = shipped(name).flops
    bits = {dtype: 8 * size for dtype, size in DTYPE_BYTES.items()} | {"tfloat32": 19}
    assert set(flops) <= set(bits)
    rates = [flops[dtype] for dtype in sorted(flops, key=lambda dtype: -bits[dtype])]
    assert rates == sorted(rates)


def test_a_newer_gpu_is_no_slower_in_anything() -> None:
    generations = [shipped(name) for name in ("a100", "h100", "h200", "b200")]
    for older, newer in pairwise(generations):
        assert all(newer.flops[dtype] >= rate for dtype, rate in older.flops.items())
        for quantity in ("memory_bandwidth", "local_bandwidth", "memory"):
            assert getattr(newer, quantity) >= getattr(older, quantity)
