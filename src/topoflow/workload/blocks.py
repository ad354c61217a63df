"""The parts of a transformer block that models share: attention with its projections, and a dense feed-forward pair.

norm -> qkv -> attention -> projection (+)        norm -> up -> down (+)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from topoflow.workload.base import Layer
from topoflow.workload.layers import attention, embedding, linear, norm
from topoflow.workload.sharding import Cut


class LatentSizes(NamedTuple):
    """The widths of multi-head latent attention: of what is compressed, and of the parts of each head.

    ``queries`` 0: queries are not compressed.
    """

    queries: int
    key_values: int
    key: int
    rotary: int
    value: int


@dataclass(frozen=True)
class Stream:
    """The residual stream of a transformer: ``hidden`` elements at each of ``sequence`` positions.

    Element-wise kernels read their operands and write their result. A residual takes three accesses per element, an
    activation two, and SwiGLU, which has two operands, three. The loss reads the scores, writes and reads them in
    float32, and writes their gradient: five accesses of 16 bits. An ``eager_loss`` of PyTorch, which is not compiled,
    takes six, and its backward pass holds the logarithms of the softmax and two gradients in float32. Rotary positions
    (``rotary``) read and write queries and keys.
    """

    hidden: int
    sequence: int
    bias: bool
    causal: bool = True
    kernel: str = "flash"  # of attention
    rotary: bool = False
    eager_loss: bool = False

    @property
    def elements(self) -> int:
        return self.hidden * self.sequence

    def embedding(self, vocabulary: int) -> Layer:
        return Cut(None).row(embedding("embedding", vocabulary, self.hidden, self.sequence))

    def norm(self, name: str, after: Sequence[str], block: int | None = None) -> Layer:
        layer = norm(name, self.hidden, after, positions=self.sequence, bias=self.bias)
        return Cut(block).whole(layer)

    def attention(
        self, block: int, source: Sequence[str], added: Sequence[str], heads: int, key_value_heads: int
    ) -> list[Layer]:
        """Return ``qkv``, scores and projection of ``source``, plus the residual ``added``.

        Tensor ranks share the heads.
        """
        cut, prefix = Cut(block), f"block{block}."
        key_values = 2 * self.hidden * key_value_heads // heads
        rotated = self.hidden + key_values // 2 if self.rotary else 0
        matrices = (self.hidden, key_values // 2, key_values // 2)
        qkv = self._linear(f"{prefix}qkv", self.hidden, self.hidden + key_values, source, 2 * rotated, matrices)
        scores = attention(
            f"{prefix}attention",
            self.hidden,
            self.sequence,
            [qkv.name],
            heads=heads,
            key_value_heads=key_value_heads,
            causal=self.causal,
            kernel=self.kernel,
        )
        after = [scores.name, *added]
        projection = self._linear(f"{prefix}projection", self.hidden, self.hidden, after, 3 * self.hidden, (), 3)
        return [
            cut.column(qkv, self.elements, heads=key_value_heads),
            cut.heads(scores, positions=self.sequence, heads=key_value_heads, key_values=key_values * self.sequence),
            cut.row(projection),
        ]

    def latent_attention(
        self, block: int, source: Sequence[str], added: Sequence[str], heads: int, latent: LatentSizes
    ) -> list[Layer]:
        """Return multi-head latent attention: queries, keys and values are compressed, then expanded for each head.

        Every tensor rank compresses a part of the positions. Keys and queries have positions in ``rotary`` dimensions.
        Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.
        """
        cut, prefix, keys = Cut(block), f"block{block}.", latent.key + latent.rotary
        stored = latent.key_values + latent.rotary
        compressed = tuple(filter(None, (latent.queries, stored)))
        normed = 3 * (latent.queries + latent.key_values)
        down = self._linear(f"{prefix}latent", self.hidden, sum(compressed), source, normed, compressed)
        query = [down.name] if latent.queries else source
        inputs = latent.queries or self.hidden
        up = [
            self._linear(f"{prefix}queries", inputs, heads * keys, query, 2 * heads * latent.rotary, (), 2),
            self._linear(
                f"{prefix}keys_values", latent.key_values, heads * (latent.key + latent.value), [down.name], 0
            ),
        ]
        key_values = heads * (keys + latent.value)
        scores = attention(
            f"{prefix}attention",
            key_values // 2,  # the mean of the sizes of keys and of values
            self.sequence,
            [each.name for each in up],
            heads=heads,
            causal=self.causal,
            kernel=self.kernel,
        )
        scores = replace(scores, output_elements=heads * latent.value * self.sequence)
        after = [scores.name, *added]
        out = self._linear(f"{prefix}projection", heads * latent.value, self.hidden, after, 3 * self.hidden, (), 3)
        return [
            cut.whole(down),
            *(cut.column(each, each.shape[0] * self.sequence, heads=heads) for each in up),
            cut.heads(scores, positions=self.sequence, heads=heads, key_values=key_values * self.sequence),
            cut.row(out),
        ]

    def feed_forward(
        self, block: int, names: tuple[str, str], source: Sequence[str], added: Sequence[str], wide: int, gated: bool
    ) -> list[Layer]:
        """Return two matrices; with a gate (SwiGLU) the first has twice as many outputs."""
        cut, (first, second) = Cut(block), (f"block{block}.{name}" for name in names)
        matrices = (wide, wide) if gated else (wide,)
        up = self._linear(first, self.hidden, sum(matrices), source, (3 if gated else 2) * wide, matrices, 4)
        up = replace(up, activation=wide * self.sequence)
        down = self._linear(second, wide, self.hidden, [first, *added], 3 * self.hidden, (), 4 + len(matrices))
        return [cut.column(up, self.elements), cut.row(down)]

    def head(self, vocabulary: int, source: str, shares: str | None) -> Layer:
        """Return the layer of the next token's scores; ``shares`` is the embedding whose matrix it uses."""
        layer = linear(
            "head",
            self.hidden,
            vocabulary,
            [source],
            positions=self.sequence,
            bias=False,
            elementwise=(6 if self.eager_loss else 5) * vocabulary,
        )
        if self.eager_loss:
            layer = replace(layer, temporary=5 * layer.output_elements)  # three of float32, less the scores
        return Cut(None).column(layer, self.elements, shares=shares)

    def _linear(
        self,
        name: str,
        inputs: int,
        outputs: int,
        after: Sequence[str],
        elementwise: int,
        matrices: tuple[int, ...] = (),
        matrix: int = 0,
    ) -> Layer:
        return linear(
            name,
            inputs,
            outputs,
            after,
            positions=self.sequence,
            bias=self.bias,
            elementwise=elementwise,
            matrices=matrices,
            matrix=matrix,
        )
