"""What an iteration moves, against closed forms and TopoOpt's own examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.strategy.base import Strategy
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.hybrid import Hybrid
from topoflow.traffic.base import Collective, Traffic, Transfer
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.bert import Bert
from topoflow.workload.candle import Candle
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.ncf import Ncf
from topoflow.workload.resnet50 import Resnet50
from topoflow.workload.transformer import Transformer
from topoflow.workload.vgg16 import Vgg16

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12, "float64": 9.7e12}, 1555e9, 300e9, 40e9)
MODELS = [model(A100).build() for model in (Dlrm, Candle, Bert, Ncf, Resnet50, Vgg16, Transformer)]
FIGURE_1 = Hybrid(placement={"E0": 0, "E1": 3, "E2": 8, "E3": 13})  # TopoOpt 2.1


def all_reduced(traffic: Traffic) -> float:
    return sum(task.bytes for task in traffic.tasks if isinstance(task, Collective))


def transferred(traffic: Traffic, kind: str) -> float:
    return sum(task.bytes for task in traffic.tasks if isinstance(task, Transfer) and task.name.startswith(kind))


def crossing(workload: LayerGraph, strategy: Strategy) -> int:
    """Bytes of activations whose producer and consumer are on different servers, sample by sample."""
    layers = {layer.name: layer for layer in workload.layers}
    elements = sum(
        layers[earlier].output_elements
        for layer in workload.layers
        for earlier in layer.after
        for server in range(strategy.servers)
        if strategy.host(earlier, server) != strategy.host(layer.name, server)
    )
    return elements * workload.batch_per_server * workload.element_bytes


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.name)
def test_data_parallel_reduces_every_parameter_once_and_moves_nothing_else(workload: LayerGraph) -> None:
    traffic = lower(workload, DataParallel().place(workload, 4))
    assert all_reduced(traffic) == workload.parameters * workload.element_bytes
    assert {task.group for task in traffic.tasks if isinstance(task, Collective)} == {(0, 1, 2, 3)}
    assert not any(isinstance(task, Transfer) for task in traffic.tasks)


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.name)
def test_hybrid_reduces_what_is_replicated_and_moves_what_is_not(workload: LayerGraph) -> None:
    strategy = Hybrid().place(workload, 4)
    traffic = lower(workload, strategy)
    replicated = sum(layer.parameters for layer in workload.layers if layer.kind != "table")
    assert all_reduced(traffic) == replicated * workload.element_bytes
    assert transferred(traffic, "activations") == crossing(workload, strategy)
    assert transferred(traffic, "gradients") == crossing(workload, strategy)


def test_dlrm_of_the_paper_moves_its_closed_form() -> None:
    # 64 tables, 128 servers, 4 * 128 = 512 samples per server, 128 floats of 4 B per sample and table: every server
    # but the holder gets 512 * 128 * 4 = 262,144 B of each table
    workload = Dlrm(A100).build()
    traffic = lower(workload, Hybrid().place(workload, 128))
    assert transferred(traffic, "activations") == 64 * 127 * 262_144
    assert transferred(traffic, "gradients") == 64 * 127 * 262_144


def test_figure_1_has_its_rows_and_columns() -> None:
    # TopoOpt 2.1 and appendix D: four tables of 512 columns, double precision, 8192 samples per server, so that
    # 8192 * 512 * 8 B = 32 MiB of each table go to each server, and come back
    workload = Dlrm(A100, batch_per_gpu=2048, dtype="float64", tables=4, dimension=512).build()
    demand = lower(workload, FIGURE_1.place(workload, 16)).demand()
    holders = [0, 3, 8, 13]
    expected = np.zeros((16, 16))
    expected[holders, :] += 32 * 2**20  # activations: one to many
    expected[:, holders] += 32 * 2**20  # gradients: many to one
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(demand.matrix(), expected)


def test_appendix_d_all_reduces_its_tables_in_data_parallel() -> None:
    # "20 GB embedding tables with double-precision [...] each server would need to send and receive 37.5 GB":
    # 4 tables * 1,220,703 rows * 512 * 8 B = 20 GB; a ring sends 2 * 15 / 16 of it
    workload = Dlrm(A100, dtype="float64", tables=4, rows=1_220_703, dimension=512).build()
    groups = lower(workload, DataParallel().place(workload, 16)).demand().all_reduce
    dense = sum(layer.parameters for layer in workload.layers if layer.kind != "table") * 8
    tables = groups[tuple(range(16))] - dense
    assert 2 * 15 / 16 * tables == pytest.approx(37.5e9, rel=1e-6)
    # with the tables on one server each, nothing of them is left to reduce
    groups = lower(workload, FIGURE_1.place(workload, 16)).demand().all_reduce
    assert groups == {tuple(range(16)): dense}


def test_two_copies_of_a_table_halve_its_transfers_and_reduce_it_in_a_pair() -> None:
    workload = Dlrm(A100, tables=1).build()
    one = lower(workload, Hybrid(placement={"E0": 2}).place(workload, 8))
    two = lower(workload, Hybrid(placement={"E0": [2, 5]}).place(workload, 8))
    parcel = 512 * 128 * 4  # B: samples of a server * dimension * element
    assert transferred(one, "activations") == 7 * parcel
    assert transferred(two, "activations") == 6 * parcel
    assert two.demand().all_reduce[2, 5] == 10**7 * 128 * 4
    assert (2, 5) not in one.demand().all_reduce


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("rule", [DataParallel(), Hybrid()], ids=["data_parallel", "hybrid"])
def test_one_server_reduces_among_its_gpus_and_one_gpu_not_at_all(
    workload: LayerGraph, rule: DataParallel | Hybrid
) -> None:
    traffic = lower(workload, rule.place(workload, 1))
    assert not any(isinstance(task, Transfer) for task in traffic.tasks)
    assert {(task.group, task.local) for task in traffic.tasks if isinstance(task, Collective)} == {((0,), 4)}
    tables = sum(layer.parameters for layer in workload.layers if layer.kind == "table")  # sharded, not replicated
    assert all_reduced(traffic) == (workload.parameters - tables) * workload.element_bytes
    alone = replace(workload, gpus_per_server=1)
    assert not any(isinstance(task, Transfer | Collective) for task in lower(alone, rule.place(alone, 1)).tasks)


def test_the_demand_between_servers_counts_what_their_members_exchange() -> None:
    # 3 servers of 2 members: in an all-to-all each hands S/6 to the 2 of another server, 2 * 2 * S/6 = 2 S/3
    demand = Traffic.from_tasks("t", 3, (Collective("all_to_all", 30.0, (0, 1, 2), local=2),)).demand()
    np.testing.assert_array_equal(demand.matrix(), 20.0 * (1 - np.eye(3)))
    assert not demand.all_reduce


def test_a_gather_and_a_scatter_are_on_rings_an_all_reduce() -> None:
    # their order is free as well, and each sends (n-1)/n S per rank, of the 2 (n-1)/n S of an all-reduce
    halves = tuple(Collective(op, 30.0, (0, 1, 2), local=2) for op in ("reduce_scatter", "all_gather"))
    demand = Traffic.from_tasks("t", 3, halves).demand()
    all_reduce = Traffic.from_tasks("t", 3, (Collective("all_reduce", 30.0, (0, 1, 2), local=2),)).demand()
    assert demand.all_reduce == all_reduce.all_reduce == {(0, 1, 2): 30.0}
    assert not demand.matrix().any()


def test_a_collective_knows_its_server_mates() -> None:
    workload = Resnet50(A100, gpus_per_server=8).build()
    traffic = lower(workload, DataParallel().place(workload, 2))
    assert {task.local for task in traffic.tasks if isinstance(task, Collective)} == {8}
    assert traffic.local_bandwidth == A100.local_bandwidth


def test_a_layer_without_a_place_is_an_error() -> None:
    workload = Resnet50(A100).build()
    other = DataParallel().place(Vgg16(A100).build(), 2)
    with pytest.raises(ValueError, match=r"^strategy\.placement: must place every layer of resnet50, got no 'conv1'$"):
        lower(workload, other)
