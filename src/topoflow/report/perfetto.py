"""``trace.json``: every task of a step, for https://ui.perfetto.dev and ``chrome://tracing``.

A process per world and server has the computations and sends of that server. The collectives of a world are a separate
process, since several servers take part in each. Source: Trace Event Format (Google, 2016), complete events.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.case.base import Result
from topoflow.json_lines import json_lines
from topoflow.report.base import Report
from topoflow.report.tasks import NOTHING, Tasks, drawn

MAX_TASKS = 200_000  # of all worlds together, some 50 MB; a larger job has the tasks of some servers only
MAX_WORLDS = 6
ROWS = 1000  # tasks that are converted to Python's numbers at a time
US = 1e6  # units of time of the format (us) per second

Event = dict[str, Any]


def write_perfetto(report: Report, path: Path) -> list[str]:
    """Write the drawn worlds: all servers, or some if there are too many tasks; return what is left out."""
    absent = left_out(report)
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit": "ms", "traceEvents": [\n')
        file.writelines(json_lines(events(report), b","))
        file.write(f'], "otherData": {json.dumps({"leftOut": absent})}}}\n'.encode())
    return absent


def left_out(report: Report) -> list[str]:
    """Return the worlds without room, and how many servers of a world are left out."""
    shown = {result.settings.world: Tasks.of(result).of_servers(MAX_TASKS)[1] for result in _drawn(report)}
    absent = []
    for result in report.outcomes:
        world, servers = result.settings.world, result.traffic.servers
        if world not in shown:
            absent.append(world)
        elif shown[world] < servers:
            absent.append(f"{world}: {servers - shown[world]} of {servers} servers")
    return absent


def _drawn(report: Report) -> tuple[Result, ...]:
    return drawn(report, MAX_TASKS, MAX_WORLDS)


def events(report: Report) -> Iterator[Event]:
    """Yield one complete event (``"ph": "X"``) per task that ran, and the names of processes and threads."""
    process = 0
    for result in _drawn(report):
        process = yield from _events(result, process)


def _events(result: Result, base: int) -> Generator[Event, None, int]:
    """Yield the events of one world; return the number of the next process.

    Processes are numbered from ``base``, which is the process of the collectives.
    """
    traffic, (tasks, _) = result.traffic, Tasks.of(result).of_servers(MAX_TASKS)
    threads, world, start, finish = _Threads(), result.settings.world, tasks.start, tasks.finish
    kinds, names, waited_for = np.array(tasks.kinds, object), np.array(tasks.names, object), tasks.waited_for
    groups = [list(operation.group) for operation in traffic.operations]
    order = np.argsort(start, kind="stable")
    for rows in np.split(order, range(ROWS, len(order), ROWS)):
        task, waited = tasks.number[rows], waited_for[rows]
        source, target, operation = traffic.source[task], traffic.target[task], traffic.operation[task]
        on = np.where(traffic.server[task] >= 0, traffic.server[task], source)
        processes = np.where((operation >= 0) | (on < 0), base, base + 1 + on)
        texts = names[rows], np.array(traffic.names(waited), object), kinds[rows]
        times = start[rows], finish[rows], start[rows] * US, (finish[rows] - start[rows]) * US
        columns = (*texts, task, waited, processes, *times, traffic.bytes[task], source, target, operation)
        values = (column.tolist() for column in columns)
        for name, before, kind, k, w, pid, begin, end, ts, dur, size, a, b, o in zip(*values, strict=True):
            arguments: dict[str, Any] = {"task": k, "world": world}
            if w != NOTHING:
                arguments["waited for"] = before or f"task {w}"
            if kind != "compute":
                arguments["bytes"] = size
            if kind == "transfer":
                arguments |= {"source": a, "target": b}
            if o >= 0 and groups[o]:
                arguments["group"] = groups[o]
            yield {
                "ph": "X",
                "name": name or f"{kind} {k}",
                "cat": kind,
                "pid": pid,
                "tid": threads.of(pid, kind, begin, end),
                "ts": ts,
                "dur": dur,
                "args": arguments,
            }
    for process in sorted(threads.names):
        server = "collectives" if process == base else f"server {process - base - 1}"
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": f"{world}: {server}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for thread, name in enumerate(threads.names[process]):
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}
    return 1 + max(threads.names, default=base)


class _Threads:
    """The threads of processes: tasks of one thread do not overlap, which the format does not allow."""

    def __init__(self) -> None:
        self.names: dict[int, list[str]] = defaultdict(list)
        self._ends: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)

    def of(self, process: int, kind: str, start: float, finish: float) -> int:
        """Return a thread for a task that starts no earlier than the previous ones."""
        ends = self._ends[process, kind]
        if ends and ends[0][0] <= start:
            thread = ends[0][1]
            heapq.heapreplace(ends, (finish, thread))
        else:
            thread = len(self.names[process])
            self.names[process].append(kind)
            heapq.heappush(ends, (finish, thread))
        return thread
