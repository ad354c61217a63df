"""Match the operations of different ranks: the k-th one on a communicator is the same one for all its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from topoflow.capture.base import POINT_TO_POINT, Communication, Event

OperationKey = tuple[Hashable, int]  # the channel of an operation, and its number in the channel


def channel(rank: int, event: Communication) -> Hashable:
    """Return the communicator of an operation; for a message, with its tag and its two ends, the sender first."""
    if event.op in POINT_TO_POINT:
        ends = (rank, event.peer) if event.op == "send" else (event.peer, rank)
        return (event.group_name, event.group, event.tag, ends)
    return (event.group_name, event.group)


def members_of(key: Hashable) -> tuple[int, ...]:
    """Return the ranks that take part in the operations of a channel."""
    assert isinstance(key, tuple)
    ranks: tuple[int, ...] = key[-1]
    return ranks


def operation_keys(rank: int, events: Mapping[int, Event]) -> dict[int, OperationKey]:
    """Return the key of each communication of one rank, by position."""
    counts = Counter[Hashable]()
    keys: dict[int, OperationKey] = {}
    for position, event in events.items():
        if isinstance(event, Communication):
            channel_key = channel(rank, event)
            keys[position] = (channel_key, counts[channel_key])
            counts[channel_key] += 1
    return keys
