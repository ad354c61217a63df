"""Partition (ours): cuts processes into parts as large as the racks have cores, with few packets between the parts.

The racks with the most cores are filled, so that there are as few of them as can be. They are halved, the processes
with them, and so on; each cut is improved by exchanges, which leave the sizes. It begins where OPM and first fit end,
and the better of the two answers counts, so that no more packets leave a rack than with either.

Source: Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs", Bell System Technical Journal
49(2), 1970, as networkx has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx
import numpy as np

from topoflow.papers.fosquare.mappings import Index, between, by_room, first_fit, opm, within

ROUNDS = 10  # of cutting all racks again; each begins where the last ended


def place(packets: Index, rack: Index, seed: int) -> Index:
    racks = _needed(by_room(rack), len(packets))
    graph = _graph(between(packets))
    starts = [opm.place(packets, rack, seed), first_fit.place(packets, rack, seed)]
    found = list(starts)
    for start in starts:
        order = np.argsort(rack[start], kind="stable").tolist()  # those of a rack lie together
        for _ in range(ROUNDS):
            order = _cut(graph, order, [len(cores) for cores in racks], seed)
        core = np.full(len(packets), -1)
        core[order] = np.concatenate(racks)
        found.append(core)
    return max(found, key=lambda core: within(packets, rack, core))


def _needed(racks: Sequence[Index], processes: int) -> list[Index]:
    """Return the first racks that hold the processes; the last one has only the cores that are needed."""
    needed: list[Index] = []
    for cores in racks:
        if processes > 0:
            needed.append(cores[:processes])
            processes -= len(cores)
    return needed


def _graph(both: Index) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(both)))
    graph.add_weighted_edges_from((i, j, int(both[i, j])) for i, j in np.argwhere(np.triu(both)).tolist())
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
    one, other = (sorted(part, key=order.index) for part in parts)
    if len(one) != first:
        one, other = other, one
    return _cut(graph, one, sizes[:half], seed) + _cut(graph, other, sizes[half:], seed)
