"""topoflow's own JSON lines, whole jobs or single ranks as the recorder writes them; see ``topoflow.capture.jsonl``."""

from __future__ import annotations

from topoflow.capture import jsonl
from topoflow.capture.base import Communication, ComputeSpan
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation


def matches(source: InputFile) -> bool:
    """The header names the format in its first bytes."""
    return source.looks_like_json and f'"{jsonl.FORMAT}"'.encode() in source.data[:256]


def parse(source: InputFile) -> list[RankRecord]:
    """One part per recorded rank."""
    trace = jsonl.parse(source.name, source.data)
    return [
        RankRecord(
            file=source.name,
            rank=rank,
            events=tuple(_event(source.name, rank, index, event) for index, event in enumerate(events)),
            source=trace.source,
            world_size=trace.world_size,
            iterations=trace.iterations,
            incomplete=frozenset(trace.incomplete),
            groups=trace.groups,
            name=trace.name,
            notes=trace.notes,
            layout=trace.layout,
            memory=trace.memory,
        )
        for rank, events in trace.ranks.items()
    ]


def _event(name: str, rank: int, index: int, event: ComputeSpan | Communication) -> ComputeSpan | RecordedOperation:
    if isinstance(event, ComputeSpan):
        return event
    return RecordedOperation(
        place=f"{name}: rank {rank} event {index}",
        op=event.op,
        group=event.group,
        group_name=event.group_name,
        dtype=event.dtype,
        bytes_in=event.bytes_in,
        bytes_out=event.bytes_out,
        splits_in=event.splits_in,
        splits_out=event.splits_out,
        peer=event.peer,
        tag=event.tag,
        root=event.root,
        iteration=event.iteration,
        issue=event.issue,
        start=event.start,
        end=event.end,
        after=event.after,
        waits=event.waits,
        delay=event.delay,
    )
