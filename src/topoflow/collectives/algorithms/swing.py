"""Swing all-reduce: halving-doubling whose partners swing from one side to the other, closer than powers of two.

In step s an even rank r exchanges with r + rho(s), an odd one with r - rho(s), modulo p, where

    rho(s) = 1 - 2 + 4 - .. + (-2)^s = (1 - (-2)^(s+1)) / 3 = 1, -1, 3, -5, 11, ...    instead of 1, 2, 4, 8, 16, ...

    p = 8     step 0: 0-1 2-3 4-5 6-7     step 1: 0-7 2-1 4-3 6-5     step 2: 0-3 2-5 4-7 6-1

so that on a ring or a torus, whose links are shared by what passes through, a step crosses fewer of them. Half of S is
reduced so, the other half by the mirror image (even ranks begin with r - rho(s)) at the same time: together they use
both directions of every link alike. Ranks stand around the ring in the order of the group. If n is no power of two,
the ranks above p are folded as in ``halving_doubling``; the paper, which sends blocks one by one then, needs no fold.

Bytes sent per rank for n = 2^k: 2 (n-1)/n S. Time where ports are the bottleneck: as ``halving_doubling``,
2 log2(n) a + 2 (n-1)/n S/B. On a ring of links of B bytes/s and latency a in each direction: a step moves S / 2^(s+2)
per rank and direction over |rho(s)| links, each shared by as many, and takes |rho(s)| (a + S / (2^(s+2) B)), twice.

Source: De Sensi, Bonato, Saam and Hoefler, "Swing: Short-cutting rings for higher bandwidth allreduce", NSDI 2024,
sections 3.1 (partners) and 4.1 (the mirrored collective).
"""

from __future__ import annotations

import numpy as np

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.algorithms import halving_doubling
from topoflow.collectives.schedule import Index, SendSchedule, on_channels


def schedule(call: CollectiveCall) -> SendSchedule:
    """The collective and its mirror image, each with half of S."""
    steps = call.ranks.bit_length() - 1
    ranks = np.arange(1 << steps)  # that take part
    mirror = -ranks % len(ranks)
    partner, half = _partner(ranks, steps), _half(ranks, steps)
    return on_channels(
        [
            halving_doubling.exchange(call.ranks, partner, half),
            halving_doubling.exchange(call.ranks, mirror[partner[:, mirror]], half[:, mirror]),
        ]
    )


def rho(step: int) -> int:
    """Return the distance to the partner of an even rank in a step."""
    return int(1 - (-2) ** (step + 1)) // 3


def _partner(ranks: Index, steps: int) -> Index:
    """Return [steps, p] the partner of each rank in each step."""
    reach = np.array([rho(step) for step in range(steps)], np.int64).reshape(-1, 1)
    return (ranks + np.where(ranks % 2, -reach, reach)) % len(ranks)


def _half(ranks: Index, steps: int) -> Index:
    """Return [steps, p] the half that each rank keeps.

    Ranks that still have the same range after step s are even ranks that are equal modulo 2^(s+2), and their partners
    in the next step: bit s + 1 of the even rank distinguishes the two halves.
    """
    partner = _partner(ranks, steps)
    half = np.zeros((steps, len(ranks)), np.int64)
    for step in range(steps - 1):
        even = np.where(ranks % 2, partner[step + 1], ranks)
        half[step] = (even >> (step + 1)) & 1
    half[-1:] = ranks % 2
    return half


ALGORITHM = Algorithm(
    ops=("all_reduce",),
    schedule=schedule,
    most_sends=lambda ranks: 2 * halving_doubling.ALGORITHM.most_sends(ranks),
    sent=halving_doubling.sent,
)
