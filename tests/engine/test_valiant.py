"""Valiant's routing: paths by way of a middle, which no pattern of traffic can overload; and what a dragonfly gains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.paths import routed
from topoflow.engine.lowering.placement import place
from topoflow.engine.lowering.routing import Connections, routing_named
from topoflow.engine.packet import Packet, layout_of
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.torus import Torus
from topoflow.traffic.base import Traffic, Transfer

B = 12.5e9  # B/s
GROUPS = 9
DRAGONFLY = Dragonfly(B, 1, 1e-6, nodes=2, routers=4, groups=GROUPS, global_links=1).build(72, Demand(72))
FABRICS = [
    DRAGONFLY,
    FatTree(B, 1, 0.0, radix=4).build(16, Demand(16)),
    Torus(B, 4, 0.0).build(16, Demand(16)),
    IdealSwitch(B, 2, 0.0).build(2, Demand(2)),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.name} {fabric.servers}")
def test_every_path_leads_from_source_to_target_and_visits_no_node_twice(fabric: Fabric) -> None:
    source, target = np.nonzero(~np.eye(fabric.servers, dtype=bool))
    hops = routed(fabric, routing_named("valiant"), Connections(source, target, np.zeros_like(source)), 3)
    several: Any = hops.alternatives
    if several is None:  # two servers: nobody can be in the middle
        assert fabric.servers == 2
        return
    np.testing.assert_allclose(
        np.bincount(np.repeat(np.arange(len(source)), np.diff(several.offsets)), several.share), 1
    )
    for pair in np.random.default_rng(0).integers(len(source), size=100).tolist():
        for row in range(several.offsets[pair], several.offsets[pair + 1]):
            links = several.links[several.hop_offsets[row] : several.hop_offsets[row + 1]]
            nodes = [source[pair], *fabric.target[links]]
            assert fabric.source[links].tolist() == nodes[:-1]
            assert nodes[-1] == target[pair]
            assert len(set(nodes)) == len(nodes)


def next_group(routing: str, size: float = 64 * 4096.0) -> World:
    """Every server sends to its place in the next group: minimal routes have one global cable for 8 of them."""
    tasks = [Transfer(size, server, (server + 8) % 72) for server in range(72)]
    return place(Traffic.from_tasks("next group", 72, tasks), DRAGONFLY, name="next group", routing=routing)


@pytest.mark.parametrize("fidelity", [Fluid(), Packet()], ids=lambda fidelity: fidelity.name)
def test_valiant_spreads_what_meets_on_one_global_cable(fidelity: Any) -> None:
    """Minimal: 8 messages on one cable. Valiant: two of about 72 x 2 / (9 x 8) = 2 cables' worth on every cable."""
    minimal, valiant = fidelity.simulate([next_group("ecmp"), next_group("valiant")])
    alone = 64 * 4096 / B
    assert minimal.makespan > 8 * alone
    assert valiant.makespan < 0.6 * minimal.makespan


def test_a_dragonfly_needs_few_virtual_channels() -> None:
    """Those that exclude every deadlock. Source: 2 for minimal, 3 for Valiant routes in Kim et al., ISCA 2008, IV-C."""
    assert layout_of(next_group("ecmp").graph, Packet()).channels_needed <= 2
    everybody = [Transfer(1.0, one, other) for one in range(72) for other in range(72) if one != other]
    for routing, limit in (("ecmp", 2), ("valiant", 4)):
        world = place(Traffic.from_tasks("all", 72, everybody), DRAGONFLY, name="all", routing=routing)
        assert layout_of(world.graph, Packet()).channels_needed <= limit
