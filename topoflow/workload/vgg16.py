"""VGG16 (Simonyan & Zisserman, ICLR 2015, configuration D): 13 convolutions of 3x3, 5 poolings, 3 dense layers."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.layers import check_sizes, conv, linear, pool

# (convolutions, channels) between poolings; Simonyan & Zisserman, table 1, column D.
STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
DENSE = 4096


@dataclass(frozen=True)
class Vgg16:
    """Defaults: TopoOpt List 1, section 5.3, for images of 224x224 and 1000 classes, as published.

    TopoOpt's task graphs come out to the byte with 352x352: their first dense layer reads 11 * 11 * 512.
    """

    gpu: Gpu
    batch_per_gpu: int = 64
    gpus_per_server: int = 4
    dtype: str = "float32"
    image_size: int = 224
    classes: int = 1000

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.image_size % 32:  # five poolings halve the image five times
            raise ValueError(f"vgg16.image_size: must be a multiple of 32, got {self.image_size}")

    def build(self) -> LayerGraph:
        layers: list[Layer] = []
        channels, size = 3, self.image_size
        for stage, (convolutions, outputs) in enumerate(STAGES, start=1):
            for index in range(1, convolutions + 1):
                layers.append(conv(f"conv{stage}_{index}", channels, outputs, 3, size, _last(layers)))
                channels = outputs
            layers.append(pool(f"pool{stage}", channels, size, _last(layers), stride=2))
            size //= 2
        layers.append(linear("fc6", channels * size**2, DENSE, _last(layers)))
        layers.append(linear("fc7", DENSE, DENSE, _last(layers)))
        layers.append(linear("fc8", DENSE, self.classes, _last(layers)))
        return LayerGraph("vgg16", tuple(layers), self.batch_per_gpu, self.gpu, self.gpus_per_server, self.dtype)


def _last(layers: list[Layer]) -> list[str]:
    return [layer.name for layer in layers[-1:]]
