"""ResNet-50 (He et al., CVPR 2016, table 1) as torchvision builds it: the stride is in the 3x3 convolution.

block:  conv1 1x1 -> bn1 -> conv2 3x3 -> bn2 -> conv3 1x1 -> bn3 -> (+) ->
          \\-- downsample 1x1 -> bn (first block of a stage) -----------/
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.layers import LayerModel, conv, linear, norm, pool

# (blocks, width, stride) of the four stages; a block's output is 4 * width channels.
STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
EXPANSION = 4


@dataclass(frozen=True)
class Resnet50(LayerModel):
    """A ResNet-50. Defaults: TopoOpt List 1, section 5.3, for images of 224x224 and 1000 classes, as published."""

    batch_per_gpu: int = 128
    image_size: int = 224
    classes: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % 32:  # the image is halved five times
            raise ValueError(f"resnet50.image_size: must be a multiple of 32, got {self.image_size}")

    def build(self) -> LayerGraph:
        size = self.image_size // 2
        layers = _conv_bn("", "1", 3, 64, 7, self.image_size, [], stride=2)
        layers.append(pool("maxpool", 64, size, ["bn1"], stride=2))
        channels, size = 64, size // 2
        for stage, (blocks, width, stride) in enumerate(STAGES, start=1):
            for index in range(blocks):
                layers += _bottleneck(f"layer{stage}.{index}.", channels, width, size, layers[-1].name, stride)
                channels, size, stride = EXPANSION * width, size // stride, 1
        layers.append(pool("avgpool", channels, size, [layers[-1].name], stride=size))
        layers.append(linear("fc", channels, self.classes, ["avgpool"]))
        return self.graph("resnet50", layers)


def _conv_bn(
    prefix: str, number: str, inputs: int, outputs: int, kernel: int, size: int, after: list[str], stride: int = 1
) -> list[Layer]:
    """Return ``conv<number>`` without bias and ``bn<number>``, with the names of torchvision."""
    convolution = conv(f"{prefix}conv{number}", inputs, outputs, kernel, size, after, stride=stride, bias=False)
    return [convolution, norm(f"{prefix}bn{number}", outputs, [convolution.name], positions=(size // stride) ** 2)]


def _bottleneck(prefix: str, inputs: int, width: int, size: int, source: str, stride: int) -> list[Layer]:
    """Return one block from ``source`` (``inputs`` channels of ``size x size``); its last layer adds the two branches.

    The shortcut comes last, as in torchvision, so its gradients come first: DDP's buckets depend on this order.
    """
    outputs = EXPANSION * width
    layers = _conv_bn(prefix, "1", inputs, width, 1, size, [source])
    layers += _conv_bn(prefix, "2", width, width, 3, size, [layers[-1].name], stride)
    layers += _conv_bn(prefix, "3", width, outputs, 1, size // stride, [layers[-1].name])
    branch = source
    if inputs != outputs:
        branch = layers[-1].name
        layers += _conv_bn(f"{prefix}downsample.", "", inputs, outputs, 1, size, [source], stride)
    return [*layers[:-1], replace(layers[-1], after=(*layers[-1].after, branch))]
