"""Ranks of a job that was ended: what all of them recorded, from the start on.

A process that is killed leaves a file that ends at another operation than those of the other ranks. The k-th operation
of a group is the same on all its ranks if all recorded the job from its start, so each rank is cut at the first
operation that another member lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from topoflow.capture.base import Compute
from topoflow.capture.iterations import by_repetition
from topoflow.capture.merge.agree import common_lengths
from topoflow.capture.merge.parts import Operation, Part

CUT = "operations after the last iteration that all ranks recorded are left out"


def cut_ends(parts: Sequence[Part], counts: Counter[str]) -> list[Part]:
    """Return the parts up to the last iteration that all ranks recorded, if they recorded the job from its start.

    Parts whose ranks recorded the same are returned as they are.
    """
    if not all(part.recorded_from_start for part in parts):
        return list(parts)
    ends = common_lengths(parts)
    if all(ends[part.rank] == len(part.events) for part in parts) and len({part.iterations for part in parts}) == 1:
        return list(parts)
    numbered = {part.rank: _iterations(part.events[: ends[part.rank]]) for part in parts}
    common = min(_whole(numbers) for numbers in numbered.values())
    cut = []
    for part in parts:
        events = tuple(
            replace(event, iteration=number)
            for event, number in zip(part.events, numbered[part.rank], strict=False)
            if number < common
        )
        counts[CUT] += len(part.events) - len(events)
        cut.append(replace(part, events=events, iterations=common))
    return cut


def _iterations(events: Sequence[Compute | Operation]) -> list[int]:
    operations = [event for event in events if isinstance(event, Operation)]
    keys = [(each.op, each.group_key, each.dtype, each.bytes_in) for each in operations]
    return by_repetition(keys, ends_within=True)


def _whole(numbers: Sequence[int]) -> int:
    """Return the number of whole iterations: the last is not if it has fewer operations than the first."""
    sizes = Counter(number for number in numbers if number >= 0)
    return max(1, len(sizes) - (sizes[len(sizes) - 1] < sizes[0]))
