"""Where nodes are drawn: apart from each other, a torus as a grid, the switches of a dragonfly's group together."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.hyperx import HyperX
from topoflow.fabric.ring import Ring
from topoflow.fabric.slim_fly import SlimFly
from topoflow.fabric.torus import Torus
from topoflow.report.draw.network.layout import curves, layout

Design = type[Torus] | type[Dragonfly] | type[DragonflyPlus] | type[SlimFly] | type[HyperX] | type[Ring]


def built(design: Design, servers: int) -> Fabric:
    none = np.zeros(0, np.int64)
    sizes = {"servers_per_switch": 4} if design is HyperX else {}
    return design(bandwidth=1e9, degree=4, latency=0.0, **sizes).build(
        servers, Demand.from_pairs(servers, none, none, np.zeros(0), {})
    )


@pytest.mark.parametrize("servers", [16, 128, 1024])
@pytest.mark.parametrize("design", [Torus, HyperX, Dragonfly, DragonflyPlus, SlimFly])
def test_no_two_nodes_are_drawn_on_each_other(design: Design, servers: int) -> None:
    place = layout(built(design, servers)).place
    assert len(np.unique(place.round(9), axis=0)) == len(place)


@pytest.mark.parametrize("servers", [6, 16, 128, 1024])
def test_links_of_a_torus_are_along_the_lines_of_a_grid(servers: int) -> None:
    fabric = built(Torus, servers)
    drawing = layout(fabric)
    assert drawing.shape == "grid"
    along = np.abs(drawing.place[fabric.source] - drawing.place[fabric.target])
    assert (along.min(axis=1) < 1e-9).all()


@pytest.mark.parametrize("servers", [16, 128])
@pytest.mark.parametrize("design", [Torus, HyperX])
def test_a_link_of_a_grid_goes_round_the_nodes_between_its_ends(design: Design, servers: int) -> None:
    fabric = built(design, servers)
    drawing = layout(fabric)
    lattice = np.arange(fabric.servers if design is Torus else len(fabric.nodes) - fabric.servers)
    lattice += len(fabric.nodes) - len(lattice)
    step = np.diff(np.unique(drawing.place[lattice, 0].round(9))).min()
    for link, curve in enumerate(curves(drawing, fabric, 41)):
        others = drawing.place[np.setdiff1d(lattice, [fabric.source[link], fabric.target[link]])]
        near = np.hypot(*(curve[:, None] - others[None]).transpose(2, 0, 1)).min()
        assert near > 0.02 * step


def test_rings_are_circles() -> None:
    assert layout(built(Ring, 16)).shape == "circle"


@pytest.mark.parametrize("servers", [128, 1024])
@pytest.mark.parametrize("design", [Dragonfly, DragonflyPlus, SlimFly])
def test_switches_of_a_group_are_nearer_to_their_middle_than_to_any_other(design: Design, servers: int) -> None:
    fabric = built(design, servers)
    drawing = layout(fabric)
    assert drawing.shape == "groups"
    place = drawing.place[fabric.servers :]
    names = [name.rpartition(" ")[2].rpartition(".")[0] for name in fabric.nodes[fabric.servers :]]
    group = np.unique(names, return_inverse=True)[1]
    middle = np.array([place[group == number].mean(axis=0) for number in range(group.max() + 1)])
    far = np.hypot(*(place[:, None] - middle[None]).transpose(2, 0, 1))
    assert (far.argmin(axis=1) == group).all()
