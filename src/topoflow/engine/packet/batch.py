"""Worlds of packets laid end to end in flat arrays, as ``csrc/packet`` reads them.

Shapes: W worlds; T tasks, D dependencies, N ports, C channels, Q queues of all worlds together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow import _C
from topoflow.arrays import filled, offsets
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.packet.addresses import AddressedLayout, AddressTables, sets_of, sizes_of, tables_of
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import SECOND, Numbers

Array = NDArray[Any]

# Arrays that the kernel writes: their type, and what they have one entry for.
ANSWERS = {
    "start": ("int64", "task"),
    "finish": ("int64", "task"),
    "active": ("int64", "port"),
    "stalled": ("int64", "port"),
    "port_bytes": ("int64", "port"),
    "packets": ("int64", "port"),
    "idle_intervals": ("int64", "port"),
    "idle_1us": ("int64", "port"),
    "idle_1ms": ("int64", "port"),
    "free": ("int64", "port"),
    "fullest": ("int32", "channel"),
    "waits_for": ("int32", "channel"),
    "lost": ("int64", "port"),
    "marked": ("int64", "port"),
    "sent": ("int64", "task"),
    "sent_bytes": ("int64", "task"),
    "delivered": ("int64", "task"),
    "delivered_bytes": ("int64", "task"),
    "lost_of": ("int64", "task"),
    "lost_bytes": ("int64", "task"),
    "deepest": ("int32", "port"),
    "depths": ("int32", "depth"),
    "interval": ("int64", "world"),
    "intervals": ("int64", "world"),
    "latency_sum": ("int64", "world"),
    "latency_most": ("int64", "world"),
    "message_latency_sum": ("int64", "world"),
    "message_latency_most": ("int64", "world"),
    "skipped": ("int64", "world"),
    "status": ("int32", "world"),
}
SHARED = ("status", "cancel")  # what the host may read or write meanwhile


# Arrays of a layout that the kernel reads as they are.
LAYOUT = (
    *("root_port", "root_channel", "root_next", "edge_queue", "edge_turn", "edge_port", "edge_channel", "edge_next"),
    *("branch_stride", "queues", "channel_port", "node", "first_seen", "root_source"),
)


@dataclass(frozen=True)
class PacketBatch:
    """The worlds of one launch: ``arrays`` by the names that ``csrc/packet/batch.h`` gives them."""

    worlds: tuple[World, ...]
    layouts: tuple[PortLayout, ...]  # [W]
    arrays: dict[str, Array]

    def of(self, name: str, world: int) -> Array:
        """The part of one world of an answer."""
        _, what = ANSWERS[name]
        if what == "world":
            return self.arrays[name][world : world + 1]
        begin = self.arrays[f"{what}_offsets"]
        return self.arrays[name][begin[world] : begin[world + 1]]

    def latencies(self, world: int, what: str) -> tuple[Array, int, int]:
        """Return the counts in each bin, the sum and the largest (ps) of ``what``: latency or message_latency."""
        name = {"latency": "latencies", "message_latency": "message_latencies"}[what]
        counts: Array = self.arrays[name].reshape(-1, _C.LATENCY_BINS)[world]
        return counts, int(self.of(f"{what}_sum", world)[0]), int(self.of(f"{what}_most", world)[0])


def pack(worlds: Sequence[World], layouts: Sequence[PortLayout], amounts: Sequence[Numbers]) -> PacketBatch:
    """Return a batch of these worlds."""
    graphs = [world.graph for world in worlds]
    repeats = any(graph.rounds > 1 for graph in graphs)
    waits = [Waits.of(graph, repeats) for graph in graphs]
    sends = [
        _roots(world.graph, layout, amount) for world, layout, amount in zip(worlds, layouts, amounts, strict=True)
    ]
    counts = {
        "task": [graph.tasks for graph in graphs],
        "root": [len(layout.root_port) for layout in layouts],
        "edge": [len(layout.edge_port) for layout in layouts],
        "branch": [len(layout.branches) - 1 for layout in layouts],
        "port": [layout.ports for layout in layouts],
        "channel": [layout.channels for layout in layouts],
        "queue": [_queues(layout) for layout in layouts],
        "depth": [amount.depths for amount in amounts],
    }
    arrays = {f"{kind}_offsets": offsets(sizes) for kind, sizes in counts.items()}
    for name in ("bytes", "delay", "release", "pace", "byte_time", "latency"):
        arrays[name] = _joined(
            [getattr(amount, name) for amount in amounts], np.float64 if name == "byte_time" else np.int64
        )
    for name in LAYOUT:
        arrays[name] = _joined([getattr(layout, name) for layout in layouts], np.int32)
    for name in ("root_bound", "edge_bound"):
        arrays[name] = _joined([getattr(layout, name).view(np.int32) for layout in layouts], np.int32)
    for name in ("allowed", "back", "puller", "pull", "largest", "idle", "target", "unit", "step", "leap", "depth"):
        dtype = np.int64 if name in ("back", "pull", "idle", "target", "unit") else np.int32
        arrays[name] = _joined([getattr(amount.control, name) for amount in amounts], dtype)
    readings = _joined([amount.control.telemetry for amount in amounts], np.int64)
    arrays |= _addresses(layouts) | {
        "telemetry": offsets(readings) if len(readings) else readings,
        "queue_channel": _channels_of_queues(layouts, arrays["queue_offsets"]),
        "first_root": _joined([first for first, _ in sends], np.int32),
        "roots": _joined([count for _, count in sends], np.int32),
        "sends": np.array([count.sum() for _, count in sends], np.int64),
        "branch_edges": _chained([layout.branches for layout in layouts]),
        "seed": np.array([world.seed & 2**64 - 1 for world in worlds], np.uint64).view(np.int64),
        "pending": _joined([np.diff(graph.after_offsets) for graph in graphs], np.int32),
        "resource": filled([graph.resource for graph in graphs], counts["task"], -1),
        "follower_offsets": _chained([wait.follower_offsets for wait in waits]),
        "followers": _joined([wait.followers for wait in waits], np.int32),
        "waited": _joined([amount.delay - amount.handshake for amount in amounts], np.int64),
        "rounds": np.array([graph.rounds for graph in graphs], np.int64),
        "tokens": _joined([wait.tokens for wait in waits], np.int32),
        "awaited_offsets": _chained([wait.awaited_offsets for wait in waits]) if repeats else np.zeros(0, np.int64),
        "awaited": _joined([wait.awaited for wait in waits], np.int32),
        "port_queues": _chained([layout.port_queues for layout in layouts]),
        "buffer": _joined([amount.buffer for amount in amounts], np.int32),
        "channel_days": offsets(_joined([amount.days for amount in amounts], np.int64)),
        "slot_total": np.array([amount.slot_total for amount in amounts], np.int64),
        "under_way": np.array([amount.control.under_way for amount in amounts], np.int64),
        "window": np.array([amount.window for amount in amounts], np.int64),
        "until": np.array([_until(world) for world in worlds], np.int64),
        "order": np.argsort(
            [-int(amount.bytes.sum()) * graph.rounds for amount, graph in zip(amounts, graphs, strict=True)],
            kind="stable",
        ).astype(np.int32),
        "cancel": np.zeros(1, np.int32),
        "latencies": np.zeros(len(worlds) * _C.LATENCY_BINS, np.int64),
        "message_latencies": np.zeros(len(worlds) * _C.LATENCY_BINS, np.int64),
    }
    counts["world"] = [1] * len(worlds)
    arrays |= {name: np.zeros(sum(counts[kind]), dtype) for name, (dtype, kind) in ANSWERS.items()}
    return PacketBatch(tuple(worlds), tuple(layouts), arrays)


def _queues(layout: PortLayout) -> int:
    """By address a port has its queues to itself, and no table says where they are."""
    return int(layout.port_queues[-1]) if isinstance(layout, AddressedLayout) else len(layout.queue_channel)


def _channels_of_queues(layouts: Sequence[PortLayout], begin: Array) -> Array:
    """Return the channel of every queue. Layouts by address have none that is read, and take no memory."""
    channels = np.zeros(int(begin[-1]), np.int32)
    for first, layout in zip(begin[:-1].tolist(), layouts, strict=True):
        channels[first : first + len(layout.queue_channel)] = layout.queue_channel
    return channels


def _addresses(layouts: Sequence[PortLayout]) -> dict[str, Array]:
    """Return the routing of each world, and the tables of worlds that are routed by address."""
    tables, sizes = [tables_of(layout) for layout in layouts], [sizes_of(layout) for layout in layouts]
    arrays: dict[str, Array] = {name: np.array([size[name] for size in sizes], np.int32) for name in sizes[0]}
    for name in AddressTables._fields:
        arrays[name] = _joined([getattr(table, name) for table in tables], np.int32)
    for kind, name in (
        *(("endpoint", "endpoint_router"), ("router", "router_group")),
        *(("inside", "inside"), ("outside", "outside")),
    ):
        arrays[f"{kind}_offsets"] = offsets([len(getattr(table, name)) for table in tables])
    begin = [sets_of(layout).begin for layout in layouts]
    arrays["set_offsets"], arrays["set_begin"] = offsets([len(row) - 1 for row in begin]), _chained(begin)
    return arrays


def _until(world: World) -> int:
    return int(min(world.until * SECOND, float(_C.NEVER)))


class Waits(NamedTuple):
    """The dependencies of a graph, those that lead to the next round too, numbered by the task that is waited for."""

    follower_offsets: Array  # [T+1]
    followers: Array  # [D] the task that waits
    awaited_offsets: Array  # [T+1]
    awaited: Array  # [D] of each its number if they were numbered by the task that waits
    tokens: Array  # [D] by that number, at first (csrc/packet/tasks.h): 1 of those that lead to the next round

    @staticmethod
    def of(graph: LoweredGraph, repeats: bool) -> Waits:
        """Return the dependencies of ``graph``; the last three arrays are empty unless a task ``repeats``."""
        task = np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets))
        after, tokens = graph.after, np.zeros(len(task), np.int32)
        if graph.carried is not None:
            task, after = np.concatenate([task, graph.carried[0]]), np.concatenate([after, graph.carried[1]])
            tokens = np.concatenate([tokens, np.ones(len(graph.carried[0]), np.int32)])
        order = np.argsort(after, kind="stable")
        task, tokens = task[order], tokens[order]
        begin = offsets(np.bincount(after, minlength=graph.tasks))
        if not repeats:
            return Waits(begin, task, begin[:0], task[:0], tokens[:0])
        awaited_offsets, by_task = offsets(np.bincount(task, minlength=graph.tasks)), np.argsort(task, kind="stable")
        number = np.empty(len(task), np.int32)
        number[by_task] = np.arange(len(task), dtype=np.int32)
        return Waits(begin, task, awaited_offsets, number, tokens[by_task])


def _roots(graph: LoweredGraph, layout: PortLayout, amounts: Numbers) -> tuple[Array, Array]:
    """[T] the first root of the path of each task with bytes, and how many there are."""
    sends = np.flatnonzero(amounts.bytes)
    first, count = np.full(graph.tasks, NONE, np.int64), np.zeros(graph.tasks, np.int64)
    first[sends] = layout.path_roots[graph.path[sends]]
    count[sends] = np.diff(layout.path_roots)[graph.path[sends]]
    return first, count


def _joined(parts: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype, casting="unsafe")


def _chained(parts: Sequence[Array]) -> Array:
    """Offsets of all rows, of offsets of the rows of each world."""
    return offsets(np.concatenate([np.zeros(0, np.int64), *(np.diff(part) for part in parts)]))
