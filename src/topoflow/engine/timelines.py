"""Timelines from what kernels find. Shapes: T tasks, P paths, H hops, L links, K traffic tasks."""

from __future__ import annotations

import numpy as np

from topoflow.engine.base import Floats, Graph, Timeline, World


def timeline(world: World, start: Floats, finish: Floats, carried: Floats, at_least: float = 0.0) -> Timeline:
    """The timeline of one world: ``start`` [T], ``finish`` [T], ``carried`` = ``link_bytes(world.graph)`` [L]."""
    first, last = _of_owners(world.graph, start, finish)
    return Timeline(world, start, finish, carried, first, last, at_least)


def link_bytes(graph: Graph, sent: Floats | None = None) -> Floats:
    """Bytes that each link carries, [L]: of every task, for every hop of its path, the share that crosses it.

    ``sent`` [T] B is what tasks have sent of their bytes; None: all.
    """
    paths = len(graph.path_offsets) - 1
    on_network = graph.path >= 0
    sent = graph.bytes if sent is None else sent
    of_path = np.bincount(graph.path[on_network], weights=sent[on_network], minlength=paths)
    weight = 1.0 if graph.path_weight is None else graph.path_weight
    of_hop = np.repeat(of_path, np.diff(graph.path_offsets)) * weight
    return np.bincount(graph.path_links, weights=of_hop, minlength=graph.links).astype(np.float64)


def path_latency(graph: Graph, latency: Floats) -> Floats:
    """[P] s that the average byte waits, where links have ``latency`` [L]."""
    weight = 1.0 if graph.path_weight is None else graph.path_weight
    paths = len(graph.path_offsets) - 1
    path = np.repeat(np.arange(paths), np.diff(graph.path_offsets))
    return np.bincount(path, weights=latency[graph.path_links] * weight, minlength=paths).astype(np.float64)


def _of_owners(graph: Graph, start: Floats, finish: Floats) -> tuple[Floats, Floats]:
    """Return first start and last finish of the parts of each traffic task, [K] and [K]; 0 for one without parts."""
    first, last = np.full(graph.owners, np.inf), np.zeros(graph.owners)
    if graph.tasks:
        runs = np.flatnonzero(np.diff(graph.owner, prepend=-1))  # the first of parts that follow each other
        np.minimum.at(first, graph.owner[runs], np.minimum.reduceat(start, runs))
        np.maximum.at(last, graph.owner[runs], np.maximum.reduceat(finish, runs))
    return np.where(np.isinf(first), 0.0, first), last
