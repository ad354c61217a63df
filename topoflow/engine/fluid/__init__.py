"""The ``fluid`` fidelity: exact max-min fair sharing, event by event, for a batch of worlds at once.

``topoflow.engine.base`` states the model, ``topoflow.engine.fluid.reference`` spells it out in plain Python,
``csrc/fluid`` is what runs. On a CPU every thread runs one world at a time, on a GPU every thread block does.

    simulate    worlds of any graphs, in numpy arrays; a Timeline of each
    pause       one world up to a time; what is left then
    sweep       worlds of one graph, whose links' numbers are rows of one array on any device; arrays of all

Shapes: W worlds, T tasks, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from topoflow import _C
from topoflow.engine.base import Graph, Pause, Timeline, World
from topoflow.engine.checks import check_merge
from topoflow.engine.device import Home, home, links_of
from topoflow.engine.fluid.batch import Batch, pack, pieces
from topoflow.engine.launch import MEMORY, Progress, count_threads, run
from topoflow.engine.timelines import link_bytes, timeline


def simulate(
    worlds: Sequence[World],
    *,
    device: str = "cpu",
    progress: Progress | None = None,
    merge: float = 0.0,
    threads: int | None = None,
) -> list[Timeline]:
    """When every task of every world ran, in the order of ``worlds``.

    The answer does not depend on the number of threads, nor on which worlds share the batch. A batch larger
    than the memory is cut into pieces. ``device`` is "cpu", or "cuda" (needs torch and a GPU). ``progress`` is
    called now and then with the number of worlds that are done. Ends within the relative time ``merge`` of the
    earliest are one event: 0 is exact, 0.001 saves events where many flows end almost together. ``threads`` of the
    CPU run worlds, None: all that it has.

    Raises ``ValueError`` naming the worlds in which a flow has no bandwidth or a task waits for ever, or whose
    arrays break a law of ``Graph``.
    """
    where, settings = home(device), _Settings(merge, count_threads(threads))
    timelines: list[Timeline] = []
    for piece in pieces(worlds, MEMORY):
        batch = pack(piece)
        _run(batch, where, settings, None if progress is None else partial(_tell, progress, len(timelines)))
        _raise_unfinished(batch)
        timelines += _timelines(batch)
    return timelines


def pause(world: World, until: float, *, device: str = "cpu", merge: float = 0.0, threads: int | None = None) -> Pause:
    """Where ``world`` is at ``until`` (s): all events up to then have happened, none behind it.

    ``engine.dynamic.reference`` makes the world of what is left. A flow without bandwidth is no error, it waits for
    another world; all else is as in ``simulate``.
    """
    if not 0 <= until < np.inf:
        raise ValueError(f"{world.name}.until: must be finite and not negative, got {until}")
    batch = pack([world])
    batch.arrays["until"] = np.array([until], np.float64)
    batch.arrays["left"] = np.zeros(world.graph.tasks)
    _run(batch, home(device), _Settings(merge, count_threads(threads)), None)
    _raise_unfinished(batch)
    return Pause(until, *(batch.arrays[name] for name in ("start", "finish", "left")))


@dataclass(frozen=True)
class Sweep:
    """When every task ran in W worlds of one graph: arrays like those of the links' numbers, where those are.

    In a world whose ``status`` is not ``topoflow._C.DONE``, the tasks that never ended, and the makespan, are inf.
    """

    start: Any  # [W, T] s, when the task was ready
    finish: Any  # [W, T] s
    status: Any  # [W] int32: DONE; STARVED, a flow has no bandwidth; DEADLOCK, a task waits for ever
    makespan: Any  # [W] s, the last finish


def sweep(graph: Graph, capacity: Any, latency: Any = None, *, merge: float = 0.0, threads: int | None = None) -> Sweep:
    """Worlds of one graph that differ in their links' numbers: ``capacity`` [W, L] B/s and ``latency`` [W, L] s (0).

    Arrays are numpy's or torch's, float64, on any device; nothing is copied, torch's current stream is used, and
    the answers are of the same kind and in the same place. (Other objects that speak DLPack come back as torch's.)
    The graph's arrays are copied to a GPU once for each call; the kernel's own state takes at most ``MEMORY``. A
    world that cannot run to its end is no error: its status says why. ``merge`` and ``threads`` are those of
    ``simulate``.

    Raises ``ValueError`` for a shape, dtype, device or number that breaks a law, or a graph that does.
    """
    settings = _Settings(merge, count_threads(threads))
    where, capacity, latency = links_of(graph.links, capacity, latency)
    count = len(capacity)
    latency = where.zeros(*capacity.shape) if latency is None else latency
    arrays = where.put(_of_graph(graph, count))
    start, finish = where.zeros(count, graph.tasks), where.zeros(count, graph.tasks)
    arrays |= {"capacity": capacity.reshape(-1), "latency": latency.reshape(-1)}
    arrays |= {"start": start.reshape(-1), "finish": finish.reshape(-1), "status": where.zeros(count, dtype="int32")}
    arrays["cancel"] = where.flag()
    if count:
        run(partial(_C.simulate, arrays, MEMORY, where.stream, settings.merge, settings.threads), arrays["cancel"])
    return Sweep(start, finish, arrays["status"], where.largest(finish))


@dataclass(frozen=True)
class _Settings:
    merge: float
    threads: int  # 0: all

    def __post_init__(self) -> None:
        check_merge("merge", self.merge)


def _tell(progress: Progress, earlier: int, done: int) -> None:
    """Progress of one piece as progress of the whole."""
    progress(earlier + done)


def _run(batch: Batch, where: Home, settings: _Settings, progress: Progress | None) -> None:
    """Copy to where it runs, run, copy the answers back; on a CPU nothing is copied."""
    arrays = where.put(batch.arrays) | {"cancel": where.flag()}

    def poll() -> None:
        if progress is not None and not where.on_cuda:  # a GPU is not interrupted to be asked
            progress(int(np.count_nonzero(batch.arrays["status"])))

    kernel = partial(_C.simulate, arrays, MEMORY, where.stream, settings.merge, settings.threads)
    run(kernel, arrays["cancel"], poll)
    if where.on_cuda:
        for name in ("start", "finish", "status", *(["left"] if "left" in arrays else [])):
            batch.arrays[name][:] = where.numpy(arrays[name])
    if progress is not None:
        progress(len(batch.worlds))


def _of_graph(graph: Graph, count: int) -> dict[str, Any]:
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


def _raise_unfinished(batch: Batch) -> None:
    status, bounds = batch.arrays["status"], batch.arrays["task_offsets"]
    failures = []
    for index in np.flatnonzero((status != _C.DONE) & (status != _C.PAUSED)):
        tasks = slice(bounds[index], bounds[index + 1])
        stuck = int(np.flatnonzero(np.isinf(batch.arrays["finish"][tasks]))[0])
        law, got = {
            _C.STARVED: ("every flow must get bandwidth", "none"),
            _C.DEADLOCK: ("every task must become ready", "an endless wait"),
            _C.NOT_CONVERGED: ("rates must be found in a bounded number of steps", "more"),
        }[int(status[index])]
        failures.append(f"{batch.worlds[index].name}: {law}, got {got} for task {stuck}")
    if failures:
        raise ValueError("; ".join(failures))


def _timelines(batch: Batch) -> list[Timeline]:
    bounds = batch.arrays["task_offsets"]
    carried = [link_bytes(graph) for graph in batch.graphs]
    timelines = []
    for index, world in enumerate(batch.worlds):
        tasks = slice(bounds[index], bounds[index + 1])
        start, finish = batch.arrays["start"][tasks], batch.arrays["finish"][tasks]
        timelines.append(timeline(world, start, finish, carried[batch.graph_of[index]]))
    return timelines
