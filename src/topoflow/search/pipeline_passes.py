"""All passes of a pipeline in their order: when each rank ends the last one, if messages and reductions meet no others.

The last backward pass of a stage is cut where it completes a bucket of gradients, as in ``traffic.grid.pipelined``: the
reduction of the bucket runs next to the part that follows, and compute then waits for the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from topoflow.strategy.schedules import table_of


def pipeline_ends(
    pipeline: int,
    virtual: int,
    microbatches: int,
    forward: Sequence[float],
    backward: Sequence[float],
    sent: Sequence[float],
    last: LastPasses,
) -> list[float]:
    """Return when each rank of a pipeline has ended its last pass, and the reductions.

    ``forward`` and ``backward`` have the seconds of each stage, ``sent`` those of a message between a stage and the
    next. The ``last`` backward pass of each stage takes longer.
    """
    free, ends = [0.0] * pipeline, [0.0]
    seconds, waits, passes = [*forward, *backward], [*sent, 0.0], 2 * pipeline * virtual
    for rank, source, message, work in _order(pipeline, virtual, microbatches):
        begin, arrived = free[rank], ends[source] + waits[message]
        if arrived > begin:
            begin = arrived
        free[rank] = end = begin + seconds[work] if work < passes else last.end(work - passes, begin)
        ends.append(end)
    return [last.reduced(rank, end) for rank, end in enumerate(free)]


class BucketReduction(NamedTuple):
    """A reduction of a bucket of gradients of a ``kind``."""

    kind: str  # key of ``GRADIENTS``
    communicator: str  # the kind, or "replicate"
    concurrent: float  # s, next to compute
    waits: float  # s, for which compute waits


class PassPart(NamedTuple):
    """The part of a backward pass until the gradients of a bucket are complete."""

    seconds: float
    reductions: Sequence[BucketReduction]


class LastPasses:
    """The last backward passes of the stages, with the reductions, in the order of ``traffic.grid.pipelined``.

    ``parts`` has those of each type of stage; None: the pass takes the seconds ``backward`` of the stage.
    """

    def __init__(
        self,
        pipeline: int,
        parts: Sequence[Sequence[PassPart]] | None,
        types: Sequence[int],
        backward: Sequence[float],
    ) -> None:
        self.pipeline, self.parts, self.types, self.backward = pipeline, parts, types, backward
        self.queues = dict[tuple[int, str], float]()  # communicator of a stage -> the end of its latest collective
        self.ends: list[dict[tuple[str, str], float]] = [{} for _ in range(pipeline)]  # of the latest of each rank
        self.pending: list[list[tuple[int, BucketReduction]]] = [[] for _ in range(pipeline)]

    def end(self, stage: int, begin: float) -> float:
        """Return when the pass ends that begins at ``begin``."""
        if self.parts is None:
            return begin + self.backward[stage]
        rank = stage % self.pipeline
        for seconds, reductions in self.parts[self.types[stage]]:
            begin += seconds
            if reductions:
                begin = self._rest(rank, begin)
                for reduction in reductions:
                    self._reduce(rank, stage, reduction, begin, reduction.concurrent)
                    self.pending[rank].append((stage, reduction))
        return begin

    def reduced(self, rank: int, end: float) -> float:
        """Return when the reductions of a rank are done, whose last pass ends at ``end``."""
        return max([self._rest(rank, end), *self.ends[rank].values()])

    def _rest(self, rank: int, begin: float) -> float:
        """Return when compute goes on after the rest of the latest bucket."""
        for stage, reduction in self.pending[rank]:
            if reduction.waits:
                begin = self._reduce(rank, stage, reduction, begin, reduction.waits)
        self.pending[rank].clear()
        return begin

    def _reduce(self, rank: int, stage: int, reduction: BucketReduction, begin: float, seconds: float) -> float:
        """Return when ``seconds`` of a reduction end that waits for its communicator."""
        kind, communicator = reduction[:2]
        earlier = self.ends[rank].values() if communicator == "replicate" else ()
        end = max(begin, self.queues.get((stage, communicator), 0.0), *earlier) + seconds
        self.queues[stage, communicator] = self.ends[rank][kind, communicator] = end
        return end


@lru_cache(maxsize=32)
def _order(pipeline: int, virtual: int, microbatches: int) -> list[tuple[int, int, int, int]]:
    """Return all passes in order, as the arguments of ``pipeline_ends`` have them.

    These are the rank, the number of the pass that it waits for (from 1; 0: none), the message from there (-1: none),
    and the time among those of forward and backward passes, and of the last backward passes.
    """
    stages = pipeline * virtual
    passes = table_of(None, pipeline, microbatches, stages).order
    columns = [*zip(*passes, strict=True)]
    stage, microbatch, is_forward = np.array(columns[0]), np.array(columns[1]), np.array(columns[2]) == "F"
    other, number = np.where(is_forward, stage - 1, stage + 1), np.arange(1, len(passes) + 1)
    number_of = np.zeros((2, stages + 2, microbatches), np.int64)  # of passes, with none before and after the stages
    number_of[is_forward.astype(int), stage + 1, microbatch] = number
    source = number_of[is_forward.astype(int), other + 1, microbatch]
    last = np.max(number_of[0], axis=1)[stage + 1]
    work = stage + stages * np.where(is_forward, 0, np.where(number == last, 2, 1))
    message = np.where(source > 0, np.minimum(stage, other), -1)
    arguments = stage % pipeline, source, message, work
    return list(zip(*(column.tolist() for column in arguments), strict=True))
