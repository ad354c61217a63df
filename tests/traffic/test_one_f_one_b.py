"""The order of a pipeline's passes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from topoflow.traffic.one_f_one_b import Pass, one_f_one_b, stage_order

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
