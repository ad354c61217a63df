"""A job on a network whose circuits change while it runs, as the ``fluid`` fidelity sees it.

Every ``interval`` the demand is looked at: the bytes that flows which have begun still have to send, from server to
server, be they on their way or waiting for one ("the instantaneous demand", 5.3). Algorithm 5
(``fabric.circuits.heuristic``) finds circuits for it. Are they others than there are, all flows stop for ``pause``;
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

from dataclasses import dataclass, replace

import numpy as np

from topoflow.engine.base import Floats, Ints, Timeline, World
from topoflow.engine.dynamic.circuits import Circuits, choose_circuits
from topoflow.engine.dynamic.pieces import Pieces
from topoflow.engine.dynamic.segments import Journey
from topoflow.engine.launch import launch
from topoflow.engine.observer import Observer, Silent
from topoflow.engine.timelines import link_bytes, timeline
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

    ``observer`` gets the ``time`` (s) of each look. ``iterations`` None: as many as the fabric's ``control``
    says. ``merge`` is relative to the time since the last look, not since the beginning. A look costs what moves until
    the next, not what is left of the job, and looks that must find the circuits that exist cost nothing.

    Raises ``ValueError`` for a fabric that does not reconfigure, for a task that waits forever, and where an array
    breaks a law of ``Graph``.
    """
    fabric = world.fabric
    if fabric is None or not isinstance(fabric.control, DemandDriven):
        got = "no fabric" if fabric is None else type(fabric.control).__name__
        raise ValueError(f"{world.name}.fabric.control: must be DemandDriven, got {got}")
    control = fabric.control
    circuits = Circuits(fabric, world.graph, forwarding=control.forwarding, seed=world.seed, routing=world.routing)
    cancel = np.zeros(1, np.int32)
    job = _Job(world, circuits, merge, cancel)
    launch(lambda: job.run(control, control.iterations if iterations is None else iterations, observer), cancel)
    return job.told()


ROUNDING = 1e-9  # of the time, by which a quiet time is taken to be shorter


def _other_circuits(demand: Matrix, there: Counts, degree: int, control: DemandDriven) -> Counts | None:
    """None: there is no demand, or the circuits that are ``there`` are those for it."""
    if not demand.any():
        return None
    demand = _rounded(demand)
    circuits = choose_circuits(demand, degree, control.discount)
    circuits = connect(circuits, demand) if control.forwarding else circuits
    return circuits if (circuits != there).any() else None


def _rounded(demand: Matrix) -> Matrix:
    """To 30 bits: what flows alike have left differs by rounding, which is not to choose between them."""
    share, exponent = np.frexp(demand)
    rounded: Matrix = np.ldexp(np.rint(np.ldexp(share, 30)), exponent - 30)
    return rounded


def _is_matching(demand: Matrix) -> bool:
    """Whether no server sends to two or receives from two: then circuits do not depend on how much is sent."""
    wanted = demand > 0
    return bool(wanted.sum(0).max() <= 1 and wanted.sum(1).max() <= 1)


class _Job:
    """Where an iteration is at ``now``, and what has been."""

    def __init__(self, whole: World, circuits: Circuits, merge: float, cancel: Ints) -> None:
        self.whole, self.circuits, self.merge, self.cancel = whole, circuits, merge, cancel
        self.now, self.changes = 0.0, 0
        self.times: list[float] = []  # s that every iteration took
        self.capacity = circuits.capacity()
        self.lit_since = self.lit_until = 0.0  # s, when flows went over the circuits that there are
        self.ever = np.zeros(circuits.count.shape)  # [n, n] s that circuits before them were up, summed over circuits
        self._begin()

    def _begin(self) -> None:
        self.began = self.now
        self.in_iteration = np.zeros(self.ever.shape)  # as ``ever``
        self.pieces = Pieces(self.whole.name, self.whole.graph, self.now, merge=self.merge, cancel=self.cancel)
        self.journey = Journey(self.whole.graph.path)

    def run(self, control: DemandDriven, iterations: int, observer: Observer) -> None:
        looked, until, wanted = 0.0, control.interval, None
        while len(self.times) < iterations:
            if not self.go_on(until, dark=wanted is not None):
                continue  # with the next iteration
            if wanted is not None:
                self.rewire(wanted)
                until, wanted = looked + control.interval, None
                continue
            looked = until
            observer.record(time=looked)
            demand = self.demand()
            wanted = _other_circuits(demand, self.circuits.count, self.circuits.fabric.degree, control)
            until = looked + (control.interval if wanted is None else control.pause)
            if wanted is None and not control.forwarding and _is_matching(demand):
                quiet = self.quiet_until()
                while until + control.interval < quiet and not self.cancel[0]:  # the look at `until` finds the same
                    looked = until
                    observer.record(time=looked)
                    until = looked + control.interval

    def go_on(self, until: float, *, dark: bool) -> bool:
        """Up to then, in the ``dark`` without flows; False: only to the end of the iteration, where the next begins."""
        if self.pieces.is_over:
            self._begin()
        circuits, pieces = self.circuits, self.pieces
        ways = circuits.dark if dark else circuits.ways
        self.journey.add(ways, pieces.go_on(ways, self.capacity, circuits.latency, until))
        self.now = float(pieces.finish.max(initial=self.began)) if pieces.is_over else until
        if not dark:
            self.lit_until = self.now
        if pieces.is_over:
            self.times.append(self.now - self.began)
        return not pieces.is_over

    def demand(self) -> Matrix:
        """[n, n] bytes that flows which have begun have not sent."""
        flowing = self.pieces.flowing
        path = self.whole.graph.path[flowing]
        flows = path >= 0
        count = self.circuits.count
        sent = np.bincount(self.circuits.pair[path[flows]], self.pieces.left[flowing[flows]], count.size)
        return sent.astype(np.float64).reshape(count.shape)

    def quiet_until(self) -> float:
        """s, before which no task begins or ends, and so flows do neither; without forwarding."""
        pieces, live = self.pieces, self.pieces.live
        path, left = self.whole.graph.path[live], pieces.left[live]
        rate = np.append(self.circuits.rates(), np.inf)[path]  # no flow gets more
        with np.errstate(divide="ignore", invalid="ignore"):
            sent = self.now + np.where(left > 0, left / rate, 0.0)
        return float(np.where(pieces.ready > self.now, pieces.ready, sent).min(initial=np.inf)) * (1 - ROUNDING)

    def rewire(self, circuits: Counts) -> None:
        self._add_up()
        self.circuits.rewire(circuits)
        self.capacity = self.circuits.capacity()
        self.lit_since = self.lit_until = self.now
        self.changes += 1

    def told(self) -> Reconfigured:
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
        graph = self.journey.told(self.whole.graph, links)
        world = replace(self.whole, graph=graph, capacity=bandwidth, latency=fabric.latency, fabric=fabric)
        start, finish = self.pieces.start - self.began, self.pieces.finish - self.began
        return Reconfigured(timeline(world, start, finish, link_bytes(graph)), np.array(self.times), self.changes)

    def _add_up(self) -> None:
        """The time of the circuits that there are."""
        self.ever += self.circuits.count * (self.lit_until - self.lit_since)
        self.in_iteration += self.circuits.count * max(0.0, self.lit_until - max(self.lit_since, self.began))

    def _mean_capacity(self, seconds: Floats, since: float) -> Floats:
        """[L] B/s from then to now, or that of now if that is no time."""
        if self.now == since:
            return self.capacity
        return self.circuits.fabric.interface_bandwidth * self.circuits.of_links(seconds) / (self.now - since)
