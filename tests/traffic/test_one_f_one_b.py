"""The order of a pipeline's passes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.memory import begun_microbatches
from topoflow.traffic.grid.one_f_one_b import Pass, interleaved, interleaved_order, one_f_one_b, stage_order

sizes = {"stages": st.integers(1, 8), "microbatches": st.integers(1, 20)}


@given(**sizes)
def test_every_stage_passes_every_microbatch_forward_and_then_backward(stages: int, microbatches: int) -> None:
    order = one_f_one_b(stages, microbatches)
    assert len(order) == 2 * stages * microbatches
    place = {one: position for position, one in enumerate(order)}
    for one in order:
        assert place[Pass(one.stage, one.microbatch, True)] <= place[one]


@given(**sizes)
def test_a_pass_follows_that_of_its_neighbour(stages: int, microbatches: int) -> None:
    seen = set()
    for one in one_f_one_b(stages, microbatches):
        neighbour = one.stage - 1 if one.forward else one.stage + 1
        assert not 0 <= neighbour < stages or Pass(neighbour, one.microbatch, one.forward) in seen
        seen.add(one)


@given(**sizes)
def test_stage_i_of_p_keeps_at_most_p_minus_i_microbatches(stages: int, microbatches: int) -> None:
    kept: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for one in one_f_one_b(stages, microbatches):
        kept[one.stage] += 1 if one.forward else -1
        most[one.stage] = max(most[one.stage], kept[one.stage])
    assert most == {stage: min(stages - stage, microbatches) for stage in range(stages)}


def test_the_order_of_the_drawing() -> None:
    drawn = ["F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"]
    for stage, row in enumerate(drawn):
        order = stage_order(stage, 2, 3)
        assert " ".join(f"{'FB'[not one.forward]}{one.microbatch}" for one in order) == row


many = {"ranks": st.integers(2, 6), "groups": st.integers(1, 4), "virtual": st.integers(2, 4)}


@given(**many)
def test_interleaved_passes_follow_those_of_their_neighbours(ranks: int, groups: int, virtual: int) -> None:
    stages, microbatches = ranks * virtual, ranks * groups
    order = interleaved(ranks, microbatches, virtual)
    assert len(set(order)) == len(order) == 2 * stages * microbatches
    seen: set[Pass] = set()
    for one in order:
        neighbour = one.stage - 1 if one.forward else one.stage + 1
        assert not 0 <= neighbour < stages or Pass(neighbour, one.microbatch, one.forward) in seen
        assert one.forward or Pass(one.stage, one.microbatch, True) in seen
        seen.add(one)
    for rank in range(ranks):
        own = [one for one in order if one.stage % ranks == rank]
        assert own == interleaved_order(rank, ranks, microbatches, virtual)


@given(**many)
def test_a_rank_keeps_as_many_microbatches_as_its_memory_is_counted_for(ranks: int, groups: int, virtual: int) -> None:
    begun = begun_microbatches(ranks, virtual, ranks * groups)
    for rank in range(ranks):
        order = interleaved_order(rank, ranks, ranks * groups, virtual)
        first = next(number for number, one in enumerate(order) if not one.forward)
        kept = Counter(one.stage for one in order[:first])
        assert [kept[stage] for stage in range(rank, ranks * virtual, ranks)] == begun[rank::ranks].tolist()
        most, now = 0, 0
        for one in order:
            now += 1 if one.forward else -1
            most = max(most, now)
        assert most == begun[rank::ranks].sum()


def test_the_interleaved_order_of_the_drawing() -> None:
    drawn = ["F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1", "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"]
    for rank, row in enumerate(drawn):
        order = interleaved_order(rank, 2, 2, 2)
        assert " ".join(f"{'FB'[not one.forward]}{one.stage}.{one.microbatch}" for one in order) == row
