"""Number the iterations of a job by its own step marks, or else by the repetition of what it communicates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

UNMARKED = (
    "the job marked no steps: an iteration is what repeats in its communication, which may be a part of a step, as a "
    "layer is"
)


def unmarked(iterations: int) -> tuple[str, ...]:
    """Return the note on a job whose iterations were found by their repetition."""
    return (UNMARKED,) if iterations > 1 else ()


def between_marks(positions: Sequence[float], marks: Sequence[float]) -> list[int]:
    """The iteration of each position, where iteration i begins at ``marks[i]`` (ascending); -1 before the first.

    between_marks([5, 10, 12, 25], [10, 20]) -> [-1, 0, 0, 1]
    """
    return [bisect_right(marks, position) - 1 for position in positions]


def by_repetition(keys: Sequence[Hashable], ends_within: bool = False) -> list[int]:
    """Return the iteration of each element of a sequence that repeats itself up to its end; what precedes is -1.

    by_repetition("xabcabcabc") -> [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2];  one iteration where nothing repeats.

    The period is the one whose whole repetitions cover most of the sequence, the shortest among equals. It must
    cover at least half of it: a job whose last two operations look alike has not shown two iterations.

    ``ends_within``: the sequence may end within an iteration, which is then the last one and is not whole.

    by_repetition("xabcabcab", ends_within=True) -> [-1, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    count = len(keys)
    backwards = _self_matches(keys[::-1])
    period, covered = 0, 0
    for length in range(1, count // 2 + 1):
        repeated = (backwards[length] + length) // length * length
        if repeated >= 2 * length and repeated > covered:
            period, covered = length, repeated
    if 2 * covered < count or not covered:
        return [0] * count
    first = count - (backwards[period] + period if ends_within else covered)
    return [(position - first) // period if position >= first else -1 for position in range(count)]


def _self_matches(keys: Sequence[Hashable]) -> list[int]:
    """Z function: how many elements from position i on equal those from position 0 on (Gusfield 1997, 1.4); O(n)."""
    matches = [0] * len(keys)
    left = right = 0
    for position in range(1, len(keys)):
        length = min(matches[position - left], right - position) if position < right else 0
        while position + length < len(keys) and keys[length] == keys[position + length]:
            length += 1
        matches[position] = length
        if position + length > right:
            left, right = position, position + length
    return matches
