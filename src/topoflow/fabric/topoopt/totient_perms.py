"""TotientPerms: all regular rings of a group of servers."""

from __future__ import annotations

from math import gcd, isqrt


def totient_perms(size: int, primes_above: float = float("inf")) -> tuple[int, ...]:
    """Return the strides p of all regular rings over ``size`` servers, ascending.

    Position i sends to position (i + p) % size, which is one ring over all if and only if p is co-prime with size.
    Source: TopoOpt 4.3, Algorithm 2 and Theorem 2 (E.1). "To handle large scale clusters", 4.3 keeps prime p only,
    some size / ln(size) of them; here for more than ``primes_above`` servers. The stride 1 is no prime but is kept,
    since the selection begins with it (E.2: x^0).

        12 -> 1, 5, 7, 11
         2 -> 1
         1 -> none: no other member to send to
        25, only primes -> 1, 2, 3, 7, 11, 13, 17, 19, 23
    """
    strides = (stride for stride in range(1, size) if gcd(stride, size) == 1)
    return tuple(stride for stride in strides if size <= primes_above or stride == 1 or _is_prime(stride))


def ring(group: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """Return ``group`` in the order of the ring +stride: each server sends to the next, the last to the first."""
    return tuple(group[step * stride % len(group)] for step in range(len(group)))


def stride(group: tuple[int, ...], order: tuple[int, ...]) -> int | None:
    """Return p if ``order`` is the ring +p of ``group``, beginning at any server; None for other orders.

    (0, 1, 2, 3, 4), (0, 2, 4, 1, 3) -> 2
    """
    place = {server: at for at, server in enumerate(group)}
    ends = zip(order, (*order[1:], order[0]), strict=True)
    steps = {(place[end] - place[start]) % len(group) for start, end in ends}
    return steps.pop() if len(steps) == 1 else None


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
