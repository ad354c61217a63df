"""What a search's report shows as sent: what its worlds send, be all-reduces rings or trees."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.cli.grid import grid
from topoflow.cli.search import CONFIG, _search, check
from topoflow.cli.search_files import report
from topoflow.fabric.double_binary_tree import tree_edges
from topoflow.report.search_report import SearchReport
from topoflow.search.alternate import search


def reported(*arguments: str) -> SearchReport:
    sizes = ["workload.tables=6", "workload.rows=1000", "search.proposals=0"]
    (point,) = grid([*sizes, *arguments], check, lambda done, total: None, CONFIG)
    one = _search("search", point, None)
    return report(one.problem, search(one.problem, one.settings), "")


@pytest.mark.parametrize("how", ["ring", "hierarchical", "hierarchical_tree", "halving_doubling"])
def test_what_is_sent_is_the_same_on_every_network(how: str) -> None:
    """Orders move an all-reduce, they do not change its bytes; TopoOpt 4.3."""
    found = reported("servers=4", "search.rounds=1", f"all_reduce={how}")
    assert found.before.demand.sum() == pytest.approx(found.after.demand.sum())
    assert np.all(np.diag(found.after.demand) == 0)


def test_a_ring_in_its_own_order_sends_to_the_next_and_rings_of_the_network_to_each_of_theirs() -> None:
    found = reported("servers=6", "search.rounds=1", "strategy=data_parallel")
    number = np.arange(6)
    steps = (number[None] - number[:, None]) % 6
    assert found.sends == ("one ring for each all-reduce", "all-reduces over the rings of the network")
    assert set(steps[found.before.demand > 0]) == {1}
    assert set(steps[found.after.demand > 0]) == {1, 5}
    assert found.orders == [("0-5", "4 rings: +1 (2 times), +5 (2 times)")]


def test_trees_send_along_their_edges_and_are_called_trees() -> None:
    found = reported("servers=6", "search.rounds=1", "strategy=data_parallel", "all_reduce=hierarchical_tree")
    assert found.sends == ("one pair of trees for each all-reduce", "all-reduces over the trees of the network")
    (orders,) = found.after.fabric.trees.values()
    edges = {edge for order in orders for up in tree_edges(order, 1) for edge in (up, up[::-1])}
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(found.after.demand)), strict=True)) == edges
    assert all("tree" in text and "ring" not in text for _, text in found.orders)
