"""What kernels take of a multiprocessor."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from gpu.gpu_resources import occupancy, resources, taken


@pytest.mark.parametrize(
    ("registers", "threads", "share"),
    [
        (32, 1024, 1.0),  # two blocks: all warps
        (128, 512, 0.25),  # one block takes all registers
        (60, 256, 0.5),  # 60 registers are allocated as 64
        (16, 32, 0.5),  # a multiprocessor has 32 blocks at most
        (255, 512, 0.0),  # no block has room
    ],
)
def test_occupancy_is_what_registers_and_threads_leave(registers: int, threads: int, share: float) -> None:
    assert occupancy(registers, threads) == share


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the path")
def test_the_kernel_of_the_bound_is_compiled_and_fits() -> None:
    usage = {name.removeprefix("resources.bound.RunBound."): value for name, value in resources("bound", "sm_90")}
    assert usage["threads"] == 256
    assert 0 < usage["registers"] <= 65_536 / usage["threads"]
    assert usage["instructions"] > 0
    assert usage["occupancy"] == occupancy(int(usage["registers"]), 256) > 0


@pytest.mark.slow
def test_rates_take_neither_stack_nor_more_code_than_they_may() -> None:
    if (
        shutil.which("nvcc") is None
        or "release 13.0" not in subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    ):
        pytest.skip("needs nvcc 13.0: others count otherwise")
    usage = {name.removeprefix("resources.fluid.RunWorld."): value for name, value in resources("fluid", "sm_90")}
    assert usage["stack_bytes"] == usage["spill_store_bytes"] == usage["spill_load_bytes"] == 0
    assert usage["instructions"] <= 25_000


def test_spills_of_the_functions_that_a_kernel_calls_are_its_own() -> None:
    report = """ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    56 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 128 registers, used 0 barriers, 80 bytes cumulative stack size
ptxas info    : Function properties for called
    24 bytes stack frame, 56 bytes spill stores, 48 bytes spill loads
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 80 bytes smem
"""
    assert taken(report) == {
        "one": {"registers": 128, "stack_bytes": 80, "spill_store_bytes": 56, "spill_load_bytes": 52},
        "two": {"registers": 40, "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0},
    }
