"""Builders of layers, with which a model reads like its architecture. Sizes are elements per sample.

FLOPs count a multiply-add as two. ``memory_elements`` are the elements that a layer reads and writes per sample in
addition to its parameters. The roofline assumes that element-wise functions (ReLU, GELU, dropout, residual additions)
are fused into the layer before them, as compilers and hand-written kernels do. With measured efficiencies they are
separate kernels, which move ``elementwise`` elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import ClassVar

from topoflow.memory import check_memory
from topoflow.units import check_whole
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.kernels import Kernels

LAYER_COUNTS = ("tables", "layers", "dense_layers", "feature_layers")  # sizes that are numbers of layers
BYTES_PER_LAYER = 2**11  # at least, with its part of a strategy and of the tasks of one server


@dataclass(frozen=True)
class LayerModel:
    """The training settings of a model (``LayerGraph``), to which each model adds its sizes.

    Raises ``ValueError("dlrm.tables: must be a whole number of at least 1, got 0")`` for an invalid size, and if the
    layers do not fit in memory. The sizes named in ``MAY_BE_ZERO`` may be 0.
    """

    MAY_BE_ZERO: ClassVar[Sequence[str]] = ()

    gpu: Gpu
    batch_per_gpu: int = 1
    gpus_per_server: int = 4
    dtype: str = "float32"
    precision: Mapping[str, str] = field(default_factory=dict)
    kernels: str | None = None  # a file of measured kernels: its path, or the name of a shipped one

    def __post_init__(self) -> None:
        for size in fields(self):
            value, least = getattr(self, size.name), 0 if size.name in self.MAY_BE_ZERO else 1
            place = f"{type(self).__name__.lower()}.{size.name}"
            if size.type == "int":
                check_whole(place, value, least)
            if size.name in LAYER_COUNTS:
                check_memory(place, f"{value} layers", value * BYTES_PER_LAYER)

    def graph(self, name: str, layers: Sequence[Layer]) -> LayerGraph:
        """Return a graph of ``layers`` with these settings."""
        shared = {size.name for size in fields(LayerGraph)} - {"name", "layers", "kernels"}
        settings = {size.name: getattr(self, size.name) for size in fields(self) if size.name in shared}
        kernels = None if self.kernels is None else Kernels.load(self.kernels)
        return LayerGraph(name, tuple(layers), kernels=kernels, **settings)


def linear(
    name: str,
    inputs: int,
    outputs: int,
    after: Sequence[str] = (),
    *,
    positions: int = 1,
    bias: bool = True,
    elementwise: int = 0,
    matrices: tuple[int, ...] = (),
    matrix: int = 0,
) -> Layer:
    """Return a linear layer ``inputs -> outputs`` at each of ``positions`` (1, or the length of a sequence).

    The element-wise function after it moves ``elementwise`` elements at each position.
    """
    return Layer(
        name=name,
        kind="dense",
        parameters=inputs * outputs + (outputs if bias else 0),
        forward_flops=2.0 * inputs * outputs * positions,
        output_elements=outputs * positions,
        memory_elements=(inputs + outputs) * positions,
        after=tuple(after),
        kernel=f"Dense_{inputs}_{outputs}",
        shape=(inputs, outputs),
        elementwise=elementwise * positions,
        matrices=matrices,
        matrix=matrix,
    )


def mlp(prefix: str, sizes: Sequence[int], after: Sequence[str] = ()) -> list[Layer]:
    """Return a chain of linear layers ``sizes[0] -> sizes[1] -> ...`` named ``prefix0``, ``prefix1``, ..."""
    layers: list[Layer] = []
    for position, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers.append(linear(f"{prefix}{position}", inputs, outputs, [layers[-1].name] if layers else after))
    return layers


def table(name: str, rows: int, dimension: int, bag: int) -> Layer:
    """Return an embedding table whose lookup sums ``bag`` rows: one addition and one read per gathered element.

    The input pipeline delivers the indices to the server of a table; they are not traffic of the iteration.
    """
    return Layer(
        name=name,
        kind="table",
        parameters=rows * dimension,
        forward_flops=float(bag * dimension),
        output_elements=dimension,
        memory_elements=bag * dimension + dimension,
        sparse=True,
        kernel=f"Embed_{rows}x{dimension}",
    )


def embedding(name: str, rows: int, dimension: int, positions: int) -> Layer:
    """Return a lookup of one row per position. Its gradient is dense, the default of PyTorch's ``Embedding``."""
    return Layer(
        name=name,
        kind="embedding",
        parameters=rows * dimension,
        forward_flops=0.0,
        output_elements=dimension * positions,
        memory_elements=2 * dimension * positions,
    )


def norm(name: str, features: int, after: Sequence[str], *, positions: int = 1, bias: bool = True) -> Layer:
    """Return a layer norm (RMS norm without ``bias``) or batch norm: a scale and a shift per feature.

    It reads its inputs twice (once for the statistics) and writes its outputs. It is limited by memory, so its FLOPs
    are neglected, as in published counts.
    """
    return Layer(
        name=name,
        kind="norm",
        parameters=features * (2 if bias else 1),
        forward_flops=0.0,
        output_elements=features * positions,
        memory_elements=3 * features * positions,
        after=tuple(after),
    )


def attention(
    name: str,
    heads: int,
    size: int,
    sequence: int,
    after: Sequence[str],
    *,
    key_value_heads: int,
    value_size: int,
    causal: bool = True,
    kernel: str = "flash",
) -> Layer:
    """Return the attention of ``heads`` without projections: scores and weighted values.

    Queries and keys have ``size`` elements per head, values ``value_size``. Each head takes 2 sequence^2 (size +
    value_size) FLOPs: the count of Narayanan et al., SC 2021, appendix (the causal half is not discounted). With a
    ``kernel`` of FlashAttention, scores stay on the chip (Dao et al., NeurIPS 2022); queries, keys, values and outputs
    go through memory. Otherwise (``unfused``) one matrix multiplication writes all scores, softmax and dropout read and
    write them (and a mask of a byte), and another multiplication reads them, as in Megatron-LM of 2021.
    """
    flash = kernel != "unfused"
    scores = 0 if flash else heads * sequence**2
    moved = heads * (size + value_size) + key_value_heads * (size + value_size)
    return Layer(
        name=name,
        kind="attention",
        parameters=0,
        forward_flops=2.0 * sequence * sequence * heads * (size + value_size),
        output_elements=heads * value_size * sequence,
        memory_elements=moved * sequence + 2 * scores,
        after=tuple(after),
        shape=(heads, (size + value_size) // 2, sequence),
        causal=causal and flash,
        attention_kernel=kernel,
        scores=scores,
        elementwise=9 * scores // 2,
    )


def conv(
    name: str,
    inputs: int,
    outputs: int,
    kernel: int,
    size: int,
    after: Sequence[str],
    *,
    stride: int = 1,
    padding: int | None = None,
    bias: bool = True,
) -> Layer:
    """Return a square convolution over ``size x size`` pixels; the default padding keeps size / ``stride`` pixels."""
    pixels = (_shrunk(size, stride) if padding is None else slid(size, kernel, stride, padding)) ** 2
    return Layer(
        name=name,
        kind="conv",
        parameters=inputs * outputs * kernel**2 + (outputs if bias else 0),
        forward_flops=2.0 * inputs * outputs * kernel**2 * pixels,
        output_elements=outputs * pixels,
        memory_elements=inputs * size**2 + outputs * pixels,
        after=tuple(after),
        kernel=f"Conv2D_{kernel}_{kernel}_{outputs}",
    )


def pool(name: str, channels: int, size: int, after: Sequence[str], *, stride: int, kernel: int | None = None) -> Layer:
    """Return a pooling over ``size x size`` pixels with windows of ``kernel x kernel`` (default: ``stride``)."""
    pixels = (_shrunk(size, stride) if kernel is None else slid(size, kernel, stride)) ** 2
    window = stride if kernel is None else kernel
    return Layer(
        name=name,
        kind="pool",
        parameters=0,
        forward_flops=0.0,
        output_elements=channels * pixels,
        memory_elements=channels * (size**2 + pixels),
        after=tuple(after),
        kernel=f"Pool2D_{window}_{window}",
    )


def slid(size: int, kernel: int, stride: int, padding: int = 0) -> int:
    """Return the pixels of one side of the output of a sliding window."""
    return (size + 2 * padding - kernel) // stride + 1


def _shrunk(size: int, stride: int) -> int:
    return -(-size // stride)
