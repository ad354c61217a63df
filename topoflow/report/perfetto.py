"""``trace.json``: what every task of a step did, for https://ui.perfetto.dev and ``chrome://tracing``.

A process per world and server has the computations and sends of that server; the collectives of a world are a process
of their own, as many servers take part in each. Source: Trace Event Format (Google, 2016), complete events.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topoflow.case.base import Result
from topoflow.report.base import Report
from topoflow.report.tasks import NOTHING, Tasks, drawn, servers_of

MAX_TASKS = 200_000  # of all worlds together, some 60 MB; the fastest is always there, and whole
MAX_WORLDS = 6
US = 1e6  # the format's unit of time, in a second

Event = dict[str, Any]


def write_perfetto(report: Report, path: Path) -> None:
    """Write the worlds that are drawn, each whole."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        first = True
        for event in events(report):
            file.write(("" if first else ",\n") + json.dumps(event, allow_nan=False))
            first = False
        absent = {"leftOut": left_out(report)}
        file.write(f'\n], "otherData": {json.dumps(absent)}}}\n')


def left_out(report: Report) -> list[str]:
    """Names of the worlds that there is no room for."""
    shown = {result.settings.world for result in drawn(report, MAX_TASKS, MAX_WORLDS)}
    return [result.settings.world for result in report.outcomes if result.settings.world not in shown]


def events(report: Report) -> Iterator[Event]:
    """One complete event (``"ph": "X"``) per task that ran, and the names of processes and threads."""
    shown, process = drawn(report, MAX_TASKS, MAX_WORLDS), 0
    for result in shown:
        found = list(_events(result, process))
        yield from found
        process = 1 + max((event["pid"] for event in found), default=process)


def _events(result: Result, base: int) -> Iterator[Event]:
    """Of one world; its processes are numbered from ``base``, which is that of its collectives."""
    traffic, tasks = result.traffic, Tasks.of(result)
    threads, world = _Threads(), result.settings.world
    names = traffic.names()
    rows = zip(tasks.number.tolist(), tasks.start.tolist(), tasks.finish.tolist(), tasks.kinds, strict=True)
    waited = dict(zip(tasks.number.tolist(), tasks.waited_for.tolist(), strict=True))
    for task, start, finish, kind in sorted(rows, key=lambda row: row[1]):
        on = servers_of(traffic, task)
        together = traffic.operation[task] >= 0 or not on
        process = base if together else base + 1 + on[0]
        arguments: dict[str, Any] = {"task": task, "world": world}
        if waited[task] != NOTHING:
            arguments["waited for"] = names[waited[task]] or f"task {waited[task]}"
        if kind != "compute":
            arguments["bytes"] = float(traffic.bytes[task])
        if kind == "transfer":
            arguments |= {"source": int(traffic.source[task]), "target": int(traffic.target[task])}
        if together and on:
            arguments["group"] = list(on)
        yield {
            "ph": "X",
            "name": names[task] or f"{kind} {task}",
            "cat": kind,
            "pid": process,
            "tid": threads.of(process, kind, start, finish),
            "ts": start * US,
            "dur": (finish - start) * US,
            "args": arguments,
        }
    for process in sorted(threads.names):
        server = "collectives" if process == base else f"server {process - base - 1}"
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": f"{world}: {server}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for thread, name in enumerate(threads.names[process]):
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


class _Threads:
    """Threads of processes: tasks of one thread never overlap, which the format does not allow."""

    def __init__(self) -> None:
        self.names: dict[int, list[str]] = defaultdict(list)
        self._ends: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)

    def of(self, process: int, kind: str, start: float, finish: float) -> int:
        """A thread for a task that starts no earlier than those before it."""
        ends = self._ends[process, kind]
        if ends and ends[0][0] <= start:
            thread = heapq.heappop(ends)[1]
        else:
            thread = len(self.names[process])
            self.names[process].append(kind)
        heapq.heappush(ends, (finish, thread))
        return thread
