"""What a search's report shows as sent: what its worlds send, be all-reduces rings or trees."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.collectives.trees import tree_edges
from topoflow.report.search_report import SearchReport
from topoflow.search.alternate import search
from topoflow.study.configure.grid import grid
from topoflow.study.search_files import report
from topoflow.study.searches import CONFIG, _search, check


def reported(*arguments: str) -> SearchReport:
    """Of a job without tables: hybrid is data parallel, so nothing that a search begins with is faster."""
    small = (f"workload.{key}" for key in ("feature_layers=1", "dense_layers=1", "feature_size=512", "dense_size=512"))
    return searched("workload=candle", *small, "search.proposals=0", *arguments)


def searched(*arguments: str) -> SearchReport:
    (point,) = grid(list(arguments), check, CONFIG)
    one = _search("search", point, None)
    return report(one.problem, search(one.problem, one.settings), "")


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "hierarchical_tree", "halving_doubling"])
def test_what_is_sent_is_the_same_on_every_network(algorithm: str) -> None:
    """Orders move an all-reduce, they do not change its bytes; TopoOpt 4.3."""
    searched = reported("servers=4", "search.rounds=1", f"all_reduce={algorithm}")
    assert searched.before.flow_matrix.sum() == pytest.approx(searched.after.flow_matrix.sum())
    assert np.all(np.diag(searched.after.flow_matrix) == 0)


def test_all_reduces_go_over_the_rings_of_the_network_before_and_after() -> None:
    """What was simulated is shown: where nothing faster was found, the same twice."""
    searched = reported("servers=6", "search.rounds=1", "strategy=data_parallel")
    number = np.arange(6)
    steps = (number[None] - number[:, None]) % 6
    assert searched.sends == ("all-reduces over the rings of the network",) * 2
    assert set(steps[searched.before.flow_matrix > 0]) == {1, 5}
    assert np.array_equal(searched.before.flow_matrix, searched.after.flow_matrix)
    assert searched.wired_otherwise == ""
    assert searched.orders == [("0-5", "4 rings: +1 (2 times), +5 (2 times)")]


def test_trees_send_along_their_edges_and_are_called_trees() -> None:
    searched = reported("servers=6", "search.rounds=1", "strategy=data_parallel", "all_reduce=hierarchical_tree")
    assert searched.sends == ("all-reduces over the trees of the network",) * 2
    (orders,) = searched.after.fabric.channels.trees.values()
    edges = {edge for order in orders for up in tree_edges(order, 1) for edge in (up, up[::-1])}
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(searched.after.flow_matrix)), strict=True)) == edges
    assert all("tree" in text and "ring" not in text for _, text in searched.orders)


@pytest.mark.parametrize(
    ("algorithm", "form"), [("double_binary_tree", "trees"), ("halving_doubling", "halving doubling")]
)
def test_rings_that_are_wired_but_not_run_are_not_shown_as_the_all_reduces(algorithm: str, form: str) -> None:
    arguments = (
        "servers=4",
        "search.rounds=1",
        "strategy=data_parallel",
        f"all_reduce={algorithm}",
        "fabric.collective=ring",
    )
    searched = reported(*arguments)
    ((_, orders),) = searched.orders
    assert orders == f"circuits wired as 4 rings: +1 (2 times), +3 (2 times); all-reduces go by {form}"
    assert searched.wired_otherwise == f"circuits wired as rings; all-reduces go by {form}"
    assert not any("rings of the network" in sent for sent in searched.sends)
