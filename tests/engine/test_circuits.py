"""Circuits for a demand, by the kernel that a running job asks."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.engine.dynamic.circuits import choose_circuits
from topoflow.fabric.circuits import heuristic as circuit_heuristic

EVEN, WIDE, STEPS, NONE = range(4)


def demand(servers: int, kind: int, random: np.random.Generator) -> np.ndarray:
    """Many equal demands; over nine orders, half of them nothing; powers of two, which discounts make equal; none."""
    size = (servers, servers)
    wide = np.where(random.random(size) < 0.5, 0.0, 10 ** random.uniform(0, 9, size))
    kinds = [random.integers(0, 3, size) * 1e6, wide, 2.0 ** random.integers(-3, 4, size), np.zeros(size)]
    return np.array(kinds[kind])


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("degree", [1, 2, 5])
@pytest.mark.parametrize("discount", [1.0, 0.5, 0.3])
def test_the_kernel_chooses_as_its_plain_twin(servers: int, degree: int, discount: float) -> None:
    random = np.random.default_rng(servers * degree)
    for kind in (EVEN, WIDE, STEPS, NONE) * 5:
        traffic = demand(servers, kind, random)
        circuits = choose_circuits(traffic, degree, discount)
        assert np.array_equal(circuits, circuit_heuristic.choose_circuits(traffic, degree, discount))


def test_a_choice_leaves_the_demand_as_it_is() -> None:
    traffic = np.ones((4, 4))
    choose_circuits(traffic, 2, 0.5)
    assert (traffic == 1).all()
