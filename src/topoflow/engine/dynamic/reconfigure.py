"""A job on a network whose circuits change while it runs, as the ``fluid`` fidelity sees it.

Every ``interval`` the demand is sampled: the bytes that flows which have begun still have to send, from server to
server, whether they are being sent or wait for a circuit ("the instantaneous demand", 5.3). Algorithm 5
(``fabric.circuits.heuristic``) finds circuits for it. If these differ from the present ones, all flows stop for
``pause``; compute continues. Then flows continue over the new circuits.

    0            sample              sample              sample
    |---flows----|-pause-|--flows----|-pause-|--flows----|---
            interval            interval

A job runs several iterations, one after the other, and the last is reported: an iteration begins with the circuits
that the one before has left, and samples are taken regardless of where an iteration begins.

What Appendix E.4 leaves open is decided so: a sample without demand, or for which the circuits exist already, changes
nothing and stops nothing. A flow that begins between two samples takes the present circuits: with forwarding the
shortest path over them; without, it waits where none leads to its target. A flow that begins in a pause waits for its
end. A flow that continues over other circuits does not wait their latency. The latency of a ring's steps
(``rings="flows"``) is that of the first circuits.

Shapes: T tasks, P paths, L links, n servers.

Source: TopoOpt (Wang et al., NSDI 2023), 5.1, 5.7, Appendices E.4 and F.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from topoflow.engine.base import Floats, Ints, Timeline, World
from topoflow.engine.dynamic.circuits import Circuits, choose_circuits
from topoflow.engine.dynamic.crossed_links import CrossedLinks
from topoflow.engine.dynamic.stepwise import Stepwise
from topoflow.engine.fluid.precision import check_world_precision
from topoflow.engine.launch import Kernel, launch
from topoflow.engine.observer import Observer, Silent
from topoflow.engine.timelines import link_bytes, timeline
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.demand_driven import DemandDriven
from topoflow.fabric.circuits.heuristic import Counts, Matrix, connect


@dataclass(frozen=True, eq=False)
class Reconfigured:
    """The last iteration, as if on a static fabric whose links are all circuits that ever existed.

    The first circuits are its first links, and its routes are over them. A link's bandwidth is its mean over the
    iteration (of a circuit that did not exist in it, which carries nothing there, over all iterations). The paths of
    ``timeline.world`` are the links that the bytes of each task crossed, with the share of them that crossed each, so
    that what is read off paths elsewhere (bytes of links, bandwidth tax) holds here too.
    """

    timeline: Timeline  # from the beginning of the last iteration
    iterations: Floats  # [I] s that each took
    reconfigurations: int  # in all of them


def simulate(
    world: World, *, merge: float = 0.0, iterations: int | None = None, observer: Observer = Silent()
) -> Reconfigured:
    """Simulate ``world``, placed on a fabric whose circuits change. It runs on the CPU.

    ``observer`` gets the ``time`` (s) of each sample. ``iterations`` None: as many as the fabric's ``control``
    says. ``merge`` is relative to the time since the last sample, not since the beginning. A sample costs what is sent
    until the next, not what is left of the job, and samples that must find the present circuits cost nothing.

    Raises ``ValueError`` for a fabric that does not reconfigure, and for a task that waits forever or for more than
    ``MOST_SAMPLES``.
    """
    fabric = world.fabric
    if fabric is None or not isinstance(fabric.control, DemandDriven):
        got = "no fabric" if fabric is None else type(fabric.control).__name__
        raise ValueError(f"{world.name}.fabric.control: must be DemandDriven, got {got}")
    control = fabric.control
    check_world_precision(world)
    _check_ends(world, fabric, control.interval)
    circuits = Circuits(fabric, world.graph, forwarding=control.forwarding, seed=world.seed, routing=world.routing)
    cancel = np.zeros(1, np.int32)
    job = _Job(world, circuits, merge, cancel)
    count = control.iterations if iterations is None else iterations
    launch(Kernel(partial(job.run, control, count, observer), cancel))
    return job.result()


MOST_SAMPLES = 2**30  # of an iteration: minutes where none finds other circuits, and days else


def _check_ends(world: World, fabric: Fabric, interval: float) -> None:
    """Raise ``ValueError`` for an iteration that is known to take more than ``MOST_SAMPLES`` samples.

    It takes at least the longest delay after a task's release, and at least all bytes over all links at once.
    """
    graph, together = world.graph, fabric.servers * fabric.degree * fabric.interface_bandwidth  # B/s
    with np.errstate(divide="ignore", over="ignore"):
        wires = float(np.divide(graph.bytes[graph.path >= 0].sum(), together))
    least = max(float((graph.release + graph.delay).max(initial=0.0)), wires)
    if not least <= MOST_SAMPLES * interval:
        requirement = f"must end within {MOST_SAMPLES} samples of its demand, of {interval:g} s each"
        raise ValueError(f"{world.name}: {requirement}, got at least {least:g} s")


ROUNDING = 1e-9  # relative: the next change is expected earlier by this


def _other_circuits(demand: Matrix, present: Counts, degree: int, control: DemandDriven) -> Counts | None:
    """None: there is no demand, or the ``present`` circuits are those for it."""
    if not demand.any():
        return None
    demand = _rounded(demand)
    circuits = choose_circuits(demand, degree, control.discount)
    circuits = connect(circuits, demand) if control.forwarding else circuits
    return circuits if (circuits != present).any() else None


def _rounded(demand: Matrix) -> Matrix:
    """To 30 bits: what equal flows have left differs by rounding, which must not decide between them."""
    share, exponent = np.frexp(demand)
    rounded: Matrix = np.ldexp(np.rint(np.ldexp(share, 30)), exponent - 30)
    return rounded


def _is_matching(demand: Matrix) -> bool:
    """Return whether each server sends to one other at most and receives from one at most.

    Circuits then do not depend on the bytes that are sent.
    """
    has_demand = demand > 0
    return bool(has_demand.sum(0).max() <= 1 and has_demand.sum(1).max() <= 1)


class _Job:
    """The state of an iteration at ``now``, and what happened before."""

    def __init__(self, world: World, circuits: Circuits, merge: float, cancel: Ints) -> None:
        self.world, self.circuits, self.merge, self.cancel = world, circuits, merge, cancel
        self.now, self.changes = 0.0, 0
        self.times: list[float] = []  # s that every iteration took
        self.capacity = circuits.capacity()
        self.used_since = self.used_until = 0.0  # s, when flows used the present circuits
        self.ever = np.zeros(circuits.count.shape)  # [n, n] s that earlier circuits were used, summed over circuits
        self._begin()

    def _begin(self) -> None:
        self.began = self.now
        self.in_iteration = np.zeros(self.ever.shape)  # as ``ever``
        self.tasks = Stepwise(self.world.name, self.world.graph, self.now, merge=self.merge, cancel=self.cancel)
        self.crossed = CrossedLinks(self.world.graph.path)

    def run(self, control: DemandDriven, iterations: int, observer: Observer) -> None:
        sampled, until, next_circuits = 0.0, control.interval, None
        while len(self.times) < iterations:
            if not self.advance(until, paused=next_circuits is not None):
                continue  # with the next iteration
            if next_circuits is not None:
                self.rewire(next_circuits)
                until, next_circuits = sampled + control.interval, None
                continue
            sampled = until
            observer.record(time=sampled)
            demand = self.demand()
            next_circuits = _other_circuits(demand, self.circuits.count, self.circuits.fabric.degree, control)
            until = sampled + (control.interval if next_circuits is None else control.pause)
            if next_circuits is None and not control.forwarding and _is_matching(demand):
                next_change = self.next_change()
                while until + control.interval < next_change and not self.cancel[0]:  # the next sample finds the same
                    sampled = until
                    observer.record(time=sampled)
                    until = sampled + control.interval

    def advance(self, until: float, *, paused: bool) -> bool:
        """Simulate up to then, without flows if ``paused``; False: the iteration ended before that."""
        if self.tasks.has_finished:
            self._begin()
        circuits, tasks = self.circuits, self.tasks
        routes = circuits.no_routes if paused else circuits.routes
        self.crossed.add(routes, tasks.advance(routes, self.capacity, circuits.latency, until))
        self.now = float(tasks.finish.max(initial=self.began)) if tasks.has_finished else until
        if not paused:
            self.used_until = self.now
        if tasks.has_finished:
            self.times.append(self.now - self.began)
        return not tasks.has_finished

    def demand(self) -> Matrix:
        """[n, n] bytes that flows which have begun have not sent."""
        flowing = self.tasks.flowing
        path = self.world.graph.path[flowing]
        flows = path >= 0
        count = self.circuits.count
        sent = np.bincount(self.circuits.pair[path[flows]], self.tasks.left[flowing[flows]], count.size)
        return sent.astype(np.float64).reshape(count.shape)

    def next_change(self) -> float:
        """s, before which no task begins or ends, and so flows do neither; without forwarding."""
        tasks, ready = self.tasks, self.tasks.ready
        path, left = self.world.graph.path[ready], tasks.left[ready]
        rate = np.append(self.circuits.rates(), np.inf)[path]  # no flow gets more
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sent = self.now + np.where(left > 0, left / rate, 0.0)
        return float(np.where(tasks.ready_at > self.now, tasks.ready_at, sent).min(initial=np.inf)) * (1 - ROUNDING)

    def rewire(self, circuits: Counts) -> None:
        self._add_up()
        self.circuits.rewire(circuits)
        self.capacity = self.circuits.capacity()
        self.used_since = self.used_until = self.now
        self.changes += 1

    def result(self) -> Reconfigured:
        self._add_up()
        circuits, links = self.circuits, self.circuits.links
        of_iteration, ever = self._mean_capacity(self.in_iteration, self.began), self._mean_capacity(self.ever, 0.0)
        bandwidth = np.where(of_iteration > 0, of_iteration, ever)
        fabric = replace(
            circuits.fabric,
            source=circuits.source.astype(np.int32),
            target=circuits.target.astype(np.int32),
            bandwidth=bandwidth,
            latency=np.full(links, circuits.latency),
        )
        graph = self.crossed.as_static_graph(self.world.graph, links)
        world = replace(self.world, graph=graph, capacity=bandwidth, latency=fabric.latency, fabric=fabric)
        start, finish = self.tasks.start - self.began, self.tasks.finish - self.began
        return Reconfigured(timeline(world, start, finish, link_bytes(graph)), np.array(self.times), self.changes)

    def _add_up(self) -> None:
        """Count the time of the present circuits."""
        self.ever += self.circuits.count * (self.used_until - self.used_since)
        self.in_iteration += self.circuits.count * max(0.0, self.used_until - max(self.used_since, self.began))

    def _mean_capacity(self, seconds: Floats, since: float) -> Floats:
        """[L] B/s from then to now; the present capacity if no time has passed."""
        if self.now == since:
            return self.capacity
        return self.circuits.fabric.interface_bandwidth * self.circuits.of_links(seconds) / (self.now - since)
