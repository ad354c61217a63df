"""Schedule: who sends which part of the buffer to whom, and after what. One collective, free of bytes.

F sends, D dependencies. The buffer S of a member is cut into ``parts`` equal parts; a send carries ``count`` of
them from ``first`` on, and the receiver adds them to its own (``reduce``) or overwrites its own. This is enough to
run the algorithm on real arrays, which is how the tests prove each one right; its bytes are ``count / parts * S``.

Streams are what each of C connections carries in all, without the order of the sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import distinct, offsets

Index = NDArray[np.int64]


@dataclass(frozen=True)
class SendSchedule:
    """Sends in an order in which they could happen: ``after`` names earlier sends.

    ``channel`` tells apart the connections that one pair of ranks keeps open (NCCL's word): ring 0, ring 1, ...
    """

    parts: int
    source: Index  # [F] rank
    target: Index  # [F] rank
    first: Index  # [F] part
    count: Index  # [F] parts
    reduce: NDArray[np.bool_]  # [F]
    channel: Index  # [F]
    after_offsets: Index  # [F+1]
    after: Index  # [D] sends

    @property
    def sends(self) -> int:
        return len(self.source)

    @property
    def share(self) -> NDArray[np.float64]:
        """[F] bytes of every send as a share of S."""
        return self.count / self.parts


@dataclass(frozen=True)
class SteadyStreams:
    """Connections that are all busy from the beginning of a collective to its end, and how much each carries."""

    source: Index  # [C] rank
    target: Index  # [C] rank
    channel: Index  # [C]
    share: NDArray[np.float64]  # [C] bytes as a share of S
    steps: int  # sends that follow each other on every connection


def on_channels(schedules: Sequence[SendSchedule]) -> SendSchedule:
    """Return ``schedules`` of one channel and equally many parts, side by side: each has an equal piece of S."""
    parts = schedules[0].parts
    sends = offsets(schedule.sends for schedule in schedules)
    after = offsets(len(schedule.after) for schedule in schedules)
    channels = list(enumerate(schedules))
    return SendSchedule(
        parts=parts * len(schedules),
        source=np.concatenate([schedule.source for schedule in schedules]),
        target=np.concatenate([schedule.target for schedule in schedules]),
        first=np.concatenate([schedule.first + channel * parts for channel, schedule in channels]),
        count=np.concatenate([schedule.count for schedule in schedules]),
        reduce=np.concatenate([schedule.reduce for schedule in schedules]),
        channel=np.concatenate([np.full(schedule.sends, channel) for channel, schedule in channels]),
        after_offsets=np.concatenate(
            [[0], *(schedule.after_offsets[1:] + after[channel] for channel, schedule in channels)]
        ),
        after=np.concatenate([schedule.after + sends[channel] for channel, schedule in channels]),
    )


def csr(rows: int, pairs: Sequence[tuple[Index, Index]]) -> tuple[Index, Index]:
    """Offsets [rows+1] and entries [D], each once and ascending, of (row, entry) ``pairs`` of arrays of any shape."""
    none = np.zeros(0, np.int64)
    key = distinct(np.concatenate([none, *(np.ravel(row * rows + entry) for row, entry in pairs)]))
    offsets = np.searchsorted(key, np.arange(rows + 1) * rows)
    return offsets.astype(np.int64), (key % max(rows, 1)).astype(np.int64)
