"""The way through a tree from its server to a leaf is the path to another, or from it."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.lowering.paths import Paths
from topoflow.engine.screen.path_trees import path_trees
from topoflow.fabric.base import FabricDesign
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ring import Ring

INTERFACE = {"bandwidth": 1e9, "degree": 2, "latency": 1e-6}
NOTHING = Demand(1)


@pytest.mark.parametrize("design", [FatTree(**INTERFACE), Expander(**INTERFACE, seed=1), Ring(**INTERFACE)], ids=type)
@pytest.mark.parametrize("routing", ["ecmp", "spray"])
def test_the_way_through_a_tree_is_the_path(design: FabricDesign, routing: str) -> None:
    servers = 12
    paths = Paths(design.build(servers, NOTHING), 0, routing)
    ends = np.divmod(np.arange(servers * servers), servers)
    path = paths.connections(*ends, np.zeros_like(ends[0]))
    offsets, links = paths.arrays().offsets, paths.arrays().links
    trees = path_trees(path, offsets, links, servers)
    leaf = trees["tree_leaf"].reshape(2, servers, servers)
    for source, target in zip(*ends, strict=True):
        if source == target:
            assert leaf[0, source, target] == leaf[1, target, source] == 0
            continue
        expected = path[source * servers + target]
        hops = links[offsets[expected] : offsets[expected + 1]].tolist()
        assert way(trees, 0, source, leaf[0, source, target]) == hops[::-1]
        assert way(trees, servers + 1, target, leaf[1, target, source]) == hops


def way(trees: dict[str, np.ndarray], first: int, server: int, node: int) -> list[int]:
    """Links from a node to the root of the tree of a server."""
    links, base = [], trees["tree"][first + server]
    while node:
        links.append(int(trees["tree_link"][base + node]))
        node = trees["tree_parent"][base + node]
    return links


def test_paths_from_a_server_share_their_beginnings() -> None:
    """The example of the module: 0 > 1 is a b, 0 > 2 is a c, 0 > 3 is a c d; all others are a b."""
    path = np.zeros(16, np.int32)
    path[2:4] = 1, 2
    trees = path_trees(path, np.array([0, 2, 4, 7]), np.array([0, 1, 0, 2, 0, 2, 3]), 4)
    assert trees["tree"].tolist() == [0, 5, 8, 11, 14, 14, 17, 20, 25, 31]
    assert trees["tree_parent"][:5].tolist() == [0, 0, 1, 1, 3]
    assert trees["tree_link"][1:5].tolist() == [0, 1, 2, 3]
