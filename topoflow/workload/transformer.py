"""Decoder-only transformer of any size: GPT-2, GPT-3, Llama and their kin (Radford et al., 2019; Touvron et al., 2023).

embedding (+ position) -- block 0 .. block n-1 -- norm -- head
block:  norm -> qkv -> attention -> projection (+) -> norm -> ffn_up -> ffn_down (+)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.workload.base import Layer, Workload
from topoflow.workload.gpu import Gpu
from topoflow.workload.layers import attention, check_sizes, embedding, linear, norm


@dataclass(frozen=True)
class Transformer:
    """Defaults: GPT-2 small, one batch as nanoGPT trains it; other sizes are in the config's comments.

    ``feed_forward`` is the inner width. ``key_value_heads`` below ``heads`` is grouped-query attention. ``gated``:
    two matrices up instead of one (SwiGLU). ``tied``: the head uses the embedding's matrix. ``bias``: linear layers
    and norms have one (without, a norm is an RMS norm). ``learned_positions``: a table of ``sequence`` positions.
    """

    gpu: Gpu
    batch_per_gpu: int = 12
    gpus_per_server: int = 4
    dtype: str = "bfloat16"
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    key_value_heads: int = 12
    feed_forward: int = 3072
    vocabulary: int = 50257
    sequence: int = 1024
    learned_positions: bool = True
    gated: bool = False
    tied: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.hidden % self.heads:
            raise ValueError(f"transformer.hidden: must be a multiple of the {self.heads} heads, got {self.hidden}")
        if self.heads % self.key_value_heads:
            raise ValueError(
                f"transformer.key_value_heads: must divide the {self.heads} heads, got {self.key_value_heads}"
            )

    def build(self) -> Workload:
        layers = [embedding("embedding", self.vocabulary, self.hidden, self.sequence)]
        stream = ["embedding"]
        if self.learned_positions:
            layers.append(embedding("position", self.sequence, self.hidden, self.sequence))
            stream.append("position")
        for index in range(self.layers):
            layers += self._block(f"block{index}.", stream)
            stream = [layers[-1].name]
        layers.append(norm("norm", self.hidden, stream, positions=self.sequence, bias=self.bias))
        head = linear("head", self.hidden, self.vocabulary, ["norm"], positions=self.sequence, bias=False)
        layers.append(replace(head, parameters=0) if self.tied else head)
        return Workload("transformer", tuple(layers), self.batch_per_gpu, self.gpu, self.gpus_per_server, self.dtype)

    def _block(self, prefix: str, stream: list[str]) -> list[Layer]:
        """One block on the residual ``stream``, to which the projection and ``ffn_down`` add."""
        hidden, sequence, wide = self.hidden, self.sequence, self.feed_forward
        key_values = 2 * hidden * self.key_value_heads // self.heads
        names = [prefix + name for name in ("norm1", "qkv", "attention", "projection", "norm2", "ffn_up", "ffn_down")]
        norm1, qkv, scores, projection, norm2, up, down = names
        widened = 2 * wide if self.gated else wide
        return [
            norm(norm1, hidden, stream, positions=sequence, bias=self.bias),
            linear(qkv, hidden, hidden + key_values, [norm1], positions=sequence, bias=self.bias),
            attention(scores, hidden, sequence, [qkv], heads=self.heads, key_value_heads=self.key_value_heads),
            linear(projection, hidden, hidden, [scores, *stream], positions=sequence, bias=self.bias),
            norm(norm2, hidden, [projection], positions=sequence, bias=self.bias),
            linear(up, hidden, widened, [norm2], positions=sequence, bias=self.bias),
            linear(down, wide, hidden, [up, projection], positions=sequence, bias=self.bias),
        ]
