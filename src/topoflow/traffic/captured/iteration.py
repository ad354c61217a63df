"""One iteration of a trace, of all ranks: the one that stands for the job, with what was not recorded filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoflow.capture.base import Event, Trace
from topoflow.capture.mirrors import Mirrors, layout_of
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
    mirrored: int  # ranks that were not recorded, and do the same as others


def recorded_iteration(trace: Trace) -> Iteration:
    """Return the iteration that stands for the job (``capture.periods``), of all ranks.

    ValueError when the ranks that were not recorded cannot be distinguished from those that were.
    """
    period = representative(trace)
    mirrored = trace.world_size - len(trace.ranks)
    mirrors = Mirrors(layout_of(trace), trace.ranks) if mirrored else None
    carried_events = carried(_events(trace, period.number), _events(trace, period.number - 1))
    ranks = {rank: united(events) for rank, events in wrapped(carried_events, period.begin, period.end).items()}
    if mirrors is not None:
        ranks = {rank: mirrors.events(rank, ranks[mirrors.model(rank)]) for rank in range(trace.world_size)}
    if not any(ranks.values()):
        raise ValueError(f"trace {trace.name}: must have events in an iteration, got none in iteration {period.number}")
    return Iteration(period.number, ranks, period.begin, mirrored)


def _events(trace: Trace, iteration: int) -> dict[int, Events]:
    """Return the events of each rank in ``iteration``, by their positions in the trace."""
    return {
        rank: {position: event for position, event in enumerate(record) if event.iteration == iteration}
        for rank, record in trace.ranks.items()
    }
