"""Outline: a graph as the bound reads it, with all that does not depend on the links' numbers worked out once.

Tasks with the same path, bytes and delay have the same *cost*, which is worked out once for each world. Nodes are
tasks, or folded blocks of them (``topoflow.engine.fold``), sorted by level: those of one level do not wait for each
other.

Shapes: T tasks, D dependencies, P paths, L links, C costs, M terms, N nodes, U users, X crossings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Floats, Graph, Ints, Offsets
from topoflow.engine.fold import Edges, Fold, fold
from topoflow.engine.timelines import link_bytes

Array = NDArray[Any]


@dataclass(frozen=True)
class Outline:
    """``arrays`` by the names that ``csrc/bound/batch.h`` gives them."""

    arrays: dict[str, Array]
    node: Offsets  # [T] node of every task

    @property
    def links(self) -> int:
        return len(self.arrays["link_bytes"])


@dataclass(frozen=True)
class _Terms:
    """What tasks cost: every (path, bytes, delay) that occurs, once."""

    of: Offsets  # [T]
    path: Ints  # [M] -1: none
    bytes: Floats  # [M] B
    delay: Floats  # [M] s


@dataclass(frozen=True)
class _Nodes:
    """Nodes in the order of their levels."""

    of: Offsets  # [T]
    task: Offsets  # [N] the task, or the one that stands for a folded block
    level: Ints  # [N]
    edges: Edges


def outline(graph: Graph, *, folded: bool) -> Outline:
    """The outline of a graph that keeps the laws of ``Graph``; if not ``folded``, every task is a node.

    Raises ``ValueError`` where a task waits for itself or for a later one.
    """
    edges = Edges(np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets)), graph.after.astype(np.int64))
    late = np.flatnonzero(edges.awaited >= edges.waiter)
    if late.size:
        got = f"task {edges.waiter[late[0]]} after task {edges.awaited[late[0]]}"
        raise ValueError(f"after: must name earlier tasks, got {got}")
    terms = _terms(graph)
    folds = fold(graph, edges, terms.of) if folded else Fold.none(graph.tasks)
    nodes = _nodes(edges, folds)
    arrays = _costs(terms, folds, nodes)
    arrays |= {
        "path_offsets": graph.path_offsets.astype(np.int64),
        "path_links": graph.path_links.astype(np.int32),
        "path_weight": np.zeros(0) if graph.path_weight is None else graph.path_weight,
        "path_limit": np.zeros(0) if graph.path_limit is None else graph.path_limit,
        "level_offsets": _offsets(nodes.level, int(nodes.level.max(initial=-1)) + 1),
        "release": graph.release[nodes.task],
        "after_offsets": _offsets(nodes.edges.waiter, len(nodes.task)),
        "after": nodes.edges.awaited.astype(np.int32),
        "sink": np.flatnonzero(np.bincount(nodes.edges.awaited, minlength=len(nodes.task)) == 0).astype(np.int32),
        "link_bytes": link_bytes(graph),
    }
    arrays |= _users(arrays, len(graph.path_offsets) - 1)
    arrays |= _crossings(graph, arrays["user_offsets"])
    return Outline(arrays, nodes.of)


def _terms(graph: Graph) -> _Terms:
    """A path without links is no network: then bytes cost nothing."""
    hops = np.append(np.diff(graph.path_offsets), 0)  # of path -1: 0
    path = np.where(hops[graph.path] > 0, graph.path, -1)
    bytes = np.where(path >= 0, graph.bytes, 0.0)
    number = path.astype(np.int64) + 1
    for column in (bytes, graph.delay):
        values, value = np.unique(column, return_inverse=True)
        _, first, number = np.unique(number * len(values) + value, return_index=True, return_inverse=True)
    return _Terms(number, path[first].astype(np.int32), bytes[first], graph.delay[first])


def _nodes(edges: Edges, folds: Fold) -> _Nodes:
    stand_in = folds.stand_in
    task = np.flatnonzero(stand_in == np.arange(len(stand_in)))
    number = np.searchsorted(task, stand_in)  # [T]
    kept = edges.where(stand_in[edges.waiter] == edges.waiter)
    pairs = np.sort(number[kept.waiter] * len(task) + number[kept.awaited])
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # the tasks of a block are awaited as one
    kept = Edges(pairs // max(len(task), 1), pairs % max(len(task), 1))
    level = kept.levels(len(task))
    order = np.argsort(level, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    by_waiter = np.argsort(place[kept.waiter], kind="stable")
    sorted_edges = Edges(place[kept.waiter][by_waiter], place[kept.awaited][by_waiter])
    return _Nodes(place[number], task[order], level[order], sorted_edges)


def _costs(terms: _Terms, folds: Fold, nodes: _Nodes) -> dict[str, Array]:
    """A task costs its one term; a folded block ``steps`` times the largest of its terms; equal costs are one."""
    alone = len(terms.path)
    known: dict[tuple[int, bytes], int] = {}
    rows = [np.arange(alone)]
    cost = terms.of.copy()  # [T]
    for block, task in enumerate(folds.first):
        row = folds.cost[folds.cost_offsets[block] : folds.cost_offsets[block + 1]]
        cost[task] = alone + known.setdefault((int(folds.steps[block]), row.tobytes()), len(known))
        if cost[task] == alone + len(rows) - 1:
            rows.append(row)
    times = np.array([1] * alone + [steps for steps, _ in known], np.float64)
    lengths = np.array([1] * alone + [len(row) for row in rows[1:]], np.int64)
    used = np.bincount(cost[nodes.task], minlength=len(times)) > 0
    term = np.concatenate(rows)[np.repeat(used, lengths)]
    return {
        "times": times[used],
        "cost_offsets": np.concatenate([[0], np.cumsum(lengths[used])]).astype(np.int64),
        "term_path": terms.path[term],
        "term_bytes": terms.bytes[term],
        "term_delay": terms.delay[term],
        "node_cost": (np.cumsum(used) - 1)[cost[nodes.task]].astype(np.int32),
    }


def _users(arrays: dict[str, Array], paths: int) -> dict[str, Array]:
    """The nodes that send over each path. In a folded block every path is used by a send that waits for no other."""
    count = np.diff(arrays["cost_offsets"])[arrays["node_cost"]]  # [N]
    node = np.repeat(np.arange(len(count)), count)
    term = np.repeat(arrays["cost_offsets"][arrays["node_cost"]] - _starts(count), count) + np.arange(len(node))
    sends = arrays["term_bytes"][term] > 0
    node, term = node[sends], term[sends]
    path = arrays["term_path"][term]
    order = np.argsort(path, kind="stable")
    return {
        "user_offsets": _offsets(path, paths),
        "user": node[order].astype(np.int32),
        "user_delay": arrays["term_delay"][term][order],
    }


def _crossings(graph: Graph, user_offsets: Offsets) -> dict[str, Array]:
    """The paths with users that cross each link."""
    path = np.repeat(np.arange(len(user_offsets) - 1), np.diff(graph.path_offsets))
    used = np.diff(user_offsets)[path] > 0
    link, path = graph.path_links[used], path[used]
    return {
        "crossing_offsets": _offsets(link, graph.links),
        "crossing": path[np.argsort(link, kind="stable")].astype(np.int32),
    }


def _offsets(rows: Array, count: int) -> Offsets:
    """Where each of the ``count`` rows begins, and the last ends, when items are sorted by row."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64)


def _starts(counts: Offsets) -> Offsets:
    return np.cumsum(counts) - counts
