"""Resume: what a paused world has left is a world of its own.

The plain twin of what ``engine.dynamic.stepwise`` does in place.

Shapes: T tasks, D dependencies, P paths, H hops.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import row_offsets
from topoflow.engine.base import Ints, LoweredGraph, Offsets, Pause, World
from topoflow.engine.timelines import path_latency


def resume(world: World, paused: Pause) -> tuple[World, Offsets]:
    """The world of what ``world`` has left at ``paused.until``, and which of its tasks those are [T'].

    Its clock continues, so finishes of the rest are those of the whole. A task that had begun neither waits again nor
    sends again what it has sent; one that had not is unchanged, but no longer waits for tasks that have finished.
    """
    graph = world.graph
    remaining = np.flatnonzero(np.isinf(paused.finish))
    begun = np.isfinite(paused.start[remaining])
    latency = np.append(path_latency(graph, world.latency), 0.0)[graph.path[remaining]]
    waited = np.maximum(paused.start[remaining] + graph.delay[remaining] + latency, paused.until)
    after_offsets, after = _after(graph, remaining)
    rest = replace(
        graph,
        delay=np.where(begun, 0.0, graph.delay[remaining]),
        bytes=paused.left[remaining],
        release=np.where(begun, waited - latency, graph.release[remaining]),  # the latency of its path passes again
        path=graph.path[remaining],
        after_offsets=after_offsets,
        after=after,
        owner=graph.owner[remaining],
        ends=None if graph.ends is None else graph.ends[:, remaining],
    )
    return replace(world, graph=rest), remaining


def _after(graph: LoweredGraph, remaining: NDArray[np.int64]) -> tuple[Offsets, Ints]:
    """Offsets [T'+1] and tasks [D'] of the dependencies among the ``remaining`` tasks."""
    number = np.full(graph.tasks, -1)
    number[remaining] = np.arange(len(remaining))
    follower = number[np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets))]
    awaited = number[graph.after]
    stays = (follower >= 0) & (awaited >= 0)
    return row_offsets(follower[stays], len(remaining)), awaited[stays].astype(np.int32)
