"""Random numbers by which a packet takes one of several paths, by position: the order of draws has no effect."""

from __future__ import annotations

from topoflow.engine.random import below, philox

PURPOSE = 0x50415448  # "PATH": another purpose with the same seed draws other numbers
MARKS = 0x4D41524B  # "MARK"
ENTROPY = 0x45565354  # "EVST"
CYCLE = 0x4359434C  # "CYCL"
AT_NIC = 0xFFFFFFFF  # the branch of a packet that chooses its first port
AT_SOURCE, AT_MIDDLE = 0xFFFFFFFE, 0xFFFFFFFD  # by address: at the router of the source, and where a middle was reached
WORD = 2**32 - 1


def draw(seed: int, task: int, number: int, branch: int) -> int:
    """32 bits for packet ``number`` of a task where it comes to a branch."""
    return draws(seed, task, number, branch)[0]


def mark(seed: int, task: int, number: int, port: int) -> int:
    """32 bits for packet ``number`` of a task where a port may mark it."""
    return philox((MARKS, task, number, port), (seed & WORD, seed >> 32 & WORD))[0]


def entropy(seed: int, task: int, number: int) -> int:
    """32 bits for packet ``number`` of a task whose sender draws an entropy (``csrc/packet/routing/entropies.h``)."""
    return philox((ENTROPY, task, number, 0), (seed & WORD, seed >> 32 & WORD))[0]


def draws(seed: int, task: int, number: int, branch: int) -> tuple[int, int, int, int]:
    """Four times 32 bits for the same."""
    return philox((PURPOSE, task, number, branch), (seed & WORD, seed >> 32 & WORD))


def shuffled(seed: int, task: int, cycle: int, branch: int, edges: int) -> list[int]:
    """Return the edges of a branch in the order in which packets take them (``csrc/packet/routing/cycles.h``)."""
    order, key = list(range(edges)), (seed & WORD, seed >> 32 & WORD)
    for i in range(edges):
        word = philox((CYCLE + i // 4, task, cycle, branch), key)[i % 4]
        other = i + below(word, edges - i)
        order[i], order[other] = order[other], order[i]
    return order
