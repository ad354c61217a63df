"""The ``bound`` fidelity: the least time that a world takes in ``fluid``, in closed form, for screening many worlds.

A task that shares nothing takes its delay, the latency of its path (the sum of weight * latency over its hops), and its
bytes at the rate that one flow can get there: the least of the path's limit and capacity / weight of its hops. Then

    makespan >= the longest chain of such tasks (the critical path)
    makespan >= for each link: the first moment at which a flow on it can begin, if nothing before it shares either,
                plus the bytes over the link / its capacity

and the bound is the larger of the two. Exact ``fluid`` is never faster, up to rounding; other fidelities may be.
``packet`` sends on the first link of a path before the latency of the whole path has passed, ``slotted`` sends over
other paths, and merged events of ``fluid`` let tasks end early (``Fidelity.keeps_bound``).

``fluid`` and the bound are equal where no two transfers share a link at a time. Where some do, ``fluid`` takes at most
the critical path plus, summed over all links, the bytes over the link / its capacity: whenever the chain of tasks that
ends last does not advance as if it were alone, its flow has a link that is full.

    Bound       the fidelity: worlds of any graphs; a Timeline of each, with every task as if it were alone
    makespans   worlds of one graph, whose links' numbers are rows of one array on any device; the fast one

Worlds of one graph run side by side, in SIMD registers or neighbouring threads, and a graph is condensed once
(``topoflow.engine.bound.condensed``): a ring all-reduce in 254 steps of 512 transfers is one node. ``csrc/bound`` is
what runs, ``tests.twins.bound`` spells it out in plain Python.

Source: the critical path and the most loaded resource are the two lower bounds of Graham, Bounds on Multiprocessing
Timing Anomalies, SIAM J. Applied Mathematics 17(2), 1969.

Shapes: W worlds, T tasks, N nodes, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from topoflow import _C
from topoflow.engine.base import LoweredGraph, Run, TaskTimes, Timeline, World
from topoflow.engine.bound.condensed import CondensedGraph, condensed
from topoflow.engine.checks import check_accepted, refuses_addresses
from topoflow.engine.device import Array, DeviceMemory, links_of
from topoflow.engine.launch import Kernel, Steps, count_threads, cut_by_memory, in_pieces, launch
from topoflow.engine.observer import PartialObserver


@dataclass(frozen=True)
class Bound:
    """Every task as if it were alone; the ``makespan`` of a timeline is the least that the world takes in ``fluid``."""

    name: ClassVar[str] = "bound"
    lower_bound_of: ClassVar[str] = "fluid"

    def refuses(self, world: World) -> str | None:
        """Worlds whose circuits change, as there is no closed form of when a flow has a link, and unknown paths."""
        if world.fabric is None or not world.changes_circuits:
            return refuses_addresses(world, self.name)
        return f"fabric: must keep its circuits with fidelity={self.name}, got {world.fabric.name}"

    def keeps_bound(self, world: World) -> bool:
        """Return whether it has a time for ``world``."""
        return self.refuses(world) is None

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """Return when every task of every world would run if its transfers were alone.

        Raises ``ValueError`` where ``Fluid.simulate`` does, and where a task waits for a later one.
        """
        check_accepted(self, worlds)
        groups: dict[int, list[int]] = {}
        for index, world in enumerate(worlds):
            groups.setdefault(id(world.graph), []).append(index)
        timelines: dict[int, Timeline] = {}
        for group in groups.values():
            alike = [worlds[index] for index in group]
            known = partial(_condensed, alike[0].name, alike[0].graph, collapses=True)
            graph = run.cache.get("condensed", run.device, [alike[0].graph], known)
            observer = PartialObserver(run.observer, len(timelines), len(worlds))
            cut, steps = partial(cut_by_memory, needed=_needed), partial(_makespans, graph=graph, run=run)
            timelines |= dict(zip(group, in_pieces(alike, run.device, observer, cut, steps), strict=True))
        return [timelines[index] for index in range(len(worlds))]


def _needed(world: World) -> int:
    """Return the bytes of the numbers of its links and of its answer."""
    return 16 * world.graph.links + 8


def condense(graph: LoweredGraph) -> CondensedGraph:
    """Return the condensed graph for ``makespans``, to call it more than once for the same graph."""
    return _condensed("graph", graph, collapses=True)


def makespans(
    graph: LoweredGraph | CondensedGraph, capacity: Any, latency: Any = None, *, threads: int | None = None
) -> Any:
    """The bound [W] s of worlds of one graph: ``capacity`` [W, L] B/s and ``latency`` [W, L] s (0).

    Arrays and errors are those of ``topoflow.engine.fluid.sweep``. inf where a flow has no bandwidth.
    """
    known, team = graph if isinstance(graph, CondensedGraph) else condense(graph), count_threads(threads)
    device, capacity, latency = links_of(known.links, capacity, latency)
    makespan = device.zeros(len(capacity))
    rows = {
        "capacity": capacity.reshape(-1),
        "latency": device.zeros(0) if latency is None else latency.reshape(-1),
        "makespan": makespan,
    }
    if len(makespan):
        arrays = device.put(known.arrays) | rows
        launch(_kernel(arrays, device, team, [f"world {index}" for index in range(len(makespan))]), device)
    return makespan


def _condensed(name: str, graph: LoweredGraph, *, collapses: bool) -> CondensedGraph:
    try:
        return condensed(graph, collapses=collapses)
    except ValueError as error:
        raise ValueError(f"{name}.{error}") from None


def _kernel(arrays: dict[str, Any], device: DeviceMemory, threads: int, names: Sequence[str]) -> Kernel:
    """Fills in ``makespan`` [W], and ``start`` and ``finish`` [W * N] if they are among ``arrays``."""
    nothing = device.zeros(0)
    arrays = {"start": nothing, "finish": nothing, "cancel": device.flag()} | arrays
    kernel = partial(_C.bound, arrays, device.memory, device.stream, threads)
    return Kernel(kernel, arrays["cancel"], lambda: names)


def _makespans(worlds: Sequence[World], device: DeviceMemory, graph: CondensedGraph, run: Run) -> Steps[list[Timeline]]:
    """Simulate worlds of one graph; the times of their tasks are computed when they are read."""
    makespan = device.zeros(len(worlds))
    arrays = run.cache.get("bound", device, [graph], partial(device.put, graph.arrays))
    arrays = arrays | device.put(_links(worlds)) | {"makespan": makespan}
    yield _kernel(arrays, device, count_threads(run.threads), [world.name for world in worlds])
    times, seconds = AloneTimes(), device.numpy(makespan).tolist()
    _raise_starved([world for world, time in zip(worlds, seconds, strict=True) if np.isinf(time)], times)
    carried = graph.arrays["link_bytes"]
    return [Timeline(world, times, time, carried) for world, time in zip(worlds, seconds, strict=True)]


class AloneTimes:
    """The times of tasks as if their transfers were alone; the graph of the last world stays condensed.

    Most sweeps read makespans only. Times of a large job take 1,000 times as long as its makespan.
    """

    def __init__(self) -> None:
        self._last: tuple[LoweredGraph, CondensedGraph] | None = None

    def __call__(self, world: World) -> TaskTimes:
        if self._last is None or self._last[0] is not world.graph:
            self._last = world.graph, _condensed(world.name, world.graph, collapses=False)
        graph, device = self._last[1], DeviceMemory()
        start, finish, makespan = (np.zeros(count) for count in (world.graph.tasks, world.graph.tasks, 1))
        arrays = graph.arrays | _links([world]) | {"start": start, "finish": finish, "makespan": makespan}
        launch(_kernel(arrays, device, 1, [world.name]), device)
        return TaskTimes(start[graph.node], finish[graph.node])

    def __reduce__(self) -> tuple[type[AloneTimes], tuple[()]]:
        return AloneTimes, ()


def _links(worlds: Sequence[World]) -> dict[str, Array]:
    """Return the numbers of the links of worlds of one graph."""
    return {
        "capacity": np.concatenate([world.capacity for world in worlds], dtype=np.float64),
        "latency": np.concatenate([world.latency for world in worlds], dtype=np.float64),
    }


def _raise_starved(worlds: Sequence[World], times: AloneTimes) -> None:
    """Raise ``ValueError`` that names a task without bandwidth in each of ``worlds``, all of which have one."""
    failures = [
        f"{world.name}: every flow must get bandwidth, got none for "
        f"{world.graph.where(int(np.isinf(times(world).finish).argmax()))}"
        for world in worlds
    ]
    if failures:
        raise ValueError("; ".join(failures))
