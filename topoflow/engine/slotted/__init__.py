"""The ``slotted`` fidelity: networks without buffers in the core, where time is slots and a protocol says who sends.

    simulate_cells    worlds of cells: when each task ran, what nodes saw

``reference`` states the model in plain Python, ``csrc/slotted`` is what runs.

Shapes: T tasks, N nodes, C cells of all tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from topoflow import _C
from topoflow.arrays import Ints, Offsets
from topoflow.engine.base import Run
from topoflow.engine.device import Device
from topoflow.engine.launch import Steps, in_pieces
from topoflow.engine.slotted.batch import Batch, pack
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import Settings

PER_TASK = 120  # B of arrays
PER_CELL = 20  # B, where each is logged


@dataclass(frozen=True)
class Log:
    """Where every cell was: in slots from the beginning, -1: it was not sent, or not sent on."""

    through: Ints  # [C] the node of the detour, -1: there was none
    sent: Offsets  # [C]
    sent_on: Offsets  # [C]


@dataclass(frozen=True)
class Found:
    """What became of a world. Times are in ps, NEVER where it did not come to it."""

    world: Cells
    start: Offsets  # [T]
    finish: Offsets  # [T]
    delivered: Ints  # [T] cells that came to the node of the target
    reorder: Ints  # [T] the most that waited there for an earlier one
    fullest: Ints  # [N] the most cells that waited for a slot, those in LOCAL not counted
    hops: int  # cells that were sent, once for each hop
    received: int  # cells that servers got in the window
    epochs: int
    log: Log | None = None

    @property
    def has_ended(self) -> bool:
        """Whether every task has finished."""
        return bool((self.finish < NEVER).all())


def simulate_cells(worlds: Sequence[Cells], settings: Settings, run: Run = Run(), *, log: bool = False) -> list[Found]:
    """What becomes of each of ``worlds``, in their order; they do not influence each other.

    Raises ``ValueError`` that names a world whose tasks wait for each other in a circle.
    """
    steps = partial(_steps, settings=settings, threads=run.threads, log=log)
    return in_pieces(worlds, run.device, run.observer, partial(_pieces, log=log), steps)


def _steps(
    worlds: Sequence[Cells], device: Device, settings: Settings, threads: int | None, log: bool
) -> Steps[list[Found]]:
    batch = pack(worlds, settings, log=log)
    yield from batch.steps(device, threads)
    _raise_unfinished(batch)
    return [_found(batch, index, log) for index in range(len(worlds))]


def _pieces(worlds: Sequence[Cells], memory: int, log: bool) -> Iterator[Sequence[Cells]]:
    """Cut a batch, in order, into pieces whose arrays take at most ``memory`` B; a larger world goes alone."""
    first, taken = 0, 0
    for index, world in enumerate(worlds):
        needed = PER_TASK * world.tasks + PER_CELL * int(world.cells.sum()) * log
        if index > first and taken + needed > memory:
            yield worlds[first:index]
            first, taken = index, 0
        taken += needed
    if first < len(worlds):
        yield worlds[first:]


def _raise_unfinished(batch: Batch) -> None:
    status = batch.arrays["status"]
    laws = {
        _C.DEADLOCK: "every task must become ready, got an endless wait for task {task}",
        _C.TOO_LONG: f"must end within {2**31 - 2} epochs, got a longer time",
    }
    failures = []
    for index in np.flatnonzero((status != _C.DONE) & (status != _C.PAUSED)).tolist():
        task = int(np.argmax(batch.of("finish", index) == NEVER))
        law = laws.get(status[index], "must not be cancelled, got that")
        failures.append(f"{batch.worlds[index].name}: {law.format(task=task)}")
    if failures:
        raise ValueError("; ".join(failures))


def _found(batch: Batch, index: int, log: bool) -> Found:
    of = partial(batch.of, world=index)
    return Found(
        world=batch.worlds[index],
        start=of("start"),
        finish=of("finish"),
        delivered=of("delivered"),
        reorder=of("reorder"),
        fullest=of("fullest"),
        hops=int(of("hops")[0]),
        received=int(of("received")[0]),
        epochs=int(of("epochs")[0]),
        log=Log(of("through"), of("sent"), of("sent_on")) if log else None,
    )
