"""The ``bound`` fidelity: the least time that a world can take, in closed form, for screening very many worlds.

A task that shares nothing takes its delay, the latency of its path (the sum of weight * latency over its hops), and its
bytes at the rate that one flow can get there: the least of the path's limit and capacity / weight of its hops. Then

    makespan >= the longest chain of such tasks (the critical path)
    makespan >= for each link: the first moment at which a flow on it can begin, if nothing before it shares either,
                plus the bytes over the link / its capacity

and the bound is the larger of the two. ``fluid`` is never faster, up to rounding. Both are equal where no two transfers
share a link at a time; where some do, ``fluid`` takes at most the critical path plus, summed over all links, the bytes
over the link / its capacity: whenever the chain of tasks that ends last does not advance as if it were alone, its flow
has a link that is full.

    Bound       the fidelity: worlds of any graphs; a Timeline of each, with every task as if it were alone
    makespans   worlds of one graph, whose links' numbers are rows of one array on any device; the fast one

Worlds of one graph run side by side, in SIMD registers or neighbouring threads, and a graph is condensed once
(``topoflow.engine.bound.condensed``): a ring all-reduce in 254 steps of 512 transfers is one node. ``csrc/bound`` is
what runs, ``topoflow.engine.bound.reference`` spells it out in plain Python.

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
from topoflow.engine.base import Graph, Run, Timeline, World
from topoflow.engine.bound.condensed import CondensedGraph, condensed
from topoflow.engine.checks import check_graph, check_links
from topoflow.engine.device import Array, links_of
from topoflow.engine.launch import count_threads, in_halves, launch
from topoflow.engine.timelines import timeline


@dataclass(frozen=True)
class Bound:
    """Every task as if it were alone; the ``makespan`` of a timeline is the least time that the world can take."""

    name: ClassVar[str] = "bound"
    is_lower_bound: ClassVar[bool] = True

    def refuses(self, world: World) -> str | None:
        """Worlds whose circuits change: there is no closed form of when a flow has a link."""
        if world.fabric is None or not world.changes_circuits:
            return None
        return f"fabric: must keep its circuits with fidelity={self.name}, got {world.fabric.name}"

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """When every task of every world would run if it were alone.

        Raises ``ValueError`` where ``Fluid.simulate`` does, and where a task waits for a later one.
        """
        groups: dict[int, list[int]] = {}
        for index, world in enumerate(worlds):
            groups.setdefault(id(world.graph), []).append(index)
        timelines: dict[int, Timeline] = {}
        for group in groups.values():
            alike = [worlds[index] for index in group]
            check_graph(alike[0].name, alike[0].graph)
            for world in alike:
                check_links(world)
            known = partial(_condensed, alike[0].name, alike[0].graph, collapses=False)
            graph = run.kept.get("condensed", run.device, [alike[0].graph], known)
            size = max(1, run.device.memory // (16 * max(alike[0].graph.tasks, 1)))

            def simulated(part: Sequence[World], first: int, graph: CondensedGraph = graph) -> list[Timeline]:
                return _alone(part, graph, run)

            for first in range(0, len(alike), size):
                found = in_halves(alike[first : first + size], run.device, simulated)
                timelines |= dict(zip(group[first : first + size], found, strict=True))
                run.observer.advance(len(timelines), len(worlds))
        return [timelines[index] for index in range(len(worlds))]


def condense(graph: Graph) -> CondensedGraph:
    """What ``makespans`` has to know of a graph, for those who call it more than once for the same."""
    check_graph("graph", graph)
    return _condensed("graph", graph, collapses=True)


def makespans(graph: Graph | CondensedGraph, capacity: Any, latency: Any = None, *, threads: int | None = None) -> Any:
    """The bound [W] s of worlds of one graph: ``capacity`` [W, L] B/s and ``latency`` [W, L] s (0).

    Arrays and errors are those of ``topoflow.engine.fluid.sweep``. inf where a flow has no bandwidth.
    """
    known = graph if isinstance(graph, CondensedGraph) else condense(graph)
    device, capacity, latency = links_of(known.links, capacity, latency)
    makespan = device.zeros(len(capacity))
    rows = {
        "capacity": capacity.reshape(-1),
        "latency": device.zeros(0) if latency is None else latency.reshape(-1),
        "makespan": makespan,
    }
    _launch(known, Run(device, threads), rows, [f"world {index}" for index in range(len(capacity))])
    return makespan


def _condensed(name: str, graph: Graph, *, collapses: bool) -> CondensedGraph:
    try:
        return condensed(graph, collapses=collapses)
    except ValueError as error:
        raise ValueError(f"{name}.{error}") from None


def _launch(graph: CondensedGraph, run: Run, arrays: dict[str, Any], names: Sequence[str]) -> None:
    """Fill in ``makespan`` [W], and ``start`` and ``finish`` [W * N] if they are among ``arrays``."""
    device = run.device
    nothing = device.zeros(0)
    known = run.kept.get("bound", device, [graph], partial(device.put, graph.arrays))
    arrays = known | {"start": nothing, "finish": nothing, "cancel": device.flag()} | arrays
    if len(arrays["makespan"]):
        kernel = partial(_C.bound, arrays, device.memory, device.stream, count_threads(run.threads))
        launch(kernel, arrays["cancel"], device, running=lambda: names)


def _alone(worlds: Sequence[World], graph: CondensedGraph, run: Run) -> list[Timeline]:
    """Timelines of worlds of one graph whose nodes are its tasks: nothing is collapsed."""
    device, count, tasks = run.device, len(worlds), worlds[0].graph.tasks
    answers = {name: device.zeros(count * tasks) for name in ("start", "finish")} | {"makespan": device.zeros(count)}
    rows = {
        "capacity": np.concatenate([world.capacity for world in worlds], dtype=np.float64),
        "latency": np.concatenate([world.latency for world in worlds], dtype=np.float64),
    }
    _launch(graph, run, device.put(rows) | answers, [world.name for world in worlds])
    start, finish, makespan = (device.numpy(answer) for answer in answers.values())
    start = start.reshape(count, tasks)[:, graph.node]
    finish = finish.reshape(count, tasks)[:, graph.node]
    _raise_starved(worlds, finish)
    carried = graph.arrays["link_bytes"]
    return [
        timeline(world, start[index], finish[index], carried, float(makespan[index]))
        for index, world in enumerate(worlds)
    ]


def _raise_starved(worlds: Sequence[World], finish: Array) -> None:
    starved = np.isinf(finish)
    failures = [
        f"{world.name}: every flow must get bandwidth, got none for {world.graph.where(int(row.argmax()))}"
        for world, row in zip(worlds, starved, strict=True)
        if row.any()
    ]
    if failures:
        raise ValueError("; ".join(failures))
