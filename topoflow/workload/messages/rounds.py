"""Many rounds of the same messages as one, and what of a round waits for the round before.

Shapes: M messages of a round, D of them that wait for another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow.arrays import Mask, Offsets, distinct
from topoflow.workload.base import Messages

WRITTEN = 3  # rounds that show whether all are alike: the first waits for none before it
LONGEST = 64  # waits in a row by which a message is looked for in the round before


def folded(written: Messages, rounds: int) -> Messages | None:
    """``rounds`` of the messages of which ``written`` has the first three, all alike; None where they are not.

    Also None where a message may be sent again before it has arrived, as far as can be seen: its rounds are one after
    the other.
    """
    columns = [np.asarray(each) for each in (written.source, written.target, written.bytes, written.seconds)]
    count, rest = divmod(len(written.source), WRITTEN)
    if rest or written.waits is None or written.release is not None:
        return None
    if any((column[: 2 * count] != column[count:]).any() for column in columns):
        return None
    inside, carried = zip(*(_waits(written.waits, count, number) for number in range(WRITTEN)), strict=True)
    if not (_same(inside[0], inside[1]) and _same(inside[1], inside[2]) and _same(carried[1], carried[2])):
        return None
    if len(written.waits[0]) and (written.waits[0] // count - written.waits[1] // count).max() > 1:
        return None
    waits, later = np.divmod(inside[0], count), np.divmod(carried[1], count)
    if not _comes_back(waits, later, count).all():
        return None
    first = (column[:count] for column in columns)
    return replace(written, **dict(zip(("source", "target", "bytes", "seconds"), first, strict=True)), waits=waits,
                   rounds=rounds, carried=later)  # fmt: skip


def _waits(waits: tuple[Offsets, Offsets], count: int, number: int) -> tuple[Offsets, Offsets]:
    """Waiter * M + what it waits for, ascending: of one round, what is in it, and what is in the one before."""
    own = waits[0] // count == number
    waiter, earlier = waits[0][own], waits[1][own]
    here = earlier // count == number
    key = waiter % count * count + earlier % count
    return distinct(key[here]), distinct(key[~here])


def _same(one: Offsets, other: Offsets) -> bool:
    return np.array_equal(one, other)


def _comes_back(waits: tuple[Offsets, Offsets], carried: tuple[Offsets, Offsets], count: int) -> Mask:
    """[M] whether one wait after the other, each the first, leads from a message to itself in the next round."""
    waiter, earlier = (np.concatenate(side) for side in zip(waits, carried, strict=True))
    step = np.repeat([0, 1], [len(waits[0]), len(carried[0])])  # rounds
    following, rounds = np.full(count, -1), np.zeros(count, np.int64)
    following[earlier[::-1]], rounds[earlier[::-1]] = waiter[::-1], step[::-1]
    here, passed = np.arange(count), np.zeros(count, np.int64)
    found = np.zeros(count, np.bool_)
    for _ in range(LONGEST):
        passed = np.where(here >= 0, passed + rounds[here], 2)
        here = np.where(here >= 0, following[here], -1)
        found |= (here == np.arange(count)) & (passed == 1)
    return found
