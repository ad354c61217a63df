"""BERT (Devlin et al., NAACL 2019): embeddings, an encoder of transformer blocks, and the pooler.

word, position, type -- norm -- block 0 .. block 11 -- pooler
block:  qkv -> attention -> projection (+) -> norm -> ffn_up -> ffn_down (+) -> norm
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.blocks import Stream, heads_of
from topoflow.workload.layers import LayerModel, embedding, linear
from topoflow.workload.sharding import Cut

TYPES = 2  # sentence A, sentence B
EXPANSION = 4  # Devlin et al., section 3: "the feed-forward/filter size to be 4H"


@dataclass(frozen=True)
class Bert(LayerModel):
    """A BERT model. Defaults: TopoOpt List 1, section 5.3 (128 servers).

    We read "Embed. size: 512" of List 1 as BERT's table of 512 positions, since it differs from the hidden size.
    TopoOpt's task graphs have no embeddings, and their feed-forward layers are no wider than the hidden size; we build
    BERT as published.
    """

    batch_per_gpu: int = 16
    layers: int = 12
    hidden: int = 1024
    heads: int = 16
    sequence: int = 64
    vocabulary: int = 30522  # google-research/bert, vocab.txt of the uncased models
    positions: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        heads_of("bert", self.hidden, self.heads, self.heads)
        if self.sequence > self.positions:
            raise ValueError(f"bert.sequence: must be at most the {self.positions} positions, got {self.sequence}")

    def build(self) -> LayerGraph:
        stream, ends = Stream(self.hidden, self.sequence, bias=True, causal=False), Cut(None)
        word, position, kind = (
            embedding(name, rows, self.hidden, self.sequence)
            for name, rows in (("word", self.vocabulary), ("position", self.positions), ("type", TYPES))
        )
        tables = [ends.row(word), ends.whole(position), ends.whole(kind)]
        layers = [*tables, stream.norm("norm", [table.name for table in tables])]
        for block in range(self.layers):
            layers += self._block(stream, block, layers[-1].name)
        pooler = ends.whole(linear("pooler", self.hidden, self.hidden, [layers[-1].name]))
        return self.graph("bert", (*layers, pooler))

    def _block(self, stream: Stream, block: int, source: str) -> list[Layer]:
        """Return one block after ``source``; the projection and the second feed-forward layer add the residual."""
        prefix = f"block{block}."
        attention = stream.attention(block, [source], [source], heads_of("bert", self.hidden, self.heads, self.heads))
        norm1 = stream.norm(prefix + "norm1", [attention[-1].name], block)
        names = ("ffn_up", "ffn_down")
        ffn = stream.feed_forward(block, names, [norm1.name], [norm1.name], EXPANSION * self.hidden, gated=False)
        return [*attention, norm1, *ffn, stream.norm(prefix + "norm2", [ffn[-1].name], block)]
