"""The ``fluid`` fidelity: exact max-min fair sharing, event by event, for a batch of worlds at once.

``topoflow.engine.base`` states the model, ``tests.twins.fluid`` spells it out in plain Python,
``csrc/fluid`` is what runs. On a CPU every thread runs one world at a time, on a GPU every warp does.

    Fluid    the fidelity: worlds of any graphs; a Timeline of each
    pause    one world up to a time; what is left then
    sweep    worlds of one graph, whose links' numbers are rows of one array on any device; arrays of all

Shapes: W worlds, T tasks, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from topoflow import _C
from topoflow.engine.base import AUTO, LoweredGraph, Pause, Run, Timeline, World
from topoflow.engine.checks import check_accepted, refuses_addresses
from topoflow.engine.device import DeviceMemory, links_of
from topoflow.engine.dynamic import reconfigure
from topoflow.engine.fluid.batch import ANSWERS, GRAPHS, SHARED, FluidBatch, pack, pieces
from topoflow.engine.fluid.precision import check_rows
from topoflow.engine.launch import Kernel, Steps, count_threads, in_pieces, launch
from topoflow.engine.observer import PartialObserver, Silent
from topoflow.engine.simulation import simulate_each
from topoflow.engine.timelines import link_bytes, timeline

# Beyond this many sends that may run at the same time, ``merge`` is ``MERGE`` where it is "auto". Sends that wait for
# other sends, as in rings and trees, do not count: merging saves little there, and rounding is amplified along chains.
MAX_EXACT = 2**17
MERGE = 0.0003  # measured: the makespan is at most 0.034 % off (benchmarks/results/fluid_merge.txt)


@dataclass(frozen=True)
class Fluid:
    """Transfers share links max-min fairly.

    A transfer that would end at most ``merge`` times as long as it has lasted after another one ends in the same event.
    0 is exact, larger values save events where many transfers end almost together, and "auto" is 0 in a world of at
    most ``MAX_EXACT`` concurrent sends and ``MERGE`` in others. Where circuits change while a job runs, the flows
    follow them (``topoflow.engine.dynamic.reconfigure``), on the CPU.
    """

    merge: float | str = 0.0

    name: ClassVar[str] = "fluid"
    lower_bound_of: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.merge != AUTO:
            checked(self.merge)

    def decided(self, sends: int) -> Fluid:
        """Return the same with ``merge`` a number: where it is "auto", the one for this number of concurrent sends."""
        if self.merge != AUTO:
            return self
        return replace(self, merge=MERGE if sends > MAX_EXACT else 0.0)

    def refuses(self, world: World) -> str | None:
        """Worlds whose routers forward by address: their paths are unknown."""
        return refuses_addresses(world, self.name)

    def keeps_bound(self, world: World) -> bool:
        """Return whether it is exact for ``world``: merged events let tasks end early, by no known share."""
        return not world.changes_circuits and self.decided(_concurrent_sends(world.graph)).merge == 0

    def pause(self, world: World, until: float, run: Run = Run()) -> Pause:
        """Return the state of ``world`` at ``until`` (s), as ``pause`` does. Circuits do not change meanwhile."""
        return pause(world, until, merge=float(self.decided(_concurrent_sends(world.graph)).merge), run=run)

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """Return when every task of every world ran, in the order of ``worlds``.

        The answer does not depend on the number of threads, nor on which worlds share the batch. A batch larger than
        the memory is cut into pieces.

        Raises ``ValueError`` for a world that it refuses, and one that names the worlds in which a flow has no
        bandwidth or a task waits forever.
        """
        check_accepted(self, worlds)
        if self.merge == AUTO:
            return simulate_each([(world, self.decided(_concurrent_sends(world.graph))) for world in worlds], run)
        merge = checked(self.merge)
        changing = [number for number, world in enumerate(worlds) if world.changes_circuits]
        static = [number for number, world in enumerate(worlds) if not world.changes_circuits]
        timeline_of: dict[int, Timeline] = {}
        for number in changing:
            timeline_of[number] = reconfigure.simulate(worlds[number], merge=merge).timeline
            run.observer.advance(len(timeline_of), len(worlds))
        observer = PartialObserver(run.observer, len(changing), len(worlds))
        steps = partial(_steps, run=run, merge=merge)
        timelines = in_pieces([worlds[number] for number in static], run.device, observer, pieces, steps)
        timeline_of |= dict(zip(static, timelines, strict=True))
        return [timeline_of[number] for number in range(len(worlds))]


def _steps(worlds: Sequence[World], device: DeviceMemory, run: Run, merge: float) -> Steps[list[Timeline]]:
    batch = pack(worlds)
    yield from _run(batch, device, run, merge)
    _raise_unfinished(batch)
    return _timelines(batch)


def checked(merge: object) -> float:
    """A number of ``merge``. Raises ``ValueError`` for another."""
    if not isinstance(merge, int | float) or isinstance(merge, bool) or not 0 <= merge < 1:
        raise ValueError(f"fluid.merge: must be a number in [0, 1) or {AUTO}, got {merge!r}")
    return merge


def _concurrent_sends(graph: LoweredGraph) -> int:
    """Return the number of sends that wait for no other send: an estimate of how many run at the same time."""
    sends = graph.path >= 0
    if np.count_nonzero(sends) <= MAX_EXACT:
        return int(np.count_nonzero(sends))
    awaited = np.concatenate(([0], np.cumsum(sends[graph.after], dtype=np.int32)))[graph.after_offsets]
    return int(np.count_nonzero(sends & (np.diff(awaited) == 0)))


def pause(world: World, until: float, *, merge: float = 0.0, run: Run = Run()) -> Pause:
    """Return the state of ``world`` at ``until`` (s): all events up to then have happened, none after it.

    ``engine.dynamic.reference`` makes the world of what is left. A flow without bandwidth is no error, it waits for
    another world; all else is as in ``Fluid.simulate``.
    """
    if not 0 <= until < np.inf:
        raise ValueError(f"{world.name}.until: must be finite and not negative, got {until}")
    merge = checked(merge)

    def steps(worlds: Sequence[World], device: DeviceMemory) -> Steps[list[Pause]]:
        batch = pack(worlds)
        yield from _run(batch, device, run, merge)
        _raise_unfinished(batch)
        start, finish, left = (batch.arrays[name] for name in ("start", "finish", "left"))
        return [Pause(until, start, finish, left)]

    return in_pieces([replace(world, until=until)], run.device, Silent(), pieces, steps)[0]


@dataclass(frozen=True)
class Sweep:
    """The times of every task in W worlds of one graph, in arrays on the device of the links' numbers.

    In a world whose ``status`` is not ``topoflow._C.DONE``, the tasks that never ended, and the makespan, are inf.
    """

    start: Any  # [W, T] s, when the task was ready
    finish: Any  # [W, T] s
    status: Any  # [W] int32: DONE; STARVED, a flow has no bandwidth; DEADLOCK, a task waits forever
    makespan: Any  # [W] s, the last finish


def sweep(
    graph: LoweredGraph, capacity: Any, latency: Any = None, *, merge: float = 0.0, threads: int | None = None
) -> Sweep:
    """Simulate worlds of one graph that differ in their links: ``capacity`` [W, L] B/s and ``latency`` [W, L] s (0).

    Arrays are numpy's or torch's, float64, on any device; nothing is copied, torch's current stream is used, and
    the answers are of the same kind and in the same place. (Other objects that speak DLPack come back as torch's.)
    The graph's arrays are copied to a GPU once for each call; the kernel's own state takes at most
    ``DeviceMemory.memory``. A world that cannot run to its end is no error: its status says why. ``merge`` and
    ``threads`` are those of ``Fluid`` and ``Run``.

    Where ``capacity`` or ``latency`` requires a gradient, start, finish and makespan have one
    (``topoflow.engine.fluid.gradient``), without ``merge``; it is 0 for a world that cannot end.

    Raises ``ValueError`` for a shape, dtype, device or number that breaks a law, a graph that does, and for gradients
    of a graph whose tasks occupy resources.
    """
    merge, team = checked(merge), count_threads(threads)
    differentiable = [array for array in (capacity, latency) if getattr(array, "requires_grad", False)]
    inputs = capacity, latency
    device, capacity, latency = links_of(graph.links, capacity, latency)
    check_rows(graph, capacity, device)
    latency = device.zeros(*capacity.shape) if latency is None else latency
    launched = partial(_launched, graph, device, merge, team)
    if differentiable and merge > 0:
        raise ValueError(f"merge: must be 0 for gradients, got {merge}")
    if differentiable and graph.resource is not None:
        raise ValueError("graph.resource: must be None for gradients, got tasks that occupy resources")
    if differentiable:
        from topoflow.engine.fluid.gradient import ends

        start, finish, status = ends(inputs[0], latency if inputs[1] is None else inputs[1], launched, team)
    else:
        arrays = launched(capacity, latency)
        start, finish, status = arrays["start"], arrays["finish"], device.here(arrays["status"])
    finish = finish.reshape(len(capacity), graph.tasks)
    return Sweep(start.reshape(finish.shape), finish, status, device.largest(finish))


def _launched(
    graph: LoweredGraph, device: DeviceMemory, merge: float, threads: int, capacity: Any, latency: Any
) -> dict[str, Any]:
    """The arrays of a launch after it, of worlds of one graph on links with these numbers [W, L]."""
    count = len(capacity)
    arrays = device.put(_of_graph(graph, count))
    arrays |= {"capacity": capacity.reshape(-1), "latency": latency.reshape(-1)}
    arrays |= {name: device.zeros(count * graph.tasks) for name in ("start", "finish")}
    arrays |= {"status": device.shared(count), "cancel": device.flag()}
    if count:
        launch(_kernel(arrays, device, merge, threads, [f"world {index}" for index in range(count)]), device)
    return arrays


def _run(batch: FluidBatch, device: DeviceMemory, run: Run, merge: float) -> Steps[None]:
    """Copy to where it runs, run, copy the answers back; in numpy's memory nothing is copied."""
    arrays = batch.arrays
    if device.torch is not None:
        graphs = {name: arrays[name] for name in GRAPHS}
        worlds = {name: arrays[name] for name in arrays if name not in (*GRAPHS, *ANSWERS, *SHARED)}
        arrays = {name: device.zeros(len(arrays[name])) for name in ANSWERS}
        arrays |= run.cache.get("fluid", device, batch.graphs, partial(device.put, graphs)) | device.put(worlds)
        arrays |= {name: device.shared(len(batch.arrays[name])) for name in SHARED}
    yield _kernel(arrays, device, merge, count_threads(run.threads), [world.name for world in batch.worlds])
    if device.torch is not None:
        for name in ANSWERS:
            batch.arrays[name][:] = device.numpy(arrays[name])
        batch.arrays["status"][:] = np.asarray(arrays["status"])


def _kernel(arrays: dict[str, Any], device: DeviceMemory, merge: float, threads: int, names: Sequence[str]) -> Kernel:
    status = np.asarray(arrays["status"])

    def running() -> list[str]:
        return [names[index] for index in np.flatnonzero(status == _C.RUNNING).tolist()]

    def done() -> int:
        return int(np.count_nonzero((status != _C.PENDING) & (status != _C.RUNNING)))

    kernel = partial(_C.simulate, arrays, device.memory, device.stream, merge, threads)
    return Kernel(kernel, arrays["cancel"], running, done)


def _of_graph(graph: LoweredGraph, count: int) -> dict[str, Any]:
    """The arrays of a batch of ``count`` worlds of one graph, but for the links' numbers and the answers."""
    nothing = np.zeros(graph.links)
    arrays = pack([World("graph", graph, nothing, nothing)], all_links=True).arrays
    arrays |= {
        "graph": np.zeros(count, np.int32),
        "order": np.arange(count, dtype=np.int32),
        "task_offsets": np.arange(count + 1) * graph.tasks,
        "link_offsets": np.arange(count + 1) * graph.links,
    }
    return {name: arrays[name] for name in arrays if name not in ("capacity", "latency", "start", "finish", "status")}


def _raise_unfinished(batch: FluidBatch) -> None:
    status, bounds = batch.arrays["status"], batch.arrays["task_offsets"]
    failures = []
    for index in np.flatnonzero((status != _C.DONE) & (status != _C.PAUSED)):
        tasks = slice(bounds[index], bounds[index + 1])
        stuck = int(np.flatnonzero(np.isinf(batch.arrays["finish"][tasks]))[0])
        requirement, got = {
            _C.STARVED: ("every flow must get bandwidth", "none"),
            _C.DEADLOCK: ("every task must become ready", "an endless wait"),
            _C.NOT_CONVERGED: ("rates must be found in a bounded number of steps", "more"),
        }[int(status[index])]
        world = batch.worlds[index]
        failures.append(f"{world.name}: {requirement}, got {got} for {world.graph.where(stuck)}")
    if failures:
        raise ValueError("; ".join(failures))


def _timelines(batch: FluidBatch) -> list[Timeline]:
    bounds = batch.arrays["task_offsets"]
    carried = [link_bytes(graph) for graph in batch.graphs]
    timelines = []
    for index, world in enumerate(batch.worlds):
        tasks = slice(bounds[index], bounds[index + 1])
        start, finish = batch.arrays["start"][tasks], batch.arrays["finish"][tasks]
        timelines.append(timeline(world, start, finish, carried[batch.graph_of[index]]))
    return timelines
