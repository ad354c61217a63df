"""The ``fluid`` fidelity: exact max-min fair sharing, event by event, for a batch of worlds at once.

``topoflow.engine.base`` states the model, ``topoflow.engine.reference`` spells it out in plain Python, ``csrc/fluid``
is what runs. On a CPU every thread runs one world at a time, on a GPU every thread block does.

Shapes: W worlds, T tasks, L links, K traffic tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from topoflow.engine.base import Floats, Graph, Timeline, World
from topoflow.engine.batch import Batch, pack, pieces

try:
    from topoflow import _C
except ImportError as error:
    raise ImportError(f"topoflow._C: must be built, run `pip install .` ({error})") from error

MEMORY = 2**31  # B for the arrays of one launch, and as much again for the state of its teams
MOST_THREADS = 1024  # OpenMP gives up beyond some thousands
POLL = 0.1  # s between two calls of progress

Progress = Callable[[int], None]


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
    return _simulate(worlds, device=device, progress=progress, memory=MEMORY, merge=merge, threads=threads)


def _simulate(
    worlds: Sequence[World],
    *,
    device: str,
    progress: Progress | None,
    memory: int,
    merge: float = 0.0,
    threads: int | None = None,
) -> list[Timeline]:
    _check_device(device)
    _check_settings(merge, threads)
    timelines: list[Timeline] = []
    for piece in pieces(worlds, memory):
        batch = pack(piece)
        tell = None if progress is None else _after(len(timelines), progress)
        (_run_on_cpu if device == "cpu" else _run_on_cuda)(batch, tell, memory, merge, threads or 0)
        _raise_unfinished(batch)
        timelines += _timelines(batch)
    return timelines


def _after(earlier: int, progress: Progress) -> Progress:
    """Progress of one piece as progress of the whole."""
    return lambda done: progress(earlier + done)


def _check_device(device: str) -> None:
    if device == "cpu":
        return
    if device != "cuda":
        raise ValueError(f"device: must be cpu or cuda, got {device!r}")
    if not _C.has_cuda:
        raise ValueError("device: topoflow._C must be built with nvcc on the path to run on 'cuda', got a CPU build")
    try:
        import torch
    except ImportError:
        raise ValueError("device: 'cuda' needs torch, run `pip install 'topoflow[torch]'`") from None
    if not torch.cuda.is_available():
        raise ValueError("device: 'cuda' needs a GPU that torch sees, got none")


def _check_settings(merge: float, threads: int | None) -> None:
    if not 0 <= merge < 1:
        raise ValueError(f"merge: must be in [0, 1), got {merge!r}")
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"threads: must be None or in 1..{MOST_THREADS}, got {threads!r}")


def _run_on_cpu(batch: Batch, progress: Progress | None, memory: int, merge: float, threads: int) -> None:
    """Run in a thread of its own, so that progress is told and Ctrl-C heard while the kernel runs."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(_C.simulate, batch.arrays, memory, 0, merge, threads)
        try:
            while not wait([running], timeout=POLL).done:
                if progress is not None:
                    progress(int(np.count_nonzero(batch.arrays["status"])))
        except BaseException:
            batch.arrays["cancel"][0] = 1
            raise
    running.result()
    if progress is not None:
        progress(len(batch.worlds))


def _run_on_cuda(batch: Batch, progress: Progress | None, memory: int, merge: float, threads: int) -> None:
    """Copy to the current device, run on the current stream, copy the answers back."""
    import torch

    arrays: dict[str, Any] = {name: torch.from_numpy(array).cuda() for name, array in batch.arrays.items()}
    stream = torch.cuda.current_stream().cuda_stream
    _C.simulate(arrays, memory, stream, merge, threads)
    for name in ("start", "finish", "status"):
        batch.arrays[name][:] = arrays[name].cpu().numpy()
    if progress is not None:
        progress(len(batch.worlds))


def _raise_unfinished(batch: Batch) -> None:
    status, bounds = batch.arrays["status"], batch.arrays["task_offsets"]
    failures = []
    for index in np.flatnonzero(status != _C.DONE):
        tasks = slice(bounds[index], bounds[index + 1])
        stuck = int(np.flatnonzero(np.isinf(batch.arrays["finish"][tasks]))[0])
        law, got = {
            _C.STARVED: ("every flow must get bandwidth", "none"),
            _C.DEADLOCK: ("every task must become ready", "an endless wait"),
        }[int(status[index])]
        failures.append(f"{batch.worlds[index].name}: {law}, got {got} for task {stuck}")
    if failures:
        raise ValueError("; ".join(failures))


def _timelines(batch: Batch) -> list[Timeline]:
    bounds = batch.arrays["task_offsets"]
    link_bytes = [_link_bytes(graph) for graph in batch.graphs]
    timelines = []
    for index, world in enumerate(batch.worlds):
        tasks = slice(bounds[index], bounds[index + 1])
        start, finish = batch.arrays["start"][tasks], batch.arrays["finish"][tasks]
        first, last = _of_owners(world.graph, start, finish)
        carried = link_bytes[batch.graph_of[index]]
        timelines.append(Timeline(world.name, start, finish, carried, first, last))
    return timelines


def _link_bytes(graph: Graph) -> Floats:
    """Bytes that each link carries, [L]: those of every task, for every hop of its path."""
    paths = len(graph.path_offsets) - 1
    on_network = graph.path >= 0
    of_path = np.bincount(graph.path[on_network], weights=graph.bytes[on_network], minlength=paths)
    of_hop = np.repeat(of_path, np.diff(graph.path_offsets))
    return np.bincount(graph.path_links, weights=of_hop, minlength=graph.links).astype(np.float64)


def _of_owners(graph: Graph, start: Floats, finish: Floats) -> tuple[Floats, Floats]:
    """First start and last finish of the parts of each traffic task, [K] and [K]; 0 for one without parts."""
    first, last = np.full(graph.owners, np.inf), np.zeros(graph.owners)
    np.minimum.at(first, graph.owner, start)
    np.maximum.at(last, graph.owner, finish)
    return np.where(np.isinf(first), 0.0, first), last
