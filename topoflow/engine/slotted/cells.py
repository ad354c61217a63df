"""A world in the units of the slotted model: whole cells, slots and picoseconds.

Shapes: T tasks, D dependencies, S servers, N nodes (racks).
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.arrays import Ints, Offsets
from topoflow.engine.slotted.schedule import Schedule

NEVER = 2**62  # ps


@dataclass(frozen=True)
class Cells:
    """What the servers of the nodes of a schedule send each other.

    A task is ready when those in ``after`` have finished and ``release`` has passed; after its ``delay`` its cells
    queue at its source. One without cells has finished then. Laws: as ``Graph`` has them; servers of a task differ.
    """

    name: str
    schedule: Schedule
    slot: int  # ps
    node: Ints  # [S] the node of each server
    pace: int  # ps that the cable of a server needs for a cell
    cells: Ints  # [T]
    source: Ints  # [T] server, -1: nothing is sent
    target: Ints  # [T]
    delay: Offsets  # [T] ps
    release: Offsets  # [T] ps
    after_offsets: Offsets  # [T+1]
    after: Ints  # [D]
    until: int = NEVER  # ps; nothing later need be simulated
    window: int = NEVER  # ps; cells that servers got earlier are counted
    seed: int = 0  # of this world: a part of the key of its random numbers

    @property
    def tasks(self) -> int:
        return len(self.cells)

    @property
    def epoch(self) -> int:
        """ps"""
        return self.schedule.slots * self.slot
