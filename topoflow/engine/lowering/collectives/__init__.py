"""Collective algorithms: what each operation may run, and its schedule of sends.

A rank is one member of the collective: the group's servers in order, ``local`` consecutive ranks on each.
"""

from __future__ import annotations

from topoflow.engine.lowering.collectives import tree
from topoflow.engine.lowering.collectives.direct import all_to_all, gather, scatter
from topoflow.engine.lowering.collectives.halving_doubling import halving_doubling
from topoflow.engine.lowering.collectives.ring import ALL_GATHER, REDUCE_SCATTER, ring, ring_streams
from topoflow.engine.lowering.collectives.schedule import Index, Schedule, Streams

__all__ = [
    "ALGORITHMS",
    "HIERARCHICAL",
    "ON_RINGS",
    "ON_TREES",
    "Schedule",
    "Streams",
    "check_algorithm",
    "check_size",
    "chunks",
    "schedule",
    "streams",
]

# What an operation may run; the first is the default.
ALGORITHMS = {
    "all_reduce": ("ring", "double_binary_tree", "halving_doubling", "hierarchical", "hierarchical_tree"),
    "all_gather": ("ring", "hierarchical"),
    "reduce_scatter": ("ring", "hierarchical"),
    "all_to_all": ("direct",),
    "broadcast": ("chain",),
    "reduce": ("chain",),
    "gather": ("direct",),
    "scatter": ("direct",),
}
ON_RINGS = ("ring", "hierarchical")  # between servers
ON_TREES = ("double_binary_tree", "hierarchical_tree")
HIERARCHICAL = ("hierarchical", "hierarchical_tree")  # inside each server first, and again at the end
MOST_SENDS = 2**26  # of one collective, some 4 GB while it is made
PHASES = {
    "all_reduce": (REDUCE_SCATTER, ALL_GATHER),
    "reduce_scatter": (REDUCE_SCATTER,),
    "all_gather": (ALL_GATHER,),
}


def check_algorithm(field: str, op: str, algorithm: str) -> None:
    """Raise ``ValueError`` unless ``op`` may run ``algorithm``."""
    if algorithm not in ALGORITHMS[op]:
        raise ValueError(f"{field}: {op} must run one of {', '.join(ALGORITHMS[op])}, got {algorithm!r}")


def check_size(field: str, algorithm: str, ranks: int, orders: int) -> None:
    """Raise ``ValueError`` where a schedule would not fit in memory: rings and direct sends grow with ranks^2."""
    per_rank = 2 * ranks if algorithm in (*ON_RINGS, "direct") else 4 * tree.MOST_CHUNKS
    sends = orders * ranks * per_rank
    if sends > MOST_SENDS:
        raise ValueError(f"{field}: {algorithm} must make at most {MOST_SENDS} sends, got {ranks} ranks")


def chunks(algorithm: str, bytes: float, orders: int = 1) -> int:
    """Into how many chunks ``algorithm`` cuts ``bytes`` on ``orders`` orders; 0 for one that is not pipelined."""
    pieces = {"chain": 1} | dict.fromkeys(ON_TREES, 2 * orders)  # two trees for each order, with an equal part each
    return tree.chunks(bytes / pieces[algorithm]) if algorithm in pieces else 0


def schedule(op: str, algorithm: str, orders: Index, root: int | None, chunks: int) -> Schedule:
    """The sends of ``op`` by ``algorithm``.

    ``orders`` [R, n] are the ranks along each ring, or at the positions of each pair of trees (other algorithms use n
    only), ``chunks`` those of a pipelined one.
    """
    ranks = orders.shape[1]
    if algorithm in ON_RINGS:
        return ring(orders, PHASES[op])
    if algorithm == "halving_doubling":
        return halving_doubling(ranks)
    if algorithm in ON_TREES:
        return tree.double_binary_trees(orders, chunks)
    if op == "all_to_all":
        return all_to_all(ranks)
    assert root is not None  # a law of Traffic: these operations have one
    if op in ("gather", "scatter"):
        return (gather if op == "gather" else scatter)(ranks, root)
    return (tree.broadcast if op == "broadcast" else tree.reduce)(ranks, root, chunks)


def streams(op: str, orders: Index) -> Streams:
    """What ``op`` on rings sends over each connection, in any order; ``orders`` are those of ``schedule``."""
    return ring_streams(orders, PHASES[op])
