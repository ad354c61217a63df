"""Worlds laid end to end in flat arrays, as the kernels read them.

Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links. Worlds that share a graph (the same
object, or equal arrays) share its copy in the batch. Links that no path of the graph crosses are left out: a small job
on a large network would mostly consist of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import offsets
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.checks import MAX_INT32, check_counts, counts
from topoflow.engine.fluid.precision import check_precision

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
# What a graph may lack, and its default in a batch with a graph that has it; empty where no graph of a batch has it.
OPTIONAL_ARRAYS = {"path_weight": 1.0, "path_limit": np.inf, "resource": -1}

# The arrays of a batch that its graphs alone say, those that the kernel writes, and those that the host may read or
# write meanwhile.
GRAPHS = (*GRAPH_ARRAYS, *OPTIONAL_ARRAYS, "graph_task_offsets", "path_base")
ANSWERS = ("start", "finish", "left")
SHARED = ("status", "cancel")


@dataclass(frozen=True)
class FluidBatch:
    """The worlds of one launch of a kernel: ``arrays`` by the names that ``csrc/fluid/batch.h`` gives them."""

    worlds: tuple[World, ...]
    graphs: tuple[LoweredGraph, ...]  # [G], no two equal
    graph_of: tuple[int, ...]  # [W] index into graphs
    arrays: dict[str, Array]


def pack(worlds: Sequence[World], *, all_links: bool = False) -> FluidBatch:
    """Return a batch of these worlds. Raises ``ValueError`` for one whose numbers are too far apart.

    ``all_links`` keeps those that no path crosses, for links' numbers that lie elsewhere.
    """
    graphs, graph_of = _distinct_graphs(worlds)
    tasks = np.array([world.graph.tasks for world in worlds], dtype=np.int64)
    arrays = _concatenate(graphs)
    crossed = [np.arange(graph.links) if all_links else _crossed(graph) for graph in graphs]
    arrays["path_links"] = _renumbered(graphs, crossed)
    links = [crossed[graph] for graph in graph_of]
    until = np.array([world.until for world in worlds], np.float64)
    until = until if np.isfinite(until).any() else np.zeros(0)  # none is paused
    arrays |= {
        "graph": np.array(graph_of, dtype=np.int32),
        "order": np.argsort(-tasks, kind="stable").astype(np.int32),
        "task_offsets": offsets(tasks),
        "link_offsets": offsets([len(crossed_links) for crossed_links in links]),
        "capacity": _of_links([world.capacity for world in worlds], links),
        "latency": _of_links([world.latency for world in worlds], links),
        "start": np.empty(tasks.sum()),
        "finish": np.empty(tasks.sum()),
        "status": np.zeros(len(worlds), dtype=np.int32),
        "until": until,
        "left": np.zeros(tasks.sum() if until.size else 0),
        "cancel": np.zeros(1, dtype=np.int32),
    }
    check_precision(worlds, graphs, graph_of, arrays["capacity"], arrays["link_offsets"])
    return FluidBatch(tuple(worlds), tuple(graphs), tuple(graph_of), arrays)


def pieces(worlds: Sequence[World], budget: int) -> Iterator[Sequence[World]]:
    """Cut a batch, in order, into pieces whose arrays take at most ``budget`` bytes and can be numbered in 32 bits.

    A world that is larger by itself goes alone.
    """
    filled = _optional_arrays([world.graph for world in worlds])
    limits = np.array([budget, MAX_INT32, MAX_INT32, MAX_INT32, MAX_INT32])
    first, used = 0, np.zeros_like(limits)
    seen_graphs: set[int] = set()
    for index, world in enumerate(worlds):
        total = used + _need(world, filled, new=id(world.graph) not in seen_graphs)
        if index > first and np.any(total > limits):
            yield worlds[first:index]
            first, total = index, _need(world, filled, new=True)
            seen_graphs.clear()
        used = total
        seen_graphs.add(id(world.graph))
    if first < len(worlds):
        yield worlds[first:]


def _need(world: World, filled: Sequence[str], *, new: bool) -> NDArray[np.int64]:
    """Return the bytes that a world adds to a batch, and its counts, [5]; ``new`` is whether it brings its graph."""
    graph = world.graph
    world_bytes = 16 * (graph.tasks + graph.links)
    if not new:
        return np.array([world_bytes, 0, 0, 0, 0])
    shared = sum(getattr(graph, name).nbytes for name in GRAPH_ARRAYS) + 8 * sum(_length(graph, n) for n in filled)
    return np.array([world_bytes + shared, *counts(graph).values()])


def _optional_arrays(graphs: Sequence[LoweredGraph]) -> list[str]:
    """Return the optional arrays that at least one of ``graphs`` has."""
    return [name for name in OPTIONAL_ARRAYS if any(getattr(graph, name) is not None for graph in graphs)]


def _length(graph: LoweredGraph, name: str) -> int:
    return {"path_weight": len(graph.path_links), "path_limit": len(graph.path_offsets) - 1}.get(name, graph.tasks)


def _dtype(name: str) -> type[np.generic]:
    return np.int32 if name == "resource" else np.float64


def _distinct_graphs(worlds: Sequence[World]) -> tuple[list[LoweredGraph], list[int]]:
    if len({id(world.graph) for world in worlds}) == 1:
        return [worlds[0].graph], [0] * len(worlds)
    by_identity: dict[int, int] = {}
    alike: dict[tuple[int, ...], list[int]] = {}
    graphs: list[LoweredGraph] = []
    for world in worlds:
        graph = world.graph
        if id(graph) in by_identity:
            continue
        candidates = alike.setdefault(_checksum(graph), [])
        index = next((candidate for candidate in candidates if _run_alike(graph, graphs[candidate])), len(graphs))
        if index == len(graphs):
            graphs.append(graph)
            candidates.append(index)
        by_identity[id(graph)] = index
    return graphs, [by_identity[id(world.graph)] for world in worlds]


def _checksum(graph: LoweredGraph) -> tuple[int, ...]:
    """Return a number that graphs that run alike share, and others almost never; a digest takes 5 times as long."""
    checksum = 0
    for name, dtype in (GRAPH_ARRAYS | {name: _dtype(name) for name in _optional_arrays([graph])}).items():
        checksum = zlib.crc32(np.ascontiguousarray(getattr(graph, name), dtype=dtype).data, checksum)
    return graph.tasks, graph.links, checksum


def _run_alike(first: LoweredGraph, second: LoweredGraph) -> bool:
    """Return whether the graphs are equal except for owners, which kernels do not read."""
    names = _optional_arrays([first])
    return (
        first.links == second.links
        and names == _optional_arrays([second])
        and all(np.array_equal(getattr(first, name), getattr(second, name)) for name in (*GRAPH_ARRAYS, *names))
    )


def _concatenate(graphs: Sequence[LoweredGraph]) -> dict[str, Array]:
    tasks = offsets([graph.tasks for graph in graphs])
    dependencies = offsets([len(graph.after) for graph in graphs])
    paths = offsets([len(graph.path_offsets) - 1 for graph in graphs])
    hops = offsets([len(graph.path_links) for graph in graphs])
    totals = {"tasks": tasks, "dependencies": dependencies, "paths": paths, "hops": hops}
    check_counts("batch", {quantity: int(offsets[-1]) for quantity, offsets in totals.items()})
    if len(graphs) == 1:  # a copy only of what is read-only, which DLPack refuses; kernels write to no graph
        named = {name: dtype for name, dtype in GRAPH_ARRAYS.items() if name != "path_links"}  # _renumbered makes it
        whole = {name: np.require(getattr(graphs[0], name), dtype, ["C", "W"]) for name, dtype in named.items()}
        return {"graph_task_offsets": tasks, "path_base": paths} | whole | _optional(graphs)
    shift = {"after": tasks, "after_offsets": dependencies, "path_offsets": hops}
    arrays: dict[str, Array] = {"graph_task_offsets": tasks, "path_base": paths}
    for name, dtype in GRAPH_ARRAYS.items():
        if name == "path_links":  # _renumbered makes it
            continue
        parts = [np.asarray(getattr(graph, name)) for graph in graphs]
        if name.endswith("_offsets"):  # a graph's end is the next one's beginning
            parts = [parts[0][:1], *(part[1:] for part in parts)]
        arrays[name] = np.concatenate(parts, dtype=dtype)
        if name in shift:
            first = len(parts) - len(graphs)
            arrays[name][first:] += np.repeat(shift[name][:-1].astype(dtype), [len(part) for part in parts[first:]])
    return arrays | _optional(graphs)


def _crossed(graph: LoweredGraph) -> Array:
    """The links that some path crosses, ascending."""
    return np.flatnonzero(np.bincount(graph.path_links, minlength=graph.links))


def _renumbered(graphs: Sequence[LoweredGraph], crossed: Sequence[Array]) -> Array:
    """Return [H] the links of all graphs' paths, as positions in ``crossed`` of each graph."""
    ends = offsets([len(graph.path_links) for graph in graphs])
    positions = np.empty(ends[-1], np.int32)
    for graph, links, first, end in zip(graphs, crossed, ends, ends[1:], strict=False):
        position = np.zeros(graph.links, np.int32)
        position[links] = np.arange(len(links))
        # What is out of bounds has been refused; "clip" writes to `out` without a copy, others do not.
        np.take(position, graph.path_links, out=positions[first:end], mode="clip")
    return positions


def _of_links(values: Sequence[Array], links: Sequence[Array]) -> Array:
    """Return the ``values`` [L] of each world, of its ``links`` only."""
    return np.concatenate([row[indices] for row, indices in zip(values, links, strict=True)], dtype=np.float64)


def _optional(graphs: Sequence[LoweredGraph]) -> dict[str, Array]:
    arrays: dict[str, Array] = {name: np.zeros(0, _dtype(name)) for name in OPTIONAL_ARRAYS}
    for name in _optional_arrays(graphs):
        arrays[name] = np.concatenate([_filled(graph, name) for graph in graphs], dtype=_dtype(name))
    return arrays


def _filled(graph: LoweredGraph, name: str) -> Array:
    array: Array | None = getattr(graph, name)
    return np.full(_length(graph, name), OPTIONAL_ARRAYS[name]) if array is None else array
