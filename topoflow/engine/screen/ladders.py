"""Ladders of Metropolis chains over placements, run by a kernel from step to step (``csrc/screen/ladder.h``).

One team of threads runs a ladder: it proposes, estimates and accepts, and swaps temperatures, without coming back to
Python. What the chains need stays where they run until they have ended. ``topoflow.search.tempering`` says what a walk
is.

Shapes: A ladders, C chains of each, Y layers, N servers, L links, D states that are kept, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow import _C
from topoflow.engine.base import Floats, Ints
from topoflow.engine.launch import Kernel, launch
from topoflow.engine.screen.contention import Contention
from topoflow.memory import check_memory
from topoflow.units import human

SLICE = 16  # steps of one launch; nothing that is found depends on it
LOGS = ("best_log", "coldest_log", "accepted_log")


@dataclass(frozen=True)
class Log:
    """What each of S steps found, on every ladder."""

    best: Floats  # [A, S] s, the least so far
    coldest: Floats  # [A, S] s, of the chain at the lowest temperature
    accepted: Ints  # [A, S] proposals


class Ladders:
    """Chains where they run.

    ``tables`` are the arrays of moves and of memory, by the names of ``csrc/screen/walk.h``, ``share`` [C] is what each
    rung accepts, and ``settings`` are those of ``_C.WalkSettings`` that are no sizes.
    """

    def __init__(
        self, model: Contention, tables: Mapping[str, NDArray[Any]], share: Floats, settings: Mapping[str, Any]
    ) -> None:
        self.model = model
        self.settings = settings
        self.arrays = dict(model.arrays) | model.where.put({**tables, "share": share})
        self.shapes: dict[str, tuple[int, ...]] = {}

    def begin(self, placement: Ints, keep: int) -> None:
        """Chains at ``placement`` [A, C, Y] make their state."""
        ladders, chains, layers = placement.shape
        numbers = {"energy": (chains,), "temperature": (chains,), "best": (keep,)}
        integers = {"rung": (chains,), "slower": (chains,), "best_placement": (keep, layers), "stuck": ()}
        made: dict[str, NDArray[Any]] = {name: np.zeros((ladders, *shape)) for name, shape in numbers.items()}
        made |= {name: np.zeros((ladders, *shape), np.int32) for name, shape in integers.items()}
        self._put({"placement": placement, **made})
        self._launch("begin", 0, 0)

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what ``read`` returned."""
        self._put(state)
        self._launch("resume", 0, 0)

    def advance(self, step: int, end: int) -> Log:
        """Walk from ``step`` to ``end``, at most ``SLICE`` steps further."""
        self._launch("steps", step, end)
        rows = [self.model.where.numpy(self.arrays[name]).reshape(-1, SLICE) for name in LOGS]
        return Log(*(row[:, : end - step].copy() for row in rows))

    def read(self) -> dict[str, NDArray[Any]]:
        """The state of all chains."""
        where = self.model.where
        return {name: where.numpy(self.arrays[name]).reshape(shape).copy() for name, shape in self.shapes.items()}

    def _put(self, state: Mapping[str, NDArray[Any]]) -> None:
        where = self.model.where
        self.shapes = {name: array.shape for name, array in state.items()}
        ladders, chains, layers = self.shapes["placement"]
        self.arrays |= where.put({name: array.ravel().copy() for name, array in state.items()})
        self.arrays["load"] = self._loads(ladders * chains, layers * 2 * self.model.strategies.links)
        self.arrays["used"] = where.zeros(ladders * chains * self.model.strategies.servers, dtype="int64")
        for name in LOGS:
            kind = "int32" if name == "accepted_log" else "float64"
            self.arrays[name] = where.zeros(ladders * SLICE, dtype=kind)
        self.arrays["cancel"] = where.flag()

    def _loads(self, chains: int, numbers: int) -> Any:
        """Memory for what coflows put on links. Raises ``ValueError`` where it does not fit."""
        where, needed = self.model.where, 8.0 * chains * numbers
        if not where.on_cuda:
            check_memory("search.chains", f"{chains} chains", needed)
        try:
            return where.zeros(chains * numbers, dtype="int64")
        except RuntimeError as error:
            if not where.lacks_memory(error):
                raise
            law = f"must fit in the memory of {where.torch}"
            raise ValueError(f"search.chains: {law}, got {chains} chains ({human(needed, 'B')})") from None

    def _launch(self, part: str, step: int, end: int) -> None:
        where, model = self.model.where, self.model
        ladders, chains = self.shapes["rung"]
        settings = _C.WalkSettings(ladders=ladders, chains=chains, **self.settings)

        def call() -> None:
            _C.walk(self.arrays, model.sizes, settings, part, step, end, where.memory, where.stream, model.threads)

        launch(Kernel(call, self.arrays["cancel"], lambda: [f"{ladders} ladders of {chains} chains"]), where)
