"""Search by workers of an executor: independent ladders of one search, or whole searches.

Ladders walk for some seconds, then all states return to this process, which shows progress and can write a checkpoint.
The states do not depend on the length of these stretches.
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
from topoflow.engine.executor.base import ItemFunction, Workers, do_all
from topoflow.engine.screen.ladders import SLICE
from topoflow.fabric.base import Fabric
from topoflow.files import read_bytes
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.tempering import Stretch, Tempering, Walk, Walked, joined, stretch

if TYPE_CHECKING:
    from topoflow.search.space import PlacementSpace

STRETCH_SECONDS = 5.0  # target duration of a stretch
GROWTH = 8  # largest ratio of the lengths of a stretch and the last one

_cache: dict[str, Tempering] = {}  # id of the last round -> its walk, which takes a second to build for large jobs


@dataclass(frozen=True)
class Ladder:
    """The state of some of the ladders, from number ``first`` on."""

    first: int
    walk: Walk


@dataclass(frozen=True)
class Walking(ItemFunction[Ladder, Walked]):
    """The work of an executor that advances ladders of one round until step ``end``."""

    space: PlacementSpace
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
        if self.id not in _cache:
            _cache.clear()
            _cache[self.id] = self.space.tempering(self.fabric, self.round, run)
        return [_cache[self.id].walked(item.walk, self.end, item.first) for item in items]


def walk(
    space: PlacementSpace, fabric: Fabric, round: int, start: Walk, steps: int, run: Run, workers: Workers
) -> Iterator[Stretch]:
    """Yield the same stretches as ``Tempering.walk``, computed by ``workers``."""
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


def _part(walk: Walk, first: int, end: int) -> Walk:
    return Walk(walk.step, **{name: getattr(walk, name)[first:end] for name in _states()})


def _joined(parts: Sequence[Walked]) -> Stretch:
    states = {name: np.concatenate([getattr(part.walk, name) for part in parts]) for name in _states()}
    return stretch(Walk(parts[0].walk.step, **states), joined([part.log for part in parts], axis=0))


def _states() -> list[str]:
    return [state.name for state in fields(Walk) if state.name != "step"]


@dataclass(frozen=True)
class SearchRequest:
    """A search with its checkpoint: ``path`` on the requesting machine, and the ``content`` there, if any."""

    name: str
    problem: Problem
    settings: SearchSettings
    path: Path
    content: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Searching(ItemFunction[SearchRequest, bytes]):
    """The work of an executor that runs whole searches; results are checkpoints of finished searches."""

    def name(self, item: SearchRequest) -> str:
        return item.name

    def do(self, items: Sequence[SearchRequest], run: Run) -> list[bytes]:
        return [_searched(item, run) for item in items]


def _searched(request: SearchRequest, run: Run) -> bytes:
    """Run a search; return its checkpoint, which is at ``path`` meanwhile if this machine has the folder."""
    from topoflow.search.alternate import search

    with TemporaryDirectory(prefix="topoflow-") as folder:
        path = request.path
        if not path.parent.is_dir():
            path = Path(folder) / path.name
            if request.content is not None:
                path.write_bytes(request.content)
        search(request.problem, request.settings, run, checkpoint=path)
        return read_bytes(path)
