"""The times, servers and predecessors of the tasks of a world, for timelines.

Shapes: K tasks of the traffic, D dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.case.base import Result
from topoflow.report.base import Report
from topoflow.traffic.base import Traffic

NOTHING = -1  # the predecessor of a task that waited for no other


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of one world that ran. ``number`` [n] is their row in ``tasks.parquet``.

    A job of many rounds that are listed once has no tasks here, since the times of each round are not known.
    """

    result: Result
    number: NDArray[np.int64]

    @staticmethod
    def of(result: Result) -> Tasks:
        ran = np.isfinite(result.timeline.task_finish) & np.isfinite(result.timeline.task_start)
        return Tasks(result, np.flatnonzero(ran & (result.traffic.rounds == 1)))

    def of_servers(self, most: int) -> tuple[Tasks, int]:
        """Return at most ``most`` tasks of evenly spread servers, and the number of these servers.

        A task is included if one of its servers is, so a single server may have more than ``most`` tasks.
        """
        traffic, tasks, servers = self.result.traffic, self, self.result.traffic.servers
        while len(tasks) > most and servers > 1:
            servers = -(-servers // 2)
            counts = np.zeros(traffic.servers + 1, np.bool_)  # the last entry is for tasks without a server
            counts[np.arange(servers) * traffic.servers // servers] = counts[-1] = True
            operations = np.array([counts[[*operation.group]].any() for operation in traffic.operations] + [False])
            on = np.where(traffic.server >= 0, traffic.server, traffic.source)
            shown = np.where(traffic.operation >= 0, operations[traffic.operation], counts[on])
            tasks = Tasks(self.result, self.number[shown[self.number]])
        return tasks, servers

    def __len__(self) -> int:
        """Return the number of tasks n."""
        return len(self.number)

    @property
    def start(self) -> NDArray[np.float64]:
        """Return [n] the start (s)."""
        return self.result.timeline.task_start[self.number]

    @property
    def finish(self) -> NDArray[np.float64]:
        """Return [n] the finish (s)."""
        return self.result.timeline.task_finish[self.number]

    @cached_property
    def kinds(self) -> list[str]:
        """Return [n] ``compute``, ``transfer`` or the name of the collective."""
        kinds = self.result.traffic.kinds()
        return [kinds[task] for task in self.number.tolist()]

    @cached_property
    def names(self) -> list[str]:
        """Return [n] the names."""
        return self.result.traffic.names(self.number)

    @cached_property
    def waited_for(self) -> NDArray[np.int64]:
        """Return [n] rows of the predecessors; ``NOTHING``: the task began with the step, or at a set time."""
        return waited_for(self.result.traffic, self.result.timeline.task_finish, self.number)


def waited_for(traffic: Traffic, finish: NDArray[np.float64], tasks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [n] for each of ``tasks`` the task it depends on that ended last, the first of equal ones.

    The previous computation on the same server or resource is also a dependency, since they run one at a time.
    """
    count = np.diff(traffic.after_offsets)
    task = np.repeat(np.arange(len(traffic)), count)
    before = _computation_before(traffic, finish)
    has = np.flatnonzero(before != NOTHING)
    task, after = np.concatenate((task, has)), np.concatenate((traffic.after, before[has]))
    is_selected = np.zeros(len(traffic), np.bool_)
    is_selected[tasks] = True
    task, after = task[is_selected[task]], after[is_selected[task]]
    order = np.lexsort((after, -finish[after], task))
    task, after = task[order], after[order]
    first = np.ones(len(task), np.bool_)
    first[1:] = task[1:] != task[:-1]
    predecessor = np.full(len(traffic), NOTHING, np.int64)
    predecessor[task[first]] = after[first]
    return predecessor[tasks]


def _computation_before(traffic: Traffic, finish: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return [K] the previous computation: on the same server as listed, on the same resource as they ran."""
    before = np.full(len(traffic), NOTHING, np.int64)
    on_server = np.where(traffic.runs_in_listed_order, traffic.server, NOTHING)
    for occupied, order in ((on_server, np.arange(len(traffic))), (traffic.resource, finish)):
        tasks = np.flatnonzero(occupied >= 0)
        tasks = tasks[np.lexsort((order[tasks], occupied[tasks]))]
        same = occupied[tasks[1:]] == occupied[tasks[:-1]]
        before[tasks[1:][same]] = tasks[:-1][same]
    return before


def servers_of(traffic: Traffic, task: int) -> Sequence[int]:
    """Return the servers that a task is drawn on: the sender of a transfer, all members of a collective."""
    if traffic.operation[task] >= 0:
        return tuple(traffic.operations[int(traffic.operation[task])].group)
    server = int(traffic.server[task] if traffic.server[task] >= 0 else traffic.source[task])
    return (server,) if server >= 0 else ()


def drawn(report: Report, most_tasks: int, most_worlds: int) -> tuple[Result, ...]:
    """Return the worlds whose timelines are drawn: the fastest, then others while all have at most ``most_tasks``."""
    remaining, chosen = most_tasks, list[Result]()
    for result in sorted(report.representatives(most_worlds), key=report.choices_first.index):
        if not chosen or len(result.traffic) <= remaining:
            chosen.append(result)
            remaining -= len(result.traffic)
    return tuple(chosen)
