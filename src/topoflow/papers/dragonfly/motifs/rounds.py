"""Equal rounds of messages, stored as one round and its dependencies on the round before.

Shapes: M messages of a round, D of them that wait for another.
"""

from __future__ import annotations

import numpy as np

from topoflow.arrays import Offsets, distinct
from topoflow.workload.base import Messages

WRITTEN = 3  # rounds that show whether all are equal; the first has no round before it
MAX_COMPONENT = 64  # messages of a connected component: reachability is a mask of 64 bits for each


def folded(written: Messages, rounds: int) -> Messages | None:
    """Return the messages of ``rounds`` equal rounds, from the first three in ``written``; None if these differ.

    The result is also None if a message may be sent again before it has arrived, and if a connected component of
    dependencies has more than ``MAX_COMPONENT`` messages, so that this is not known.
    """
    columns = [np.asarray(column) for column in (written.source, written.target, written.bytes, written.seconds)]
    count, remainder = divmod(len(written.source), WRITTEN)
    if remainder or written.waits is None or written.release is not None:
        return None
    if any((column[: 2 * count] != column[count:]).any() for column in columns):
        return None
    inside, carried = zip(*(_waits(written.waits, count, number) for number in range(WRITTEN)), strict=True)
    pairs = (inside[0], inside[1]), (inside[1], inside[2]), (carried[1], carried[2])
    if not all(np.array_equal(first, second) for first, second in pairs):
        return None
    if len(written.waits[0]) and (written.waits[0] // count - written.waits[1] // count).max() > 1:
        return None
    waits, later = np.divmod(inside[0], count), np.divmod(carried[1], count)
    if not _comes_back(waits, later, count):
        return None
    source, target, bytes, seconds = (column[:count] for column in columns)
    return Messages(source, target, bytes, seconds, waits, rounds=rounds, carried=later)


def _waits(waits: tuple[Offsets, Offsets], count: int, number: int) -> tuple[Offsets, Offsets]:
    """Return waiter * M + the message that it waits for, ascending, in round ``number`` and in the round before it."""
    in_round = waits[0] // count == number
    waiter, earlier = waits[0][in_round], waits[1][in_round]
    same_round = earlier // count == number
    key = waiter % count * count + earlier % count
    return distinct(key[same_round]), distinct(key[~same_round])


def _comes_back(waits: tuple[Offsets, Offsets], carried: tuple[Offsets, Offsets], count: int) -> bool:
    """Return True if each of M messages depends, through others, on itself in the round before."""
    waiter, earlier = (np.concatenate(side) for side in zip(waits, carried, strict=True))
    group = np.arange(count)  # connected component, by its first message
    for _ in range(MAX_COMPONENT):
        before = group.copy()
        np.minimum.at(group, waiter, group[earlier])
        np.minimum.at(group, earlier, group[waiter])
        if np.array_equal(before, group):
            break
    if not np.array_equal(before, group) or np.bincount(group).max(initial=0) > MAX_COMPONENT:
        return False
    order = np.argsort(group, kind="stable")
    place = np.empty(count, np.uint64)  # of each message in its component
    place[order] = np.arange(count) - np.searchsorted(group[order], group[order])
    bit = np.left_shift(np.uint64(1), place)
    same, following = bit.copy(), np.zeros(count, np.uint64)  # reachable in its round, and in the next
    for _ in range(MAX_COMPONENT):
        np.bitwise_or.at(same, waits[1], same[waits[0]])
        np.bitwise_or.at(following, carried[1], same[carried[0]])
        np.bitwise_or.at(following, waits[1], following[waits[0]])
    return bool((following & bit).all())
