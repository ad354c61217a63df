"""Pipelined trees: what a tree carries is cut into chunks, and ranks pass them on one after another.

A rank sends a chunk to its parent once it has it from all its children and has sent the chunk before; the root turns it
around and it goes down in the same way. A chain is a tree without branches.

Chunks: 512 KiB, as NCCL's (NCCL_BUFFSIZE 4 MiB in NCCL_STEPS = 8 slots), but at most 64 to bound the tasks.

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from topoflow.collectives.schedule import Index, SendSchedule, csr
from topoflow.collectives.trees import NO_PARENT

CHUNK_BYTES = 4 * 2**20 // 8
MAX_CHUNKS = 64


def count_chunks(bytes: float) -> int:
    """Into how many chunks a tree cuts ``bytes``."""
    return min(max(math.ceil(bytes / CHUNK_BYTES), 1), MAX_CHUNKS)


def pipeline(trees: Sequence[Index], chunks: int, *, up: bool, down: bool) -> SendSchedule:
    """Reduce ``up`` and then copy ``down`` several trees (parents [n] of each) at once, each with its piece of S."""
    source, target, part, added, channel = [], [], [], [], []
    pairs: list[tuple[Index, Index]] = []
    chunk = np.arange(chunks)
    base = 0
    for tree, parents in enumerate(trees):
        order = _top_down(parents)
        received: dict[int, list[Index]] = {rank: [] for rank in range(len(parents))}  # sends of all chunks, to rank
        steps = [(child, parents[child], True) for child in reversed(order)] if up else []
        steps += [(parents[child], child, False) for child in order] if down else []
        for sender, receiver, add in steps:
            send = base + chunk
            pairs += [(send, earlier) for earlier in received[sender]]
            pairs.append((send[1:], send[:-1]))
            received[receiver] = [*received[receiver], send] if add else [send]
            source.append(sender)
            target.append(receiver)
            added.append(add)
            channel.append(tree)
            part.append(tree * chunks + chunk)
            base += chunks
    offsets, after = csr(base, pairs)
    return SendSchedule(
        parts=len(trees) * chunks,
        source=np.repeat(np.array(source, np.int64), chunks),
        target=np.repeat(np.array(target, np.int64), chunks),
        first=np.concatenate(part) if part else np.zeros(0, np.int64),
        count=np.ones(base, np.int64),
        reduce=np.repeat(np.array(added, np.bool_), chunks),
        channel=np.repeat(np.array(channel, np.int64), chunks),
        after_offsets=offsets,
        after=after,
    )


def _top_down(parents: Index) -> list[int]:
    """All ranks but the root, parents before children, in the order of a breadth-first walk."""
    children: dict[int, list[int]] = {}
    for child, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(child)
    order = children[NO_PARENT]
    for rank in order:
        order.extend(children.get(rank, []))
    return order[1:]
