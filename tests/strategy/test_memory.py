"""What a strategy needs on one GPU, against closed forms and published counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.hybrid import Hybrid
from topoflow.strategy.memory import layer_bytes_per_gpu
from topoflow.strategy.placement import Placement
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer
from topoflow.workload.vgg16 import Vgg16

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)


def without_activations(workload: LayerGraph) -> LayerGraph:
    layers = [replace(layer, output_elements=0, activation=0) for layer in workload.layers]
    return replace(workload, layers=tuple(layers))


@pytest.mark.parametrize(
    ("optimizer", "dtype", "per_parameter"),
    [
        ("adam", "bfloat16", 16),  # ZeRO 3.1: 2 + 2 + 12
        ("adam", "float32", 16),  # 4 + 4 and two averages of 4
        ("sgd", "float32", 8),
        ("momentum", "float32", 12),
    ],
)
def test_a_parameter_takes_the_bytes_of_its_optimizer(optimizer: str, dtype: str, per_parameter: int) -> None:
    workload = replace(without_activations(Vgg16(A100).build()), optimizer=optimizer, dtype=dtype)
    needed = DataParallel().place(workload, 4).bytes_per_gpu(workload)
    np.testing.assert_allclose(needed, per_parameter * workload.parameters)


def test_zero_needs_120_gb_for_7_5_billion_parameters() -> None:
    # Rajbhandari et al., figure 1: "Baseline [...] 120GB" for 7.5 B parameters with mixed-precision Adam
    layer = Layer("model", "dense", 7_500_000_000, 1.0, 0, 0)
    workload = LayerGraph("model", (layer,), 1, A100, dtype="bfloat16", optimizer="adam")
    assert DataParallel().place(workload, 64).bytes_per_gpu(workload) == pytest.approx(np.full(64, 120e9))


def test_a_block_of_a_transformer_keeps_32_bytes_per_token_and_column() -> None:
    # Korthikanti et al. count 34 s b h with 2 of dropout masks
    one, two = (Transformer(A100, layers=layers, dtype="bfloat16").build() for layers in (1, 2))
    alone = [replace(workload, layers=tuple(_weightless(workload))) for workload in (one, two)]
    more = [DataParallel().place(workload, 1).bytes_per_gpu(workload)[0] for workload in alone]
    assert more[1] - more[0] == pytest.approx(32 * 1024 * 12 * 768)  # sequence, batch, hidden


def _weightless(workload: LayerGraph) -> list[Layer]:
    return [replace(layer, parameters=0) for layer in workload.layers]


def test_tables_of_the_paper_fit_on_one_server_each_and_not_on_every_server() -> None:
    # 64 tables of 10^7 * 128 floats are 5.12 GB each, spread over 4 GPUs of 40 GB. Hybrid on 64 servers: one on each;
    # data parallel: 64 * 5.12 GB / 4 = 81.9 GB of weights, and as much of gradients
    workload = Dlrm(A100).build()
    assert Hybrid().place(workload, 64).bytes_per_gpu(workload).max() < A100.memory
    assert DataParallel().place(workload, 64).bytes_per_gpu(workload).min() > 163.8e9


def test_a_table_is_spread_over_the_gpus_of_its_server() -> None:
    # 1280 M weights / 4 GPUs; gradients of 8 servers * 128 * 4 samples * 100 rows * 128, and outputs of 8 * 128 * 128
    workload = Dlrm(A100, tables=1).build()
    table = workload.layers[0]
    rows = 8 * 128 * 4 * 100 * 128 / 4
    assert layer_bytes_per_gpu(workload, table, 1, 8) == 4 * (1.28e9 / 4 + rows + 8 * 128 * 128)


@given(st.integers(1, 24), st.data())
def test_a_server_needs_the_sum_of_its_layers(servers: int, data: st.DataObject) -> None:
    workload = Dlrm(A100, tables=4).build()
    held = st.sets(st.integers(0, servers - 1), min_size=1).map(lambda holders: tuple(sorted(holders)))
    placement = {layer.name: data.draw(held) for layer in workload.layers}
    needed = Placement("some", servers, placement).bytes_per_gpu(workload)
    for server in range(servers):
        parts = [
            layer_bytes_per_gpu(workload, layer, len(placement[layer.name]), servers)
            for layer in workload.layers
            if server in placement[layer.name]
        ]
        assert needed[server] == pytest.approx(sum(parts))


@given(st.integers(1, 64))
def test_more_copies_never_need_more_of_a_server_for_dense_layers(servers: int) -> None:
    workload = Vgg16(A100).build()
    for layer in workload.layers:
        needs = [layer_bytes_per_gpu(workload, layer, holders, servers) for holders in range(1, servers + 1)]
        assert needs == sorted(needs, reverse=True)


def test_an_optimizer_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^workload\.optimizer: must be one of sgd, momentum, adam, got 'lion'$"):
        replace(Vgg16(A100).build(), optimizer="lion")
