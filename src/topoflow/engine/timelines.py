"""Timelines from what kernels find. Shapes: T tasks, P paths, H hops, L links, K traffic tasks."""

from __future__ import annotations

import numpy as np

from topoflow.engine.base import Floats, LoweredGraph, TaskTimes, Timeline, World


def timeline(world: World, start: Floats, finish: Floats, carried: Floats) -> Timeline:
    """Return the timeline of a world: ``start`` [T], ``finish`` [T], ``carried`` = ``link_bytes(world.graph)`` [L]."""
    return Timeline(world, TaskTimes(start, finish), float(finish.max(initial=0.0)), carried)


def link_bytes(graph: LoweredGraph, sent: Floats | None = None) -> Floats:
    """Return the bytes that each link carries [L]: of every task, the share that crosses it on each hop of its path.

    ``sent`` [T] B is what tasks have sent of their bytes; None: all.
    """
    of_path = graph.path_bytes if sent is None else graph.sent_on_paths(sent)
    weight = 1.0 if graph.path_weight is None else graph.path_weight
    of_hop = np.repeat(of_path, np.diff(graph.path_offsets)) * weight
    return np.bincount(graph.path_links, weights=of_hop, minlength=graph.links).astype(np.float64)


def path_latency(graph: LoweredGraph, latency: Floats) -> Floats:
    """[P] s that the average byte waits, where links have ``latency`` [L]."""
    weight = 1.0 if graph.path_weight is None else graph.path_weight
    paths = len(graph.path_offsets) - 1
    path = np.repeat(np.arange(paths), np.diff(graph.path_offsets))
    return np.bincount(path, weights=latency[graph.path_links] * weight, minlength=paths).astype(np.float64)
