"""Collective operations: the least bytes that each must send, for n ranks and a buffer of S bytes.

                     a rank sends          all ranks send
    all_reduce       2 (n-1)/n S           2 (n-1) S
    all_gather         (n-1)/n S             (n-1) S
    reduce_scatter     (n-1)/n S             (n-1) S
    all_to_all         (n-1)/n S             (n-1) S
    broadcast, reduce          S             (n-1) S       the busiest rank
    gather, scatter    (n-1)/n S         (n-1)/n S         the root receives, or sends

S is the full buffer of one member, as in ``traffic.base.Collective`` and nccl-tests. The first column is the factor
between the "bus bandwidth" and the "algorithm bandwidth" of nccl-tests. No algorithm sends less than the second column
without compression or reduction inside the network.

Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth"; Patarasuk and Yuan, JPDC 69(2), 2009 (all-reduce).
"""

from __future__ import annotations

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def bus_factor(op: str, ranks: int) -> float:
    """Return the bytes that the busiest rank sends, or receives, per byte of the buffer."""
    if op in ("broadcast", "reduce"):
        return float(ranks > 1)
    return max(ring_passes(op), 1) * (ranks - 1) / ranks


def sent_by_all(op: str, ranks: int) -> float:
    """Return the least bytes that all ranks together send, per byte of the buffer."""
    return (ranks - 1) / ranks if op in ("gather", "scatter") else max(ring_passes(op), 1) * (ranks - 1)


def ring_passes(op: str) -> int:
    """Return how often the buffer goes around a ring; 0 for operations whose ranks cannot be reordered."""
    return {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(op, 0)
