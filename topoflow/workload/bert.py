"""BERT (Devlin et al., NAACL 2019): embeddings, an encoder of transformer blocks, and the pooler.

word, position, type -- norm -- block 0 .. block 11 -- pooler
block:  qkv -> attention -> projection (+) -> norm -> ffn_up -> ffn_down (+) -> norm
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, Workload
from topoflow.workload.gpu import Gpu
from topoflow.workload.layers import attention, check_sizes, embedding, linear, norm

TYPES = 2  # sentence A, sentence B
EXPANSION = 4  # Devlin et al., section 3: "the feed-forward/filter size to be 4H"


@dataclass(frozen=True)
class Bert:
    """Defaults: TopoOpt List 1, section 5.3 (128 servers).

    List 1's "Embed. size: 512" does not follow the hidden size; we read it as BERT's table of 512 positions.
    TopoOpt's task graphs have no embeddings at all, and feed-forward layers no wider than the hidden size; we build
    BERT as it was published.
    """

    gpu: Gpu
    batch_per_gpu: int = 16
    gpus_per_server: int = 4
    dtype: str = "float32"
    layers: int = 12
    hidden: int = 1024
    heads: int = 16
    sequence: int = 64
    vocabulary: int = 30522  # google-research/bert, vocab.txt of the uncased models
    positions: int = 512

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.hidden % self.heads:
            raise ValueError(f"bert.hidden: must be a multiple of the {self.heads} heads, got {self.hidden}")
        if self.sequence > self.positions:
            raise ValueError(f"bert.sequence: must be at most the {self.positions} positions, got {self.sequence}")

    def build(self) -> Workload:
        tables = [
            embedding(name, rows, self.hidden, self.sequence)
            for name, rows in (("word", self.vocabulary), ("position", self.positions), ("type", TYPES))
        ]
        layers = [*tables, norm("norm", self.hidden, [table.name for table in tables], positions=self.sequence)]
        for index in range(self.layers):
            layers += self._block(f"block{index}.", layers[-1].name)
        pooler = linear("pooler", self.hidden, self.hidden, [layers[-1].name])
        return Workload("bert", (*layers, pooler), self.batch_per_gpu, self.gpu, self.gpus_per_server, self.dtype)

    def _block(self, prefix: str, source: str) -> list[Layer]:
        """One block after ``source``; the projection and the second feed-forward layer add the residual."""
        hidden, sequence, wide = self.hidden, self.sequence, EXPANSION * self.hidden
        names = [prefix + name for name in ("qkv", "attention", "projection", "norm1", "ffn_up", "ffn_down", "norm2")]
        qkv, scores, projection, norm1, up, down, norm2 = names
        return [
            linear(qkv, hidden, 3 * hidden, [source], positions=sequence),
            attention(scores, hidden, sequence, [qkv], heads=self.heads),
            linear(projection, hidden, hidden, [scores, source], positions=sequence),
            norm(norm1, hidden, [projection], positions=sequence),
            linear(up, hidden, wide, [norm1], positions=sequence),
            linear(down, wide, hidden, [up, norm1], positions=sequence),
            norm(norm2, hidden, [down], positions=sequence),
        ]
