"""Laws of the network between nodes in ``topoflow nccl``: it makes no collective faster, and is named as the limit."""

from __future__ import annotations

import pytest

from topoflow.cli import main
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import OPERATIONS
from topoflow.collectives.nccl_time import predict
from topoflow.hardware.presets import preset
from topoflow.study.nccl_network import NcclNetwork

SIZE = 2**30


@pytest.mark.parametrize("fabric", ["ideal_switch", "rail_optimized", "rail_only", "fat_tree", "leaf_spine", "clos"])
@pytest.mark.parametrize(("node", "gpus"), [("hgx_h100", 64), ("gh200", 16), ("l40s", 32)])
def test_a_network_never_makes_a_collective_faster(fabric: str, node: str, gpus: int) -> None:
    comm = Communicator(preset(node), gpus)
    network = NcclNetwork(fabric, comm, True)
    for op in OPERATIONS:
        alone = predict(comm, op, SIZE)
        there = network.on(alone)
        assert there.time >= alone.time * (1 - 1e-12)
        assert len(there.terms) == len(alone.terms)
        if fabric == "ideal_switch":
            assert there == alone


def test_the_layer_that_limits_has_its_name() -> None:
    comm = Communicator(preset("hgx_h100"), 256)
    assert NcclNetwork("rail_only", comm, True).on(predict(comm, "all_reduce", SIZE)).limit == "NIC"
    assert NcclNetwork("leaf_spine", comm, True).on(predict(comm, "all_to_all", SIZE)).limit == "spine"
    assert NcclNetwork("fat_tree", comm, True).on(predict(comm, "all_to_all", SIZE)).limit == "aggregation"


def test_inside_a_node_there_is_no_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl", "all_reduce", "gpus=8", "fabric=torus"]) == 0
    assert main(["nccl", "all_reduce", "gpus=16", "fabric=torus"]) != 0
    assert "torus" in capsys.readouterr().err
