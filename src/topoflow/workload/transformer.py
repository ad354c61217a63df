"""Decoder-only transformer of any size: GPT-2, GPT-3, Llama and similar (Radford et al., 2019; Touvron et al., 2023).

embedding (+ position) -- block 0 .. block n-1 -- norm -- head
block:  norm -> qkv -> attention -> projection (+) -> norm -> ffn_up -> ffn_down (+)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from topoflow.units import check_among
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.blocks import Heads, Stream, heads_of
from topoflow.workload.efficiency import ATTENTION_KERNELS
from topoflow.workload.layers import LayerModel, embedding
from topoflow.workload.sharding import Cut

ATTENTION = (*ATTENTION_KERNELS, "unfused")


@dataclass(frozen=True)
class Transformer(LayerModel):
    """A decoder-only transformer. Defaults: GPT-2 small with nanoGPT's batch; the config's comments have other sizes.

    ``feed_forward`` is the inner width. ``key_value_heads`` below ``heads`` is grouped-query attention; a head has
    ``head_size`` elements (0: hidden / heads). ``gated``:
    two up matrices instead of one (SwiGLU). ``tied``: the head uses the embedding's matrix. ``bias``: linear layers
    and norms have a bias (without, a norm is an RMS norm). ``learned_positions``: a table of ``sequence`` positions.
    ``attention``: a kernel that keeps scores on the chip (``flash``: the fastest that was measured on the GPU;
    ``flash2``, ``flash1``: FlashAttention-2, and version 1 in Triton), or ``unfused``, which writes them to memory.
    ``eager_loss``: the loss runs as single kernels of PyTorch in float32. ``block_launch``: seconds in which the host
    launches the kernels of a block's forward pass; small passes take no less.
    """

    MAY_BE_ZERO = ("head_size",)

    batch_per_gpu: int = 12
    dtype: str = "bfloat16"
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    key_value_heads: int = 12
    head_size: int = 0
    feed_forward: int = 3072
    vocabulary: int = 50257
    sequence: int = 1024
    learned_positions: bool = True
    gated: bool = False
    tied: bool = True
    bias: bool = True
    optimizer: str = "adam"
    attention: str = "flash"
    eager_loss: bool = False
    block_launch: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._heads()
        if not isinstance(self.block_launch, int | float) or not 0 <= self.block_launch < inf:
            raise ValueError(f"transformer.block_launch: must be seconds of at least 0, got {self.block_launch!r}")
        check_among("transformer.attention", self.attention, ATTENTION)

    def build(self) -> LayerGraph:
        stream = Stream(
            self.hidden,
            self.sequence,
            self.bias,
            kernel=self.attention,
            rotary=not self.learned_positions,
            eager_loss=self.eager_loss,
        )
        layers = [stream.embedding(self.vocabulary)]
        source = ["embedding"]
        if self.learned_positions:
            layers.append(Cut(None).whole(embedding("position", self.sequence, self.hidden, self.sequence)))
            source.append("position")
        for block in range(self.layers):
            layers += self._block(stream, block, source)
            source = [layers[-1].name]
        layers.append(stream.norm("norm", source))
        head = stream.head(self.vocabulary, "norm", "embedding" if self.tied else None)
        layers.append(replace(head, parameters=0) if self.tied else head)
        return self.graph("transformer", layers)

    def _heads(self) -> Heads:
        return heads_of("transformer", self.hidden, self.heads, self.key_value_heads, self.head_size)

    def _block(self, stream: Stream, block: int, source: list[str]) -> list[Layer]:
        """Return one block on the residual stream ``source``, to which the projection and ``ffn_down`` add."""
        prefix = f"block{block}."
        norm1 = stream.norm(prefix + "norm1", source, block)
        attention = stream.attention(block, [norm1.name], source, self._heads())
        norm2 = stream.norm(prefix + "norm2", [attention[-1].name], block)
        ffn = stream.feed_forward(
            block, ("ffn_up", "ffn_down"), [norm2.name], [attention[-1].name], self.feed_forward, self.gated
        )
        return [norm1, *attention, norm2, *ffn]
