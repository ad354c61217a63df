"""CondensedGraph: a graph as the bound reads it; what does not depend on the links' numbers is computed once.

Tasks with the same path, bytes and delay have the same *cost*, which is computed once for each world. Nodes are
tasks, or collapsed blocks of them (``topoflow.engine.bound.collapse``), sorted by level: nodes of one level do not
wait for each other.

Shapes: T tasks, D dependencies, P paths, L links, C costs, N nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import row_offsets
from topoflow.engine.base import Floats, Ints, LoweredGraph, Offsets
from topoflow.engine.bound.collapse import Collapsed, Edges, collapse
from topoflow.engine.timelines import link_bytes

Array = NDArray[Any]


@dataclass(frozen=True)
class CondensedGraph:
    """``arrays`` by the names that ``csrc/bound/batch.h`` gives them."""

    arrays: dict[str, Array]
    node: Offsets  # [T] node of every task

    @property
    def links(self) -> int:
        return len(self.arrays["link_bytes"])


@dataclass(frozen=True)
class _Costs:
    """The costs of tasks: every (path, bytes, delay) that occurs, once."""

    of: Offsets  # [T]
    path: Ints  # [C] -1: none
    bytes: Floats  # [C] B
    delay: Floats  # [C] s


@dataclass(frozen=True)
class _Nodes:
    """Nodes in the order of their levels."""

    of: Offsets  # [T]
    task: Offsets  # [N] the task, or the representative of a collapsed block
    level: Ints  # [N]
    edges: Edges


def condensed(graph: LoweredGraph, *, collapses: bool) -> CondensedGraph:
    """Condense a graph that keeps the laws of ``LoweredGraph``; without ``collapses``, every task is a node.

    Raises ``ValueError`` where a task waits for itself or for a later one.
    """
    edges = Edges(np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets)), graph.after.astype(np.int64))
    late = np.flatnonzero(edges.awaited >= edges.waiter)
    if late.size:
        got = f"{graph.where(edges.waiter[late[0]])} after {graph.where(edges.awaited[late[0]])}"
        raise ValueError(f"after: must name earlier tasks, got {got}")
    costs = _costs(graph)
    blocks = collapse(graph, edges, costs.of) if collapses else Collapsed.none(graph.tasks)
    nodes = _nodes(edges, blocks)
    arrays = _blocks(costs, blocks, nodes)
    arrays |= {
        "path_offsets": graph.path_offsets.astype(np.int64),
        "path_links": graph.path_links.astype(np.int32),
        "path_weight": np.zeros(0) if graph.path_weight is None else graph.path_weight.astype(np.float64),
        "path_limit": np.zeros(0) if graph.path_limit is None else graph.path_limit.astype(np.float64),
        "level_offsets": row_offsets(nodes.level, int(nodes.level.max(initial=-1)) + 1),
        "release": graph.release[nodes.task],
        "after_offsets": row_offsets(nodes.edges.waiter, len(nodes.task)),
        "after": nodes.edges.awaited.astype(np.int32),
        "sink": np.flatnonzero(np.bincount(nodes.edges.awaited, minlength=len(nodes.task)) == 0).astype(np.int32),
        "link_bytes": link_bytes(graph),
    }
    arrays |= _users(arrays, len(graph.path_offsets) - 1) | _resources(graph, nodes.of)
    arrays |= _crossings(graph, arrays["user_offsets"])
    return CondensedGraph(arrays, nodes.of)


def _costs(graph: LoweredGraph) -> _Costs:
    """A path without links is no network: then bytes cost nothing."""
    hops = np.append(np.diff(graph.path_offsets), 0)  # of path -1: 0
    path = np.where(hops[graph.path] > 0, graph.path, -1)
    bytes = np.where(path >= 0, graph.bytes, 0.0)
    number = path.astype(np.int64) + 1
    for column in (bytes, graph.delay):
        values, value = np.unique(column, return_inverse=True)
        _, first, number = np.unique(number * len(values) + value, return_index=True, return_inverse=True)
    return _Costs(number, path[first].astype(np.int32), bytes[first], graph.delay[first])


def _nodes(edges: Edges, blocks: Collapsed) -> _Nodes:
    representative = blocks.representative
    task = np.flatnonzero(representative == np.arange(len(representative)))
    number = np.searchsorted(task, representative)  # [T]
    condensed_edges = edges.where(representative[edges.waiter] == edges.waiter)
    pairs = np.sort(number[condensed_edges.waiter] * len(task) + number[condensed_edges.awaited])
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # the tasks of a block are awaited as one
    condensed_edges = Edges(pairs // max(len(task), 1), pairs % max(len(task), 1))
    level = condensed_edges.levels(len(task))
    order = np.argsort(level, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    by_waiter = np.argsort(place[condensed_edges.waiter], kind="stable")
    sorted_edges = Edges(place[condensed_edges.waiter][by_waiter], place[condensed_edges.awaited][by_waiter])
    return _Nodes(place[number], task[order], level[order], sorted_edges)


def _blocks(costs: _Costs, blocks: Collapsed, nodes: _Nodes) -> dict[str, Array]:
    """A node has the cost of its task, or ``steps`` times the largest of its block; equal blocks are one."""
    known: dict[tuple[int, bytes], int] = {}
    rows = [np.zeros(0, np.int64)]
    cost = costs.of.copy()  # [T]
    for task, steps, row in zip(blocks.first, blocks.steps, blocks.rows(), strict=True):
        block = known.setdefault((int(steps), row.tobytes()), len(known))
        if block == len(rows) - 1:
            rows.append(row)
        cost[task] = -1 - block
    return {
        "cost_path": costs.path,
        "cost_bytes": costs.bytes,
        "cost_delay": costs.delay,
        "member_offsets": np.cumsum([len(row) for row in rows]).astype(np.int64),
        "member": np.concatenate(rows).astype(np.int32),
        "steps": np.array([steps for steps, _ in known], np.float64),
        "node_cost": cost[nodes.task].astype(np.int32),
    }


def _users(arrays: dict[str, Array], paths: int) -> dict[str, Array]:
    """The nodes that send over each path. In a collapsed block every path is used by a send that waits for no other."""
    cost = arrays["node_cost"].astype(np.int64)  # [N]
    tasks, blocks = np.flatnonzero(cost >= 0), np.flatnonzero(cost < 0)
    begin, end = (arrays["member_offsets"][offset - cost[blocks]] for offset in (-1, 0))
    node = np.concatenate([tasks, np.repeat(blocks, end - begin)])
    members = np.concatenate([np.arange(0), *map(np.arange, begin, end)])
    used = np.concatenate([cost[tasks], arrays["member"][members]])
    sends = arrays["cost_bytes"][used] > 0
    node, used = node[sends], used[sends]
    order = np.argsort(arrays["cost_path"][used], kind="stable")
    return {
        "user_offsets": row_offsets(arrays["cost_path"][used], paths),
        "user": node[order].astype(np.int32),
        "user_delay": arrays["cost_delay"][used][order],
    }


def _resources(graph: LoweredGraph, node: Offsets) -> dict[str, Array]:
    """Return the nodes that occupy each resource, and the seconds for which they do together."""
    resource = np.zeros(0, np.int64) if graph.resource is None else graph.resource
    tasks = np.flatnonzero(resource >= 0)
    _, number = np.unique(resource[tasks], return_inverse=True)
    count = int(number.max(initial=-1)) + 1
    return {
        "resource_offsets": row_offsets(number, count),
        "occupant": node[tasks][np.argsort(number, kind="stable")].astype(np.int32),
        "resource_seconds": np.bincount(number, graph.delay[tasks], count).astype(np.float64),
    }


def _crossings(graph: LoweredGraph, user_offsets: Offsets) -> dict[str, Array]:
    """The paths with users that cross each link."""
    path = np.repeat(np.arange(len(user_offsets) - 1), np.diff(graph.path_offsets))
    used = np.diff(user_offsets)[path] > 0
    link, path = graph.path_links[used], path[used]
    return {
        "crossing_offsets": row_offsets(link, graph.links),
        "crossing": path[np.argsort(link, kind="stable")].astype(np.int32),
    }
