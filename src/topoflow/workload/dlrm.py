"""DLRM: deep learning recommendation model (Naumov et al., 2019, arXiv:1906.00091), sized as in TopoOpt.

E0 .. E63 -----------+
                      +-- concatenate -- top0 .. top15 -- click probability
features -- bottom0 .. bottom6 -+
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import LayerGraph
from topoflow.workload.layers import LayerModel, mlp, table


@dataclass(frozen=True)
class Dlrm(LayerModel):
    """A DLRM model. Defaults: TopoOpt List 1, section 5.3 (128 servers); the config has the sizes of other sections.

    ``dense_layers`` counts the vectors of the bottom MLP including its input, and ``feature_layers`` the layers of the
    top MLP, whose last layer has one output. TopoOpt's scripts count alike (``--arch-mlp-bot`` of 8 sizes makes 7
    layers, ``--arch-mlp-top`` of 16 sizes and a 1 makes 16), and the parameters agree exactly with its task graphs. The
    features interact by concatenation, FlexFlow's default. Tables come first, so that their outputs are sent while the
    bottom MLP computes.
    """

    batch_per_gpu: int = 128
    tables: int = 64
    rows: int = 10_000_000
    dimension: int = 128
    bag: int = 100  # rows summed per lookup; TopoOpt's scripts, --embedding-bag-size
    dense_layers: int = 8
    dense_size: int = 2048
    feature_layers: int = 16
    feature_size: int = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dense_layers < 2:
            raise ValueError(f"dlrm.dense_layers: must be at least 2 (an input and a layer), got {self.dense_layers}")

    def build(self) -> LayerGraph:
        tables = [table(f"E{index}", self.rows, self.dimension, self.bag) for index in range(self.tables)]
        bottom = mlp("bottom", [self.dense_size] * self.dense_layers)
        concatenated = self.tables * self.dimension + self.dense_size
        top = mlp(
            "top",
            [concatenated, *[self.feature_size] * (self.feature_layers - 1), 1],
            after=[layer.name for layer in tables] + [bottom[-1].name],
        )
        return self.graph("dlrm", (*tables, *bottom, *top))
