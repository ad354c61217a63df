"""ZB-V: rank i of p has the stages i and 2 p - 1 - i, and no bubble if F, I and W take equally long.

The first and the last stage are on one rank, so that its first backward pass follows at once, and every rank keeps as
much as the first rank of 1F1B: p microbatches of both stages. Ranks start and end one pass after each other.
Source: Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, section 3, and "Zero Bubble Pipeline
Parallelism", ICLR 2024, section 6; the order is that of torch's ScheduleZBVZeroBubble.
"""

from __future__ import annotations

from itertools import count

from topoflow.strategy.schedules.base import Pass, ScheduleRule


def passes(rank: int, ranks: int, microbatches: int, virtual: int = 2) -> list[Pass]:
    """Return the passes of one rank; of fewer than 2 p - 1 microbatches, those of 2 p - 1 that exist."""
    total = max(2 * ranks - 1, microbatches)
    numbers = {(chunk, kind): count() for chunk in (0, 1) for kind in "FIW"}
    order: list[Pass] = []

    def add(chunk: int, kinds: str) -> None:
        stage = 2 * ranks - 1 - rank if chunk else rank
        order.extend(Pass(stage, next(numbers[chunk, kind]), kind) for kind in kinds)

    warm = 2 * (ranks - rank) - 1
    add(0, "F" * warm)
    for _ in range(rank):
        add(1, "F")
        add(0, "F")
    for _ in range(ranks - rank):
        add(1, "FIW")
    for number in range(ranks, total):
        if number + ranks - 1 - rank < total:
            add(0, "F")
        add(0, "IW")
        add(1, "FIW")
    for _ in range(rank):
        add(0, "I")
        add(1, "I")
    for _ in range(ranks - rank):
        add(0, "IW")
    add(1, "W" * rank)
    add(0, "W" * rank)
    return [action for action in order if action.microbatch < microbatches]


RULE = ScheduleRule(passes, virtual=2, v_shaped=True, splits=True)
