"""Scheduler: places requests on servers in the order of their arrival, or denies them.

Shapes: S servers, R resources, E events.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from topoflow.scheduling.base import RESOURCES, GroupedCluster, Index, Request, fits
from topoflow.scheduling.policies import Policy

FRAGMENTATION = "fragmentation"  # why a request is denied: there is enough of everything, but not where it is needed


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request. ``servers``, and the ``machines`` on each of them, are empty if it was denied."""

    request: Request
    servers: tuple[int, ...] = ()
    machines: tuple[int, ...] = ()
    groups: int = 0
    denied: str = ""  # the reason: the resource that the whole cluster had too little of, or ``FRAGMENTATION``


@dataclass(frozen=True)
class PlacementSchedule:
    """The ``outcomes`` in the order of arrival, and the resources in use after each of E events."""

    outcomes: tuple[Outcome, ...]
    time: NDArray[np.float64]  # [E] s, ascending
    utilization: NDArray[np.float64]  # [E, R] share of what all servers have; 0 of a resource that they do not have

    @property
    def until_last_arrival(self) -> PlacementSchedule:
        """Return the schedule without the events after the last arrival, when nothing fills the cluster any more."""
        seen = self.time <= self.outcomes[-1].request.arrival
        return replace(self, time=self.time[seen], utilization=self.utilization[seen])

    @property
    def mean_utilization(self) -> NDArray[np.float64]:
        """Return [R] the mean over time of each resource until the last arrival; 0 if all arrive at once."""
        seen = self.until_last_arrival
        duration = np.diff(np.append(seen.time, self.outcomes[-1].request.arrival))
        mean: NDArray[np.float64] = duration @ seen.utilization / (duration.sum() or 1.0)
        return mean


@dataclass
class _Servers:
    """The free resources of all servers, and the requests that run on them."""

    cluster: GroupedCluster
    free: Index  # [R, S]
    used: Index  # [R]
    running: list[tuple[float, int, Index, Index]] = field(default_factory=list)  # heap: end, number, servers, amount

    def release_until(self, time: float, log: list[tuple[float, Index]]) -> None:
        """End the requests that end at ``time`` or before; an arrival at ``time`` can use their servers."""
        while self.running and self.running[0][0] <= time:
            end, _, servers, amount = heapq.heappop(self.running)
            self.free[:, servers] += amount
            self.used = self.used - amount.sum(axis=1)
            log.append((end, self.used))

    def give(self, outcome: Outcome, end: float, number: int) -> None:
        servers = np.array(outcome.servers)
        amount = self.cluster.need(outcome.request)[:, None] * np.array(outcome.machines)
        self.free[:, servers] -= amount
        self.used = self.used + amount.sum(axis=1)
        if np.isfinite(end):
            heapq.heappush(self.running, (end, number, servers, amount))


def schedule(
    cluster: GroupedCluster,
    requests: Sequence[Request],
    policy: Policy,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> PlacementSchedule:
    """Place ``requests`` in the order of their arrival; simultaneous requests keep the order of the list.

    ``advance`` is called with the number of placed requests and the total. Raises ``ValueError``, before any request is
    placed, for one that the empty cluster cannot hold.
    """
    for request in requests:
        cluster.fewest_groups(request)
    servers = _Servers(
        cluster, np.repeat(cluster.capacity[:, None], cluster.servers, axis=1), np.zeros(len(RESOURCES), np.int64)
    )
    outcomes: list[Outcome] = []
    log = [(min((request.arrival for request in requests), default=0.0), servers.used)]
    for number, request in enumerate(sorted(requests, key=lambda request: request.arrival)):
        advance(number, len(requests))
        servers.release_until(request.arrival, log)
        outcomes.append(_place(cluster, servers.free, request, policy))
        if not outcomes[-1].denied:
            servers.give(outcomes[-1], request.arrival + request.lifetime, number)
            log.append((request.arrival, servers.used))
    advance(len(requests), len(requests))
    servers.release_until(np.inf, log)
    used = np.array([used for _, used in log]) / np.maximum(cluster.capacity * cluster.servers, 1)
    return PlacementSchedule(tuple(outcomes), np.array([time for time, _ in log]), used)


def _place(cluster: GroupedCluster, free: Index, request: Request, policy: Policy) -> Outcome:
    """Place the machines of a request on free servers in the policy's order, or deny it."""
    need = cluster.need(request)
    room = fits(free, need)
    if room.sum() < request.machines:
        short = free.sum(axis=1) < need * request.machines
        cause = next((name for name, few in zip(RESOURCES, short, strict=True) if few), FRAGMENTATION)
        return Outcome(request, denied=cause)
    order = policy.order(room, request, cluster)
    before = np.concatenate([[0], np.cumsum(room[order])[:-1]])
    placed = np.clip(request.machines - before, 0, room[order])
    chosen = np.sort(order[placed > 0])
    machines = np.zeros(cluster.servers, np.int64)
    machines[order] = placed
    groups = np.unique(chosen // cluster.servers_per_group).size
    return Outcome(request, tuple(chosen.tolist()), tuple(machines[chosen].tolist()), groups)
