"""The parts of a transformer block that models share: attention with its projections, and a dense feed-forward pair.

norm -> qkv -> attention -> projection (+)        norm -> up -> down (+)
norm -+-> q_down -> q_norm -> q_up ----+-> attention -> projection (+)        latent attention
      +-> kv_down -> kv_norm -> kv_up -+
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from topoflow.workload.base import Layer
from topoflow.workload.layers import attention, embedding, linear, norm
from topoflow.workload.sharding import Cut


@dataclass(frozen=True)
class Heads:
    """The heads of an attention: ``size`` elements per query, key and value.

    Fewer key_value_heads than ``count`` is grouped-query attention.
    """

    count: int
    key_values: int
    size: int


def heads_of(model: str, hidden: int, heads: int, key_value_heads: int, head_size: int = 0) -> Heads:
    """Return the heads of a ``model``, of hidden / heads elements unless ``head_size`` says otherwise."""
    if not head_size and hidden % heads:
        raise ValueError(f"{model}.hidden: must be a multiple of the {heads} heads, got {hidden}")
    if heads % key_value_heads:
        raise ValueError(f"{model}.key_value_heads: must divide the {heads} heads, got {key_value_heads}")
    return Heads(heads, key_value_heads, head_size or hidden // heads)


@dataclass(frozen=True)
class LatentHeads:
    """The heads of multi-head latent attention, whose queries, keys and values are computed from short vectors.

    A token has one vector of ``key_value_rank`` elements for the keys and values of all heads, and one of
    ``query_rank`` for the queries (0: queries are not compressed). A query or key has ``size`` elements, of which
    ``rotary`` have a position; the rotary part of the keys is the same in all heads. A value has ``value`` elements.
    In training, keys and values are computed for every head. Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.
    """

    count: int
    size: int
    rotary: int
    value: int
    key_value_rank: int
    query_rank: int


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
        self, block: int, source: Sequence[str], added: Sequence[str], heads: Heads | LatentHeads
    ) -> list[Layer]:
        """Return the attention on ``source`` with its projections, plus the residual ``added``.

        Tensor ranks share the heads.
        """
        if isinstance(heads, LatentHeads):
            return self._latent_attention(block, source, added, heads)
        cut, prefix = Cut(block), f"block{block}."
        queries, keys = heads.count * heads.size, heads.key_values * heads.size
        rotated = queries + keys if self.rotary else 0
        matrices = (queries, keys, keys)
        qkv = self._linear(f"{prefix}qkv", self.hidden, sum(matrices), source, 2 * rotated, matrices)
        scores = attention(
            f"{prefix}attention",
            heads.count,
            heads.size,
            self.sequence,
            [qkv.name],
            key_value_heads=heads.key_values,
            value_size=heads.size,
            causal=self.causal,
            kernel=self.kernel,
        )
        after = [scores.name, *added]
        projection = self._linear(f"{prefix}projection", queries, self.hidden, after, 3 * self.hidden, (), 3)
        return [
            cut.column(qkv, self.elements, heads=heads.key_values),
            cut.heads(scores, positions=self.sequence, heads=heads.key_values, key_values=2 * keys * self.sequence),
            cut.row(projection),
        ]

    def _latent_attention(
        self, block: int, source: Sequence[str], added: Sequence[str], heads: LatentHeads
    ) -> list[Layer]:
        """Return latent attention: the compressing matrices are on every tensor rank, as in Megatron-LM.

        Element-wise kernels turn the rotary part of the queries, and write every key with its rotary part.
        """
        cut, prefix, layers = Cut(block), f"block{block}.", list[Layer]()
        inputs, width, elementwise = self.hidden, heads.count * heads.size, 2 * heads.count * heads.rotary
        if heads.query_rank:
            layers += self._compressed(block, "q", heads.query_rank, 0, source)
            inputs = heads.query_rank
        queries = self._linear(f"{prefix}q_up", inputs, width, [layers[-1].name] if layers else source, elementwise)
        layers.append(cut.column(queries, inputs * self.sequence, heads=heads.count))
        layers += self._compressed(block, "kv", heads.key_value_rank, heads.rotary, source)
        expanded = heads.count * (heads.size - heads.rotary + heads.value)
        key_values = self._linear(
            f"{prefix}kv_up", heads.key_value_rank, expanded, [layers[-1].name], 2 * heads.count * heads.size
        )
        layers.append(cut.column(key_values, heads.key_value_rank * self.sequence, heads=heads.count))
        scores = attention(
            f"{prefix}attention",
            heads.count,
            heads.size,
            self.sequence,
            [queries.name, key_values.name],
            key_value_heads=heads.count,
            value_size=heads.value,
            causal=self.causal,
            kernel=self.kernel,
        )
        sent = heads.count * (heads.size + heads.value) * self.sequence
        layers.append(cut.heads(scores, positions=self.sequence, heads=heads.count, key_values=sent))
        after = [scores.name, *added]
        values = heads.count * heads.value
        layers.append(cut.row(self._linear(f"{prefix}projection", values, self.hidden, after, 3 * self.hidden)))
        return layers

    def _compressed(self, block: int, name: str, rank: int, more: int, source: Sequence[str]) -> list[Layer]:
        """Return a matrix to ``rank`` elements and ``more``, and the norm of the ``rank``."""
        cut, prefix = Cut(block), f"block{block}.{name}"
        down = self._linear(f"{prefix}_down", self.hidden, rank + more, source, 0)
        scaled = norm(f"{prefix}_norm", rank, [down.name], positions=self.sequence, bias=self.bias)
        return [cut.whole(down), cut.whole(scaled)]

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

    def head(self, vocabulary: int, source: str, shares: str | None, name: str = "head") -> Layer:
        """Return the layer of the next token's scores; ``shares`` is the layer whose matrix it uses."""
        layer = linear(
            name,
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
