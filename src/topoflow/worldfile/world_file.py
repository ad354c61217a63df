"""World files: links and tasks made by hand or by another tool (docs/world_files.md has the format).

An error is one line with file, place, field, requirement and value:
``world.json: tasks[3].bytes: must not be negative, got -5``.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path as FilePath
from typing import NoReturn

import numpy as np

from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Channels, Fabric, Path
from topoflow.fabric.link_list import LinkList, parse_links, read_json
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fields import number, shorten
from topoflow.traffic.base import Collective, Compute, Task, Traffic, Transfer
from topoflow.units import check_positive
from topoflow.worldfile.world_rows import ORDERED, RINGED, TaskRow

KEYS = ("links", "tasks", "local_bandwidth")
Orders = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class WorldFile:
    """A world, and the names that its file uses. Shapes: K tasks, L links."""

    world: World
    ids: tuple[str, ...]  # [K] in the order of the file
    place: tuple[int, ...]  # [K] index of each task in the timeline
    ends: tuple[tuple[str, str], ...]  # [L] names of the nodes

    def flows(self, timeline: Timeline) -> list[tuple[str, float, float]]:
        """Return [K] id, start and finish (s) in the order of the file."""
        start, finish = timeline.task_start.tolist(), timeline.task_finish.tolist()
        return [(name, start[place], finish[place]) for name, place in zip(self.ids, self.place, strict=True)]

    def loads(self, timeline: Timeline) -> list[tuple[str, str, float, float]]:
        """Return [L] source, target, bytes and utilization, the share of the link's capacity over the makespan."""
        carried, capacity = timeline.link_bytes.tolist(), self.world.capacity.tolist()
        span = timeline.makespan
        return [
            (*ends, bytes, bytes / rate / span if bytes else 0.0)
            for ends, bytes, rate in zip(self.ends, carried, capacity, strict=True)
        ]


def read(path: FilePath) -> WorldFile:
    """Read, check and lower a world file. Raises ``ValueError`` with one line, ``OSError`` as ``open`` does."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must be an object with links and tasks, got {type(content).__name__}")
    for key in (*KEYS[:2], *content):
        if key not in content or key not in KEYS:
            problem = "missing" if key not in content else "unknown"
            raise ValueError(f"{path}: must have links, tasks and maybe local_bandwidth, {key!r} is {problem}")
    links = _links(content["links"], f"{path}: links")
    local_bandwidth = float("inf")
    if "local_bandwidth" in content:
        local_bandwidth = number(f"{path}: local_bandwidth", content["local_bandwidth"])
        check_positive(f"{path}: local_bandwidth", local_bandwidth)
    values = content["tasks"]
    if not isinstance(values, list):
        raise ValueError(f"{path}: tasks: must be a list, got {type(values).__name__}")
    nodes = links.index()
    rows = [TaskRow.of_task(f"{path}: tasks[{position}]", value, links, nodes) for position, value in enumerate(values)]
    ids = tuple(row.id for row in rows)
    tasks = [row.task(after) for row, after in zip(rows, _awaited(rows, ids), strict=True)]
    _check_local(rows, tasks, has_local_bandwidth="local_bandwidth" in content)
    sequence = _sequence(rows, tasks)
    place_of = {index: place for place, index in enumerate(sequence)}
    fabric = _fabric(links, _rings(rows, tasks))
    ordered = tuple(_renumbered(tasks[index], place_of) for index in sequence)
    try:
        world = place(Traffic.from_tasks(path.name, fabric.servers, ordered, local_bandwidth), fabric, name=path.name)
    except ValueError as error:
        _check_reachable(rows, tasks, fabric)
        raise ValueError(f"{path}: {error}") from error
    ends = tuple((links.nodes[a], links.nodes[b]) for a, b in zip(links.source, links.target, strict=True))
    return WorldFile(world, ids, tuple(place_of[index] for index in range(len(rows))), ends)


def _links(rows: object, where: str) -> LinkList:
    """Parse the links; ``latency`` may be left out (0), and a world of delays only may have no link."""
    if rows == []:
        none = np.zeros(0, np.int32)
        return LinkList((), none, none, np.zeros(0), np.zeros(0))
    if isinstance(rows, list):
        rows = [{"latency": 0.0, **row} if isinstance(row, Mapping) else row for row in rows]
    return parse_links(rows, where)


def _awaited(rows: Sequence[TaskRow], ids: Sequence[str]) -> list[tuple[int, ...]]:
    """Return [K] the rows that each row waits for, ascending."""
    index_of: dict[str, int] = {}
    for index, (row, name) in enumerate(zip(rows, ids, strict=True)):
        if name in index_of:
            raise ValueError(f"{row.place}id: must be unique, got {name!r} as in tasks[{index_of[name]}]")
        index_of[name] = index
    awaited = []
    for row in rows:
        unknown = [name for name in row.after if name not in index_of]
        if unknown:
            raise ValueError(f"{row.place}after: must be ids of tasks, got {shorten(unknown[0])}")
        awaited.append(tuple(sorted({index_of[name] for name in row.after})))
    return awaited


def _check_local(rows: Sequence[TaskRow], tasks: Sequence[Task], *, has_local_bandwidth: bool) -> None:
    for row, task in zip(rows, tasks, strict=True):
        if isinstance(task, Collective) and task.local > 1 and not has_local_bandwidth:
            raise ValueError(f"{row.place}local: must come with the file's local_bandwidth, got {task.local} without")


def _rings(rows: Sequence[TaskRow], tasks: Sequence[Task]) -> dict[tuple[int, ...], Orders]:
    """Return the ring orders of each group, which all its tasks must share, as those of a communicator do."""
    rings: dict[tuple[int, ...], Orders] = {}
    for row, task in zip(rows, tasks, strict=True):
        if isinstance(task, Collective) and task.op in RINGED:
            orders = row.orders(task.group)
            if task.algorithm in (None, *ORDERED) and rings.setdefault(task.group, orders) != orders:
                row.fail("orders", "must be the same in all tasks of a group")
    return rings


def _sequence(rows: Sequence[TaskRow], tasks: Sequence[Task]) -> list[int]:
    """Return all tasks in an order in which each comes after those it waits for; ties have the order of the file.

    The computes of a server wait for each other in the order of the file.
    """
    awaited = {index: set(task.after) for index, task in enumerate(tasks)}
    last: dict[int, int] = {}
    for index, task in enumerate(tasks):
        if isinstance(task, Compute) and task.server is not None:
            awaited[index].update({last[task.server]} if task.server in last else ())
            last[task.server] = index
    sorter = TopologicalSorter(awaited)
    try:
        sorter.prepare()
    except CycleError as error:
        _fail_cycle(rows, error.args[1])
    ready, sequence = list(sorter.get_ready()), list[int]()
    heapq.heapify(ready)
    while ready:
        sequence.append(heapq.heappop(ready))
        sorter.done(sequence[-1])
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
    return sequence


def _fail_cycle(rows: Sequence[TaskRow], cycle: Sequence[int]) -> NoReturn:
    """Raise the ``ValueError`` for a circle of tasks, each of which the next one waits for; the last is the first."""
    waiting = cycle[:0:-1]  # each waits for the next
    first = waiting.index(min(waiting))
    tasks = [*waiting[first:], *waiting[: first + 1]]
    names = " -> ".join(repr(rows[index].id) for index in tasks[:10]) + (" ..." if len(tasks) > 10 else "")
    rule = "tasks must not wait for each other in a circle (a server's computes run in the order of the file)"
    raise ValueError(f"{rows[tasks[0]].place}after: {rule}, got {names}")


def _check_reachable(rows: Sequence[TaskRow], tasks: Sequence[Task], fabric: Fabric) -> None:
    """Raise ``ValueError`` at the row of the first transfer for which there is no path."""
    for row, task in zip(rows, tasks, strict=True):
        if isinstance(task, Transfer) and not task.subflows and not fabric.route(task.source, task.target):
            row.fail("dst", f"must be reached over the links from {fabric.nodes[task.source]!r}")


def _renumbered(task: Task, place_of: Mapping[int, int]) -> Task:
    return replace(task, after=tuple(sorted(place_of[index] for index in task.after)))


def _fabric(links: LinkList, rings: Mapping[tuple[int, ...], Orders]) -> Fabric:
    """Return a fabric whose nodes all are servers; transfers without a path take the shortest, lowest links first."""
    shortest = ShortestPaths(links.nodes, links.source, links.target)

    def route(source: int, target: int) -> tuple[Path, ...]:
        return (shortest.path(source, target, 0),) if shortest.count(source, target) else ()

    return Fabric(
        name="links",
        servers=max(len(links.nodes), 1),
        nodes=links.nodes or ("nowhere",),
        source=links.source,
        target=links.target,
        bandwidth=links.bandwidth,
        latency=links.latency,
        route=route,
        degree=int(np.bincount(links.source).max(initial=0)),
        interface_bandwidth=float(links.bandwidth.max(initial=0.0)),
        channels=Channels(rings),
    )
