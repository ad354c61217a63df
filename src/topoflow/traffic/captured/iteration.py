"""One iteration of a trace, of all ranks: the one that stands for the job, with what was not recorded filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoflow.capture.base import POINT_TO_POINT, Event, Trace, brief
from topoflow.capture.periods import representative
from topoflow.traffic.captured.carried import carried
from topoflow.traffic.captured.united import united
from topoflow.traffic.captured.wrapped import Events, wrapped


@dataclass(frozen=True)
class Iteration:
    """``ranks[r]`` are the events of rank r by position, ascending: in the order in which they began, where known."""

    number: int
    ranks: Mapping[int, Mapping[int, Event]]
    began: float | None  # s, when the iteration before had ended; None where that was not recorded
    mirrored: tuple[int, ...]  # ranks that were not recorded
    model: int  # the recorded rank that they do the same as


def recorded_iteration(trace: Trace) -> Iteration:
    """The iteration that stands for the job (``capture.periods``), of all ranks.

    ValueError when the ranks that were not recorded cannot be distinguished from those that were.
    """
    period = representative(trace)
    missing = tuple(rank for rank in range(trace.world_size) if rank not in trace.ranks)
    model = min(trace.ranks, default=-1)
    if missing:
        _check_mirrors(trace)
    own = carried(_events(trace, period.number), _events(trace, period.number - 1))
    recorded = {rank: united(events) for rank, events in wrapped(own, period.begin, period.end).items()}
    ranks = {rank: recorded[model if rank in missing else rank] for rank in range(trace.world_size)}
    if not any(ranks.values()):
        raise ValueError(f"trace {trace.name}: must have events in an iteration, got none in iteration {period.number}")
    return Iteration(period.number, ranks, period.begin, missing, model)


def _events(trace: Trace, iteration: int) -> dict[int, Events]:
    """Return the events of each rank in ``iteration``, by their positions in the trace."""
    return {
        rank: {position: event for position, event in enumerate(record) if event.iteration == iteration}
        for rank, record in trace.ranks.items()
    }


def _check_mirrors(trace: Trace) -> None:
    """Every rank does the same (SPMD) when all talk to all; then one record stands for the others."""
    for rank in trace.ranks:
        for event in trace.communications(rank):
            if len(event.group) < trace.world_size or event.op in POINT_TO_POINT:
                raise ValueError(
                    f"trace {trace.name}: must have all {trace.world_size} ranks, got {len(trace.ranks)}; the others "
                    f"need not do the same, as rank {rank} has a {event.op!r} within {brief(event.group)}"
                )
    if not trace.ranks:
        raise ValueError(f"trace {trace.name}: must have at least one rank, got none")
