"""Ranks of a job that was cut off: each up to the first operation that not all of its members got to.

A process that is killed leaves a file that ends at another operation than those of the other ranks. Its file has every
operation from the job's start, so the k-th operation of a group is the same on all its ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from topoflow.capture.base import ComputeSpan
from topoflow.capture.iterations import by_repetition
from topoflow.capture.merge.agree import common_lengths
from topoflow.capture.merge.parts import RankRecord, RecordedOperation
from topoflow.capture.merge.windows import CUT


def cut_ends(parts: Sequence[RankRecord], counts: Counter[str]) -> list[RankRecord]:
    """Return the parts of a job that was cut off without what not all ranks recorded; other parts as they are.

    Iterations that were numbered by the repetition of operations are numbered again, and the last is left out if it is
    not whole.
    """
    if all(part.ended for part in parts):
        return list(parts)
    ends = common_lengths(parts)
    cut_parts = [replace(part, events=part.events[: ends[part.rank]]) for part in parts]
    repeats = not any(part.steps or isinstance(event, ComputeSpan) for part in parts for event in part.events)
    if repeats and (cut_parts != list(parts) or len({part.iterations for part in parts}) > 1):
        numbered = [_iterations(part.events) for part in cut_parts]
        common = min(map(_whole, numbered))
        cut_parts = [_first(part, numbers, common) for part, numbers in zip(cut_parts, numbered, strict=True)]
    counts[CUT] += sum(
        isinstance(event, RecordedOperation)
        for before, after in zip(parts, cut_parts, strict=True)
        for event in before.events[len(after.events) :]
    )
    return cut_parts


def _iterations(events: Sequence[ComputeSpan | RecordedOperation]) -> list[int]:
    operations = [event for event in events if isinstance(event, RecordedOperation)]
    keys = [(operation.op, operation.group_key, operation.dtype, operation.bytes_in) for operation in operations]
    return by_repetition(keys, ends_within=True)


def _whole(numbers: Sequence[int]) -> int:
    """Return the number of whole iterations: the last is not if it has fewer operations than the first."""
    sizes = Counter(number for number in numbers if number >= 0)
    return max(1, len(sizes) - (sizes[len(sizes) - 1] < sizes[0]))


def _first(part: RankRecord, numbers: Sequence[int], iterations: int) -> RankRecord:
    """Return the part up to its first ``iterations``; ``numbers`` are the iterations of its events."""
    events = zip(part.events, numbers, strict=True)
    first_events = tuple(replace(event, iteration=number) for event, number in events if number < iterations)
    return replace(part, events=first_events, iterations=iterations)
