"""Assembly: the tasks of a traffic, with blocks in place of collectives, become a graph.

Shapes: K traffic tasks, T tasks of the graph, D dependencies, P paths; n collectives of one block, of B tasks and C
connections, on G groups of servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets, distinct, offsets
from topoflow.collectives.algorithm import BYTES_PER_SEND
from topoflow.engine.base import LoweredGraph
from topoflow.engine.lowering.blocks import Block
from topoflow.engine.lowering.paths import NO_PATH, PathTable
from topoflow.fabric.routing.next_hops import NextHops
from topoflow.memory import check_memory
from topoflow.traffic.base import Traffic

MAX_ENTRIES = 2**18  # of the arrays of a block that are made at once


@dataclass(frozen=True)
class PlacedCollectives:
    """Collectives of one block, and the paths of its connections on the servers of each group."""

    tasks: Offsets  # [n]
    block: Block
    group: Offsets  # [n]
    ends: tuple[Offsets, Offsets, Offsets]  # [G, C] source, target and channel
    path: Ints  # [G, C]


@dataclass(frozen=True)
class Assembly:
    """``placed`` are the collectives of ``traffic``; ``path`` [K] is that of each transfer, else ``NO_PATH``."""

    traffic: Traffic
    placed: Sequence[PlacedCollectives]
    path: Ints
    table: PathTable
    launch: Floats  # [K] s before the bytes of a transfer move, the latency of its path included; 0: this latency

    def graph(self, links: int, next_hops: NextHops | None = None) -> LoweredGraph:
        """One traffic task after the other: collectives are blocks, the others one task each."""
        size = np.ones(len(self.traffic), np.int64)
        for placed in self.placed:
            size[placed.tasks] = placed.block.tasks
        begin = offsets(size)  # [K+1]
        check_memory(self.traffic.name, f"{begin[-1]} tasks", begin[-1] * BYTES_PER_SEND)
        path, bytes, delay = self._sends(begin)
        after_offsets, after = self._after(begin)
        release = np.zeros(begin[-1])
        release[begin[:-1]] = self.traffic.release
        path, table = _numbered(path, self.table)
        return LoweredGraph(
            delay=delay,
            bytes=bytes,
            release=release,
            path=path,
            after_offsets=after_offsets,
            after=after,
            path_offsets=table.offsets,
            path_links=table.links,
            owner=np.repeat(np.arange(len(size), dtype=np.int32), size),
            owners=len(size),
            links=links,
            path_weight=table.path_weight,
            path_limit=table.path_limit,
            resource=self._resource(begin),
            alternatives=table.alternatives,
            next_hops=next_hops,
            rounds=self.traffic.rounds,
            carried=self._carried(begin),
            ends=self._ends(begin),
            named=self.traffic.where,
        )

    def _blocks(self, begin: Offsets) -> Iterator[tuple[PlacedCollectives, Offsets]]:
        """Yield collectives of one block and their tasks [n, B] of the graph, as many at once as stay in a cache."""
        for placed in self.placed:
            rows = max(MAX_ENTRIES // placed.block.tasks, 1)
            for first in range(0, len(placed.tasks), rows):
                part = replace(
                    placed, tasks=placed.tasks[first : first + rows], group=placed.group[first : first + rows]
                )
                yield part, begin[part.tasks][:, None] + np.arange(placed.block.tasks)

    def _sends(self, begin: Offsets) -> tuple[Ints, Floats, Floats]:
        """Return [T] the path of every task, its bytes on the network, and its seconds off the network."""
        latency = np.append(self.table.latency, 0.0)  # [P+1] ends with that of ``NO_PATH``
        path, bytes, delay = np.full(begin[-1], NO_PATH, np.int32), np.zeros(begin[-1]), np.zeros(begin[-1])
        path[begin[:-1]] = self.path
        bytes[begin[:-1]] = np.where(self.path == NO_PATH, 0.0, self.traffic.bytes)
        delay[begin[:-1]] = self.traffic.seconds + np.maximum(self.launch - latency[self.path], 0.0)
        for placed, tasks in self._blocks(begin):
            block, unit = placed.block, self.traffic.bytes_of_share(placed.tasks)[:, None]
            block_path = block.on_tasks(placed.path[placed.group])
            path[tasks] = block_path
            bytes[tasks] = block.share * unit
            local = block.local_share * unit / self.traffic.local_bandwidth
            delay[tasks] = np.maximum(local + block.seconds + block.waits * latency[block_path], 0.0)
        return path, bytes, delay

    def _ends(self, begin: Offsets) -> Ints:
        """Return [3, T] source, target and channel of what is sent, -1 where nothing is."""
        ends = np.full((3, begin[-1]), -1, np.int32)
        sends = self.path != NO_PATH
        first = begin[:-1][sends]
        ends[0, first], ends[1, first], ends[2, first] = self.traffic.source[sends], self.traffic.target[sends], 0
        for placed, tasks in self._blocks(begin):
            for row, values in zip(ends, placed.ends, strict=True):
                row[tasks] = placed.block.on_tasks(values[placed.group])
        return ends

    def _after(self, begin: Offsets) -> tuple[Offsets, Ints]:
        """Return offsets [T+1], tasks [D]: the first task of each of K waits for the last of those that it waits for.

        Of two collectives with phases that are queued, each phase of the later waits for that of the earlier.
        """
        traffic_offsets, earlier = in_order(self.traffic)
        number = np.diff(traffic_offsets)
        queued, before, between = self._queued(begin)
        count = np.zeros(begin[-1], np.int64)
        count[begin[:-1]] = number
        for placed, tasks in self._blocks(begin):
            count[tasks[:, 1:]] = placed.block.after_count[1:]
        last = begin[1:] - 1  # [K]
        waits = np.concatenate([between[queued, 0], last[queued]])
        count[waits] += 1
        ends = offsets(count)
        after = np.zeros(ends[-1], np.int32)
        awaited = last[earlier]
        if len(queued):
            phased = np.full(len(number), -1)
            phased[queued] = before
            awaited = np.where(earlier == np.repeat(phased, number), begin[earlier], awaited)
        after[np.arange(len(earlier)) + np.repeat(ends[begin[:-1]] - traffic_offsets[:-1], number)] = awaited
        for placed, tasks in self._blocks(begin):
            block = placed.block
            waiter = np.repeat(np.arange(block.tasks), block.after_count)
            inside = ends[tasks[:, waiter]] + np.arange(len(block.after)) - offsets(block.after_count)[waiter]
            after[inside] = block.after + tasks[:, :1]
        after[ends[waits + 1] - 1] = np.concatenate([between[before, 1], last[before]])
        return ends, after

    def _resource(self, begin: Offsets) -> Ints | None:
        """Return [T] the first task with the resource of each task; -1 where it has none, or takes no time."""
        resource = self.traffic.resource
        tasks = np.flatnonzero((resource >= 0) & (self.traffic.seconds[: len(resource)] > 0))
        if not len(tasks):
            return None
        _, first, number = np.unique(resource[tasks], return_index=True, return_inverse=True)
        first_task = np.full(begin[-1], -1, np.int32)
        first_task[begin[tasks]] = begin[tasks[first]][number.reshape(-1)]
        return first_task

    def _carried(self, begin: Offsets) -> Ints | None:
        """[2, C] tasks and those of the round before that they wait for: the first compute of a server for its last."""
        if self.traffic.rounds == 1:
            return None
        occupies = np.flatnonzero(self.traffic.server >= 0)
        server = self.traffic.server[occupies]
        _, first = np.unique(server, return_index=True)
        _, last = np.unique(server[::-1], return_index=True)
        said = self.traffic.carried or (occupies[:0], occupies[:0])
        task = np.concatenate([said[0], occupies[first]])
        earlier = np.concatenate([said[1], occupies[::-1][last]])
        task, earlier = np.divmod(distinct(task * len(self.traffic) + earlier), len(self.traffic))
        other = task != earlier  # every task waits for itself
        return np.stack([begin[:-1][task[other]], begin[1:][earlier[other]] - 1]).astype(np.int32)

    def _queued(self, begin: Offsets) -> tuple[Offsets, Offsets, Offsets]:
        """Collectives that wait phase by phase for others, these, and [K, 2] what begins and ends between servers."""
        between = np.full((len(self.traffic), 2), -1)
        for placed in self.placed:
            if placed.block.between is not None:
                between[placed.tasks] = begin[placed.tasks][:, None] + placed.block.between
        pairs = np.array(sorted(self.traffic.queued.items()), np.int64).reshape(-1, 2)
        phased = (between[pairs, 0] >= 0).all(axis=1)
        return pairs[phased, 0], pairs[phased, 1], between


def in_order(traffic: Traffic) -> tuple[Offsets, Offsets]:
    """Return offsets [K+1] and the tasks [D] that each task waits for.

    These are the tasks in its ``after``, and for a compute without a resource the previous one on its server.
    """
    tasks, count = len(traffic), np.diff(traffic.after_offsets)
    occupies = np.flatnonzero(traffic.runs_in_listed_order)
    by_server = occupies[np.argsort(traffic.server[occupies], kind="stable")]
    same = np.flatnonzero(np.diff(traffic.server[by_server]) == 0)
    before = np.full(tasks, -1)
    before[by_server[same + 1]] = by_server[same]
    named = np.flatnonzero(traffic.after == np.repeat(before, count))
    before[np.searchsorted(traffic.after_offsets, named, "right") - 1] = -1  # it is in ``after``
    more = before >= 0
    ends = offsets(count + more)
    after = np.zeros(ends[-1], np.int64)
    shift = np.repeat(ends[:-1] - traffic.after_offsets[:-1], count)
    after[np.arange(len(traffic.after)) + shift] = traffic.after
    after[ends[1:][more] - 1] = before[more]
    return ends, after


def _numbered(path: Ints, table: PathTable) -> tuple[Ints, PathTable]:
    """The paths that tasks take, in the order of the first that does, whatever else the ``table`` has."""
    sends = np.flatnonzero(path != NO_PATH)
    first = np.full(table.paths, len(path))
    first[path[sends[::-1]]] = sends[::-1]  # of several, the last that is written stays
    taken = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(path))].astype(np.int32)
    number = np.full(table.paths + 1, NO_PATH, np.int32)  # the last is that of NO_PATH
    number[taken] = np.arange(len(taken))
    return number[path], table.taken(taken)
