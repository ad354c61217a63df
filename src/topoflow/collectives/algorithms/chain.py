"""Broadcast and reduce along a chain, in chunks.

    broadcast   root > root + 1 > ... in the order of the group, each part copied
    reduce      root + 1 > root + 2 > ... > root, each part added

Bytes sent by all ranks: (n-1) S. Time of a chain of n ranks with C chunks (``pipelined_trees``):
(n - 2 + C) (a + S/(C B)).

Source: NCCL 2.30, src/device/broadcast.h and reduce.h: both go along its ring, from the root or to it.
"""

from __future__ import annotations

import numpy as np

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.pipelined_trees import MAX_CHUNKS, count_chunks, pipeline
from topoflow.collectives.schedule import SendSchedule
from topoflow.collectives.trees import NO_PARENT


def schedule(call: CollectiveCall) -> SendSchedule:
    """The parent of a rank is the one before it in a broadcast, the one after it in a reduce, around the circle."""
    assert call.root is not None  # a law of Traffic
    down = call.op == "broadcast"
    parent = (np.arange(call.ranks) + (-1 if down else 1)) % call.ranks
    parent[call.root] = NO_PARENT
    return pipeline([parent], call.chunks, up=not down, down=down)


ALGORITHM = Algorithm(
    ops=("broadcast", "reduce"),
    schedule=schedule,
    most_sends=lambda ranks: MAX_CHUNKS * ranks,
    default=True,
    chunks=lambda bytes, orders: count_chunks(bytes),
)
