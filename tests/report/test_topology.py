"""A drawn network shows every link once, as what it is; a row of words says where layers are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from topoflow.collectives.trees import tree_edges
from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.hyperx import HyperX
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.ring import Ring
from topoflow.fabric.slim_fly import SlimFly
from topoflow.fabric.topoopt import TopoOpt
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.fabric.torus import Torus
from topoflow.report.draw.network.circuits import kinds
from topoflow.report.draw.network.layout import in_tiers, layout
from topoflow.report.draw.network.tiers import tier_names, tiers
from topoflow.report.draw.network.topology import Drawn, draw_networks
from topoflow.report.draw.style import png

SETTINGS = {"bandwidth": 12.5e9, "degree": 4, "latency": 1e-6}


def demand(servers: int, mp: float = 1.0) -> Demand:
    """An all-reduce among all, and ``mp`` bytes from server 0 to every other."""
    others = range(1, servers)
    return Demand.from_pairs(servers, [0] * len(others), others, [mp] * len(others), {tuple(range(servers)): 1.0})


def topoopt(servers: int, mp: float = 1.0, collective: str = "ring") -> Fabric:
    return TopoOpt(**SETTINGS, paths=8, collective=collective).build(servers, demand(servers, mp))


FABRICS: dict[str, Callable[[], Fabric]] = {
    "topoopt": lambda: topoopt(12),
    "rings and pairs": lambda: topoopt(12, 20.0),
    "trees": lambda: topoopt(12, collective="double_binary_tree"),
    "ring": lambda: Ring(**SETTINGS).build(6, demand(6)),
    "torus": lambda: Torus(**SETTINGS, dims=None).build(16, demand(16)),
    "expander": lambda: Expander(**SETTINGS, seed=0).build(16, demand(16)),
    "ideal switch": lambda: IdealSwitch(**SETTINGS).build(5, demand(5)),
    "fat-tree": lambda: FatTree(**SETTINGS, oversubscription=1).build(9, demand(9)),
    "hyperx": lambda: HyperX(**SETTINGS, servers_per_switch=2, dims=[2, 5]).build(20, demand(20)),
    "dragonfly": lambda: Dragonfly(**SETTINGS).build(24, demand(24)),
    "dragonfly+": lambda: DragonflyPlus(**SETTINGS).build(24, demand(24)),
    "slim fly": lambda: SlimFly(**SETTINGS).build(24, demand(24)),
    "large": lambda: topoopt(432),
    "one server": lambda: topoopt(1),
}


def curves(figure: Figure) -> list[np.ndarray]:
    collections = [collection for collection in figure.axes[0].collections if isinstance(collection, LineCollection)]
    return [np.asarray(path) for collection in collections for path in collection.get_segments()]


@pytest.mark.parametrize("name", FABRICS)
def test_every_link_is_drawn_once_from_its_source_to_its_target(name: str) -> None:
    fabric = FABRICS[name]()
    paths = curves(draw_networks("", [Drawn(name, fabric)]))
    place = layout(fabric).place  # the same as on the page
    ends = np.array([[curve[0], curve[-1]] for curve in paths]).reshape(-1, 4)
    wanted = np.hstack((place[fabric.source], place[fabric.target]))
    order = [np.lexsort(np.round(these, 9).T) for these in (ends, wanted)]
    np.testing.assert_allclose(ends[order[0]], wanted[order[1]], atol=1e-12)


@pytest.mark.parametrize("name", FABRICS)
def test_no_link_leaves_the_picture(name: str) -> None:
    figure = draw_networks("", [Drawn(name, FABRICS[name]())])
    (left, right), (bottom, top) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    for curve in curves(figure):
        assert (curve >= (left, bottom)).all()
        assert (curve <= (right, top)).all()


@pytest.mark.parametrize("name", FABRICS)
def test_every_link_is_of_one_kind(name: str) -> None:
    fabric = FABRICS[name]()
    all_kinds = kinds(fabric)
    assert sorted(np.concatenate([kind.links for kind in all_kinds], dtype=int) if all_kinds else []) == list(
        range(fabric.links)
    )
    assert len({kind.colour for kind in all_kinds}) == len(all_kinds)


def test_circuits_of_a_ring_are_named_by_their_stride_and_the_others_are_pairs() -> None:
    fabric = topoopt(12, 20.0)
    by_label = {kind.label: kind.links for kind in kinds(fabric)}
    steps = {label: set((fabric.target[links] - fabric.source[links]) % 12) for label, links in by_label.items()}
    assert steps["ring +1"] == {1}
    ends = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    pairs = [ends[link] for link in by_label["pairs, a circuit each way"]]
    assert pairs
    assert {(target, source) for source, target in pairs} <= set(ends)  # the way back may be a circuit of a ring too


def test_circuits_of_trees_are_named() -> None:
    """12 servers have two trees of 11 edges; those with a port left at both ends are circuits each way."""
    fabric = topoopt(12, collective="double_binary_tree")
    by_label = {kind.label: kind.links for kind in kinds(fabric)}
    stands = fabric.channels.trees[tuple(range(12))][0]
    edges = {edge for up in tree_edges(stands, 1) for edge in (up, up[::-1])}
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    assert by_label["trees +1"].tolist() == [link for link, edge in enumerate(ends) if edge in edges]


def test_a_stride_is_counted_in_the_group() -> None:
    assert stride((0, 1, 2, 3, 4), (0, 2, 4, 1, 3)) == 2
    assert stride((3, 5, 8), (3, 8, 5)) == 2
    assert stride((0, 1, 2, 3), (0, 2, 1, 3)) is None


@pytest.mark.parametrize("servers", [2, 6])
def test_parallel_circuits_are_counted_beside_their_line(servers: int) -> None:
    """2 servers have 4 circuits each way, 6 have two rings +1 and two +5."""
    fabric = topoopt(servers, 0.0)
    axes = draw_networks("", [Drawn("", fabric)]).axes[0]
    counts = [text.get_text() for text in axes.texts if text.get_text().startswith("\N{MULTIPLICATION SIGN}")]
    assert counts == [f"\N{MULTIPLICATION SIGN}{8 // (2 if servers == 2 else 4)}"] * fabric.links


def test_the_wider_line_carries_more() -> None:
    fabric = topoopt(12)
    carried = np.arange(fabric.links, dtype=float)
    figure = draw_networks("", [Drawn("", fabric, carried)])
    widths = np.zeros(fabric.links)
    for kind, lines in zip(kinds(fabric), figure.axes[0].collections[::2], strict=False):
        widths[kind.links] = lines.get_linewidths()
    assert (np.diff(widths) > 0).all()


def test_switches_stand_above_their_servers_tier_by_tier() -> None:
    fabric = FABRICS["fat-tree"]()
    height = in_tiers(fabric)[:, 1]
    assert tier_names(fabric) == ["server", "edge", "aggregation", "core"]
    assert (np.abs(tiers(fabric)[fabric.source] - tiers(fabric)[fabric.target]) == 1).all()
    assert set(height[: fabric.servers]) == {0.0}


@pytest.mark.parametrize("name", ["dragonfly", "dragonfly+", "slim fly"])
def test_links_between_groups_are_of_a_kind_of_their_own(name: str) -> None:
    fabric = FABRICS[name]()
    place = np.array([node.rpartition(" ")[2].rpartition(".")[0] for node in fabric.nodes])
    between = (np.minimum(fabric.source, fabric.target) >= fabric.servers) & (
        place[fabric.source] != place[fabric.target]
    )
    (kind,) = [kind for kind in kinds(fabric) if "between groups" in kind.label]
    assert kind.links.tolist() == np.flatnonzero(between).tolist()


def test_lines_of_many_servers_are_faint_and_those_of_few_are_not() -> None:
    """So that links that carry more can be seen among all others: a kind is no more than one layer of ink."""
    alpha = {}
    for servers in (16, 1024):
        fabric = LeafSpine(**SETTINGS, servers_per_leaf=16).build(servers, demand(servers))
        axes = draw_networks("", [Drawn("", fabric)]).axes[0]
        for lines in (one for one in axes.collections if isinstance(one, LineCollection)):
            width = np.asarray(lines.get_linewidths()) * 2.3 / (72 * 8.0)  # of a unit; a panel of 8 inches shows 2.3
            points = np.array(lines.get_segments())
            ink = (np.hypot(*np.diff(points, axis=1).T).sum(axis=0) * width).sum() / np.ptp(points, axis=(0, 1)).prod()
            alpha[servers] = min(alpha.get(servers, 1.0), lines.get_alpha())
            assert ink * lines.get_alpha() <= 1.0
    assert alpha[1024] < 0.2 < 0.8 < alpha[16]


def test_many_servers_have_few_names() -> None:
    axes = draw_networks("", [Drawn("", topoopt(432))]).axes[0]
    assert 10 <= len(axes.texts) <= 30


def test_a_network_of_one_server_can_be_drawn() -> None:
    figure = draw_networks("", [Drawn("alone", topoopt(1))])
    figure.set_dpi(20)
    assert "no links" in figure.axes[0].get_title()
    assert png(figure)
