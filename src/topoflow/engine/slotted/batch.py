"""Worlds of cells laid end to end in flat arrays, as ``csrc/slotted`` reads them, and what it found.

Shapes: W worlds; T tasks, C cells, N nodes of a world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow import _C
from topoflow.arrays import Ints, Offsets, filled, offsets
from topoflow.engine.device import DeviceMemory
from topoflow.engine.launch import Kernel, Steps, count_threads
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import CABLES, MAX_INT32, PROTOCOLS, SlottedSettings
from topoflow.fabric.circuits.on_demand import Square
from topoflow.fabric.circuits.rotors import Rotors
from topoflow.fabric.circuits.schedule import CircuitSchedule
from topoflow.fabric.circuits.staggered import Staggered

Array = NDArray[Any]

WORD = 32  # cells whose bits are in a word
PAIRS = 64  # the same for pairs of nodes
WORD_BYTES = 8  # of tables of bytes

# Arrays that the kernel writes: their type, what they have entries for, and how many for each of these.
ANSWERS = {
    "start": ("int64", "task", 1),
    "finish": ("int64", "task", 1),
    "delivered": ("int32", "task", 1),
    "dropped": ("int32", "task", 1),
    "reorder": ("int32", "task", 1),
    "fullest": ("int32", "node", 1),
    "hops": ("int64", "world", 1),
    "received": ("int64", "world", 1),
    "refused": ("int32", "node", 2),
    "epochs": ("int32", "world", 1),
    "stuck": ("int32", "world", 2),
    "samples": ("int32", "world", 1),
    "sampled": ("int32", "world", 3 * _C.MOST_SAMPLES),
    "status": ("int32", "world", 1),
}
LOGGED = {"through": "int32", "sent": "int64", "sent_on": "int64"}  # of each cell, where they are asked for

SQUARE = {"radix": "servers_per_rack", "intra": "intra", "inter": "inter", "room": "room"}
NO_SQUARE = Square(0, 0, 0, 0, 0)  # of a world that follows a schedule

SHARED = ("status", "cancel", "counts")  # what the host reads or writes, too


@dataclass(frozen=True)
class SlottedBatch:
    """The worlds of one launch: ``arrays`` by the names that ``csrc/slotted/batch.h`` gives them."""

    worlds: tuple[Cells, ...]
    arrays: dict[str, Array]

    def of(self, name: str, world: int) -> Array:
        """Return the part of an answer that belongs to one world."""
        if name in LOGGED:
            begin = self.arrays["cell_offsets"][self.arrays["task_offsets"]]
        else:
            _, kind, width = ANSWERS[name]
            begin = width * (np.arange(len(self.worlds) + 1) if kind == "world" else self.arrays[f"{kind}_offsets"])
        return self.arrays[name][begin[world] : begin[world + 1]]

    def steps(self, device: DeviceMemory, threads: int | None) -> Steps[None]:
        """One launch, after which the answers are there."""
        arrays = self.arrays
        if device.torch is not None:
            arrays = device.put({name: arrays[name] for name in arrays if name not in SHARED})
            for name in SHARED:
                arrays[name] = device.shared(len(self.arrays[name]))
                np.asarray(arrays[name])[:] = self.arrays[name]
        status = np.asarray(arrays["status"])
        yield Kernel(
            partial(_C.slots, arrays, device.memory, device.stream, count_threads(threads)),
            arrays["cancel"],
            running=lambda: [self.worlds[index].name for index in np.flatnonzero(status == _C.RUNNING)],
            done=lambda: int(np.count_nonzero((status != _C.PENDING) & (status != _C.RUNNING))),
        )
        if device.torch is not None:
            self.arrays["status"][:] = status
            for name in {*ANSWERS, *LOGGED} - {"status"}:
                self.arrays[name][:] = device.numpy(arrays[name])


def pack(worlds: Sequence[Cells], settings: SlottedSettings, *, log: bool = False) -> SlottedBatch:
    """Return a batch of these worlds. ``log``: record for each cell when and through which node it was sent."""
    counts = {
        "task": [world.tasks for world in worlds],
        "server": [len(world.node) for world in worlds],
        "node": [world.schedule.nodes for world in worlds],
    }
    protocol = np.array([_protocol(world, settings) for world in worlds], np.int32)
    arrays: dict[str, Array] = {f"{kind}_offsets": offsets(lengths) for kind, lengths in counts.items()}
    first = [_first(world) for world in worlds]
    followers = [_followers(world) for world in worlds]
    dark = [_dark(world) for world in worlds]
    drawn_at, drawn = _drawn(worlds)
    cells = _joined([world.cells for world in worlds], np.int64)
    size = np.array([world.cells.sum() for world in worlds], np.int64)
    arrays |= {
        "first_offsets": offsets([len(tasks) for tasks in first]),
        "first": _joined(first, np.int32),
        "slots": np.array([world.schedule.slots for world in worlds], np.int32),
        "queue": np.array([_queue(world, settings) for world in worlds], np.int32),
        "credits": np.array([_credits(world, settings) for world in worlds], np.int32),
        "switches": np.array([_switches(world) for world in worlds], np.int32),
        "carries": np.array([_carries(world) for world in worlds], np.int32).ravel(),
        "drawn_at": drawn_at,
        "drawn": drawn,
        "low_latency": _joined([_low_latency(world) for world in worlds], np.int32),
        "cable": np.array([_cable(world, settings) for world in worlds], np.int32),
        "drops": np.full(len(worlds), settings.loss == "drop", np.int32),
        "keys": np.array([[settings.seed, world.seed] for world in worlds], np.uint32).view(np.int32).ravel(),
        "slot": np.array([world.slot for world in worlds], np.int64),
        "pace": np.array([world.pace for world in worlds], np.int64),
        "until": np.array([world.until for world in worlds], np.int64),
        "window": np.array([world.window for world in worlds], np.int64),
        "pause": np.array([world.pause for world in worlds], np.int32).ravel(),
        "arrive": np.array([world.arrive for world in worlds], np.int64).ravel(),
        "node_servers": offsets(_joined([_counts(world.node, world) for world in worlds], np.int64)),
        "server_node": _joined([world.node for world in worlds], np.int32),
        "node_tasks": offsets(_joined([_tasks(world) for world in worlds], np.int64)),
        "pending": _joined([np.diff(world.after_offsets) for world in worlds], np.int32),
        "resource": filled([world.resource for world in worlds], counts["task"], -1),
        "follower_offsets": offsets(_joined([np.diff(begin) for begin, _ in followers], np.int64)),
        "followers": _joined([tasks for _, tasks in followers], np.int32),
        "bit_offsets": offsets(-(-cells // WORD)),
        "dark_offsets": offsets([len(bits) for bits in dark]),
        "dark": _joined(dark, np.int64),
        "cell_offsets": offsets(cells),
        "order": np.lexsort((-size, protocol)).astype(np.int32),
        "counts": np.bincount(protocol, minlength=_C.PROTOCOLS).astype(np.int32),
        "cancel": np.zeros(1, np.int32),
    }
    for name, dtype in (("cells", np.int32), ("source", np.int32), ("target", np.int32)):
        arrays[name] = _joined([getattr(world, name) for world in worlds], dtype)
    for name in ("delay", "release"):
        arrays[name] = _joined([getattr(world, name) for world in worlds], np.int64)
    squares = [world.schedule if isinstance(world.schedule, Square) else NO_SQUARE for world in worlds]
    for name, field in SQUARE.items():
        arrays[name] = np.array([getattr(square, field) for square in squares], np.int32)
    counts["world"] = [1] * len(worlds)
    arrays |= {name: np.zeros(width * sum(counts[kind]), dtype) for name, (dtype, kind, width) in ANSWERS.items()}
    arrays |= {name: np.zeros(int(cells.sum()) if log else 0, dtype) for name, dtype in LOGGED.items()}
    return SlottedBatch(tuple(worlds), arrays)


def _protocol(world: Cells, settings: SlottedSettings) -> int:
    """A schedule can be used by several protocols; switches that are asked have one, and rotor switches others."""
    if isinstance(world.schedule, CircuitSchedule):
        return PROTOCOLS[settings.protocol]
    if isinstance(world.schedule, Square):
        return int(_C.ACK_NACK)
    return int(_C.OPERA if isinstance(world.schedule, Staggered) else _C.ROTOR_LB)


def _queue(world: Cells, settings: SlottedSettings) -> int:
    return world.schedule.stored if isinstance(world.schedule, Rotors) else settings.queue


def _credits(world: Cells, settings: SlottedSettings) -> int:
    return settings.credits or MAX_INT32 if world.credited and not isinstance(world.schedule, Rotors) else MAX_INT32


def _switches(world: Cells) -> int:
    return world.schedule.switches if isinstance(world.schedule, Rotors) else 0


def _carries(world: Cells) -> tuple[int, int]:
    """Return the cells of a link in a slot, of a switch that keeps its matching and of one that turns at the end."""
    if not isinstance(world.schedule, Rotors):
        return 0, 0
    schedule = world.schedule
    return schedule.cells, schedule.turning if isinstance(schedule, Staggered) else schedule.cells


def _low_latency(world: Cells) -> NDArray[np.bool_]:
    return np.zeros(world.tasks, bool) if world.low_latency is None else world.low_latency


def _drawn(worlds: Sequence[Cells]) -> tuple[Offsets, Offsets]:
    """Return [W] the start of each world's matchings and routes, and their bytes; equal ones are stored once."""
    at, parts, size = dict[CircuitSchedule | Square | Rotors, int](), [np.zeros(0, np.uint8)], 0
    for schedule in (world.schedule for world in worlds if isinstance(world.schedule, Staggered)):
        if schedule not in at:
            at[schedule] = size // WORD_BYTES
            part = np.concatenate([schedule.drawn.ravel().astype(np.uint8), schedule.routes.ravel()])
            parts.append(np.pad(part, (0, -len(part) % WORD_BYTES)))
            size += len(parts[-1])
    begin: Offsets = np.array([at.get(world.schedule, 0) for world in worlds], np.int64)
    words: Offsets = np.concatenate(parts).view(np.int64)
    return begin, words


def _cable(world: Cells, settings: SlottedSettings) -> int:
    """Nothing waits between a node and its server where servers are the nodes of switches that are asked."""
    return _C.ARRIVAL if isinstance(world.schedule, Square) else CABLES[settings.cable]


def _dark(world: Cells) -> Offsets:
    """Return [N * words] bits: the nodes that each has no slot for; none where nothing has failed."""
    if isinstance(world.schedule, Square) or not world.schedule.failed:
        return np.zeros(0, np.int64)
    nodes = world.schedule.nodes
    bits = np.zeros((nodes, -(-nodes // PAIRS) * PAIRS), bool)
    bits[:, :nodes] = ~world.schedule.joined()
    words: Offsets = np.packbits(bits, axis=1, bitorder="little").view(np.int64).ravel()
    return words


def _first(world: Cells) -> Offsets:
    """Return the tasks that wait for no other and for no resource, by the end of their delay."""
    waits = np.diff(world.after_offsets) > 0
    (tasks,) = np.nonzero(~(waits if world.resource is None else waits | (world.resource >= 0)))
    end = world.release[tasks] + world.delay[tasks]
    order: Offsets = tasks[np.lexsort((tasks, end))]
    return order


def _followers(world: Cells) -> tuple[Array, Array]:
    """[T+1] and [D] the dependencies the other way round."""
    waiter = np.repeat(np.arange(world.tasks), np.diff(world.after_offsets))
    order = np.argsort(world.after, kind="stable")
    return offsets(np.bincount(world.after, minlength=world.tasks)), waiter[order]


def _tasks(world: Cells) -> Offsets:
    """[N] tasks that begin at each node."""
    return _counts(world.node[world.source[world.cells > 0]], world)


def _counts(nodes: Ints, world: Cells) -> Offsets:
    return np.bincount(nodes, minlength=world.schedule.nodes).astype(np.int64)


def _joined(parts: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype, casting="unsafe")
