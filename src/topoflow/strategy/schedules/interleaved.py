"""Interleaved 1F1B: each of p ranks has v smaller stages; rank i has the stages i, i + p, i + 2 p, ...

Microbatches go in groups of p through one stage of a rank after the other, forward and then back. Example with p = 2,
v = 2, m = 2:

    rank 0    0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
    rank 1    1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1

The bubble is (p - 1) / (m v) of the work of one rank, at the cost of v p - 1 handovers instead of p - 1.
Source: Narayanan et al., SC 2021, section 2.2.2; the order is that of megatron/core/pipeline_parallel/schedules.py,
forward_backward_pipelining_with_interleaving.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.schedules.base import Pass, ScheduleRule


def nth_pass(number: int, rank: int, ranks: int, virtual: int, kind: str) -> Pass:
    """Return the ``number``-th pass of a rank in one direction."""
    group, chunk = divmod(number // ranks, virtual)
    stage = (chunk if kind == "F" else virtual - 1 - chunk) * ranks + rank
    return Pass(stage, group * ranks + number % ranks, kind)


def passes(rank: int, ranks: int, microbatches: int, virtual: int) -> list[Pass]:
    """Return the passes of one rank."""
    total = microbatches * virtual
    warm = min(2 * (ranks - 1 - rank) + (virtual - 1) * ranks, total)
    forward, backward = (
        [nth_pass(number, rank, ranks, virtual, kind) for number in range(total)] for kind in ("F", "B")
    )
    order = forward[:warm]
    for number in range(warm, total):
        order += [forward[number], backward[number - warm]]
    return order + backward[total - warm :]


def multiple(ranks: int, microbatches: int) -> str:
    """Return the law of groups of p microbatches if it is broken."""
    return f"must be a multiple of the {ranks} pipeline ranks where stages are interleaved" * (microbatches % ranks > 0)


def kept_microbatches(ranks: int, microbatches: int, virtual: int) -> NDArray[np.int64]:
    """Return the microbatches of 2 (p - 1 - i) + (v - 1) p + 1 passes of rank i, in groups of p through its stages."""
    rank = np.arange(ranks)
    begun = np.minimum(2 * (ranks - 1 - rank) + (virtual - 1) * ranks + 1, microbatches * virtual)  # [ranks]
    rounds, remaining = np.divmod(begun, ranks * virtual)
    chunk = np.arange(virtual)[:, None]
    return (rounds * ranks + np.clip(remaining - chunk * ranks, 0, ranks)).ravel()


RULE = ScheduleRule(passes, virtual=0, check=multiple, kept_microbatches=kept_microbatches)
