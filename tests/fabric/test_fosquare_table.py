"""FOSquare's Table 1 (scale, bisection, degree, diameter) against networks that are built, and where it errs.

Diameters are counted as the table does it: cables between switches, or of a direct network between nodes; for FOSquare
the switches on a path. OPSquare and HiFOST are in the table but their wiring is not in the paper.
"""

from __future__ import annotations

from itertools import combinations

import networkx
import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.fosquare import FOSquare
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.torus import Torus


def built(design: FabricDesign, servers: int) -> Fabric:
    return design.build(servers, Demand.from_matrix(np.zeros((servers, servers)), {}))


def graph(fabric: Fabric) -> networkx.Graph:
    network = networkx.Graph()
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        network.add_edge(source, target, capacity=1)
    return network


def cut(fabric: Fabric) -> int:
    """Cables between the first and the second half of the servers, their own cables not among them."""
    network, half = graph(fabric), fabric.servers // 2
    for server in range(fabric.servers):
        for switch in network[server]:
            if fabric.has_switches and len(network[server]) == 1:
                network[server][switch]["capacity"] = fabric.servers
        network.add_edge("first" if server < half else "second", server)  # without a capacity: any
    return int(networkx.minimum_cut_value(network, "first", "second"))


def switches(fabric: Fabric) -> networkx.Graph:
    return graph(fabric).subgraph(range(fabric.servers, len(fabric.nodes)))


def degree(fabric: Fabric) -> int:
    """Switches or nodes that a server has a cable to."""
    return max(count for node, count in graph(fabric).degree if node < fabric.servers)


@pytest.mark.parametrize("n", [2, 4, 6])
def test_fosquare(n: int) -> None:
    fabric = built(FOSquare(1e9, 5, 0.0, servers_per_rack=n), n**2)
    joined = graph(fabric)
    radix = {joined.degree(switch) for switch in range(fabric.servers, len(fabric.nodes))}
    assert radix == {n}, "N^2 servers need switches of N ports"
    assert cut(fabric) == n**2 / 2
    assert degree(fabric) == 2
    hops = [len(path) / 2 for target in range(1, n**2) for path in fabric.route(0, target)]
    assert max(hops) == 2, "switches"


@pytest.mark.parametrize(("radix", "down"), [(4, 6), (8, 3)])
def test_leaf_spine_has_twice_the_servers_that_the_table_says(radix: int, down: int) -> None:
    """R^S leaves, as many as a spine has ports, with R_d servers each are R^S R_d; the table halves that, as if R_d
    counted ports in both directions, but it is said to be the "down link radix". R^S / 2 is the cut of one spine.
    """
    fabric = built(LeafSpine(1e9, 1, 0.0, servers_per_leaf=down), radix * down)
    core = switches(fabric)
    assert {core.degree(spine) for spine in core if spine >= fabric.servers + radix} == {radix}
    assert fabric.servers == 2 * (radix * down / 2)
    assert cut(fabric) == down * radix / 2, "of as many spines as servers below a leaf"
    assert degree(fabric) == 1
    assert networkx.diameter(core) == 2


@pytest.mark.parametrize(("a", "h"), [(3, 1), (5, 1), (3, 3)])
def test_dragonfly_has_a_larger_cut_than_the_table_says(a: int, h: int) -> None:
    """a (a h + 1) / 4 is short by the factor h + 1 / a: half of the a h + 1 groups have a cable to each other one."""
    groups = a * h + 1
    fabric = built(Dragonfly(1e9, 1, 0.0, nodes=2, routers=a, groups=groups, global_links=1), 2 * a * groups)
    assert fabric.servers == 2 * a * (a * h + 1)
    between = (groups // 2) ** 2
    assert between == pytest.approx(a * (a * h + 1) / 4 * (h + 1 / a))
    assert cut(fabric) == min(between, fabric.servers)
    assert networkx.diameter(switches(fabric)) == 3


@pytest.mark.parametrize("side", [4, 5, 6])
def test_a_torus_has_the_diameter_of_the_table_where_its_side_is_odd(side: int) -> None:
    """sqrt(M) - 1 for odd sides; for even ones each dimension has side / 2 steps, sqrt(M) in all."""
    fabric = built(Torus(1e9, 4, 0.0, dims=[side, side]), side**2)
    assert networkx.diameter(graph(fabric)) == (side - 1 if side % 2 else side)
    assert degree(fabric) == 4
    if side % 2 == 0:
        assert cut(fabric) == 2 * side


@pytest.mark.parametrize(("d", "k"), [(2, 3), (2, 4), (3, 2)])
def test_de_bruijn_has_the_diameter_and_the_degree_of_the_table_and_less_to_cut(d: int, k: int) -> None:
    """Degree D are cables that leave a node, and as many come. The table's cut, 2 log_d M, is not that of these."""
    nodes = d**k
    network = networkx.DiGraph((node, node * d % nodes + step) for node in range(nodes) for step in range(d))
    assert networkx.diameter(network) == k
    assert {out_degree for _, out_degree in network.out_degree} == {d}
    if nodes % 2 == 0:
        cables = network.to_undirected()
        cables.remove_edges_from(list(networkx.selfloop_edges(cables)))
        halves = combinations(range(1, nodes), nodes // 2)
        narrowest = min(networkx.cut_size(cables, half) for half in halves)
        assert narrowest == {8: 3, 16: 6}[nodes] < 2 * k
