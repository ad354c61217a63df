"""Halving-doubling all-reduce: recursive halving reduce-scatter, then recursive doubling all-gather.

In step k rank v and its partner v XOR 2^k exchange halves of what they are still responsible for, and add; then the
same steps backwards, copying. The big pieces travel between neighbours. n = 4, S = 4 parts:

    0>1:p2-3  1>0:p0-1  2>3:p2-3  3>2:p0-1   (added)     0 and 2 are responsible for p0-1, 1 and 3 for p2-3
    0>2:p1    2>0:p0    1>3:p3    3>1:p2     (added)     0 owns p0, 2 owns p1, 1 owns p2, 3 owns p3
    0>2:p0    2>0:p1    1>3:p2    3>1:p3     (copied)
    0>1:p0-1  1>0:p2-3  2>3:p0-1  3>2:p2-3   (copied)

If n is no power of two, p = 2^floor(log2 n): of the first 2 (n-p) ranks each even one first hands all of S to the odd
one after it, waits, and receives the result at the end.

A step is a sendrecv, and large messages wait for their receiver (rendezvous): a send starts when both its ends have
finished the steps before.

Bytes sent per rank for n = 2^k: 2 (n-1)/n S. Time: 2 log2(n) a + 2 (n-1)/n S/B, and 2 (a + S/B) more for the fold.

Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner and
Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005.
"""

from __future__ import annotations

import numpy as np

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.schedule import Index, SendSchedule, csr

Row = tuple[Index, Index, Index, int, bool]  # one step: sources, targets, first parts, parts of each send, reduce


def schedule(call: CollectiveCall) -> SendSchedule:
    """``parts`` is the largest power of two that is no more than the ranks."""
    steps = call.ranks.bit_length() - 1
    virtual, step = np.arange(1 << steps), np.arange(steps)[:, None]
    return exchange(call.ranks, partner=virtual ^ (1 << step), half=(virtual >> step) & 1)


def exchange(ranks: int, partner: Index, half: Index) -> SendSchedule:
    """All-reduce in which pairs of the p = 2^steps ranks that take part halve what they are responsible for.

    ``partner`` [steps, p] is whom each exchanges with in a step, and ``half`` [steps, p] which half of its range it
    keeps (0 the lower, 1 the upper; its partner keeps the other). Law: ranks that exchange in a step have the same
    range.
    """
    steps, active = partner.shape
    folded = ranks - active
    virtual = np.arange(active)
    rank = np.where(virtual < folded, 2 * virtual + 1, virtual + folded)  # [p]
    even, odd = 2 * np.arange(folded), 2 * np.arange(folded) + 1
    none = np.zeros(folded, np.int64)

    reductions: list[Row] = [(even, odd, none, active, True)] if folded else []
    copies: list[Row] = [(odd, even, none, active, False)] if folded else []
    first = np.zeros(active, np.int64)  # of the range of each
    for step in range(steps):
        size, target = active >> (step + 1), rank[partner[step]]
        reductions.append((rank, target, first + (1 - half[step]) * size, size, True))
        first = first + half[step] * size
        copies.insert(0, (rank, target, first, size, False))
    return _in_steps(ranks, active, reductions + copies)


def _in_steps(ranks: int, parts: int, rows: list[Row]) -> SendSchedule:
    """A send waits until both its ends have received and sent all of the steps before (sendrecv, rendezvous)."""
    received, sent = np.full(ranks, -1), np.full(ranks, -1)
    pairs, base = [], 0
    for source, target, *_ in rows:
        send = base + np.arange(len(source))
        for earlier in (received[source], sent[source], received[target], sent[target]):
            pairs.append((send[earlier >= 0], earlier[earlier >= 0]))
        sent[source] = send
        received[target] = send
        base += len(source)
    offsets, after = csr(base, pairs)
    sizes = [len(row[0]) for row in rows]

    def joined(column: int) -> Index:
        return np.concatenate([row[column] for row in rows]) if rows else np.zeros(0, np.int64)

    return SendSchedule(
        parts=parts,
        source=joined(0),
        target=joined(1),
        first=joined(2),
        count=np.repeat(np.array([row[3] for row in rows], np.int64), sizes),
        reduce=np.repeat(np.array([row[4] for row in rows], np.bool_), sizes),
        channel=np.zeros(base, np.int64),
        after_offsets=offsets,
        after=after,
    )


def sent(op: str, ranks: int) -> float:
    """2 (p-1) S among the p that take part, and S to and from each of the others."""
    active = 1 << (ranks.bit_length() - 1)
    return 2.0 * (active - 1) + 2 * (ranks - active)


ALGORITHM = Algorithm(
    ops=("all_reduce",),
    schedule=schedule,
    most_sends=lambda ranks: 2 * ranks * ranks.bit_length(),
    sent=sent,
)
