"""Operations whose size the files do not give, as those on symmetric memory may be: seen but not sized."""

from __future__ import annotations

from dataclasses import replace

from topoflow.capture.base import ComputeSpan
from topoflow.capture.merge.complete import complete
from topoflow.capture.merge.parts import RankRecord, RecordedOperation


def without_operators(part: RankRecord, *, of_unknown: bool = False) -> RankRecord:
    """The part with its operators on symmetric memory as communication of an unknown size, by name and time.

    ``of_unknown``: only those whose size or group is not known.
    """
    events = [
        seen(event)
        if isinstance(event, RecordedOperation) and event.operator and not (of_unknown and _known(event, part))
        else event
        for event in part.events
    ]
    return replace(part, events=tuple(events))


def _known(operation: RecordedOperation, part: RankRecord) -> bool:
    if not operation.group:
        return False
    try:
        complete(operation, part.rank, 1 + max(operation.group))
    except ValueError:
        return False
    return True


def seen(operation: RecordedOperation) -> ComputeSpan:
    """Return an operation as communication of an unknown size."""
    start, end = operation.start, operation.end
    seconds = operation.seconds or 0.0 if start is None or end is None else end - start
    return ComputeSpan(
        operation.operator or operation.op, start, end, seconds, operation.iteration, operation.after, communicates=True
    )
