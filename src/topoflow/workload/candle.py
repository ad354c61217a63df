"""CANDLE Uno: the response of a tumour to a pair of drugs (CANDLE benchmarks, Pilot1/Uno), as in FlexFlow.

cell.rnaseq --------- tower of dense layers --+
drug1.descriptors --- tower ------------------+
drug1.fingerprints -- tower ------------------+-- concatenate -- dense0 .. dense7 -- dense8 (one output)
drug2.descriptors --- tower ------------------+
drug2.fingerprints -- tower ------------------+
dose1, dose2 ---------------------------------+
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.layers import LayerModel, mlp

# Features of each input that has a tower. Source: FlexFlow, examples/cpp/candle_uno, feature_shapes and input_features.
TOWERS = {
    "cell.rnaseq": 942,
    "drug1.descriptors": 5270,
    "drug1.fingerprints": 2048,
    "drug2.descriptors": 5270,
    "drug2.fingerprints": 2048,
}
DOSES = 2


@dataclass(frozen=True)
class Candle(LayerModel):
    """A CANDLE Uno model. Defaults: TopoOpt List 1, section 5.3 (128 servers).

    Towers do not share weights, as in TopoOpt's task graphs.
    """

    batch_per_gpu: int = 256
    dense_layers: int = 8
    dense_size: int = 16384
    feature_layers: int = 16
    feature_size: int = 16384

    def build(self) -> LayerGraph:
        layers: list[Layer] = []
        ends: list[str] = []
        for tower, features in TOWERS.items():
            layers += mlp(f"{tower}.", [features, *[self.feature_size] * self.feature_layers])
            ends.append(layers[-1].name)
        concatenated = len(TOWERS) * self.feature_size + DOSES
        layers += mlp("dense", [concatenated, *[self.dense_size] * self.dense_layers, 1], after=ends)
        return self.graph("candle", layers)
