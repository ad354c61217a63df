"""TopoOpt's published task graphs: FlatBuffers (``.fbuf``), one iteration of a job placed on servers.

Wang et al., TopoOpt, NSDI 2023; https://github.com/hipersys-team/TopoOpt, simulation/. The table and its slots:

    TaskGraph: 6 nNode, 8 nSwitch, 20 tasks[], 22 devices[]
    Device: 4 type, 6 deviceid, 8 nodeid, 10 deviceproperty
    Task: 4 type, 6 taskid, 8 deviceid, 10 runtime [ms], 12 xfersize [B], 14 nexttasks[]

A rank of the trace is a server (there, four A100). Forward, backward and update tasks become Compute; a transfer
becomes a send on its source and a recv on its target; an all-reduce is one on every participant. Of an all-reduce
``nexttasks`` are its participants, not its successors, and ``runtime`` is its time inside each server, before it is on
the network (FlexFlow of TopoOpt, compute_internal_ar_time; its packet simulator, FFRingAllreduce::start_flow). The
files hold bytes only; FlexFlow, which wrote them, trains in float32.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from topoflow.capture.base import ComputeSpan
from topoflow.capture.formats.taskgraph.flatbuffer import Record, root
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation

FORWARD, BACKWARD, TRANSFER, UPDATE, BARRIER, NOMINAL_TRANSFER, ALL_REDUCE = range(7)
COMPUTE = {FORWARD: "forward", BACKWARD: "backward", UPDATE: "update"}
GPU, NOMINAL_LINK = 0, 14  # device types
ALONE = "all-reduces of a single server move nothing and are left out"
UNORDERED = "dependencies between servers without a transfer are left out"
BARRIERS = "barriers of a single server only order its tasks and are left out"


@dataclass(frozen=True)
class Task:
    """One task: ``servers`` take part in it, ``next`` are the ids of its successors."""

    place: str
    id: int
    kind: int
    servers: tuple[int, ...]
    seconds: float
    bytes: int
    next: tuple[int, ...]


def matches(source: InputFile) -> bool:
    """A FlatBuffers root with servers, tasks and devices."""
    try:
        graph = root(source.name, source.data)
        return all(graph.has(slot) for slot in (6, 20, 22))
    except ValueError:
        return False


def parse(source: InputFile) -> list[RankRecord]:
    """One part per server; ValueError for what lies outside the file, a dangling id or a cycle."""
    graph = root(source.name, source.data)
    servers, switches = graph.unsigned32(6), graph.unsigned32(8)
    devices = _devices(graph, servers, switches)
    tasks = _tasks(graph, devices, servers)
    by_id = {task.id: task for task in tasks}
    if len(by_id) < len(tasks):
        twice = next(task for task, count in Counter(task.id for task in tasks).items() if count > 1)
        raise ValueError(f"{source.name}: tasks must have different ids, got {twice} twice")
    counts = Counter[str]()
    ordered = _topological(source.name, _with_barrier_servers(tasks, by_id), counts)
    events = _events(ordered, servers, counts)
    return [
        RankRecord(
            file=source.name,
            rank=server,
            events=tuple(events[server]),
            source="TopoOpt task graph",
            world_size=servers,
            counts=counts if server == 0 else {},
            notes=("one rank is one server; all tensors are taken as float32, as FlexFlow trains",),
        )
        for server in range(servers)
    ]


def _devices(graph: Record, servers: int, switches: int) -> dict[int, tuple[int, ...]]:
    """Device id -> its server, or the two of a nominal link (deviceproperty = src * (nNode + nSwitch) + dst)."""
    devices: dict[int, tuple[int, ...]] = {}
    for record in graph.records(22, "devices"):
        kind, node, property_ = record.signed16(4), record.unsigned64(8), record.unsigned64(10)
        if kind == GPU:
            ends: tuple[int, ...] = (node,)
        elif kind == NOMINAL_LINK and servers + switches:
            ends = divmod(property_, servers + switches)
        else:
            continue
        if not all(end < servers for end in ends) or len(set(ends)) < len(ends):
            raise ValueError(f"{record.place}: must be at servers within 0..{servers - 1}, got {list(ends)}")
        devices[record.unsigned64(6)] = ends
    if not 0 < servers <= len(devices):
        raise ValueError(f"{graph.place}: nNode must be within 1..{len(devices)}, the devices, got {servers}")
    return devices


def _tasks(graph: Record, devices: Mapping[int, tuple[int, ...]], servers: int) -> list[Task]:
    """All tasks. Lists of a sound file do not overlap: together they hold fewer numbers than it has room for."""
    tasks, room = [], len(graph.data) // 8
    for record in graph.records(20, "tasks"):
        task = _task(record, devices, servers)
        room -= max(len(task.next), len(task.servers))
        if room < 0:
            raise ValueError(f"{record.place}.nexttasks: must not overlap, got more items than the file has room for")
        tasks.append(task)
    return tasks


def _task(record: Record, devices: Mapping[int, tuple[int, ...]], servers: int) -> Task:
    kind, device, milliseconds = record.signed16(4), record.unsigned64(8), record.float32(10)
    if not FORWARD <= kind <= ALL_REDUCE:
        raise ValueError(f"{record.place}.type: must be within {FORWARD}..{ALL_REDUCE}, got {kind}")
    if not (isfinite(milliseconds) and milliseconds >= 0):
        raise ValueError(f"{record.place}.runtime: must not be negative, got {milliseconds}")
    size, following = record.unsigned64(12), record.unsigned64s(14)
    if size >= 2**63:
        raise ValueError(f"{record.place}.xfersize: must be below 2**63, got {size}")
    at: tuple[int, ...] = ()
    if kind == ALL_REDUCE:
        at, following = following, ()
        if not at or len(set(at)) < len(at) or not all(server < servers for server in at):
            raise ValueError(
                f"{record.place}.nexttasks: must name each server below {servers} once, got {list(at)[:8]}"
            )
    elif kind != BARRIER:
        at = devices.get(device, ())
        expected = 1 if kind in COMPUTE else 2
        if len(at) != expected:
            requirement = "a GPU" if expected == 1 else "a nominal link"
            raise ValueError(f"{record.place}.deviceid: must be {requirement}, got {device}")
    return Task(record.place, record.unsigned64(6), kind, at, milliseconds * 1e-3, size, following)


def _with_barrier_servers(tasks: Sequence[Task], by_id: Mapping[int, Task]) -> list[Task]:
    """A barrier is of the servers whose tasks it follows or precedes."""
    around: dict[int, set[int]] = {task.id: set() for task in tasks if task.kind == BARRIER}
    for task in tasks:
        for following in task.next:
            if following not in by_id:
                raise ValueError(f"{task.place}.nexttasks: must be task ids, got {following}")
            if following in around:
                around[following].update(task.servers)
            if task.id in around:
                around[task.id].update(by_id[following].servers)
    return [replace(task, servers=tuple(sorted(around[task.id]))) if task.id in around else task for task in tasks]


def _topological(name: str, tasks: Sequence[Task], counts: Counter[str]) -> list[tuple[Task, tuple[Task, ...]]]:
    """Each task with its predecessors, after all of these; ready tasks in the order of the file (Kahn 1962)."""
    position = {task.id: index for index, task in enumerate(tasks)}
    waiting = Counter(position[following] for task in tasks for following in task.next)
    before: list[list[Task]] = [[] for _ in tasks]
    ready = [index for index in range(len(tasks)) if not waiting[index]]
    servers = [frozenset(task.servers) for task in tasks]
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        task = tasks[index]
        ordered.append((task, tuple(before[index])))
        for following in task.next:
            after = position[following]
            before[after].append(task)
            counts[UNORDERED] += servers[index].isdisjoint(servers[after])
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, after)
    if len(ordered) < len(tasks):
        raise ValueError(
            f"{name}: tasks must not wait for each other in a circle, got {len(tasks) - len(ordered)} that do"
        )
    return ordered


def _events(
    ordered: Sequence[tuple[Task, tuple[Task, ...]]], servers: int, counts: Counter[str]
) -> list[list[ComputeSpan | RecordedOperation]]:
    """The events of every server, in topological order."""
    events: list[list[ComputeSpan | RecordedOperation]] = [[] for _ in range(servers)]
    stands_for: dict[tuple[int, int], tuple[int, ...]] = {}  # (task id, server) -> positions among the server's events
    for task, before in ordered:
        moves_nothing = task.kind in (ALL_REDUCE, BARRIER) and len(task.servers) < 2
        if moves_nothing:
            counts[ALONE if task.kind == ALL_REDUCE else BARRIERS] += 1
        waits_for: dict[int, set[int]] = {server: set() for server in task.servers}
        for earlier in before:
            for server in earlier.servers:
                if server in waits_for:
                    waits_for[server].update(stands_for[earlier.id, server])
        for server in task.servers:
            after = tuple(sorted(waits_for[server]))
            if moves_nothing:
                stands_for[task.id, server] = after
            else:
                stands_for[task.id, server] = (len(events[server]),)
                events[server].append(_event(task, server, after))
    return events


def _event(task: Task, server: int, after: tuple[int, ...]) -> ComputeSpan | RecordedOperation:
    if task.kind in COMPUTE:
        return ComputeSpan(COMPUTE[task.kind], None, None, task.seconds, after=after)
    operation = RecordedOperation(
        task.place, "all_reduce", task.servers, "", "float32", task.bytes, task.bytes, (), (), after=after
    )
    if task.kind == ALL_REDUCE:
        return replace(operation, delay=task.seconds)
    if task.kind == BARRIER:
        return replace(operation, op="barrier", dtype="uint8", bytes_in=0, bytes_out=0)
    source, target = task.servers
    op, peer = ("send", target) if server == source else ("recv", source)
    return replace(operation, op=op, peer=peer)
