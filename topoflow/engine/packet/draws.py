"""Which of several paths a packet takes: random numbers by position, so that nothing depends on the order of draws.

Source: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

PURPOSE = 0x50415448  # "PATH": another purpose with the same seed draws other numbers
AT_NIC = 0xFFFFFFFF  # the branch of a packet that chooses its first port
WORD = 2**32 - 1


def draw(seed: int, task: int, number: int, branch: int) -> int:
    """32 bits for packet ``number`` of a task where it comes to a branch."""
    return philox(seed, (PURPOSE, task & WORD, number & WORD, branch & WORD))


def philox(key: int, counter: tuple[int, int, int, int]) -> int:
    """The first of the four words."""
    a, b, c, d = counter
    low, high = key & WORD, key >> 32 & WORD
    for _ in range(10):
        one, other = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = other >> 32 ^ b ^ low, other & WORD, one >> 32 ^ d ^ high, one & WORD
        low, high = low + 0x9E3779B9 & WORD, high + 0xBB67AE85 & WORD
    return a
