"""Laws of networks attached to nodes: paths are chains of links, keep to rails, and are whole with PXN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.attached import Attached, FoldedRoutes
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.clos import Clos
from topoflow.fabric.links import Links
from topoflow.fabric.routing.base import NO_LINK, as_routes
from topoflow.fabric.torus import Torus
from topoflow.hardware import Device, Link, Node
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import preset

SHAPES: list[dict[str, Any]] = [
    {},
    {"rails": True},
    {"rails": True, "separate": True},
    {"planes": 2},
    {"pod_leaves": 2, "pod_oversubscription": 2},
    {"rails": True, "oversubscription": 2},
]
NODES = [("hgx_h100", 32), ("gb200_nvl72", 144), ("gh200", 8), ("l40s", 16), ("dgx_a100", 24), ("mi300x", 16)]


def attached(node: str, gpus: int, pxn: bool = True, folded: bool = False, **shape: Any) -> Fabric:
    cluster = Cluster(preset(node), gpus)
    servers = cluster.nodes if folded else gpus
    return Attached(Clos(50e9, 1, 1e-6, leaf_ports=2, **shape), cluster, pxn, folded).build(servers, Demand(servers))


@pytest.mark.parametrize(("node", "gpus"), NODES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pxn", [True, False])
def test_every_path_is_a_chain_of_links_between_its_gpus(
    node: str, gpus: int, shape: dict[str, Any], pxn: bool
) -> None:
    fabric = attached(node, gpus, pxn, **shape)
    routes = as_routes(fabric.route)
    source, target = np.divmod(np.arange(gpus * gpus), gpus)
    count = routes.choices(source, target).prod(axis=1)
    assert count.all() or (not pxn and shape.get("separate"))
    source, target, count = source[count > 0], target[count > 0], count[count > 0]
    number = np.random.default_rng(0).integers(0, 2**30, len(source)) % count
    rows = routes.links(source, target, number)
    hop = rows != NO_LINK
    for first, last, row, hops in zip(source.tolist(), target.tolist(), rows, hop, strict=True):
        links = row[hops]
        ends = [first, *fabric.target[links].tolist()]
        assert fabric.source[links].tolist() == ends[:-1]
        assert ends[-1] == last
        assert len(set(links.tolist())) == len(links)


def test_pxn_reaches_another_rail_without_leaving_its_leaf() -> None:
    fabric = attached("hgx_h100", 16, rails=True)
    (path,) = fabric.route(0, 11)
    names = [fabric.link_name(link) for link in path]
    assert names[1] == "NVS 0.0 to GPU 0.3"
    assert names[4:6] == ["NIC 0.3 to leaf 3", "leaf 3 to NIC 1.3"]
    spines = attached("hgx_h100", 16, pxn=False, rails=True).route(0, 11)
    assert any("spine" in attached("hgx_h100", 16, rails=True).link_name(link) for link in spines[0])


def test_ports_are_divided_among_planes() -> None:
    fabric = attached("hgx_h100", 16, rails=True, planes=2)
    between = [
        fabric.bandwidth[link] for link in range(fabric.links) if fabric.link_name(link).startswith("NIC 0.0 to l")
    ]
    assert between == [25e9, 25e9]


def test_pods_are_joined_by_a_part_of_their_bandwidth() -> None:
    fabric = attached("hgx_h100", 64, pod_leaves=8, pod_oversubscription=4)
    up = sum(rate for link, rate in enumerate(fabric.bandwidth) if " to core" in fabric.link_name(link))
    below = sum(
        rate
        for link, rate in enumerate(fabric.bandwidth)
        if " to leaf" in fabric.link_name(link) and "NIC" in fabric.link_name(link)
    )
    assert up == pytest.approx(below / 4)


def test_folded_paths_are_those_of_all_gpus() -> None:
    folded = attached("hgx_h100", 32, folded=True, rails=True)
    assert isinstance(folded.route, FoldedRoutes)
    begin, end, channel = folded.route.unfolded(np.array([0, 1]), np.array([2, 1]), np.array([0, 3]))
    assert begin.tolist() == [*range(8), *range(8, 16)]
    assert end.tolist() == [*range(16, 24), 11, 12, 13, 14, 15, 8, 9, 10]
    assert not channel.any()


def test_networks_that_wire_servers_are_refused() -> None:
    cluster = Cluster(preset("hgx_h100"), 16)
    with pytest.raises(ValueError, match=r"fabric: must join the ports of hgx_h100 by switches .* got torus"):
        Attached(Torus(50e9, 4, 1e-6), cluster).build(16, Demand(16))
    with pytest.raises(ValueError, match="gpus: must be the 16 of the cluster, got 8"):
        Attached(Clos(50e9, 1, 1e-6), cluster).build(8, Demand(8))


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ({"leaf_ports": 0}, "clos.leaf_ports: must be positive"),
        ({"planes": 0}, "clos.planes: must be positive"),
        ({"oversubscription": 0.5}, "clos.oversubscription: must be at least 1, got 0.5"),
        ({"separate": True}, "clos.separate: must be false without rails, got true"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shape: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Clos(50e9, 1, 1e-6, **shape)


def test_a_node_without_nics_is_a_network_by_itself() -> None:
    links = tuple(Link((Device("GPU", a), Device("GPU", b)), "NVL", 1e9, 1e-6) for a, b in ((0, 1), (1, 2), (0, 2)))
    box = Cluster(Node("box", "H100", 90, "", links, ()), 3)
    fabric = Attached(Clos(50e9, 1, 1e-6), box).build(3, Demand(3))
    assert (fabric.links, fabric.bill) == (6, (Item("gpu_h100", 3), Item("host_h100", 3)))
    assert [fabric.link_name(link) for link in fabric.route(2, 0)[0]] == ["GPU 0.2 to GPU 0.0"]


def by_links(folder: Path, *rows: tuple[str, str, float], folded: bool = False) -> Fabric:
    """Two H100 nodes whose equal NICs meet at a switch, with more links in both directions."""
    cables = [(f"NIC {node}.{rail}", f"leaf {rail}", 50e9) for rail in range(8) for node in range(2)]
    both = [(a, b, rate) for first, last, rate in (*cables, *rows) for a, b in ((first, last), (last, first))]
    file = folder / "links.csv"
    file.write_text("src,dst,bandwidth,latency\n" + "".join(f"{a},{b},{rate},1e-6\n" for a, b, rate in both))
    cluster = Cluster(preset("hgx_h100"), 16)
    servers = cluster.nodes if folded else cluster.gpus
    return Attached(Links(str(file)), cluster, folded=folded).build(servers, Demand(servers))


def rates(fabric: Fabric) -> dict[str, float]:
    return {fabric.link_name(link): float(fabric.bandwidth[link]) for link in range(fabric.links)}


def test_a_list_of_links_names_nics_and_the_links_of_a_node_that_differ(tmp_path: Path) -> None:
    plain, slow = by_links(tmp_path), by_links(tmp_path, ("GPU 0.2", "NVS 0.0", 225e9))
    wired = attached("hgx_h100", 16, rails=True, separate=True)
    assert rates(plain) == rates(wired)
    assert [plain.link_name(link) for link in plain.route(2, 10)[0]] == [
        wired.link_name(link) for link in wired.route(2, 10)[0]
    ]
    changed = {name: rate for name, rate in rates(slow).items() if rates(plain)[name] != rate}
    assert changed == {"GPU 0.2 to NVS 0.0": 225e9, "NVS 0.0 to GPU 0.2": 225e9}
    assert by_links(tmp_path, folded=True).servers == 2


@pytest.mark.parametrize(
    ("row", "folded", "message"),
    [
        (("GPU 0.2", "leaf 0", 1e9), False, r"links.csv: links: must join devices of one node, .* 'GPU 0.2' and 'leaf"),
        (("GPU 0.2", "GPU 0.3", 1e9), False, r"links: must be links that paths of GPUs take, got 'GPU 0.2' to 'GPU"),
        (("GPU 0.2", "NVS 0.0", 1e9), True, "fold: must be false, as links lists links inside nodes, got true"),
    ],
)
def test_a_link_that_a_node_cannot_have_is_refused(
    tmp_path: Path, row: tuple[str, str, float], folded: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        by_links(
            tmp_path,
            ("leaf 0", "leaf 1", 25e9),
            row,
            *[(f"leaf {n}", "leaf 0", 25e9) for n in range(2, 8)],
            folded=folded,
        )
