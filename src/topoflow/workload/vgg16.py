"""VGG16 (Simonyan & Zisserman, ICLR 2015, configuration D): 13 convolutions of 3x3, 5 poolings, 3 dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.layers import LayerModel, conv, linear, pool, slid

# (convolutions, channels) between poolings; Simonyan & Zisserman, table 1, column D.
STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
DENSE = 4096


@dataclass(frozen=True)
class Vgg16(LayerModel):
    """A VGG16. Defaults: TopoOpt List 1, section 5.3, for images of 224x224 and 1000 classes, as published.

    TopoOpt's own VGG16 reads 229x229, pads by 2 and pools 3x3 with stride 2 (``configs/workload/topoopt/vgg16.yaml``),
    so that its first dense layer reads 11 * 11 * 512, as in its task graphs.
    """

    MAY_BE_ZERO = ("padding",)

    batch_per_gpu: int = 64
    precision: Mapping[str, str] = field(default_factory=lambda: {"conv": "tfloat32"})
    image_size: int = 224
    padding: int = 1
    pooling: int = 2
    classes: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.image_size
        for convolutions, _ in STAGES:
            size = slid(size + convolutions * (2 * self.padding - 2), self.pooling, stride=2)
            if size < 1:
                raise ValueError(f"vgg16.image_size: must leave pixels after five poolings, got {self.image_size}")

    def build(self) -> LayerGraph:
        layers: list[Layer] = []
        channels, size = 3, self.image_size
        for stage, (convolutions, outputs) in enumerate(STAGES, start=1):
            for index in range(1, convolutions + 1):
                name = f"conv{stage}_{index}"
                layers.append(conv(name, channels, outputs, 3, size, _last(layers), padding=self.padding))
                channels, size = outputs, slid(size, 3, 1, self.padding)
            layers.append(pool(f"pool{stage}", channels, size, _last(layers), stride=2, kernel=self.pooling))
            size = slid(size, self.pooling, stride=2)
        layers.append(linear("fc6", channels * size**2, DENSE, _last(layers)))
        layers.append(linear("fc7", DENSE, DENSE, _last(layers)))
        layers.append(linear("fc8", DENSE, self.classes, _last(layers)))
        return self.graph("vgg16", layers)


def _last(layers: list[Layer]) -> list[str]:
    return [layer.name for layer in layers[-1:]]
