"""Ladders of Metropolis chains over placements, run by a kernel from step to step (``csrc/screen/ladder.h``).

One team of threads runs a ladder: it proposes, estimates and accepts, and swaps temperatures, without coming back to
Python. What the chains need stays where they run until they have ended. ``topoflow.search.tempering`` says what a walk
is.

Shapes: A ladders, C chains of each, Y layers, N servers, L links, D states that are kept, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow import _C
from topoflow.engine.base import Floats, Ints
from topoflow.engine.device import DeviceMemory
from topoflow.engine.launch import Kernel, launch_together
from topoflow.engine.screen.contention import Contention
from topoflow.memory import check_memory
from topoflow.units import human

SLICE = 16  # steps of one launch; nothing that is found depends on it
LOGS = ("best_log", "coldest_log", "accepted_log")


@dataclass(frozen=True)
class LadderLog:
    """The best times and the accepted proposals of each of S steps, on every ladder."""

    best: Floats  # [A, S] s, the least so far
    coldest: Floats  # [A, S] s, of the chain at the lowest temperature
    accepted: Ints  # [A, S] proposals


@dataclass
class LadderSlice:
    """Ladders ``first`` to ``first + count`` of all, on one device."""

    device: DeviceMemory
    arrays: dict[str, Any]  # by the names of csrc/screen/walk.h
    first: int = 0
    count: int = 0

    def numpy(self, name: str, *shape: int) -> NDArray[Any]:
        """An array [count, *shape]."""
        return self.device.numpy(self.arrays[name]).reshape(self.count, *shape)


class Ladders:
    """Chains where they run: several GPUs have about equally many ladders each.

    ``tables`` are the arrays of moves and of memory, by the names of ``csrc/screen/walk.h``, ``share`` [C] is what each
    rung accepts, and ``settings`` are those of ``_C.WalkSettings`` that are no sizes. ``first`` is the number of the
    first ladder: others may be elsewhere.
    """

    def __init__(
        self,
        model: Contention,
        tables: Mapping[str, NDArray[Any]],
        share: Floats,
        settings: Mapping[str, Any],
        first: int = 0,
    ) -> None:
        self.model, self.first = model, first
        self.settings = settings
        self.parts = [LadderSlice(where, held | where.put({**tables, "share": share})) for where, held in model.held]
        self.shapes: dict[str, tuple[int, ...]] = {}  # of one ladder's state

    def begin(self, placement: Ints, keep: int) -> None:
        """Create the state of chains at ``placement`` [A, C, Y]."""
        ladders, chains, layers = placement.shape
        numbers = {"energy": (chains,), "temperature": (chains,), "best": (keep,)}
        integers = {"rung": (chains,), "slower": (chains,), "best_placement": (keep, layers), "stuck": ()}
        state: dict[str, NDArray[Any]] = {name: np.zeros((ladders, *shape)) for name, shape in numbers.items()}
        state |= {name: np.zeros((ladders, *shape), np.int32) for name, shape in integers.items()}
        self._put({"placement": placement, **state})
        self._launch("begin", 0, 0)

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what ``read`` returned."""
        self._put(state)
        self._launch("resume", 0, 0)

    def advance(self, step: int, end: int) -> LadderLog:
        """Walk from ``step`` to ``end``, at most ``SLICE`` steps further."""
        self._launch("steps", step, end)
        return LadderLog(*(self._read(name, SLICE)[:, : end - step].copy() for name in LOGS))

    def read(self) -> dict[str, NDArray[Any]]:
        """The state of all chains."""
        return {name: self._read(name, *shape) for name, shape in self.shapes.items()}

    def _read(self, name: str, *shape: int) -> NDArray[Any]:
        return np.concatenate([part.numpy(name, *shape) for part in self.parts])

    def _put(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.shapes = {name: array.shape[1:] for name, array in state.items()}
        ladders = len(state["placement"])
        bounds = [ladders * part // len(self.parts) for part in range(len(self.parts) + 1)]
        for part, (first, end) in zip(self.parts, pairwise(bounds), strict=True):
            part.first, part.count = first, end - first
            self._put_part(part, {name: array[first:end] for name, array in state.items()})

    def _put_part(self, part: LadderSlice, state: Mapping[str, NDArray[Any]]) -> None:
        where, strategies = part.device, self.model.strategies
        chains, layers = self.shapes["placement"]
        part.arrays |= where.put({name: array.ravel().copy() for name, array in state.items()})
        part.arrays["load"] = _loads(where, part.count * chains, layers * 2 * strategies.links)
        part.arrays["used"] = where.zeros(part.count * chains * strategies.servers, dtype="int64")
        for name in LOGS:
            kind = "int32" if name == "accepted_log" else "float64"
            part.arrays[name] = where.zeros(part.count * SLICE, dtype=kind)
        part.arrays["cancel"] = where.flag()

    def _launch(self, part: str, step: int, end: int) -> None:
        launch_together(
            [(self._kernel(ladders, part, step, end), ladders.device) for ladders in self.parts if ladders.count]
        )

    def _kernel(self, ladders: LadderSlice, part: str, step: int, end: int) -> Kernel:
        where, model, (chains,) = ladders.device, self.model, self.shapes["rung"]
        settings = _C.WalkSettings(
            ladders=ladders.count, chains=chains, first=self.first + ladders.first, **self.settings
        )

        def call() -> None:
            _C.walk(ladders.arrays, model.sizes, settings, part, step, end, where.memory, where.stream, model.threads)

        return Kernel(call, ladders.arrays["cancel"], lambda: [f"{ladders.count} ladders of {chains} chains"])


def _loads(where: DeviceMemory, chains: int, numbers: int) -> Any:
    """Return memory for the loads of coflows on links. Raises ``ValueError`` where it does not fit."""
    needed = 8.0 * chains * numbers
    if not where.on_cuda:
        check_memory("search.chains", f"{chains} chains", needed)
    try:
        return where.zeros(chains * numbers, dtype="int64")
    except RuntimeError as error:
        if not where.lacks_memory(error):
            raise
        requirement = f"must fit in the memory of {where.torch}"
        raise ValueError(f"search.chains: {requirement}, got {chains} chains ({human(needed, 'B')})") from None
