"""``Model.from_module``: modules of PyTorch as workloads, compared with the models that topoflow has itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import topoflow
from topoflow.workload.base import LayerGraph

torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional
Module = Any


class Bottleneck(nn.Module):
    """A block of ResNet-50 as torchvision has it."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet50() -> Module:
    blocks, channels = [], 64
    for count, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for number in range(count):
            blocks.append(Bottleneck(channels, width, stride if number == 0 else 1))
            channels = 4 * width
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Any) -> Any:
        batch, sequence, hidden = x.shape
        parts = self.qkv(x).view(batch, sequence, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, sequence, hidden))


class Experts(nn.Module):
    """A mixture of experts as Hugging Face writes it: a loop over the experts, each with the tokens that chose it."""

    def __init__(self, hidden: int, count: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(hidden, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)) for _ in range(count)
        )

    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        weights, experts = self.router(tokens).softmax(-1).topk(self.chosen, dim=-1)
        result = torch.zeros_like(tokens)
        mask = functional.one_hot(experts, len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            result.index_add_(0, token, expert(tokens[token]) * weights[token, place, None])
        return result.view_as(x)


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int, feed_forward: Module) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(hidden), Attention(hidden, heads)
        self.norm2, self.feed_forward = nn.LayerNorm(hidden), feed_forward

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """A transformer as GPT-2 is: learned positions, and a head that uses the embedding's matrix."""

    def __init__(self, vocabulary: int, hidden: int, sequence: int, blocks: list[Module]) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt2() -> Module:
    def dense() -> Module:
        return nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    return Decoder(50257, 768, 1024, [Block(768, 12, dense()) for _ in range(12)])


def mixture() -> Module:
    return Decoder(512, 64, 32, [Block(64, 4, Experts(64, 8, 2)) for _ in range(2)])


class Dlrm(nn.Module):
    def __init__(self, tables: int, rows: int, dimension: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, dimension, mode="sum", sparse=True) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(tables * dimension + 256, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense: Any, indices: Any) -> Any:
        looked_up = [table(column) for table, column in zip(self.tables, indices.unbind(1), strict=True)]
        return self.top(torch.cat([*looked_up, self.bottom(dense)], dim=1))


def on_meta(make: Callable[[], Module]) -> Module:
    """Return a module without memory for its weights."""
    with torch.device("meta"):
        return make()


def graph_of(kind: str, **settings: Any) -> LayerGraph:
    images, tokens = torch.empty(2, 3, 224, 224, device="meta"), torch.zeros(2, 1024, dtype=torch.int64)
    examples: dict[str, tuple[Callable[[], Module], Any]] = {
        "resnet50": (resnet50, images),
        "gpt2": (gpt2, tokens),
        "mixture": (mixture, {"tokens": tokens[:, :32]}),
        "dlrm": (
            lambda: Dlrm(4, 10_000_000, 128),
            (torch.empty(2, 256, device="meta"), torch.zeros(2, 4, 100, dtype=torch.int64)),
        ),
    }
    make, example = examples[kind]
    return topoflow.Model.from_module(on_meta(make), example, **settings)


def same_amounts(graph: LayerGraph, reference: LayerGraph) -> bool:
    """Return whether the parameters, and the FLOPs of the matrices, are equal."""

    def flops(model: LayerGraph) -> float:
        return sum(layer.forward_flops for layer in model.layers if layer.kind != "table")

    return graph.parameters == reference.parameters and flops(graph) == pytest.approx(flops(reference))


def test_a_cnn_has_the_parameters_and_flops_of_topoflows_own() -> None:
    assert same_amounts(graph_of("resnet50"), topoflow.workloads.resnet50().build())


def test_a_transformer_has_the_layers_of_topoflows_own() -> None:
    graph, reference = graph_of("gpt2"), topoflow.workloads.transformer(dtype="float32").build()
    names = dict(zip((layer.name for layer in graph.layers), (layer.name for layer in reference.layers), strict=True))
    before: dict[str, set[str]] = {}
    for layer, other in zip(graph.layers, reference.layers, strict=True):
        sizes = ("kind", "parameters", "forward_flops", "output_elements", "shape", "causal")
        once = layer.name == "positions"  # which are the same for all samples, and are looked up once
        for size in sizes if once else (*sizes, "memory_elements"):
            assert getattr(layer, size) == getattr(other, size), (layer.name, size)
        before[layer.name] = {*layer.after}.union(*(before[earlier] for earlier in layer.after))
        assert {*other.after} <= {names[earlier] for earlier in before[layer.name]}
        assert layer.sharding is not None
        assert other.sharding is not None
        assert layer.sharding.block == other.sharding.block
        assert layer.sharding.key_values == other.sharding.key_values


def test_a_recommendation_model_has_tables_next_to_its_matrices() -> None:
    graph = graph_of("dlrm")
    tables = [layer for layer in graph.layers if layer.kind == "table"]
    assert [layer.name for layer in tables] == [f"tables.{number}" for number in range(4)]
    assert all(layer.sparse and layer.memory_elements == 101 * 128 for layer in tables)
    top = next(layer for layer in graph.layers if layer.name == "top.0")
    assert {*top.after} >= {"bottom.2"}
    assert graph.parameters == 4 * 10_000_000 * 128 + 2 * 257 * 256 + (4 * 128 + 256 + 1) * 512 + 513


def test_every_expert_of_a_mixture_gets_the_same_number_of_tokens() -> None:
    with pytest.warns(UserWarning, match="choices by scores were taken in turn"):
        graph = graph_of("mixture")
    experts = [layer for layer in graph.layers if ".experts." in layer.name and layer.kind == "dense"]
    assert len(experts) == 2 * 8 * 2
    assert {layer.forward_flops for layer in experts} == {2 * 64 * 256 * 32 * 2 / 8}  # 2 of 8 experts for each token
    assert graph.parameters == sum(parameter.numel() for parameter in on_meta(mixture).parameters())


@pytest.mark.filterwarnings("ignore:.*choices by scores")
@pytest.mark.parametrize("name", ["resnet50", "gpt2", "dlrm", "mixture"])
def test_a_module_is_compared_on_networks(name: str) -> None:
    results = topoflow.compare(
        workload=graph_of(name), strategy="data_parallel", servers=4, fabric=["ring", "fat_tree"]
    )
    assert all(result.iteration_time > 0 for result in results)


def test_a_pipeline_cuts_a_transformer_between_its_blocks() -> None:
    keys = {"strategy": "parallel", "servers": 4, "fabric": "fat_tree"}
    (two,) = topoflow.compare("strategy.pipeline=2", workload=graph_of("gpt2"), **keys)
    assert two.iteration_time > 0
    with pytest.raises(ValueError, match="tensor: must divide the 1 key-value heads"):
        topoflow.compare("strategy.tensor=2", workload=graph_of("gpt2"), **keys)


def test_a_module_is_searched() -> None:
    result = topoflow.search(workload=graph_of("dlrm"), servers=4, search={"proposals": 16})
    assert result.best.iteration_time <= result.start.iteration_time


def test_settings_are_those_of_the_graph() -> None:
    gpu = topoflow.gpus.h100()
    graph = graph_of("gpt2", gpu=gpu, batch_per_gpu=8, dtype="bfloat16", optimizer="adam", name="mine")
    assert (graph.gpu, graph.batch_per_gpu, graph.dtype, graph.optimizer, graph.name) == (
        gpu,
        8,
        "bfloat16",
        "adam",
        "mine",
    )


def test_parameters_that_are_not_read_are_said() -> None:
    module = nn.Sequential(nn.Linear(4, 4))
    module.spare = nn.Parameter(torch.zeros(3))
    module.forward = lambda x: module[0](x)
    with pytest.warns(UserWarning, match="sequential: 3 parameters are not read by the forward pass"):
        assert topoflow.Model.from_module(module, torch.zeros(2, 4)).parameters == 20


class Searching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0].sum()


@pytest.mark.parametrize(
    ("module", "example", "message"),
    [
        (nn.Linear(4, 4), (), "example: must have a tensor whose first dimension is the batch, got none"),
        (nn.ReLU(), torch.zeros(2, 4), "module: must have layers with parameters, got ReLU"),
        (nn.Sequential(nn.Linear(4, 4), Searching()), torch.zeros(2, 4), "returns a shape that depends on values"),
    ],
)
def test_a_module_without_layers_or_shapes_is_one_line(module: Module, example: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        topoflow.Model.from_module(module, example)
    assert "\n" not in str(refused.value)
