"""NCF: neural collaborative filtering (He et al., WWW 2017, NeuMF), with several tables as in TopoOpt.

user_mf_i * item_mf_i (elementwise) ------------------------+-- predict (one output)
user_mlp_i, item_mlp_i -- concatenate -- mlp0 .. mlp7 ------+
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.layers import LayerModel, linear, mlp, table


@dataclass(frozen=True)
class Ncf(LayerModel):
    """An NCF model. Defaults: TopoOpt List 1, section 5.3 (128 servers), with 32 tables for each of user and item.

    MF and MLP have their own tables.
    """

    batch_per_gpu: int = 128
    tables: int = 32
    users: int = 1_000_000
    items: int = 1_000_000
    mf_dimension: int = 64
    mlp_dimension: int = 128
    bag: int = 100  # rows summed per lookup; TopoOpt's scripts, --embedding-bag-size
    dense_layers: int = 8
    dense_size: int = 4096

    def build(self) -> LayerGraph:
        mf = self._tables("mf", self.mf_dimension)
        concatenated = self._tables("mlp", self.mlp_dimension)
        factors = self.tables * self.mf_dimension
        product = Layer(
            name="mf",
            kind="product",
            parameters=0,
            forward_flops=float(factors),
            output_elements=factors,
            memory_elements=3 * factors,
            after=tuple(layer.name for layer in mf),
        )
        sizes = [2 * self.tables * self.mlp_dimension, *[self.dense_size] * self.dense_layers]
        dense = mlp("mlp", sizes, after=[layer.name for layer in concatenated])
        predict = linear("predict", factors + self.dense_size, 1, after=[product.name, dense[-1].name])
        layers = (*mf, *concatenated, product, *dense, predict)
        return self.graph("ncf", layers)

    def _tables(self, part: str, dimension: int) -> list[Layer]:
        return [
            table(f"{side}_{part}_{index}", rows, dimension, self.bag)
            for side, rows in (("user", self.users), ("item", self.items))
            for index in range(self.tables)
        ]
