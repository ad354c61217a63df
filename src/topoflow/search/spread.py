"""A search by workers of an executor: ladders of one search, which do not see each other, or whole searches.

Ladders walk for some seconds, then all states are back in this process, which shows progress and can keep a checkpoint.
The states do not depend on how far ladders walk at a time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from topoflow.engine.base import Run
from topoflow.engine.executor.base import Work, Workers, do_all
from topoflow.engine.screen.ladders import SLICE
from topoflow.fabric.base import Fabric
from topoflow.files import read_bytes
from topoflow.search.problem import Problem, Settings
from topoflow.search.tempering import Stretch, Tempering, Walk, Walked, joined, stretch

if TYPE_CHECKING:
    from topoflow.search.space import Placements

STRETCH_SECONDS = 5.0  # that ladders walk at a time
GROWTH = 8  # the most that a stretch may be longer than the last one

_made: dict[str, Tempering] = {}  # of the last round, by its name: to make it takes a second for large jobs


@dataclass(frozen=True)
class Ladder:
    """Some of the ladders, from number ``first`` on, where they are."""

    first: int
    walk: Walk


@dataclass(frozen=True)
class Walking(Work[Ladder, Walked]):
    """Ladders of one round as work for an executor; they walk until step ``end``."""

    space: Placements
    fabric: Fabric
    round: int
    end: int
    id: str  # of the round

    def weight(self, item: Ladder) -> float:
        """Return the number of ladders."""
        return float(len(item.walk.placement))

    def name(self, item: Ladder) -> str:
        return f"ladders from {item.first}"

    def do(self, items: Sequence[Ladder], run: Run) -> list[Walked]:
        if self.id not in _made:
            _made.clear()
            _made[self.id] = self.space.tempering(self.fabric, self.round, run)
        return [_made[self.id].walked(item.walk, self.end, item.first) for item in items]


def walk(
    space: Placements, fabric: Fabric, round: int, start: Walk, steps: int, run: Run, workers: Workers
) -> Iterator[Stretch]:
    """Yield the same stretches as ``Tempering.walk``, whose steps ``workers`` do."""
    ladders, length, name = len(start.placement), SLICE, uuid.uuid4().hex
    while start.step < steps:
        began, parts = time.monotonic(), min(ladders, workers.count)
        work = Walking(space, fabric, round, min(start.step + length, steps), name)
        bounds = [ladders * part // parts for part in range(parts + 1)]
        items = [Ladder(first, _part(start, first, end)) for first, end in pairwise(bounds)]
        walked = dict(do_all(work, items, run))
        reached = _joined([walked[number] for number in range(parts)])
        yield reached
        start = reached.walk
        seconds = max(time.monotonic() - began, 1e-3)
        length = SLICE * max(1, int(min(GROWTH, STRETCH_SECONDS / seconds) * length / SLICE))


def _part(whole: Walk, first: int, end: int) -> Walk:
    return Walk(whole.step, **{name: getattr(whole, name)[first:end] for name in _states()})


def _joined(parts: Sequence[Walked]) -> Stretch:
    states = {name: np.concatenate([getattr(part.walk, name) for part in parts]) for name in _states()}
    return stretch(Walk(parts[0].walk.step, **states), joined([part.log for part in parts], axis=0))


def _states() -> list[str]:
    return [each.name for each in fields(Walk) if each.name != "step"]


@dataclass(frozen=True)
class Asked:
    """A search, and its checkpoint: ``path`` at the process that asks, ``content`` as it is there, if it is."""

    name: str
    problem: Problem
    settings: Settings
    path: Path
    content: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Searching(Work[Asked, bytes]):
    """Whole searches as work for an executor; answers are checkpoints of searches that have ended."""

    def name(self, item: Asked) -> str:
        return item.name

    def do(self, items: Sequence[Asked], run: Run) -> list[bytes]:
        return [_searched(item, run) for item in items]


def _searched(asked: Asked, run: Run) -> bytes:
    """The checkpoint of a search; where the folder is here too, it is kept there meanwhile."""
    from topoflow.search.alternate import search

    with TemporaryDirectory(prefix="topoflow-") as folder:
        path = asked.path
        if not path.parent.is_dir():
            path = Path(folder) / path.name
            if asked.content is not None:
                path.write_bytes(asked.content)
        search(asked.problem, asked.settings, run, checkpoint=path)
        return read_bytes(path)
