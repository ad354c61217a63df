"""All-reduce over double binary trees: two trees, each with half of S, in which nearly every rank is a leaf of one.

The shape is that of ``fabric.double_binary_tree``. Where a fabric built several pairs of trees for a group, each pair
carries an equal piece of S at the same time as the others. Chunks go up, are added, and come down again
(``pipelined_trees``).

Bytes sent by all ranks: 2 (n-1) S, and by none more than 2 S.

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009; NCCL 2.30, src/graph/trees.cc (ncclGetBtree, ncclGetDtree); TopoOpt, appendix A.
"""

from __future__ import annotations

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.pipelined_trees import MAX_CHUNKS, count_chunks, pipeline
from topoflow.collectives.schedule import SendSchedule
from topoflow.collectives.trees import double_binary_tree


def schedule(call: CollectiveCall) -> SendSchedule:
    """A pair of trees for each of R orders; every tree has ``call.chunks`` chunks of S / (2 R)."""
    trees = [tree for order in call.orders for tree in double_binary_tree(order)]
    return pipeline(trees, call.chunks, up=True, down=True)


ALGORITHM = Algorithm(
    ops=("all_reduce",),
    schedule=schedule,
    most_sends=lambda ranks: 4 * MAX_CHUNKS * ranks,
    orders="trees",
    chunks=lambda bytes, orders: count_chunks(bytes / (2 * orders)),
)
