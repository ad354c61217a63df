"""Partition (ours): cuts processes into parts of the racks' sizes, with few packets between the parts.

The racks with the most cores are filled, so that the number of racks is minimal. They are halved, the processes with
them, recursively; exchanges, which keep the sizes, improve each cut. The search begins with the results of OPM and
first fit and returns the best mapping, so that no more packets leave a rack than with either.

Source: Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs", Bell System Technical Journal
49(2), 1970, as implemented in networkx.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx
import numpy as np

from topoflow.papers.fosquare.mappings import Index, between, by_room, first_fit, opm, within

ROUNDS = 10  # number of times that all racks are cut; each begins with the result of the last


def place(packets: Index, rack: Index, seed: int) -> Index:
    racks = _needed(by_room(rack), len(packets))
    graph = _graph(between(packets))
    starts = [opm.place(packets, rack, seed), first_fit.place(packets, rack, seed)]
    candidates = list(starts)
    for start in starts:
        order = np.argsort(rack[start], kind="stable").tolist()  # processes of a rack are adjacent
        for _ in range(ROUNDS):
            order = _cut(graph, order, [len(cores) for cores in racks], seed)
        core = np.full(len(packets), -1)
        core[order] = np.concatenate(racks)
        candidates.append(core)
    return max(candidates, key=lambda core: within(packets, rack, core))


def _needed(racks: Sequence[Index], processes: int) -> list[Index]:
    """Return the first racks that hold the processes; the last rack has only the needed cores."""
    needed: list[Index] = []
    for cores in racks:
        if processes > 0:
            needed.append(cores[:processes])
            processes -= len(cores)
    return needed


def _graph(packets: Index) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(packets)))
    graph.add_weighted_edges_from((i, j, int(packets[i, j])) for i, j in np.argwhere(np.triu(packets)).tolist())
    return graph


def _cut(graph: networkx.Graph, order: list[int], sizes: Sequence[int], seed: int) -> list[int]:
    """Sort ``order`` by parts of these ``sizes``."""
    if len(sizes) == 1:
        return order
    half = len(sizes) // 2
    first = sum(sizes[:half])
    parts = networkx.community.kernighan_lin_bisection(
        graph.subgraph(order), (set(order[:first]), set(order[first:])), weight="weight", seed=seed
    )
    low, high = (sorted(part, key=order.index) for part in parts)
    if len(low) != first:
        low, high = high, low
    return _cut(graph, low, sizes[:half], seed) + _cut(graph, high, sizes[half:], seed)
