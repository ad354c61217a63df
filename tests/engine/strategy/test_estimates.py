"""Estimates of many placements: the same for any number of threads, neighbours and device; others are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from topoflow.engine.device import DeviceMemory
from topoflow.engine.screen.contention import Contention

Draw = Callable[..., list[tuple[int, ...]]]
DLRM = ("workload=dlrm", "workload.tables=20", "servers=16")


@pytest.fixture(scope="module")
def make_model(job: Callable[..., Any], some_choices: Draw) -> Callable[..., Contention]:
    """``make_model("fabric=fat_tree", threads=1)``: a DLRM on 16 servers, and 40 choices."""

    def make(*fabric: str, **options: Any) -> Contention:
        workload, _, network = job(*DLRM, *fabric)
        return Contention(workload, network, some_choices(16, 24, seed=0), **options)

    return make


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Contention]) -> Contention:
    """Of servers that are wired for the job."""
    return make_model("fabric=topoopt", "degree=4")


def some_placements(model: Contention, count: int) -> NDArray[np.int64]:
    random = np.random.default_rng(1)
    return random.integers(0, model.strategies.choices, (count, model.strategies.layers))


def test_the_number_of_threads_does_not_change_a_bit(make_model: Callable[..., Contention]) -> None:
    models = [make_model("fabric=fat_tree", threads=threads) for threads in (1, 2)]
    one, two = (model.makespans(some_placements(model, 40)) for model in models)
    assert one.tobytes() == two.tobytes()


def test_placements_do_not_see_each_other(model: Contention) -> None:
    placements = some_placements(model, 70)
    together = model.makespans(placements)
    assert together[:5].tolist() == [model.makespans(row[None])[0] for row in placements[:5]]
    assert model.makespans(placements[:0]).tolist() == []


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree"])
def test_all_devices_agree_to_the_bit(device: str, fabric: str, make_model: Callable[..., Contention]) -> None:
    on_cpu, on_device = (make_model(f"fabric={fabric}", device=DeviceMemory.named(name)) for name in ("cpu", device))
    placements = some_placements(on_cpu, 10)
    assert on_cpu.makespans(placements).tobytes() == on_device.makespans(placements).tobytes()


def test_placements_outside_of_what_there_is_are_refused(model: Contention) -> None:
    layers, choices = model.strategies.layers, model.strategies.choices
    with pytest.raises(ValueError, match=rf"^placement: expected \[2, {layers}\], got \[2, 3\]$"):
        model.makespans([[0, 0, 0]] * 2)
    with pytest.raises(ValueError, match=rf"^placement: must be within 0\.\.{choices - 1}, got -1\.\.-1$"):
        model.makespans([[-1] * layers])
    with pytest.raises(ValueError, match=rf"^placement: must be within 0\.\.{choices - 1}, got {choices}\.\."):
        model.makespans([[choices] * layers])
    with pytest.raises(ValueError, match=r"^placement: must be integers, got float64$"):
        model.makespans([[0.5] * layers])
