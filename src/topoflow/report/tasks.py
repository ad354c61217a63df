"""When every task of a world ran, on which servers, and what it waited for: for timelines, whoever draws them.

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

NOTHING = -1  # a task that waited for no other


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of one world that ran. ``number`` [n] is their row in ``tasks.parquet``.

    There are none of a job of many rounds that are written once: when each of them ran is not known.
    """

    result: Result
    number: NDArray[np.int64]

    @staticmethod
    def of(result: Result) -> Tasks:
        ran = np.isfinite(result.timeline.task_finish) & np.isfinite(result.timeline.task_start)
        return Tasks(result, np.flatnonzero(ran & (result.traffic.rounds == 1)))

    def of_servers(self, most: int) -> tuple[Tasks, int]:
        """Return at most ``most`` tasks, of servers that are evenly spread, and the number of these servers.

        A task counts if one of its servers does, so those of a single server may be more than ``most``.
        """
        traffic, tasks, servers = self.result.traffic, self, self.result.traffic.servers
        while len(tasks) > most and servers > 1:
            servers = -(-servers // 2)
            counts = np.zeros(traffic.servers + 1, np.bool_)  # the last: a task on no server
            counts[np.arange(servers) * traffic.servers // servers] = counts[-1] = True
            operations = np.array([counts[[*each.group]].any() for each in traffic.operations] + [False])
            on = np.where(traffic.server >= 0, traffic.server, traffic.source)
            shown = np.where(traffic.operation >= 0, operations[traffic.operation], counts[on])
            tasks = Tasks(self.result, self.number[shown[self.number]])
        return tasks, servers

    def __len__(self) -> int:
        """n"""
        return len(self.number)

    @property
    def start(self) -> NDArray[np.float64]:
        """[n] s"""
        return self.result.timeline.task_start[self.number]

    @property
    def finish(self) -> NDArray[np.float64]:
        """[n] s"""
        return self.result.timeline.task_finish[self.number]

    @cached_property
    def kinds(self) -> list[str]:
        """[n] ``compute``, ``transfer`` or the name of the collective."""
        kinds = self.result.traffic.kinds()
        return [kinds[task] for task in self.number.tolist()]

    @cached_property
    def names(self) -> list[str]:
        """[n]"""
        return self.result.traffic.names(self.number)

    @cached_property
    def waited_for(self) -> NDArray[np.int64]:
        """[n] rows of the tasks that the tasks waited for; ``NOTHING``: they began with the step, or at a set time."""
        return waited_for(self.result.traffic, self.result.timeline.task_finish, self.number)


def waited_for(traffic: Traffic, finish: NDArray[np.float64], tasks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [n] for each of ``tasks`` the one that ended last of those that it comes after; of equals the first.

    The computation before it on its server is one of these: a server computes one piece at a time, in order.
    """
    count = np.diff(traffic.after_offsets)
    task = np.repeat(np.arange(len(traffic)), count)
    before = _computation_before(traffic)
    has = np.flatnonzero(before != NOTHING)
    task, after = np.concatenate((task, has)), np.concatenate((traffic.after, before[has]))
    is_asked = np.zeros(len(traffic), np.bool_)
    is_asked[tasks] = True
    task, after = task[is_asked[task]], after[is_asked[task]]
    order = np.lexsort((after, -finish[after], task))
    task, after = task[order], after[order]
    first = np.ones(len(task), np.bool_)
    first[1:] = task[1:] != task[:-1]
    found = np.full(len(traffic), NOTHING, np.int64)
    found[task[first]] = after[first]
    return found[tasks]


def _computation_before(traffic: Traffic) -> NDArray[np.int64]:
    """[K] the computation before each on the same server, in the order of the tasks."""
    tasks = np.flatnonzero(traffic.server >= 0)
    order = tasks[np.argsort(traffic.server[tasks], kind="stable")]
    same = traffic.server[order[1:]] == traffic.server[order[:-1]]
    before = np.full(len(traffic), NOTHING, np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def servers_of(traffic: Traffic, task: int) -> Sequence[int]:
    """The servers that a task is drawn on: of a transfer who sends, of a collective all who take part."""
    if traffic.operation[task] >= 0:
        return tuple(traffic.operations[int(traffic.operation[task])].group)
    server = int(traffic.server[task] if traffic.server[task] >= 0 else traffic.source[task])
    return (server,) if server >= 0 else ()


def drawn(report: Report, most_tasks: int, most_worlds: int) -> tuple[Result, ...]:
    """The worlds whose timelines are drawn, whole: the fastest, then others while all have at most ``most_tasks``."""
    left, found = most_tasks, list[Result]()
    for result in sorted(report.representatives(most_worlds), key=report.choices_first.index):
        if not found or len(result.traffic) <= left:
            found.append(result)
            left -= len(result.traffic)
    return tuple(found)
