"""A chain of placements, changed layer by layer, is what it would be from scratch, alone and beside others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from topoflow.engine.strategy_bound import Chains, StrategyBound

Draw = Callable[..., list[tuple[int, ...]]]
DLRM = ("workload=dlrm", "workload.tables=20", "servers=16")


@pytest.fixture(scope="module")
def make_bounds(job: Callable[..., Any], some_choices: Draw) -> Callable[..., StrategyBound]:
    """``make_bounds("fabric=fat_tree", threads=1)``: a DLRM on 16 servers, and 40 choices."""

    def make(*fabric: str, **how: Any) -> StrategyBound:
        model, _, network = job(*DLRM, *fabric)
        return StrategyBound(model, network, some_choices(16, 24, seed=0), **how)

    return make


@pytest.fixture(scope="module")
def bounds(make_bounds: Callable[..., StrategyBound]) -> StrategyBound:
    """Of servers that are wired for the job."""
    return make_bounds("fabric=topoopt", "degree=4")


def begin(bounds: StrategyBound, chains: int = 6) -> Chains:
    random = np.random.default_rng(1)
    return bounds.chains(random.integers(0, bounds.strategies.choices, (chains, bounds.strategies.layers)))


def proposal(bounds: StrategyBound, random: np.random.Generator, chains: int = 6) -> tuple[Any, Any]:
    return random.integers(0, bounds.strategies.layers, chains), random.integers(0, bounds.strategies.choices, chains)


def kept(chains: Chains) -> list[Any]:
    """All that is kept of the placements, but what is not asked for: travel times between layers of one choice."""
    arrays = chains.bound.strategies.arrays
    crosses = chains.placement[:, arrays["source"]] != chains.placement[:, arrays["consumer"]]
    times = [chains.state[name].reshape(*crosses.shape, -1)[crosses] for name in ("forth", "back")]
    others = ("placement", "makespan", "load", "outgoing", "incoming", "crossing")
    return [array.tobytes() for array in (*times, *(chains.state[name] for name in others))]


def test_a_chain_after_hundreds_of_changes_is_what_it_would_be_from_scratch(bounds: StrategyBound) -> None:
    chains, random = begin(bounds), np.random.default_rng(2)
    for _ in range(100):
        chains.propose(*proposal(bounds, random))
        chains.accept(random.random(6) < 0.5)
    again = bounds.chains(chains.placement)
    assert kept(chains) == kept(again)
    assert chains.makespan.tolist() == bounds.makespans(chains.placement).tolist()


def test_a_proposal_is_the_makespan_of_the_changed_placement_and_changes_nothing(bounds: StrategyBound) -> None:
    chains, random = begin(bounds), np.random.default_rng(3)
    before = kept(chains)
    for _ in range(50):
        layer, choice = proposal(bounds, random)
        changed = chains.placement
        changed[np.arange(6), layer] = choice
        assert chains.propose(layer, choice).tolist() == bounds.makespans(changed).tolist()
        assert kept(chains) == before


def test_only_chains_of_the_mask_change_and_only_in_the_layer_proposed(bounds: StrategyBound) -> None:
    chains = begin(bounds, 3)
    expected, makespan = chains.placement, chains.makespan
    proposed = chains.propose([4, 5, 6], [7, 8, 9])
    chains.accept([True, False, True])
    expected[0, 4], expected[2, 6] = 7, 9
    assert chains.placement.tolist() == expected.tolist()
    assert chains.makespan.tolist() == [proposed[0], makespan[1], proposed[2]]


def test_a_proposal_of_what_is_there_is_no_change(bounds: StrategyBound) -> None:
    chains = begin(bounds, 2)
    assert chains.propose([3, 3], chains.placement[:, 3]).tolist() == chains.makespan.tolist()


def test_the_number_of_threads_does_not_change_a_bit(make_bounds: Callable[..., StrategyBound]) -> None:
    found = []
    for threads in (1, 2):
        bounds = make_bounds("fabric=fat_tree", threads=threads)
        chains, random = begin(bounds), np.random.default_rng(4)
        proposed = []
        for _ in range(40):
            proposed.append(chains.propose(*proposal(bounds, random)).tobytes())
            chains.accept(random.random(6) < 0.5)
        found.append((proposed, kept(chains)))
    assert found[0] == found[1]


def test_chains_do_not_see_each_other(bounds: StrategyBound) -> None:
    together = begin(bounds, 70)
    assert bounds.makespans(together.placement).tolist() == together.makespan.tolist()
    alone = [bounds.makespans(row[None])[0] for row in together.placement[:5]]
    assert together.makespan[:5].tolist() == alone
    assert bounds.makespans(together.placement[:0]).tolist() == []


def test_cpu_and_gpu_agree(device: str, make_bounds: Callable[..., StrategyBound]) -> None:
    here, there = (make_bounds("fabric=topoopt", "degree=4", device=where) for where in ("cpu", device))
    one, other, random = begin(here), begin(there), np.random.default_rng(5)
    for _ in range(40):
        step = proposal(here, random)
        np.testing.assert_allclose(one.propose(*step), other.propose(*step), rtol=1e-12)
        mask = random.random(6) < 0.5
        one.accept(mask)
        other.accept(mask)
    assert one.placement.tolist() == other.placement.tolist()
    np.testing.assert_allclose(one.makespan, other.makespan, rtol=1e-12)
    assert one.state["load"].tolist() == other.state["load"].tolist()


def test_placements_and_proposals_outside_of_what_there_is_are_refused(bounds: StrategyBound) -> None:
    layers, choices = bounds.strategies.layers, bounds.strategies.choices
    with pytest.raises(ValueError, match=rf"^placement: expected \[2, {layers}\], got \[2, 3\]$"):
        bounds.makespans([[0, 0, 0]] * 2)
    with pytest.raises(ValueError, match=rf"^placement: must be within 0\.\.{choices - 1}, got -1\.\.-1$"):
        bounds.makespans([[-1] * layers])
    chains = begin(bounds, 2)
    with pytest.raises(ValueError, match=r"^accept: must follow a proposal, got none since the last$"):
        chains.accept([True, True])
    with pytest.raises(ValueError, match=rf"^layer: must be within 0\.\.{layers - 1}, got 0\.\.{layers}$"):
        chains.propose([0, layers], [0, 0])
    with pytest.raises(ValueError, match=r"^choice: must be integers, got float64$"):
        chains.propose([0, 1], [0.5, 1.0])
