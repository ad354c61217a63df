"""Schedules: the order of the passes of every pipeline rank, as a table with a row for each rank.

A pass has the name that torch.distributed.pipelining gives it: the stage, a letter, and the microbatch, as ``1B3``.

    F    the forward pass
    B    the whole backward pass, which is I and W in one
    I    the gradients of the inputs, which the stage before waits for
    W    the gradients of the weights, for which nothing waits until the last is reduced

A schedule is one file of this folder with a constant ``RULE``. A table can also be a CSV file (``csv_file.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

KINDS = ("F", "I", "B", "W")


class Pass(NamedTuple):
    """A pass of a microbatch through a stage; ``kind`` is one of ``KINDS``."""

    stage: int
    microbatch: int
    kind: str

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @property
    def sends(self) -> int:
        """Return the distance to the stage that waits for the output: 1, -1, or 0 if none does."""
        return {"F": 1, "W": 0}.get(self.kind, -1)


@dataclass(frozen=True)
class ScheduleRule:
    """The rule of a schedule.

    ``passes`` has the arguments rank, ranks, microbatches and stages of a rank. Each rank has ``virtual`` stages; None:
    any number, 0: several. In a V, rank i of p has the stages i and 2 p - 1 - i, otherwise i, i + p, i + 2 p, ...
    """

    passes: Callable[[int, int, int, int], list[Pass]]
    virtual: int | None = None
    v_shaped: bool = False
    splits: bool = False  # backward passes into I and W
    check: Callable[[int, int], str] = lambda ranks, microbatches: ""  # Return the law that microbatches break
    # The closed form of ``Schedule.kept_microbatches``.
    kept_microbatches: Callable[[int, int, int], NDArray[np.int64]] | None = None

    def stage_ranks(self, ranks: int, virtual: int) -> tuple[int, ...]:
        """Return the rank of each stage."""
        turns = [range(ranks)] * virtual
        if self.v_shaped:
            turns = [range(ranks)[:: -1 if turn % 2 else 1] for turn in range(virtual)]
        return tuple(rank for turn in turns for rank in turn)

    def table(self, ranks: int, microbatches: int, virtual: int) -> Schedule:
        """Return the table."""
        return Schedule(tuple(tuple(self.passes(rank, ranks, microbatches, virtual)) for rank in range(ranks)))


@dataclass(frozen=True)
class Schedule:
    """The passes of each rank in order: each stage is on one rank, and has each microbatch once in each direction.

    ``places`` says where a pass stands in a file, for messages.
    """

    rows: tuple[tuple[Pass, ...], ...]
    places: Callable[[int, int], str] = lambda row, column: f"schedule: rank {row}, pass {column}"
    stages: int = field(init=False)
    microbatches: int = field(init=False)
    stage_ranks: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        rank_of: dict[int, int] = {}
        done: set[Pass] = set()
        for rank, row in enumerate(self.rows):
            for column, action in enumerate(row):
                if rank_of.setdefault(action.stage, rank) != rank:
                    other = self.places(rank_of[action.stage], -1)
                    raise ValueError(f"{self.places(rank, column)}: {action} must be in {other}, as its stage is there")
                if action in done:
                    raise ValueError(f"{self.places(rank, column)}: {action} must occur once, got it twice")
                done.add(action)
        microbatches, stages = 1 + max((action.microbatch for action in done), default=-1), 1 + max(rank_of, default=-1)
        has_all = len(done) == 2 * stages * microbatches and {action.kind for action in done} <= {"F", "B"}
        for stage in range(0 if has_all else stages):
            place = self.places(rank_of.get(stage, -1), -1)
            for number in range(microbatches):
                forward, inputs, whole, weights = ((stage, number, kind) in done for kind in KINDS)
                if not forward or not (whole or inputs or weights):
                    raise ValueError(f"{place}: {stage}{'B' if forward else 'F'}{number} is missing")
                if (whole and (inputs or weights)) or inputs != weights:
                    rule = f"must be {stage}B{number}, or {stage}I{number} and {stage}W{number}"
                    got = [str(Pass(stage, number, kind)) for kind in KINDS[1:] if Pass(stage, number, kind) in done]
                    raise ValueError(f"{place}: the backward pass {rule}, got {' and '.join(got)}")
        object.__setattr__(self, "stages", len(rank_of))
        object.__setattr__(self, "microbatches", microbatches)
        object.__setattr__(self, "stage_ranks", tuple(rank_of[stage] for stage in sorted(rank_of)))

    @cached_property
    def order(self) -> list[Pass]:
        """Return all passes in an order in which each follows those that it waits for."""
        position = [0] * len(self.rows)
        order: list[Pass] = []
        done: set[Pass] = set()
        progress = True
        while progress:
            progress = False
            for rank, row in enumerate(self.rows):
                while position[rank] < len(row) and not self._missing(row[position[rank]], done):
                    order.append(row[position[rank]])
                    done.add(order[-1])
                    position[rank] += 1
                    progress = True
        for rank, row in enumerate(self.rows):
            if position[rank] < len(row):
                action = row[position[rank]]
                place = self.places(rank, position[rank])
                raise ValueError(f"{place}: {action} waits forever for {self._missing(action, done)} (deadlock)")
        return order

    def _missing(self, action: Pass, done: Set[tuple[int, int, str]]) -> str:
        """Return the pass that ``action`` still waits for, or nothing."""
        stage, number, kind = action
        if kind == "F":
            return "" if not stage or (stage - 1, number, "F") in done else str(Pass(stage - 1, number, "F"))
        if kind == "W":
            return "" if (stage, number, "I") in done else str(Pass(stage, number, "I"))
        if (stage, number, "F") not in done:
            return str(Pass(stage, number, "F"))
        if stage == self.stages - 1 or (stage + 1, number, "B") in done or (stage + 1, number, "I") in done:
            return ""
        return f"{stage + 1}I{number} or {stage + 1}B{number}"

    @property
    def kept_microbatches(self) -> NDArray[np.int64]:
        """Return [stages] the microbatches that are kept when the rank of the stage keeps the most.

        A microbatch is kept from its forward pass until the gradients of the weights are computed.
        """
        microbatches = np.zeros(self.stages, np.int64)
        for row in self.rows:
            in_flight, largest = Counter[int](), 0
            for action in row:
                in_flight[action.stage] += {"F": 1, "I": 0}.get(action.kind, -1)
                if in_flight.total() > largest:
                    largest = in_flight.total()
                    for stage in in_flight:
                        microbatches[stage] = in_flight[stage]
        return microbatches
