"""TotientPerms: all regular rings over a group of servers."""

from __future__ import annotations

from math import gcd


def totient_perms(size: int) -> tuple[int, ...]:
    """The strides p of all regular rings over ``size`` servers, ascending.

    Position i sends to position (i + p) % size; that is one ring over all exactly if p is co-prime with size.
    Source: TopoOpt 4.3, Algorithm 2 and Theorem 2 (E.1). The paper's option to keep prime p only is not taken: it
    shortens a list that is short already.

        12 -> 1, 5, 7, 11
         2 -> 1
         1 -> none: nobody to send to
    """
    return tuple(stride for stride in range(1, size) if gcd(stride, size) == 1)


def ring(group: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """The servers of ``group`` in the order of the ring +stride: each sends to the next, the last to the first."""
    return tuple(group[step * stride % len(group)] for step in range(len(group)))
