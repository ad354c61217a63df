"""Decoder-only transformer whose feed-forward layers are mixtures of experts: Mixtral, Qwen3, DeepSeek and similar.

embedding -- block 0 .. block n-1 -- norm -- head
block:  norm -> qkv -> attention -> projection (+) -> norm -+-> router -> experts_up -> experts_down (+)
                                                            +-> shared_up -> shared_down ----------(+)

The router sends every token to ``top_k`` of the experts, whose outputs are summed. Sources: Jiang et al., "Mixtral of
Experts", 2024; Dai et al., "DeepSeekMoE", 2024, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.workload.base import Layer, LayerGraph, Sharding
from topoflow.workload.blocks import Heads, LatentHeads, Stream, heads_of
from topoflow.workload.layers import LayerModel, linear
from topoflow.workload.sharding import Cut


@dataclass(frozen=True)
class Moe(LayerModel):
    """A mixture of experts. Defaults: Mixtral 8x7B; the config's comments have other sizes.

    Norms are RMS norms, and no layer has a bias.

    ``feed_forward`` is the inner width of one expert, and ``shared_experts`` run for every token. The first
    ``dense_layers`` blocks have a dense feed-forward layer of ``dense_feed_forward`` instead. A head has ``head_size``
    elements (0: hidden / heads). With a ``key_value_rank`` attention is latent (``blocks.LatentHeads``), and the heads
    of values have ``value_size`` elements; ``key_value_heads`` then means nothing.

    With a ``node_limit`` the experts of a token are on at most so many nodes, and a token is sent to each of these
    nodes once, from where it is forwarded to its experts (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, sections
    2.1.2 and 3.2.2).

    ``mtp_layers`` modules of multi-token prediction follow the last block (section 2.2 there): each has a projection, a
    block and norms of its own, and uses the embedding and the head of the model.
    """

    MAY_BE_ZERO = (
        "shared_experts",
        "dense_layers",
        "dense_feed_forward",
        "head_size",
        "key_value_rank",
        "query_rank",
        "rotary_size",
        "value_size",
        "node_limit",
        "mtp_layers",
    )

    batch_per_gpu: int = 1
    dtype: str = "bfloat16"
    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    key_value_heads: int = 8
    head_size: int = 0
    key_value_rank: int = 0
    query_rank: int = 0
    rotary_size: int = 0
    value_size: int = 0
    feed_forward: int = 14336
    experts: int = 8
    top_k: int = 2
    vocabulary: int = 32000
    tied: bool = False
    sequence: int = 4096
    shared_experts: int = 0
    dense_layers: int = 0
    dense_feed_forward: int = 0
    node_limit: int = 0
    mtp_layers: int = 0
    optimizer: str = "adam"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("query_rank", "rotary_size", "value_size"):
            if getattr(self, name) and not self.key_value_rank:
                raise ValueError(f"moe.{name}: must be 0 without a key_value_rank, got {getattr(self, name)}")
        self._heads()
        if self.top_k > self.experts:
            raise ValueError(f"moe.top_k: must be at most the {self.experts} experts, got {self.top_k}")
        if self.node_limit > self.top_k:
            raise ValueError(f"moe.node_limit: must be at most the top_k of {self.top_k}, got {self.node_limit}")
        if self.dense_layers > self.layers:
            raise ValueError(f"moe.dense_layers: must be at most the {self.layers} layers, got {self.dense_layers}")
        if self.dense_layers and not self.dense_feed_forward:
            raise ValueError("moe.dense_feed_forward: must be positive where there are dense layers, got 0")

    def build(self) -> LayerGraph:
        stream = Stream(self.hidden, self.sequence, bias=False, rotary=True)
        layers = [stream.embedding(self.vocabulary)]
        for block in range(self.layers):
            layers += self._block(stream, block, layers[-1].name)
        last = layers[-1].name
        for module in range(self.mtp_layers):
            layers += self._prediction(stream, module, layers[-1].name)
        layers.append(stream.norm("norm", [last]))
        head = stream.head(self.vocabulary, "norm", "embedding" if self.tied else None)
        layers.append(replace(head, parameters=0) if self.tied else head)
        for module in range(self.mtp_layers):
            name = f"mtp{module}."
            layers.append(stream.norm(f"{name}norm", [f"block{self.layers + module}.experts_down"]))
            shares = "embedding" if self.tied else "head"
            layers.append(replace(stream.head(self.vocabulary, f"{name}norm", shares, f"{name}head"), parameters=0))
        return self.graph("moe", layers)

    def _prediction(self, stream: Stream, module: int, source: str) -> list[Layer]:
        """Return a module of multi-token prediction without its head: it predicts one token more than the last one.

        The output of the last block and the embedding of the next token are normalized and projected together, and run
        through one more block (DeepSeek-V3, section 2.2). Tensor ranks cut the projection by columns and gather its
        outputs (megatron/core/transformer/multi_token_prediction.py), which is half an all-reduce.
        """
        name, block = f"mtp{module}.", self.layers + module
        embedding = stream.embedding(self.vocabulary)
        sharding = Sharding(block, tensor=True, reduced_forward=stream.elements, shares="embedding")
        embedding = replace(embedding, name=f"{name}embedding", parameters=0, sharding=sharding)
        norms = [
            stream.norm(f"{name}hidden_norm", [source], block),
            stream.norm(f"{name}embedding_norm", [embedding.name], block),
        ]
        projection = linear(
            f"{name}projection",
            2 * self.hidden,
            self.hidden,
            [norm.name for norm in norms],
            positions=self.sequence,
            bias=False,
        )
        cut = Sharding(block, tensor=True, reduced_forward=stream.elements // 2, reduced_backward=2 * stream.elements)
        layers = [embedding, *norms, replace(projection, sharding=cut), *self._block(stream, block, projection.name)]
        return [replace(layer, sharding=replace(layer.sharding, predicts=True)) for layer in layers if layer.sharding]

    def _heads(self) -> Heads | LatentHeads:
        if not self.key_value_rank:
            return heads_of("moe", self.hidden, self.heads, self.key_value_heads, self.head_size)
        size = heads_of("moe", self.hidden, self.heads, self.heads, self.head_size).size
        if self.rotary_size >= size:
            raise ValueError(f"moe.rotary_size: must be below the {size} elements of a head, got {self.rotary_size}")
        value = self.value_size or size
        return LatentHeads(self.heads, size, self.rotary_size, value, self.key_value_rank, self.query_rank)

    def _block(self, stream: Stream, block: int, source: str) -> list[Layer]:
        prefix = f"block{block}."
        norm1 = stream.norm(prefix + "norm1", [source], block)
        attention = stream.attention(block, [norm1.name], [source], self._heads())
        norm2 = stream.norm(prefix + "norm2", [attention[-1].name], block)
        if block < self.dense_layers:
            names, added = ("ffn_up", "ffn_down"), [attention[-1].name]
            feed = stream.feed_forward(block, names, [norm2.name], added, self.dense_feed_forward, gated=True)
        else:
            feed = self._mixture(stream, block, norm2.name, attention[-1].name)
        return [norm1, *attention, norm2, *feed]

    def _mixture(self, stream: Stream, block: int, source: str, added: str) -> list[Layer]:
        """Return the router, the shared experts (as one of their total width), and the experts."""
        prefix, cut = f"block{block}.", Cut(block)
        router = linear(prefix + "router", self.hidden, self.experts, [source], positions=self.sequence, bias=False)
        layers, outputs = [cut.whole(router)], [added]
        if self.shared_experts:
            wide = self.shared_experts * self.feed_forward
            layers += stream.feed_forward(block, ("shared_up", "shared_down"), [source], [], wide, gated=True)
            outputs.append(layers[-1].name)
        wide, after = self.feed_forward, [source, router.name]
        # Tokens are copied into the order of their experts, and sorted again where they arrive (Megatron-LM core 0.14,
        # moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher): each reads and writes every token. The way back is the
        # same, but the second copy is the sum.
        up = self._expert(prefix + "experts_up", self.hidden, 2 * wide, after, 3 * wide + 4 * self.hidden, wide)
        down = self._expert(prefix + "experts_down", wide, self.hidden, [up.name, *outputs], 3 * self.hidden)
        down = replace(down, output_elements=stream.elements)  # the sum over the experts of a token
        limits = {"top_k": self.top_k, "node_limit": self.node_limit}
        return [*layers, *cut.experts(up, down, self.experts, stream.elements, **limits)]

    def _expert(
        self, name: str, inputs: int, outputs: int, after: list[str], elementwise: int, activation: int = 0
    ) -> Layer:
        """Return one matrix per expert. A token uses ``top_k`` of them; all are read."""
        positions = self.top_k * self.sequence
        layer = linear(name, inputs, outputs, after, positions=positions, bias=False, elementwise=elementwise)
        return replace(
            layer, kind="expert", parameters=self.experts * layer.parameters, activation=activation * positions
        )
