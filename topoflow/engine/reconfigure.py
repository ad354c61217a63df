"""A job on a network whose circuits change while it runs, as the ``fluid`` fidelity sees it.

Every ``interval`` the demand is looked at: the bytes that flows which have begun still have to send, from server to
server, be they on their way or waiting for one ("the instantaneous demand", 5.3). Algorithm 5
(``fabric.circuit_heuristic``) finds circuits for it. Are they others than there are, all flows stop for ``pause``;
compute goes on. Then flows go on over the new circuits.

    0            look                look                look
    |---flows----|-pause-|--flows----|-pause-|--flows----|---
            interval            interval

A job runs several iterations, one after the other, and the last is told: the circuits that an iteration finds are what
the one before has left, and the looks do not care where an iteration begins.

What Appendix E.4 leaves open is decided so: a look that finds no demand, or circuits that are there already, changes
nothing and stops nothing. What begins between two looks takes the circuits that are there: with forwarding the shortest
path over them, without it waits where none leads to its target. What begins in a pause waits for its end. A flow that
goes on over other circuits does not wait their latency. The latency of a ring's steps (``rings="flows"``) is that of
the first circuits.

Shapes: T tasks, P paths, L links, n servers.

Source: TopoOpt (Wang et al., NSDI 2023), 5.1, 5.7, Appendices E.4 and F.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from topoflow.engine import fluid
from topoflow.engine.base import Floats, Pause, Timeline, World
from topoflow.engine.circuits import Circuits, choose_circuits
from topoflow.engine.journey import Journey
from topoflow.engine.reference import SAME
from topoflow.engine.resume import path_latency, resume
from topoflow.engine.timelines import link_bytes, timeline
from topoflow.fabric.base import Fabric, Reconfiguration
from topoflow.fabric.circuit_heuristic import Counts, Matrix, connect


@dataclass(frozen=True, eq=False)
class Run:
    """What happened in the last iteration, told as of one fabric: its links are all circuits that there ever were.

    The first circuits are its first links, and its routes are over them. A link's bandwidth is its mean over the
    iteration (of one that was not up in it, which carries nothing there, over all iterations). The paths of ``world``
    are what tasks crossed, hop by hop with the share of the task's bytes, so that what is read off paths elsewhere
    (bytes of links, bandwidth tax) holds here too.
    """

    timeline: Timeline  # from the beginning of the last iteration
    world: World
    fabric: Fabric
    iterations: Floats  # [I] s that each took
    reconfigurations: int  # in all of them


def simulate(
    world: World,
    fabric: Fabric,
    *,
    seed: int = 0,
    routing: str = "ecmp",
    iterations: int | None = None,
    merge: float = 0.0,
    threads: int | None = None,
    look: Callable[[float], None] | None = None,
) -> Run:
    """Run ``world``, placed on ``fabric``, whose circuits change; ``look`` is called with the time of each look.

    ``iterations`` None: as many as ``fabric.reconfiguration`` says. ``merge`` is relative to the time since the last
    look, not since the beginning. Raises ``ValueError`` for a fabric that does not
    reconfigure, for a task that waits for ever, and where an array breaks a law of ``Graph``.
    """
    how = fabric.reconfiguration
    if how is None:
        raise ValueError(f"{fabric.name}.reconfiguration: must be given, got none")
    circuits = Circuits(fabric, world.graph, forwarding=how.forwarding, seed=seed, routing=routing)
    job = _Job(world, circuits, merge, threads)
    looked, until, wanted = 0.0, how.interval, None
    while len(job.times) < (how.iterations if iterations is None else iterations):
        if not job.go_on(until, dark=wanted is not None):
            continue  # with the next iteration
        if wanted is not None:
            job.rewire(wanted)
            until, wanted = looked + how.interval, None
            continue
        looked = until
        if look is not None:
            look(looked)
        wanted = _other_circuits(job.demand(), circuits.count, fabric.degree, how)
        until = looked + (how.interval if wanted is None else how.pause)
    return job.told()


def _other_circuits(demand: Matrix, there: Counts, degree: int, how: Reconfiguration) -> Counts | None:
    """None: there is no demand, or the circuits that are ``there`` are those for it."""
    if not demand.any():
        return None
    circuits = choose_circuits(demand, degree, how.discount)
    circuits = connect(circuits, demand) if how.forwarding else circuits
    return circuits if (circuits != there).any() else None


class _Job:
    """What is left of an iteration at ``now``, and what has been. T' tasks of the iteration are left."""

    def __init__(self, whole: World, circuits: Circuits, merge: float, threads: int | None) -> None:
        self.whole, self.circuits = whole, circuits
        self.merge, self.threads = merge, threads
        self.now, self.changes = 0.0, 0
        self.times: list[float] = []  # s that every iteration took
        self.spans = [(0.0, 0.0, circuits.capacity())]  # from, until, and the B/s [L] of the circuits that were up
        self._begin()

    def _begin(self) -> None:
        graph = self.whole.graph
        self.began = self.now
        self.rest = replace(self.whole, graph=replace(graph, release=graph.release + self.now))
        self.task = np.arange(graph.tasks)  # [T'] which tasks the rest has
        self.flows_at = np.full(graph.tasks, np.inf)  # [T'] s when a task that has begun has waited
        self.start = np.full(graph.tasks, np.inf)
        self.finish = np.full(graph.tasks, np.inf)
        self.journey = Journey()

    def go_on(self, until: float, *, dark: bool) -> bool:
        """Up to then, in the ``dark`` without flows; False: only to the end of the iteration, where the next begins."""
        if len(self.task) == 0:
            self._begin()
        self._run(until, dark=dark)
        is_over = len(self.task) == 0
        self.now = float(self.finish.max(initial=self.began)) if is_over else until
        if not dark:
            begin, _, capacity = self.spans[-1]
            self.spans[-1] = (begin, self.now, capacity)
        if is_over:
            self.times.append(self.now - self.began)
        return not is_over

    def demand(self) -> Matrix:
        """[n, n] bytes that flows which have begun have not sent."""
        graph = self.rest.graph
        flowing = np.flatnonzero((self.flows_at <= self.now * (1 + SAME)) & (graph.path >= 0))
        path = graph.path[flowing]
        demand = np.zeros(self.circuits.count.shape)
        np.add.at(demand, (self.circuits.begins[path], self.circuits.ends[path]), graph.bytes[flowing])
        return demand

    def rewire(self, circuits: Counts) -> None:
        self.circuits.rewire(circuits)
        self.spans.append((self.now, self.now, self.circuits.capacity()))
        self.changes += 1

    def told(self) -> Run:
        circuits, links = self.circuits, self.circuits.links
        of_iteration, ever = self._mean_capacity(self.began), self._mean_capacity(0.0)
        bandwidth = np.where(of_iteration > 0, of_iteration, ever)
        fabric = replace(
            circuits.fabric,
            source=circuits.source.astype(np.int32),
            target=circuits.target.astype(np.int32),
            bandwidth=bandwidth,
            latency=np.full(links, circuits.latency),
        )
        graph = self.journey.told(self.whole.graph, links)
        world = World(self.whole.name, graph, bandwidth, fabric.latency)
        found = timeline(world, self.start - self.began, self.finish - self.began, link_bytes(graph))
        return Run(found, world, fabric, np.array(self.times), self.changes)

    def _mean_capacity(self, since: float) -> Floats:
        """[L] B/s from then to now, or that of now if that is no time."""
        total = np.zeros(self.circuits.links)
        for begin, end, capacity in self.spans:
            total[: len(capacity)] += capacity * max(0.0, end - max(begin, since))
        return total / (self.now - since) if self.now > since else self.circuits.capacity()

    def _run(self, until: float, *, dark: bool) -> None:
        world = self._timed(self.circuits.carry(self.rest, dark=dark))
        paused = self._pause(world, until)
        self.journey.add(world.graph, self.task, world.graph.bytes - paused.left)
        new = np.isinf(self.start[self.task])  # a flow that goes on starts again in its world, not in the whole
        self.start[self.task[new]] = paused.start[new]
        self.finish[self.task] = paused.finish
        self.rest, kept = resume(world, paused)
        self.task = self.task[kept]
        begun = np.isfinite(paused.start[kept])
        if len(kept) and not begun.any():
            law = "every task must become ready, got an endless wait"
            raise ValueError(f"{self.whole.name}: {law} for task {self.task[0]}")
        self.flows_at = np.where(begun, self.rest.graph.release + self._latency(self.rest), np.inf)

    def _pause(self, world: World, until: float) -> Pause:
        """On a clock that begins just before now, so that ``merge`` is relative to little."""
        zero = self.now - float(self._latency(world).max(initial=0.0))  # what flows now was ready by so much earlier
        graph = replace(world.graph, release=np.maximum(world.graph.release - zero, 0.0))
        local = fluid.pause(replace(world, graph=graph), until - zero, merge=self.merge, threads=self.threads)
        return Pause(until, local.start + zero, local.finish + zero, local.left)

    def _timed(self, world: World) -> World:
        """What has begun flows when it has waited, whatever the latency of its path is now."""
        release = np.where(np.isinf(self.flows_at), world.graph.release, self.flows_at - self._latency(world))
        return replace(world, graph=replace(world.graph, release=release))

    @staticmethod
    def _latency(world: World) -> Floats:
        """[T] s of each task's path."""
        return np.append(path_latency(world.graph, world.latency), 0.0)[world.graph.path]
