"""Where nodes are drawn: apart from each other, a torus as a grid, the switches of a dragonfly's group together."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.slim_fly import SlimFly
from topoflow.fabric.torus import Torus
from topoflow.report.draw.network.layout import places

Design = type[Torus] | type[Dragonfly] | type[DragonflyPlus] | type[SlimFly]


def built(design: Design, servers: int) -> Fabric:
    none = np.zeros(0, np.int64)
    return design(bandwidth=1e9, degree=4, latency=0.0).build(
        servers, Demand.from_pairs(servers, none, none, np.zeros(0), {})
    )


@pytest.mark.parametrize("servers", [16, 128, 1024])
@pytest.mark.parametrize("design", [Torus, Dragonfly, DragonflyPlus, SlimFly])
def test_no_two_nodes_are_drawn_on_each_other(design: Design, servers: int) -> None:
    place = places(built(design, servers))
    assert len(np.unique(place.round(9), axis=0)) == len(place)


@pytest.mark.parametrize("servers", [6, 16, 128, 1024])
def test_links_of_a_torus_are_along_the_lines_of_a_grid(servers: int) -> None:
    fabric = built(Torus, servers)
    along = np.abs(places(fabric)[fabric.source] - places(fabric)[fabric.target])
    assert (along.min(axis=1) < 1e-9).all()


@pytest.mark.parametrize("servers", [128, 1024])
def test_switches_of_a_group_are_nearer_to_their_middle_than_to_any_other(servers: int) -> None:
    fabric = built(Dragonfly, servers)
    place = places(fabric)[fabric.servers :]
    group = np.array([int(name.rpartition(" ")[2].partition(".")[0]) for name in fabric.nodes[fabric.servers :]])
    middle = np.array([place[group == number].mean(axis=0) for number in range(group.max() + 1)])
    far = np.hypot(*(place[:, None] - middle[None]).transpose(2, 0, 1))
    assert (far.argmin(axis=1) == group).all()
