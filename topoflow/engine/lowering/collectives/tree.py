"""Pipelined trees: broadcast and reduce along a chain, all-reduce over a double binary tree.

The shape of a double binary tree is that of ``fabric.double_binary_tree``; where a fabric built several pairs of trees
for a group, each pair carries an equal piece of S at the same time as the others.

What a tree carries is cut into chunks; a rank sends a chunk to its parent once it has it from all its children and has
sent the chunk before; the root turns it around and it goes down in the same way. The chain is a tree without branches.

Chunks: 512 KiB, as NCCL's (NCCL_BUFFSIZE 4 MiB in NCCL_STEPS = 8 slots), but at most 64 to bound the tasks.
Bytes sent by all ranks: 2 (n-1) S for all-reduce, (n-1) S for broadcast and reduce. Time of a chain of n ranks with
C chunks: (n - 2 + C) (a + S/(C B)).

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009; NCCL 2.30, src/graph/trees.cc (ncclGetBtree, ncclGetDtree); TopoOpt, appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from topoflow.engine.lowering.collectives.schedule import Index, Schedule, csr
from topoflow.fabric.double_binary_tree import NO_PARENT, double_binary_tree

CHUNK_BYTES = 4 * 2**20 // 8
MOST_CHUNKS = 64


def chunks(bytes: float) -> int:
    """Into how many chunks a tree cuts ``bytes``."""
    return min(max(math.ceil(bytes / CHUNK_BYTES), 1), MOST_CHUNKS)


def double_binary_trees(orders: Index, chunks: int) -> Schedule:
    """All-reduce over a pair of trees for each of ``orders`` [R, n]; every tree has ``chunks`` chunks of S / (2 R)."""
    trees = [tree for order in orders for tree in double_binary_tree(order)]
    return pipeline(trees, chunks, up=True, down=True)


def broadcast(ranks: int, root: int, chunks: int) -> Schedule:
    """Down the chain root, root + 1, ..., in group order."""
    return pipeline([_chain(ranks, root, 1)], chunks, up=False, down=True)


def reduce(ranks: int, root: int, chunks: int) -> Schedule:
    """Up the chain root + 1, root + 2, ..., root, in group order."""
    return pipeline([_chain(ranks, root, -1)], chunks, up=True, down=False)


def _chain(ranks: int, root: int, direction: int) -> Index:
    """[n] parent of every rank: the rank before it (direction 1) or behind it (-1) on the circle."""
    parent = (np.arange(ranks) - direction) % ranks
    parent[root] = NO_PARENT
    return parent


def pipeline(trees: Sequence[Index], chunks: int, *, up: bool, down: bool) -> Schedule:
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
    return Schedule(
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
