"""Direct all-to-all, gather and scatter: every pair talks at once, no rank forwards.

n = 3, all-to-all: rank i keeps part j of its buffer for rank j, which files it as part i of its own.

    0>1  0>2  1>0  1>2  2>0  2>1     S/n each, at the same time

The parts of a schedule are those of all buffers in one row here: what i hands to j is part i n + j.
Bytes sent per rank: (n-1)/n S for all-to-all. Time on an ideal switch: a + (n-1)/n S/B for all three, as the port of
each rank (of the root) is the bottleneck.

Source: NCCL user guide 2.30, "Point-to-point communication": all-to-all, gather and scatter are grouped sends.
"""

from __future__ import annotations

import numpy as np

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.schedule import Index, SendSchedule


def schedule(call: CollectiveCall) -> SendSchedule:
    """Every ordered pair of ranks in an all-to-all, the others to the root in a gather, and back in a scatter."""
    ranks, root = call.ranks, call.root
    if call.op == "all_to_all":
        pair = np.arange(ranks * ranks)
        return _at_once(ranks, pair[pair // ranks != pair % ranks])
    assert root is not None  # a law of Traffic
    others = np.delete(np.arange(ranks), root)
    return _at_once(ranks, others * ranks + root if call.op == "gather" else root * ranks + others)


def _at_once(ranks: int, pair: Index) -> SendSchedule:
    """``pair`` [F] = source * ranks + target."""
    return SendSchedule(
        parts=ranks,
        source=pair // ranks,
        target=pair % ranks,
        first=pair,
        count=np.ones(len(pair), np.int64),
        reduce=np.zeros(len(pair), np.bool_),
        channel=np.zeros(len(pair), np.int64),
        after_offsets=np.zeros(len(pair) + 1, np.int64),
        after=np.zeros(0, np.int64),
    )


ALGORITHM = Algorithm(
    ops=("all_to_all", "gather", "scatter"),
    schedule=schedule,
    most_sends=lambda ranks: ranks * ranks,
    default=True,
    at_once=True,
)
