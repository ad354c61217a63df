"""Laws of clusters: which GPUs they have, by which ports these leave their node."""

from __future__ import annotations

import pytest

from topoflow.hardware import Device, Link, Node
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_a_cluster_has_the_gpus_of_its_nodes_and_their_ports(name: str) -> None:
    node = preset(name)
    cluster = Cluster(node, 2 * len(node.gpus))
    assert (cluster.nodes, cluster.devices) == (2, node.gpus)
    assert set(cluster.ports) == set(node.ports)
    assert [port.rail for port in cluster.ports] == sorted(port.rail for port in cluster.ports)


def test_a_part_of_a_node_has_the_ports_of_its_gpus() -> None:
    cluster = Cluster(preset("hgx_h100"), 6, per_node=3)
    assert (cluster.nodes, len(cluster.ports)) == (2, 3)
    assert Cluster(preset("gb200_nvl72"), 16).nodes == 1


def test_gpus_without_a_way_out_are_refused() -> None:
    node = Node("box", "H100", 90, "", (Link((Device("GPU", 0), Device("GPU", 1)), "NVL", 1e9, 0.0),), ())
    assert Cluster(node, 2).nodes == 1
    with pytest.raises(ValueError, match="gpus: node box has no NIC, so at most 2, got 4"):
        Cluster(node, 4)
    with pytest.raises(ValueError, match="gpus: must fill whole nodes of 2, got 3"):
        Cluster(node, 3)
    with pytest.raises(ValueError, match=r"gpus_per_node: must be within 1\.\.2 of node box, got 3"):
        Cluster(node, 2, 3)
