"""What throughput.py measures and prints."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fluid_speed.batch import gpu
from fluid_speed.merging import MERGES, merging
from fluid_speed.screening import bound_on_gpu
from fluid_speed.speed import measure, report
from measure import ROUNDS, Kernel, difference, in_turn
from peers.simgrid_peer import SimGrid
from throughput import DEFAULT, EXTRA_PARTS, FAMILIES, settings
from worlds.cases import all_to_all, ring_all_reduce
from worlds.random_worlds import random_world

from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid


def lines(text: str) -> dict[str, float]:
    """``path.metric value`` lines."""
    return {path: float(value) for path, value in (line.split(" ") for line in text.splitlines())}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("cases=A,Z", "cases: must be of A, B, C, C2, D, E, F, batch, curve, merge, bound, gpu, got 'Z'"),
        ("fluid.merge=1", "fluid.merge: must be within 0 <= merge < 1, got 1"),
        ("fluid.merge=much", "fluid.merge: must be within 0 <= merge < 1, got much"),
        ("threads=2", "threads: no such key; must be cases or fluid.merge"),
    ],
)
def test_a_wrong_argument_is_told_with_its_law_and_value(argument: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        settings([argument])


def test_all_cases_but_the_gpu_run_by_default() -> None:
    assert settings([]) == ([name for name in (*FAMILIES, *EXTRA_PARTS) if name != "gpu"], 0.0)
    assert settings(["cases=D,curve", "fluid.merge=0.001"]) == (["D", "curve"], 0.001)
    assert "gpu" not in DEFAULT


def test_rounds_are_run_in_turn() -> None:
    turns: list[str] = []

    def clock(name: str, seconds: list[float]) -> float:
        turns.append(name)
        return seconds.pop()

    ours, theirs = [3.0, 1.0, 2.0], [6.0, 9.0, 8.0]
    medians = in_turn(lambda: clock("ours", ours), lambda: clock("theirs", theirs))
    assert turns == ["ours", "theirs"] * ROUNDS
    assert medians == [2.0, 8.0]


def test_a_long_round_is_run_once() -> None:
    turns = iter([1.0])
    assert in_turn(lambda: next(turns), lambda: 1e3) == [1.0, 1e3]


def test_a_difference_is_relative_and_two_zeros_are_equal() -> None:
    assert difference(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.5])) == pytest.approx(0.2)
    assert difference(np.array([0.0]), np.array([1e-9])) == 1.0


def test_the_kernel_that_is_timed_gives_the_fidelitys_answer() -> None:
    world = random_world(1).world
    run = Kernel.of([world]).run()
    assert run.finish.tobytes() == Fluid().simulate([world])[0].finish.tobytes()
    assert run.cpu > 0
    assert run.wall > 0


def test_worlds_of_a_batch_end_as_they_do_alone() -> None:
    """Many seeds, too: bottlenecks of the even routing all but tie, which is where a solver goes round in circles."""
    worlds = [all_to_all(f"C.{seed}", 6, ecmp=False, uneven=True, seed=seed).world for seed in range(12)]
    alone = np.concatenate([Kernel.of([world]).run().finish for world in worlds])
    assert Kernel.of(worlds).run(threads=2).finish.tobytes() == alone.tobytes()


def test_memory_is_that_of_all_arrays_and_of_the_state() -> None:
    kernel = Kernel.of([all_to_all("A", 4, ecmp=False, uneven=False).world])
    assert kernel.run().bytes > sum(array.nbytes for array in kernel.batch.arrays.values())


def test_without_a_peer_there_is_no_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [random_world(0), random_world(1)]
    report("F", [measure(case, None, 0.0) for case in cases])
    metrics = lines(capsys.readouterr().out)
    assert metrics["fluid.F.worlds"] == 2
    assert metrics["fluid.F.tasks"] == sum(case.world.graph.tasks for case in cases)
    assert metrics["fluid.F.worlds_per_second"] > 0
    assert metrics["fluid.F.sensitivity"] < 1e-12
    assert not any("simgrid" in path or "difference" in path for path in metrics)


@pytest.mark.slow
def test_beside_a_peer_there_is_a_ratio_and_a_difference(simgrid: SimGrid, capsys: pytest.CaptureFixture[str]) -> None:
    report("C", [measure(all_to_all("C", 4, ecmp=True, uneven=True), simgrid, 0.0)])
    metrics = lines(capsys.readouterr().out)
    ratio = metrics["fluid.C.worlds_per_second"] / metrics["fluid.C.simgrid_worlds_per_second"]
    assert metrics["fluid.C.ratio_to_simgrid"] == pytest.approx(ratio, rel=1e-3)
    assert metrics["fluid.C.largest_difference"] < 1e-9
    assert metrics["fluid.C.largest_difference_to_simgrid_as_it_comes"] < 1e-6


def test_merging_is_compared_with_the_exact_answer(capsys: pytest.CaptureFixture[str]) -> None:
    merging("C", [all_to_all("C", 4, ecmp=True, uneven=True)])
    metrics = lines(capsys.readouterr().out)
    for merge in MERGES:
        assert metrics[f"fluid.merge.{merge}.C.times_faster"] > 0
        assert metrics[f"fluid.merge.{merge}.C.largest_error"] < 10 * merge
        assert metrics[f"fluid.merge.{merge}.C.makespan_error"] <= metrics[f"fluid.merge.{merge}.C.largest_error"]


def test_equal_flows_merge_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """All flows of a step of the ring end together anyway."""
    merging("D", [ring_all_reduce("D", 4, 1e9)])
    errors = [value for path, value in lines(capsys.readouterr().out).items() if path.endswith("error")]
    assert all(math.isclose(error, 0.0, abs_tol=1e-12) for error in errors)


@pytest.fixture
def needs_gpu() -> None:
    try:
        DeviceMemory.named("cuda")
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.gpu
@pytest.mark.usefixtures("needs_gpu")
def test_a_gpu_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    case = all_to_all("C", 2, ecmp=False, uneven=True)
    gpu(None, 0.0, [case.world] * 3)
    bound_on_gpu([case], worlds=5)
    metrics = lines(capsys.readouterr().out)
    assert metrics.pop("fluid.gpu.worlds") == 3
    assert sorted(metrics) == [
        "bound.gpu.C.worlds_per_second",
        "fluid.gpu.with_copies.worlds_per_second",
        "fluid.gpu.worlds_per_second",
    ]
    assert min(metrics.values()) > 0
