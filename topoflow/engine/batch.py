"""Worlds laid end to end in flat arrays, as the kernels read them.

Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links. Worlds that share a graph (the same
object, or equal arrays) share its copy in the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Graph, World

Array = NDArray[Any]

GRAPH_ARRAYS: dict[str, type[np.generic]] = {
    "delay": np.float64,
    "bytes": np.float64,
    "release": np.float64,
    "path": np.int32,
    "after_offsets": np.int64,
    "after": np.int32,
    "path_offsets": np.int64,
    "path_links": np.int32,
}


@dataclass(frozen=True)
class Batch:
    """What one launch of a kernel runs: ``arrays`` by the names that ``csrc/fluid/batch.h`` gives them."""

    worlds: tuple[World, ...]
    graphs: tuple[Graph, ...]  # [G], no two equal
    graph_of: tuple[int, ...]  # [W] index into graphs
    arrays: dict[str, Array]


def pack(worlds: Sequence[World]) -> Batch:
    """A batch of these worlds; raises ``ValueError`` where an array breaks a law of ``Graph`` or ``World``."""
    graphs, graph_of = _distinct_graphs(worlds)
    for world in worlds:
        _check_links(world)
    tasks = np.array([world.graph.tasks for world in worlds], dtype=np.int64)
    arrays = _concatenate(graphs)
    arrays |= {
        "graph": np.array(graph_of, dtype=np.int32),
        "order": np.argsort(-tasks, kind="stable").astype(np.int32),
        "task_offsets": _offsets(tasks),
        "link_offsets": _offsets([world.graph.links for world in worlds]),
        "capacity": np.concatenate([world.capacity for world in worlds], dtype=np.float64),
        "latency": np.concatenate([world.latency for world in worlds], dtype=np.float64),
        "start": np.empty(tasks.sum()),
        "finish": np.empty(tasks.sum()),
        "status": np.zeros(len(worlds), dtype=np.int32),
        "cancel": np.zeros(1, dtype=np.int32),
    }
    return Batch(tuple(worlds), tuple(graphs), tuple(graph_of), arrays)


def pieces(worlds: Sequence[World], budget: int) -> Iterator[Sequence[World]]:
    """Cut a batch, in order, into pieces whose arrays take at most ``budget`` bytes (a larger world goes alone)."""
    first, taken = 0, 0
    seen: set[int] = set()
    for index, world in enumerate(worlds):
        need = 16 * (world.graph.tasks + world.graph.links)
        need += 0 if id(world.graph) in seen else sum(getattr(world.graph, name).nbytes for name in GRAPH_ARRAYS)
        if index > first and taken + need > budget:
            yield worlds[first:index]
            first, taken = index, 0
            seen.clear()
        taken += need
        seen.add(id(world.graph))
    if first < len(worlds):
        yield worlds[first:]


def _distinct_graphs(worlds: Sequence[World]) -> tuple[list[Graph], list[int]]:
    by_identity: dict[int, int] = {}
    by_content: dict[bytes, int] = {}
    graphs: list[Graph] = []
    for world in worlds:
        graph = world.graph
        if id(graph) in by_identity:
            continue
        _check_graph(world.name, graph)
        index = by_content.setdefault(_digest(graph), len(graphs))
        if index == len(graphs):
            graphs.append(graph)
        by_identity[id(graph)] = index
    return graphs, [by_identity[id(world.graph)] for world in worlds]


def _digest(graph: Graph) -> bytes:
    """Graphs with the same digest run alike (owners do not matter to the kernels)."""
    digest = hashlib.blake2b(str((graph.tasks, graph.links)).encode())
    for name, dtype in GRAPH_ARRAYS.items():
        array = np.ascontiguousarray(getattr(graph, name), dtype=dtype)
        digest.update(str(len(array)).encode())
        digest.update(array.data)
    return digest.digest()


def _concatenate(graphs: Sequence[Graph]) -> dict[str, Array]:
    tasks = _offsets([graph.tasks for graph in graphs])
    dependencies = _offsets([len(graph.after) for graph in graphs])
    paths = _offsets([len(graph.path_offsets) - 1 for graph in graphs])
    hops = _offsets([len(graph.path_links) for graph in graphs])
    if tasks[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"batch: must have at most {np.iinfo(np.int32).max} tasks, got {tasks[-1]}")
    shift = {"after": tasks, "after_offsets": dependencies, "path_offsets": hops}
    arrays: dict[str, Array] = {"graph_task_offsets": tasks, "path_base": paths}
    for name, dtype in GRAPH_ARRAYS.items():
        parts = [np.asarray(getattr(graph, name), dtype=dtype) for graph in graphs]
        if name in shift:
            parts = [part + dtype(by) for part, by in zip(parts, shift[name], strict=False)]
        if name.endswith("_offsets"):  # a graph's end is the next one's beginning
            parts = [parts[0][:1], *(part[1:] for part in parts)]
        arrays[name] = np.concatenate(parts)
    return arrays


def _offsets(counts: Sequence[int] | Array) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _check_graph(name: str, graph: Graph) -> None:
    """What the kernels rely on. A graph that goes round in circles is found while it runs."""
    tasks = graph.tasks
    for field in ("delay", "bytes", "release", "path", "owner"):
        _check_length(f"{name}.{field}", getattr(graph, field), "T", tasks)
    for field in ("delay", "bytes", "release"):
        _check_range(f"{name}.{field}", getattr(graph, field), 0, np.finfo(np.float64).max)
    paths = max(len(graph.path_offsets) - 1, 0)
    _check_offsets(f"{name}.after_offsets", graph.after_offsets, "T", tasks, len(graph.after))
    _check_offsets(f"{name}.path_offsets", graph.path_offsets, "P", paths, len(graph.path_links))
    _check_range(f"{name}.after", graph.after, 0, tasks - 1)
    _check_range(f"{name}.path", graph.path, -1, paths - 1)
    _check_range(f"{name}.path_links", graph.path_links, 0, graph.links - 1)
    _check_range(f"{name}.owner", graph.owner, 0, graph.owners - 1)
    homeless = np.flatnonzero((graph.bytes > 0) & (graph.path < 0))
    if homeless.size:
        raise ValueError(f"{name}.path[{homeless[0]}]: a task with bytes must have a path, got -1")


def _check_links(world: World) -> None:
    for field in ("capacity", "latency"):
        _check_length(f"{world.name}.{field}", getattr(world, field), "L", world.graph.links)
        _check_range(f"{world.name}.{field}", getattr(world, field), 0, np.finfo(np.float64).max)


def _check_length(where: str, array: Array, symbol: str, expected: int) -> None:
    if array.shape != (expected,):
        raise ValueError(f"{where}: expected [{symbol}] = [{expected}], got {list(array.shape)}")


def _check_range(where: str, array: Array, low: float, high: float) -> None:
    wrong = np.flatnonzero(~((array >= low) & (array <= high)))
    if wrong.size:
        limit = f"in {low:g}..{high:g}" if high < np.finfo(np.float64).max else "finite and not negative"
        raise ValueError(f"{where}[{wrong[0]}]: must be {limit}, got {array[wrong[0]]}")


def _check_offsets(where: str, offsets: Array, symbol: str, rows: int, end: int) -> None:
    _check_length(where, offsets, f"{symbol}+1", rows + 1)
    if offsets[0] != 0 or offsets[-1] != end or np.any(np.diff(offsets) < 0):
        raise ValueError(f"{where}: must rise from 0 to {end}, got {offsets[0]} to {offsets[-1]}")
