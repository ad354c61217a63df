"""A chain of placements, changed layer by layer, is what it would be from scratch, alone and next to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.strategy_chains import Chains

Draw = Callable[..., list[tuple[int, ...]]]
DLRM = ("workload=dlrm", "workload.tables=20", "servers=16")


@pytest.fixture(scope="module")
def make_model(job: Callable[..., Any], some_choices: Draw) -> Callable[..., Contention]:
    """``make_model("fabric=fat_tree", threads=1)``: a DLRM on 16 servers, and 40 choices."""

    def make(*fabric: str, **how: Any) -> Contention:
        workload, _, network = job(*DLRM, *fabric)
        return Contention(workload, network, some_choices(16, 24, seed=0), **how)

    return make


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Contention]) -> Contention:
    """Of servers that are wired for the job."""
    return make_model("fabric=topoopt", "degree=4")


def begin(model: Contention, chains: int = 6) -> Chains:
    random = np.random.default_rng(1)
    return model.chains(random.integers(0, model.strategies.choices, (chains, model.strategies.layers)))


def proposal(chains: Chains, random: np.random.Generator) -> Any:
    """Placements in which 0, 1 or several layers of each chain are elsewhere."""
    target = chains.placement
    for row in target:
        moved = random.integers(0, len(row), random.integers(0, 4))
        row[moved] = random.integers(0, chains.model.strategies.choices, len(moved))
    return target


def kept(chains: Chains) -> list[Any]:
    """All that is kept of the placements, but what was proposed."""
    others = ("target", "limit", "mask", "proposed")
    return [chains.state[name].tobytes() for name in chains.state if name not in others]


def test_a_chain_after_hundreds_of_changes_is_what_it_would_be_from_scratch(model: Contention) -> None:
    chains, random = begin(model), np.random.default_rng(2)
    for _ in range(100):
        chains.propose(proposal(chains, random))
        chains.accept(random.random(6) < 0.5)
    again = model.chains(chains.placement)
    assert kept(chains) == kept(again)
    assert chains.makespan.tolist() == model.makespans(chains.placement).tolist()


def test_a_proposal_is_the_makespan_of_the_changed_placement_and_changes_nothing(model: Contention) -> None:
    chains, random = begin(model), np.random.default_rng(3)
    before = kept(chains)
    for _ in range(50):
        changed = proposal(chains, random)
        assert chains.propose(changed).tolist() == model.makespans(changed).tolist()
        assert kept(chains) == before


def test_only_chains_of_the_mask_change_and_only_as_proposed(model: Contention) -> None:
    chains = begin(model, 3)
    expected, makespan = chains.placement, chains.makespan
    target = expected.copy()
    target[0, 4], target[1, 5], target[2, 6:9] = 7, 8, 9
    proposed = chains.propose(target)
    chains.accept([True, False, True])
    expected[[0, 2]] = target[[0, 2]]
    assert chains.placement.tolist() == expected.tolist()
    assert chains.makespan.tolist() == [proposed[0], makespan[1], proposed[2]]


def test_a_proposal_of_what_is_there_is_no_change(model: Contention) -> None:
    chains = begin(model, 2)
    assert chains.propose(chains.placement).tolist() == chains.makespan.tolist()


def test_a_proposal_above_its_limit_is_known_to_be_above_it(model: Contention) -> None:
    chains, random = begin(model), np.random.default_rng(6)
    for _ in range(50):
        step = proposal(chains, random)
        exact = chains.propose(step)
        limit = float(np.median(exact))
        found = chains.propose(step, limit)
        assert found[exact <= limit].tolist() == exact[exact <= limit].tolist()
        assert np.all((found[exact > limit] > limit) & (found[exact > limit] <= exact[exact > limit] * (1 + 1e-12)))
        chains.accept(found <= limit)
    assert chains.makespan.tolist() == model.makespans(chains.placement).tolist()
    assert chains.propose(step, -1.0).tolist() == [0.0] * 6


def test_a_proposal_that_is_refused_leaves_the_last_one_as_it_is(model: Contention) -> None:
    chains = begin(model, 2)
    expected = chains.placement
    expected[:, 4] = 7
    proposed = chains.propose(expected)
    for target, limit in ((expected - 8, np.inf), (expected, [1.0, 1.0, 1.0])):
        with pytest.raises(ValueError, match=r"^(target|limit): "):
            chains.propose(target, limit)
    chains.accept([True, True])
    assert chains.placement.tolist() == expected.tolist()
    assert chains.makespan.tolist() == proposed.tolist() == model.makespans(expected).tolist()


def test_the_number_of_threads_does_not_change_a_bit(make_model: Callable[..., Contention]) -> None:
    found = []
    for threads in (1, 2):
        model = make_model("fabric=fat_tree", threads=threads)
        chains, random = begin(model), np.random.default_rng(4)
        proposed = []
        for _ in range(40):
            proposed.append(chains.propose(proposal(chains, random)).tobytes())
            chains.accept(random.random(6) < 0.5)
        found.append((proposed, kept(chains)))
    assert found[0] == found[1]


def test_chains_do_not_see_each_other(model: Contention) -> None:
    together = begin(model, 70)
    assert model.makespans(together.placement).tolist() == together.makespan.tolist()
    alone = [model.makespans(row[None])[0] for row in together.placement[:5]]
    assert together.makespan[:5].tolist() == alone
    assert model.makespans(together.placement[:0]).tolist() == []


def test_cpu_and_gpu_agree(device: str, make_model: Callable[..., Contention]) -> None:
    here, there = (make_model("fabric=topoopt", "degree=4", device=where) for where in ("cpu", device))
    one, other, random = begin(here), begin(there), np.random.default_rng(5)
    for _ in range(40):
        step = proposal(one, random)
        np.testing.assert_allclose(one.propose(step), other.propose(step), rtol=1e-12)
        mask = random.random(6) < 0.5
        one.accept(mask)
        other.accept(mask)
    assert one.placement.tolist() == other.placement.tolist()
    np.testing.assert_allclose(one.makespan, other.makespan, rtol=1e-12)
    assert one.state["load"].tolist() == other.state["load"].tolist()


def test_placements_and_proposals_outside_of_what_there_is_are_refused(model: Contention) -> None:
    layers, choices = model.strategies.layers, model.strategies.choices
    with pytest.raises(ValueError, match=rf"^placement: expected \[2, {layers}\], got \[2, 3\]$"):
        model.makespans([[0, 0, 0]] * 2)
    with pytest.raises(ValueError, match=rf"^placement: must be within 0\.\.{choices - 1}, got -1\.\.-1$"):
        model.makespans([[-1] * layers])
    chains = begin(model, 2)
    with pytest.raises(ValueError, match=r"^accept: must follow a proposal, got none since the last$"):
        chains.accept([True, True])
    target = chains.placement
    with pytest.raises(ValueError, match=rf"^target: must be within 0\.\.{choices - 1}, got "):
        chains.propose(target + choices)
    with pytest.raises(ValueError, match=r"^target: must be integers, got float64$"):
        chains.propose(target + 0.5)
    with pytest.raises(ValueError, match=rf"^target: expected \[2, {layers}\], got \[2, 1\]$"):
        chains.propose(target[:, :1])
    with pytest.raises(ValueError, match=r"^limit: expected one or \[2\], got \[3\]$"):
        chains.propose(target, [1.0, 1.0, 1.0])
    target[:, 0] = 1
    chains.propose(target, [-np.inf, np.inf])
    with pytest.raises(ValueError, match=r"^accept: must be proposals within their limits, got \[0\]$"):
        chains.accept([True, False])
