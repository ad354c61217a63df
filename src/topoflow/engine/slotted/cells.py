"""A world in the units of the slotted model: whole cells, slots and picoseconds.

Shapes: T tasks, D dependencies, S servers, N nodes (racks).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats, Ints, Offsets
from topoflow.engine.base import World
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.on_demand import OnDemand, Square
from topoflow.fabric.circuits.rotors import Rotating, Rotors
from topoflow.fabric.circuits.schedule import CircuitSchedule, Cyclic
from topoflow.fabric.circuits.staggered import Staggered, pause_of

Control = Cyclic | OnDemand | Rotating  # of networks where time is slots

NEVER = 2**62  # ps
SECOND = 1e12  # ps
LONGEST = 2**53  # ps, 2.5 hours: the longest of a single wait; whole numbers up to here are exact as float64
MOST_CELLS = 2**31 - 1  # of a task
MOST_IN_ALL = 2**34  # of a world: the words of their bits have numbers of 32 bits


@dataclass(frozen=True)
class Cells:
    """The cells that servers of the nodes of a schedule send each other.

    A task is ready when those in ``after`` have finished and ``release`` has passed; after its ``delay`` its cells
    queue at its source. One without cells has finished then. Laws: as ``Graph`` has them; servers of a task differ.
    """

    name: str
    schedule: CircuitSchedule | Square | Rotors
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
    credited: bool = True  # servers have a cable to their node, which credits share out; False: they are the nodes
    arrive: tuple[int, int] = (
        0,
        0,
    )  # ps from the beginning of a slot: of a square by kind of transceiver; of rotors until
    # the first cell of a link has come, and from each to the next
    pause: tuple[int, int] = (1, 1)  # until what was received can be sent on: of a square slots, by kind; of staggered
    # rotors times of a cell, of those that do not wait for their link
    resource: Ints | None = None  # [T] as ``Graph.resource``
    low_latency: NDArray[np.bool_] | None = None  # [T] whose cells do not wait for their link; None: all do

    @property
    def tasks(self) -> int:
        return len(self.cells)

    @property
    def epoch(self) -> int:
        """The time of an epoch in ps."""
        return self.schedule.slots * self.slot


def cells_of(world: World) -> Cells:
    """A world on a network with a schedule in whole cells and picoseconds.

    The latency of a path is waited before the first cell: light travels while the schedule continues. A network that
    is asked for every packet says itself when one arrives. Raises ``ValueError`` where the world cannot be said in
    these units.
    """
    graph, fabric = world.graph, world.fabric
    assert fabric is not None
    control = control_of(world)
    sends = graph.bytes > 0
    cells = np.where(sends, np.ceil(graph.bytes / control.cell), 0.0)
    _check_most(world, "bytes", cells, MOST_CELLS, "cells")
    _check_most(world, "bytes", cells.sum(keepdims=True), MOST_IN_ALL, "cells in all")
    pace = control.cell / (fabric.degree * fabric.interface_bandwidth)
    return Cells(
        name=world.name,
        schedule=control.schedule,
        slot=round(control.slot * SECOND),
        node=control.nodes_of(fabric.servers),
        pace=max(round(pace * SECOND), 1),
        cells=cells.astype(np.int32),
        source=np.where(sends, graph.source, -1).astype(np.int32),
        target=np.where(sends, graph.target, -1).astype(np.int32),
        delay=_picoseconds(world, "delay", graph.delay + _latency(world, sends)),
        release=_picoseconds(world, "release", graph.release),
        after_offsets=graph.after_offsets,
        after=graph.after,
        resource=graph.resource,
        until=int(min(world.until * SECOND, float(NEVER))),
        window=int(min(world.until * SECOND, float(NEVER))),
        seed=world.seed % 2**32,
        credited=not isinstance(control, Cyclic) or control.servers_per_node > 1,
        low_latency=sends & (graph.bytes < control.bulk) if isinstance(control, Rotating) else None,
        **_timing(control),
    )


def has_slots(fabric: Fabric | None) -> bool:
    """Return whether the network has time slots."""
    return fabric is not None and isinstance(fabric.control, Control)


def control_of(world: World) -> Control:
    """Return the control that the links of its network follow."""
    assert world.fabric is not None
    control = world.fabric.control
    assert isinstance(control, Control), "others are refused"
    return control


def _timing(control: Control) -> dict[str, tuple[int, int]]:
    """Return the times at which packets arrive and can be sent on, if they are not the end of a slot."""
    if isinstance(control, Cyclic):
        return {}
    if isinstance(control, Rotating):
        gap = 0 if isinstance(control.schedule, Staggered) else round(control.gap * SECOND)
        cell_time = (round(control.slot * SECOND) - gap) // control.schedule.cells
        return {"arrive": (gap + cell_time, cell_time), "pause": (pause_of(control.flight * SECOND, cell_time), 1)}
    intra, inter = (round(time * SECOND) for time in control.arrive)
    slot, buffering = round(control.slot * SECOND), round(control.buffering * SECOND)
    return {"arrive": (intra, inter), "pause": (-(-(intra + buffering) // slot), -(-(inter + buffering) // slot))}


def _latency(world: World, sends: NDArray[np.bool_]) -> Floats:
    """Return [T] s before the first cell: of the path of each task, or that of buffering."""
    graph, control = world.graph, control_of(world)
    if isinstance(control, OnDemand):
        return np.where(sends, control.buffering, 0.0)
    if len(graph.path_offsets) == 1:
        return np.zeros(graph.tasks)
    hops = np.diff(graph.path_offsets)
    of_path = np.bincount(np.repeat(np.arange(len(hops)), hops), world.latency[graph.path_links], len(hops))
    latency: Floats = np.where(graph.path >= 0, of_path[graph.path], 0.0)
    return latency


def _picoseconds(world: World, field: str, seconds: Floats) -> Offsets:
    with np.errstate(over="ignore"):  # inf is more than the most, too
        times = np.rint(seconds * SECOND)
    _check_most(world, field, times, LONGEST, "ps")
    return times.astype(np.int64)


def _check_most(world: World, field: str, values: Floats, most: float, unit: str) -> None:
    if len(values) and not values.max() <= most:
        raise ValueError(f"{world.name}.{field}: must be at most {most:.0f} {unit}, got {values.max():.0f}")
