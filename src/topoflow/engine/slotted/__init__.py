"""The ``slotted`` fidelity: networks without buffers in the core, where time is slots and a protocol says who sends.

    Slotted           the fidelity: worlds on a network with a schedule; a Timeline of each, with what its nodes saw
    simulate_cells    worlds of cells: the same in cells and picoseconds

``reference`` states the model in plain Python, ``csrc/slotted`` is what runs.

Shapes: T tasks, N nodes, C cells of all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from topoflow import _C
from topoflow.arrays import Floats, Ints, Offsets
from topoflow.engine.base import Pause, Run, Slots, Timeline, World
from topoflow.engine.checks import check_accepted, refuses_rounds
from topoflow.engine.device import DeviceMemory
from topoflow.engine.launch import Steps, cut_by_memory, in_pieces
from topoflow.engine.slotted.batch import SlottedBatch, pack
from topoflow.engine.slotted.cells import NEVER, SECOND, Cells, Control, cells_of, control_of
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.engine.timelines import link_bytes, timeline
from topoflow.fabric.circuits.on_demand import OnDemand
from topoflow.fabric.circuits.staggered import Staggered

PER_TASK = 120  # B of arrays
PER_WORLD = 12 * _C.MOST_SAMPLES  # B
PER_CELL = 20  # B, where each is logged
ROUNDING = 1e-9


@dataclass(frozen=True)
class Slotted(SlottedSettings):
    """Cells that follow a schedule."""

    name: ClassVar[str] = "slotted"
    lower_bound_of: ClassVar[str] = ""

    def refuses(self, world: World) -> str | None:
        """Refuse networks without slots or with a failed part of one, and flows with limits or without two ends."""
        fabric, graph = world.fabric, world.graph
        if graph.rounds > 1:
            return refuses_rounds(world, self.name)
        got = "none" if fabric is None else f"{fabric.name} with servers={fabric.servers}"
        if fabric is None or not isinstance(fabric.control, Control):
            requirement = (
                f"must have slots with fidelity={self.name}, as two racks of sirius, fosquare, rotornet or opera have"
            )
            return f"fabric: {requirement}, got {got}"
        if self.loss != "none" and not isinstance(fabric.control, OnDemand):
            return f"slotted.loss: must be none with fabric={fabric.name}, as racks that follow a schedule promise room"
        if not _is_whole(world, fabric.control):
            return f"fail: must leave the links of {fabric.name} whole with fidelity={self.name}, got a part of them"
        sends = graph.bytes > 0
        if (graph.ends is None and sends.any()) or (graph.ends is not None and (graph.source[sends] < 0).any()):
            return f"rings: must be steps with fidelity={self.name}, got sends without two ends in {world.name}"
        limits = graph.path_limit
        if limits is not None and np.isfinite(limits).any():
            return f"all_reduce: must leave senders their rate with fidelity={self.name}, got a limit in {world.name}"
        return None

    def keeps_bound(self, world: World) -> bool:
        """Return False: cells take other paths than the one of a flow in the world."""
        return False

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """Return when every task of every world ran, in their order. Raises ``ValueError`` as ``Fluid`` does."""
        results = self._run(worlds, run)
        return [_timeline(world, result) for world, result in zip(worlds, results, strict=True)]

    def pause(self, world: World, until: float, run: Run = Run()) -> Pause:
        """Return the state of ``world`` at ``until`` (s); bytes that reached the rack of their target have arrived."""
        (result,) = self._run([replace(world, until=until)], run)
        delivered = result.delivered * np.float64(control_of(world).cell)
        remaining = np.maximum(world.graph.bytes - delivered, 0.0)
        return Pause(until, _seconds(result.start), _seconds(result.finish), remaining, _slots(world, result))

    def _run(self, worlds: Sequence[World], run: Run) -> list[SlottedResults]:
        check_accepted(self, worlds)
        return simulate_cells([cells_of(world) for world in worlds], self, run)


@dataclass(frozen=True)
class SlotLog:
    """The slots in which every cell was sent, from the beginning; -1: it was not sent, or not sent on."""

    through: Ints  # [C] the node of the detour, -1: there was none
    sent: Offsets  # [C]
    sent_on: Offsets  # [C]


@dataclass(frozen=True)
class SlottedResults:
    """The results of a world. Times are in ps, NEVER for what did not happen."""

    world: Cells
    start: Offsets  # [T]
    finish: Offsets  # [T]
    delivered: Ints  # [T] cells that came to the node of the target
    dropped: Ints  # [T] cells that found full buffers, and never come
    reorder: Ints  # [T] the most that waited there for an earlier one
    fullest: Ints  # [N] the most cells that waited for a slot, those in LOCAL not counted
    hops: int  # cells that were sent, once for each hop
    received: int  # cells that servers got in the window
    refused: Ints  # [N, 2] NACKs for packets that were sent to each node, by kind of switch; none with a schedule
    epochs: int
    sampled: Ints  # [K, 3] of epochs: number, cells that waited at all nodes when it had passed, and the most at one
    log: SlotLog | None = None


def _is_whole(world: World, control: Control) -> bool:
    """Return whether all links have their full bandwidth: the schedule knows no other links."""
    fabric, racks = world.fabric, control.schedule.nodes
    assert fabric is not None
    if isinstance(control, OnDemand):
        transceivers = np.tile([control.schedule.intra] * 2 + [control.schedule.inter] * 2, racks)
        full = transceivers * fabric.interface_bandwidth
        return fabric.servers == racks and np.array_equal(world.capacity, full)
    shares = control.shares().ravel()
    racks = len(shares) // 2
    servers = racks * control.servers_per_node
    if fabric.servers != servers or len(world.capacity) != 2 * (servers + racks):
        return False
    server_links, uplinks = world.capacity[: 2 * servers], world.capacity[2 * servers :]
    full = np.isclose(uplinks, uplinks[0] / shares[0] * shares, rtol=ROUNDING, atol=0.0)
    return bool((server_links == fabric.degree * fabric.interface_bandwidth).all() and full.all())


def simulate_cells(
    worlds: Sequence[Cells], settings: SlottedSettings, run: Run = Run(), *, log: bool = False
) -> list[SlottedResults]:
    """Return the results of ``worlds``, in their order; they do not influence each other.

    Raises ``ValueError`` that names a world whose tasks wait for each other in a circle, or for one that lost cells, or
    whose cells get no slot.
    """
    steps = partial(_steps, settings=settings, threads=run.threads, log=log)
    cut = partial(cut_by_memory, needed=partial(_needed, log=log))
    return in_pieces(worlds, run.device, run.observer, cut, steps)


def _steps(
    worlds: Sequence[Cells], device: DeviceMemory, settings: SlottedSettings, threads: int | None, log: bool
) -> Steps[list[SlottedResults]]:
    batch = pack(worlds, settings, log=log)
    yield from batch.steps(device, threads)
    _raise_unfinished(batch)
    return [_found(batch, index, log) for index in range(len(worlds))]


def _needed(world: Cells, log: bool) -> int:
    """B of its arrays."""
    schedule = world.schedule
    drawn = schedule.nodes**2 * (schedule.nodes + 1) if isinstance(schedule, Staggered) else 0
    return drawn + PER_WORLD + PER_TASK * world.tasks + PER_CELL * int(world.cells.sum()) * log


def _raise_unfinished(batch: SlottedBatch) -> None:
    status = batch.arrays["status"]
    stuck = batch.arrays["stuck"].reshape(-1, 2)
    messages = {
        _C.DEADLOCK: "every task must become ready, got an endless wait for task {task}",
        _C.STARVED: "every cell must get a slot, got a queue of node {node}{target} that nothing leaves",
        _C.TOO_LONG: f"must end within {2**31 - 2} epochs, got a longer time",
    }
    failures = []
    for index in np.flatnonzero((status != _C.DONE) & (status != _C.PAUSED)).tolist():
        task = int(np.argmax(batch.of("finish", index) == NEVER))
        message = messages.get(status[index], "must not be cancelled, got that")
        if status[index] == _C.DEADLOCK and batch.of("dropped", index).any():
            message = "slotted.loss must be none where tasks wait for others, got drop and tasks that lost packets"
        node, target = stuck[index].tolist()
        of_target = f" for node {target}" if target >= 0 else ""  # a queue may hold cells for several
        failures.append(f"{batch.worlds[index].name}: {message.format(task=task, node=node, target=of_target)}")
    if failures:
        raise ValueError("; ".join(failures))


def _found(batch: SlottedBatch, index: int, log: bool) -> SlottedResults:
    of = partial(batch.of, world=index)
    return SlottedResults(
        world=batch.worlds[index],
        start=of("start"),
        finish=of("finish"),
        delivered=of("delivered"),
        dropped=of("dropped"),
        reorder=of("reorder"),
        fullest=of("fullest"),
        hops=int(of("hops")[0]),
        received=int(of("received")[0]),
        refused=of("refused").reshape(-1, 2),
        epochs=int(of("epochs")[0]),
        sampled=of("sampled").reshape(-1, 3)[: int(of("samples")[0])],
        log=SlotLog(of("through"), of("sent"), of("sent_on")) if log else None,
    )


def _timeline(world: World, results: SlottedResults) -> Timeline:
    start, finish = _seconds(results.start), _seconds(results.finish)
    return replace(timeline(world, start, finish, link_bytes(world.graph)), slots=_slots(world, results))


def _slots(world: World, results: SlottedResults) -> Slots:
    cell = np.float64(control_of(world).cell)
    delivered = results.delivered * cell
    # The last cell of a task is not full.
    payload = np.minimum(delivered, world.graph.bytes).sum() / max(delivered.sum(), 1.0)
    return Slots(
        received=float(results.received * cell * payload),
        fullest=(results.fullest * cell).astype(np.float64),
        reorder=(results.reorder * cell).astype(np.float64),
        dropped=(results.dropped * cell).astype(np.float64),
        hops=results.hops,
        refused=results.refused,
        epochs=results.epochs,
        sampled=_seconds((results.sampled[:, 0].astype(np.int64) + 1) * results.world.epoch),
        waiting=(results.sampled[:, 1:] * cell).astype(np.float64),
    )


def _seconds(times: Offsets) -> Floats:
    return np.where(times >= NEVER, np.inf, times / SECOND)
