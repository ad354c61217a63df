"""ZB-H1: 1F1B in which gradients of weights fill a part of the bubble.

Example with p = 2, m = 3:

    rank 0    0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2
    rank 1        1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2

Rank i computes the gradients of weights i microbatches late, so that all ranks keep p microbatches. The bubble is
(p - 1) (F + I - W). With several stages per rank, passes are interleaved (torch's InterleavedZeroBubble).
Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.2 and table 1.
"""

from __future__ import annotations

from topoflow.strategy.schedules.base import Pass, ScheduleRule
from topoflow.strategy.schedules.interleaved import multiple, nth_pass


def passes(rank: int, ranks: int, microbatches: int, virtual: int) -> list[Pass]:
    """Return the passes of one rank."""
    total = microbatches * virtual
    warm = min(ranks - 1 - rank + (virtual - 1) * ranks, total)
    forward, inputs, weights = (
        [nth_pass(number, rank, ranks, virtual, kind) for number in range(total)] for kind in ("F", "I", "W")
    )
    order, computed = forward[:warm], 0
    for number in range(total):
        order += [*forward[warm + number : warm + number + 1], inputs[number]]
        if number >= rank:
            order.append(weights[computed])
            computed += 1
    return order + weights[computed:]


RULE = ScheduleRule(passes, splits=True, check=multiple)
