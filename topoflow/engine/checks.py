"""What a world must be before it is run: every error names the world, the place, the law and the value.

Shapes: T tasks, D dependencies, P paths, H hops, L links. Tasks that wait for each other in a circle and flows without
bandwidth are found by the kernels, which give such worlds a status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Graph, World

Array = NDArray[Any]

MOST = 2**31 - 1  # tasks, dependencies, paths, hops of a batch, links of a world: the kernels number them in 32 bits
LEAST_WEIGHT = 1e-6  # the kernels keep weights to 2^-60: this one to 1e-12 of itself


def counts(graph: Graph) -> dict[str, int]:
    """What the kernels number."""
    paths = len(graph.path_offsets) - 1
    return {"tasks": graph.tasks, "dependencies": len(graph.after), "paths": paths, "hops": len(graph.path_links)}


def check_counts(where: str, counts: Mapping[str, int]) -> None:
    """Raise ``ValueError`` for what is too large, before anybody looks at its elements."""
    for what, count in counts.items():
        if count > MOST:
            raise ValueError(f"{where}: must have less than 2^31 {what}, got {count}")


def check_graph(name: str, graph: Graph) -> None:
    """Raise ``ValueError`` where a graph of the world ``name`` breaks a law that the kernels rely on."""
    check_counts(name, {**counts(graph), "links": graph.links})
    tasks, paths = graph.tasks, max(len(graph.path_offsets) - 1, 0)
    for field in ("delay", "bytes", "release", "path", "owner"):
        _check_length(f"{name}.{field}", getattr(graph, field), "T", tasks)
    for field in ("delay", "bytes", "release"):
        _check_finite(f"{name}.{field}", getattr(graph, field))
    _check_offsets(f"{name}.after_offsets", graph.after_offsets, "T", tasks, len(graph.after))
    _check_offsets(f"{name}.path_offsets", graph.path_offsets, "P", paths, len(graph.path_links))
    _check_range(f"{name}.after", graph.after, 0, tasks - 1)
    _check_range(f"{name}.path", graph.path, -1, paths - 1)
    _check_range(f"{name}.path_links", graph.path_links, 0, graph.links - 1)
    _check_range(f"{name}.owner", graph.owner, 0, graph.owners - 1)
    if graph.rounds < 1 or (graph.rounds == 1 and graph.carried is not None):
        raise ValueError(f"{name}.rounds: must be at least {1 + (graph.carried is not None)}, got {graph.rounds}")
    if graph.carried is not None:
        _check_length(f"{name}.carried", np.zeros(len(graph.carried)), "2", 2)
        _check_range(f"{name}.carried", graph.carried.ravel(), 0, tasks - 1)
    _check_all(f"{name}.path", graph.path, (graph.bytes == 0) | (graph.path >= 0), "a task with bytes must have a path")
    _check_paths(name, graph)


def check_links(world: World) -> None:
    """Raise ``ValueError`` where capacities or latencies are not numbers for the links of the graph."""
    for field in ("capacity", "latency"):
        _check_length(f"{world.name}.{field}", getattr(world, field), "L", world.graph.links)
        _check_finite(f"{world.name}.{field}", getattr(world, field))


def refuses_rounds(world: World, fidelity: str) -> str | None:
    """Why a fidelity that needs every task cannot express ``world``; None: it has them."""
    if world.graph.rounds == 1:
        return None
    law = f"must be few enough to write all tasks of a job with fidelity={fidelity}"
    return f"workload.iterations: {law}, got {world.graph.rounds} of {world.graph.tasks} tasks in {world.name}"


def refuses_addresses(world: World, fidelity: str) -> str | None:
    """Why a fidelity that needs every task and whole paths cannot express ``world``; None: it has them."""
    if world.graph.rounds > 1:
        return refuses_rounds(world, fidelity)
    if world.graph.next_hops is None:
        return None
    return f"routing: must be of whole paths (ecmp, spray, ..) with fidelity={fidelity}, got {world.routing}"


def _check_paths(name: str, graph: Graph) -> None:
    hops = np.diff(graph.path_offsets)
    if graph.path_weight is not None:
        weight = graph.path_weight
        _check_length(f"{name}.path_weight", weight, "H", len(graph.path_links))
        _check_all(f"{name}.path_weight", weight, (weight >= LEAST_WEIGHT) & (weight <= 1), "must be in [1e-06, 1]")
    if graph.path_limit is not None:
        limit = graph.path_limit
        _check_length(f"{name}.path_limit", limit, "P", len(hops))
        _check_all(f"{name}.path_limit", limit, limit > 0, "must be positive")
        _check_all(f"{name}.path_limit", limit, (hops > 0) | np.isposinf(limit), "a path without links must have none")
    fits = len(hops) * graph.links <= MOST  # numbers of half the size are sorted in less than half the time
    firsts = np.arange(len(hops), dtype=np.int32 if fits else np.int64) * graph.links
    crossing = np.repeat(firsts, hops) + graph.path_links
    crossing.sort()
    again = np.flatnonzero(crossing[1:] == crossing[:-1])
    if again.size:
        path, link = divmod(int(crossing[again[0]]), graph.links)
        raise ValueError(f"{name}.path_links: path {path} must cross a link at most once, got link {link} again")


def _check_length(where: str, array: Array, symbol: str, expected: int) -> None:
    if array.shape != (expected,):
        raise ValueError(f"{where}: expected [{symbol}] = [{expected}], got {list(array.shape)}")


def _check_finite(where: str, array: Array) -> None:
    if array.size and not (array.min() >= 0 and array.max() < np.inf):  # no array of answers where all are right
        _check_all(where, array, (array >= 0) & (array < np.inf), "must be finite and not negative")


def _check_range(where: str, array: Array, low: int, high: int) -> None:
    if array.size and not (array.min() >= low and array.max() <= high):
        _check_all(where, array, (array >= low) & (array <= high), f"must be in {low}..{high}")


def _check_all(where: str, array: Array, fine: NDArray[np.bool_], law: str) -> None:
    if not fine.all():
        wrong = int(np.argmin(fine))
        raise ValueError(f"{where}[{wrong}]: {law}, got {array[wrong]}")


def _check_offsets(where: str, offsets: Array, symbol: str, rows: int, end: int) -> None:
    _check_length(where, offsets, f"{symbol}+1", rows + 1)
    if offsets[0] != 0 or offsets[-1] != end or np.any(np.diff(offsets) < 0):
        raise ValueError(f"{where}: must rise from 0 to {end}, got {offsets[0]} to {offsets[-1]}")
