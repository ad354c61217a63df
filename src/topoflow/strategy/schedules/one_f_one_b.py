"""1F1B: stage i of p does p - 1 - i forward passes, then one forward and one backward in turn, then the rest.

So it keeps at most p - i microbatches. Example with p = 2, m = 3:

    rank 0    0F0 0F1 0B0 0F2 0B1 0B2
    rank 1        1F0 1B0 1F1 1B1 1F2 1B2

The step takes (m + p - 1) (forward + backward) if all stages are equal and sending takes no time: the bubble is
(p - 1) / m of the work of one stage. Source: Narayanan et al., SC 2021, section 2.2.1 (PipeDream-Flush).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.schedules.base import Pass, ScheduleRule


def passes(rank: int, ranks: int, microbatches: int, virtual: int = 1) -> list[Pass]:
    """Return the passes of one rank, which has one stage."""
    warm = min(ranks - 1 - rank, microbatches)
    order = [Pass(rank, number, "F") for number in range(warm)]
    for number in range(warm, microbatches):
        order += [Pass(rank, number, "F"), Pass(rank, number - warm, "B")]
    return order + [Pass(rank, number, "B") for number in range(microbatches - warm, microbatches)]


def kept_microbatches(ranks: int, microbatches: int, virtual: int = 1) -> NDArray[np.int64]:
    """Return p - i for rank i, or all microbatches if there are fewer."""
    return np.minimum(ranks - np.arange(ranks), microbatches)


RULE = ScheduleRule(passes, virtual=1, kept_microbatches=kept_microbatches)
