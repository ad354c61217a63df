"""Random numbers that depend on what they are for, not on the order in which they are drawn.

Philox4x32-10: four words of 32 bits for every counter and key. Users make the key of a seed, and the counter of what is
drawn: its purpose and its place. So a draw is the same on any thread of any backend.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. ``csrc/parallel/random.h``
computes the same.
"""

from __future__ import annotations

WORD = 2**32
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four words for four words of ``counter`` and two of ``key``."""
    a, b, c, d = counter
    one, two = key
    for _ in range(ROUNDS):
        left, right = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b, c, d = right // WORD ^ b ^ one, right % WORD, left // WORD ^ d ^ two, left % WORD
        one, two = (one + WEYL[0]) % WORD, (two + WEYL[1]) % WORD
    return a, b, c, d


def below(word: int, n: int) -> int:
    """A number below ``n`` from a random word, each equally likely to n / 2^32 (``n`` is at most 2^31)."""
    return word * n // WORD
