"""The k shortest paths of any directed graph."""

from __future__ import annotations

from itertools import islice, permutations

import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topoflow.fabric.routing.k_shortest import KShortestPaths

Ends = list[tuple[int, int]]


def routes(nodes: int, ends: Ends, limit: int) -> KShortestPaths:
    source, target = np.array(ends, np.int32).T
    return KShortestPaths([f"node {node}" for node in range(nodes)], source, target, limit)


@given(ends=st.sets(st.sampled_from(list(permutations(range(7), 2))), min_size=6), limit=st.integers(1, 9))
def test_they_are_loopless_and_as_long_as_yen_s(ends: set[tuple[int, int]], limit: int) -> None:
    links = sorted({(0, 6), *ends})
    expected = islice(networkx.shortest_simple_paths(networkx.DiGraph(links), 0, 6), limit)
    paths = routes(7, links, limit)(0, 6)
    assert len(set(paths)) == len(paths)
    for path in paths:
        nodes = [0, *(links[link][1] for link in path)]
        assert [links[link][0] for link in path] == nodes[:-1]
        assert nodes[-1] == 6
        assert len(set(nodes)) == len(nodes)
    assert [len(path) for path in paths] == [len(path) - 1 for path in expected]


def test_a_bridge_is_the_only_path_however_many_ways_lead_nowhere() -> None:
    # Of 20 servers that are all joined, 19! / 19 ways begin at server 0, and all would come back through it.
    joined = list(permutations(range(20), 2))
    links = [*joined, *((i + 20, j + 20) for i, j in joined), (0, 20), (20, 0)]
    assert routes(40, links, 4)(0, 20) == ((links.index((0, 20)),),)
