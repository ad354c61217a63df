"""Models come out with the parameters and the arithmetic that were published, or that TopoOpt's own files hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topoflow.strategy.parallel import Parallel
from topoflow.workload.base import Layer, Workload
from topoflow.workload.bert import Bert
from topoflow.workload.candle import Candle
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.ncf import Ncf
from topoflow.workload.resnet50 import Resnet50
from topoflow.workload.transformer import Transformer
from topoflow.workload.vgg16 import Vgg16

A100 = Gpu("A100", {"float32": 19.5e12, "tfloat32": 156e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)

DEEPSEEK = Moe(
    A100,
    layers=28,
    hidden=2048,
    heads=16,
    key_value_heads=16,
    feed_forward=1408,
    experts=64,
    top_k=6,
    shared_experts=2,
    dense_layers=1,
    dense_feed_forward=10944,
    vocabulary=102400,
)
DEEPSEEK_V3 = Moe(
    A100,
    layers=61,
    hidden=7168,
    heads=128,
    key_value_heads=128,
    feed_forward=2048,
    experts=256,
    top_k=8,
    shared_experts=1,
    dense_layers=3,
    dense_feed_forward=18432,
    vocabulary=129280,
    query_rank=1536,
    key_value_rank=512,
    head_size=192,
    rotary_size=64,
    value_size=128,
)
LLAMA = {"learned_positions": False, "gated": True, "tied": False, "bias": False}


def multiply_adds(workload: Workload) -> float:
    return sum(layer.forward_flops for layer in workload.layers) / 2


def dense(workload: Workload) -> int:
    """Parameters outside the tables."""
    return sum(layer.parameters for layer in workload.layers if layer.kind != "table")


def test_resnet50_has_the_parameters_of_torchvision() -> None:
    assert Resnet50(A100).build().parameters == 25_557_032  # torchvision.models.ResNet50_Weights, num_params


def test_vgg16_has_the_parameters_of_torchvision() -> None:
    assert Vgg16(A100).build().parameters == 138_357_544  # torchvision.models.VGG16_Weights, num_params


def test_bert_base_has_its_published_parameters() -> None:
    # google-research/bert, bert-base-uncased without the pre-training heads, as counted by transformers.BertModel
    assert Bert(A100, hidden=768, heads=12).build().parameters == 109_482_240


def test_bert_large_has_its_published_parameters() -> None:
    assert Bert(A100, layers=24).build().parameters == 335_141_888  # transformers.BertModel, bert-large-uncased


def test_gpt2_has_its_published_parameters() -> None:
    assert Transformer(A100).build().parameters == 124_439_808  # transformers.GPT2Model, gpt2


def test_gpt3_has_175_billion_parameters() -> None:
    # Brown et al., NeurIPS 2020, table 2.1: 96 layers of 12288, 96 heads, 2048 tokens
    sizes = {"layers": 96, "hidden": 12288, "heads": 96, "key_value_heads": 96, "feed_forward": 4 * 12288}
    model = Transformer(A100, sequence=2048, **sizes).build()
    assert model.parameters == pytest.approx(175e9, rel=0.005)


def test_llama_2_7b_has_its_published_parameters() -> None:
    sizes = {"layers": 32, "hidden": 4096, "heads": 32, "key_value_heads": 32, "feed_forward": 11008}
    model = Transformer(A100, vocabulary=32000, sequence=4096, **sizes, **LLAMA).build()
    assert model.parameters == 6_738_415_616  # meta-llama/Llama-2-7b-hf


def test_llama_3_8b_has_its_published_parameters() -> None:
    sizes = {"layers": 32, "hidden": 4096, "heads": 32, "key_value_heads": 8, "feed_forward": 14336}
    model = Transformer(A100, vocabulary=128256, sequence=8192, **sizes, **LLAMA).build()
    assert model.parameters == 8_030_261_248  # meta-llama/Meta-Llama-3-8B


def test_mixtral_8x7b_has_its_published_parameters() -> None:
    assert Moe(A100).build().parameters == 46_702_792_704  # mistralai/Mixtral-8x7B-v0.1


def test_deepseek_moe_16b_has_its_published_parameters() -> None:
    assert DEEPSEEK.build().parameters == 16_375_728_128  # deepseek-ai/deepseek-moe-16b-base


def test_deepseek_v3_has_its_published_parameters() -> None:
    # deepseek-ai/DeepSeek-V3, README: 671 B in all, of which a token uses 37 B (without the embedding, 0.93 B)
    assert DEEPSEEK_V3.build().parameters == pytest.approx(671e9, rel=0.001)


def test_the_module_of_multi_token_prediction_has_its_published_parameters() -> None:
    """deepseek-ai/DeepSeek-V3, README_WEIGHTS.md: 11.5 B of its own, besides the embedding and the head of 0.9 B each.

    The projection of 0.1 B makes it 11.6 B; README.md: 14 B with copies of the embedding and of the head.
    """
    main, more = DEEPSEEK_V3.build(), replace(DEEPSEEK_V3, mtp_layers=1).build()
    module_parameters = more.parameters - main.parameters
    assert module_parameters == pytest.approx(11.5e9, rel=0.01)
    assert module_parameters + 2 * 129280 * 7168 == pytest.approx(14e9, rel=0.05)


def test_multi_token_prediction_computes_one_more_block_and_head() -> None:
    """DeepSeek-V3, 2024, section 2.2: a projection of 2 h x h, a block and a head, for each module."""
    flops = [sum(layer.forward_flops for layer in _with_modules(count).build().layers) for count in range(3)]
    layers = {layer.name: layer for layer in DEEPSEEK_V3.build().layers}
    block = sum(layer.forward_flops for name, layer in layers.items() if name.startswith("block60."))
    projection = 2 * 2 * 7168 * 7168 * 4096
    assert flops[1] - flops[0] == pytest.approx(block + layers["head"].forward_flops + projection, rel=1e-9)
    assert flops[2] - flops[1] == pytest.approx(flops[1] - flops[0], rel=1e-9)


def test_modules_of_multi_token_prediction_are_on_the_last_stage() -> None:
    """They are not counted where blocks are spread; a stage that lacks the embedding's matrix has a copy of it."""
    grids = [Parallel(pipeline=4, tensor=8).place(_with_modules(count).build(), 8) for count in (0, 1)]
    before, after = ([set(stage) for stage in grid.stages] for grid in grids)
    assert before[:3] == after[:3]
    more = after[3] - before[3]
    assert {"mtp0.embedding", "mtp0.projection", "block61.experts_up", "mtp0.head"} <= more
    parameters = grids[1].rank_parameters(_with_modules(1).build())
    assert parameters[3]["mtp0.embedding"] == 129280 * 7168 / 8
    assert parameters[3]["mtp0.head"] == 0
    alone, needed = (grid.bytes_per_gpu(_with_modules(count).build()) for count, grid in enumerate(grids))
    added = sum(parameters[3][name] for name in more)
    assert needed[-1] - alone[-1] >= 16 * added  # weights, gradients and Adam's state; activations come on top
    assert needed[0] == alone[0]


def _with_modules(count: int) -> Moe:
    return replace(DEEPSEEK_V3, mtp_layers=count)


def test_latent_attention_has_the_matrices_of_the_publication() -> None:
    """DeepSeek-V2, 2024, section 2.1.2: down and up of queries, of keys and values, output; scores of 192 + 128."""
    layers = {layer.name: layer for layer in DEEPSEEK_V3.build().layers}
    matrices = {
        "q_down": 7168 * 1536,
        "q_up": 1536 * 128 * 192,
        "kv_down": 7168 * (512 + 64),
        "kv_up": 512 * 128 * 256,
        "projection": 128 * 128 * 7168,
    }
    assert {name: layers[f"block0.{name}"].parameters for name in matrices} == matrices
    scores = layers["block0.attention"]
    assert scores.forward_flops == 2 * 4096**2 * 128 * (192 + 128)
    assert scores.output_elements == 4096 * 128 * 128


@pytest.mark.parametrize(("model", "billions"), [(Moe(A100), 12.9), (DEEPSEEK, 2.8)], ids=["mixtral", "deepseek"])
def test_a_token_uses_the_published_part_of_a_mixture(model: Moe, billions: float) -> None:
    """Jiang et al., 2024: "only uses 13B active parameters"; Dai et al., 2024: 2.8 B of 16.4 B."""
    layers = model.build().layers
    multiplied = sum(layer.forward_flops for layer in layers if layer.kind != "attention") / 2 / model.sequence
    looked_up = sum(layer.parameters for layer in layers if layer.kind in ("embedding", "norm"))
    assert (multiplied + looked_up) / 1e9 == pytest.approx(billions, abs=0.05)


def test_a_mixture_of_one_expert_costs_what_a_dense_block_costs() -> None:
    sizes = {"layers": 2, "hidden": 512, "heads": 8, "key_value_heads": 8, "feed_forward": 1024, "sequence": 64}
    dense = Transformer(A100, vocabulary=1000, **sizes, **LLAMA).build()
    mixture = Moe(A100, experts=1, top_k=1, vocabulary=1000, **sizes).build()
    assert mixture.parameters - dense.parameters == 2 * 512  # two routers of one column
    assert multiply_adds(mixture) - multiply_adds(dense) == 2 * 512 * 64


def test_resnet50_costs_what_torchvision_counts() -> None:
    assert multiply_adds(Resnet50(A100).build()) == pytest.approx(4.09e9, rel=0.001)  # ResNet50_Weights, _ops 4.089


def test_vgg16_costs_what_torchvision_counts() -> None:
    assert multiply_adds(Vgg16(A100).build()) == pytest.approx(15.47e9, rel=0.001)  # VGG16_Weights, _ops 15.47


def test_a_transformer_costs_what_narayanan_counts() -> None:
    # SC 2021, appendix, forward pass of a batch of 1: layers * (24 s h^2 + 4 s^2 h) + 2 s h V FLOPs
    layers, hidden, sequence, vocabulary = 12, 768, 1024, 50257
    expected = layers * (24 * sequence * hidden**2 + 4 * sequence**2 * hidden) + 2 * sequence * hidden * vocabulary
    assert 2 * multiply_adds(Transformer(A100).build()) == pytest.approx(expected)


def test_vgg16_is_that_of_the_task_graph() -> None:
    # 100vgg_16.fbuf: its 32 all-reduces sum to 1,157,409,952 B; fc6 has 253,755,392 = 11 * 11 * 512 * 4096 weights
    # FlexFlow, examples/cpp/vgg16sim: 229 -> 233 -> 116 -> 120 -> 59 -> 65 -> 32 -> 38 -> 18 -> 24 -> 11 pixels
    graph = Vgg16(A100, image_size=229, padding=2, pooling=3).build()
    assert 4 * graph.parameters == 1_157_409_952
    pixels = [layer.output_elements for layer in graph.layers if layer.kind == "pool"]
    assert pixels == [116**2 * 64, 59**2 * 128, 32**2 * 256, 18**2 * 512, 11**2 * 512]


def test_dlrm_is_that_of_the_task_graph() -> None:
    # 100dlrm_16.fbuf, elements of the all-reduces outside the tables (count * elements): bottom 7 layers of
    # 1024 -> 1024, top 16 * 256 + 1024 = 5120 -> 2048, then 14 times 2048 -> 2048, then 2048 -> 1
    bottom = 7 * (1_048_576 + 1024)
    top = (10_485_760 + 2048) + 14 * (4_194_304 + 2048) + (2048 + 1)
    model = Dlrm(A100, batch_per_gpu=256, tables=16, dimension=256, dense_size=1024, feature_size=2048).build()
    assert dense(model) == bottom + top
    # its 16 all-reduces of one server each: 2,560,000,000 elements = 10.24 GB per table
    assert model.parameters - dense(model) == 16 * 2_560_000_000


def test_candle_is_that_of_the_task_graph() -> None:
    # 100candle_16.fbuf, elements of its all-reduces (count * elements), over all groups; 4096 are biases, and the
    # weights of the layer with one output. FlexFlow ends in one more layer, 1 -> 1, which has a weight and a bias.
    graph = 62 * 16_777_216 + 69 * 4096 + 83_894_272 + 2 * 8_388_608 + 2 * 21_585_920 + 3_858_432 + 3
    model = Candle(A100, dense_size=4096, feature_layers=12, feature_size=4096).build()
    assert model.parameters == graph - 2


def test_dlrm_has_the_sizes_of_list_1() -> None:
    model = Dlrm(A100).build()
    assert [layer.parameters for layer in model.layers if layer.kind == "table"] == [128 * 10**7] * 64
    # bottom: 7 of 2048 -> 2048; top: 64 * 128 + 2048 = 10240 -> 4096, 14 of 4096 -> 4096, 4096 -> 1
    top = 10240 * 4096 + 4096 + 14 * (4096**2 + 4096) + 4096 + 1
    assert dense(model) == 7 * (2048**2 + 2048) + top


def test_ncf_has_the_sizes_of_list_1() -> None:
    model = Ncf(A100).build()
    # 32 tables of 10^6 rows for each of user and item, MF of 64 and MLP of 128
    assert model.parameters - dense(model) == 2 * 32 * 10**6 * (64 + 128)
    # 64 * 128 = 8192 -> 4096, 7 of 4096 -> 4096, and 4096 + 32 * 64 = 6144 -> 1
    assert dense(model) == 8192 * 4096 + 4096 + 7 * (4096**2 + 4096) + 6144 + 1


def test_candle_has_the_sizes_of_list_1() -> None:
    side = 16384
    towers = sum(features * side + side for features in (942, 5270, 2048, 5270, 2048)) + 5 * 15 * (side**2 + side)
    # five towers and two doses -> 16384, 7 of 16384 -> 16384, 16384 -> 1
    assert Candle(A100).build().parameters == towers + (5 * side + 2) * side + side + 7 * (side**2 + side) + side + 1


def test_grouped_queries_shrink_only_keys_and_values() -> None:
    full, grouped = Transformer(A100).build(), Transformer(A100, key_value_heads=3).build()
    # 12 layers lose 2 * 9 of 12 heads: 2 * 768 * 9 / 12 columns of 768 weights and a bias
    assert full.parameters - grouped.parameters == 12 * (2 * 768 * 9 // 12) * (768 + 1)


def named(workload: Workload) -> dict[str, Layer]:
    return {layer.name: layer for layer in workload.layers}


def test_a_residual_stream_is_read_where_it_is_added() -> None:
    layers = named(Transformer(A100).build())
    assert layers["block1.projection"].after == ("block1.attention", "block0.ffn_down")
    assert layers["block1.ffn_down"].after == ("block1.ffn_up", "block1.projection")
    layers = named(Resnet50(A100).build())
    assert layers["layer1.1.bn3"].after == ("layer1.1.conv3", "layer1.0.downsample.bn")
    assert layers["layer1.0.downsample.bn"].after == ("layer1.0.downsample.conv", "layer1.0.bn3")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Dlrm(A100, tables=0), "dlrm.tables: must be a whole number of at least 1, got 0"),
        (lambda: Dlrm(A100, batch_per_gpu=-1), "dlrm.batch_per_gpu: must be a whole number of at least 1, got -1"),
        (lambda: Dlrm(A100, dense_layers=1), "dlrm.dense_layers: must be at least 2 (an input and a layer), got 1"),
        (lambda: Vgg16(A100, image_size=31), "vgg16.image_size: must leave pixels after five poolings, got 31"),
        (lambda: Resnet50(A100, image_size=33), "resnet50.image_size: must be a multiple of 32, got 33"),
        (lambda: Bert(A100, heads=7), "bert.hidden: must be a multiple of the 7 heads, got 1024"),
        (lambda: Bert(A100, sequence=1024), "bert.sequence: must be at most the 512 positions, got 1024"),
        (lambda: Transformer(A100, heads=7), "transformer.hidden: must be a multiple of the 7 heads, got 768"),
        (
            lambda: Transformer(A100, key_value_heads=5),
            "transformer.key_value_heads: must divide the 12 heads, got 5",
        ),
        (lambda: Moe(A100, top_k=9), "moe.top_k: must be at most the 8 experts, got 9"),
        (lambda: Moe(A100, shared_experts=-1), "moe.shared_experts: must be a whole number of at least 0, got -1"),
        (lambda: Moe(A100, dense_layers=33), "moe.dense_layers: must be at most the 32 layers, got 33"),
        (lambda: Moe(A100, dense_layers=1), "moe.dense_feed_forward: must be positive where there are dense layers"),
        (lambda: Ncf(A100, dtype="float31").build(), "workload.dtype: must be one of"),
    ],
)
def test_a_wrong_size_names_field_law_and_value(build, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        build()
    assert str(error.value).startswith(message)
