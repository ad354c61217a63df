"""A PyTorch module as a graph of layers: CNNs, transformers, recommendation models, mixtures of experts.

    graph = topoflow.Model.from_module(module, example)
    topoflow.compare(workload=graph, strategy="fsdp", servers=16)

Attention (``scaled_dot_product_attention``) in numbered children of a container makes these children the blocks of a
transformer: a pipeline is cut between them, and context ranks divide the positions. Which matrices tensor ranks could
divide, or which parameters are experts, a module does not say: every tensor and expert rank would hold all of them, so
these degrees must be 1.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from topoflow.workload.base import Layer, LayerGraph, Sharding
from topoflow.workload.gpu import Gpu

if TYPE_CHECKING:
    from topoflow.capture.module_layers import ModuleLayer, ModuleTrace

BLOCK = re.compile(r"(.*?(?:^|\.)\d+)(?:\.|$)")  # a path up to its first number


def module_graph(module: Any, example: Any, gpu: Gpu, **settings: Any) -> LayerGraph:
    """Return the layers of a module, with ``settings`` of ``LayerGraph``; ValueError.

    By default a GPU has as many samples as the example, and everything has the element type of most parameters. What is
    left out or was assumed is a warning.
    """
    try:
        from topoflow.capture.module_layers import layers_of
    except ModuleNotFoundError as error:
        raise ValueError(f"module: needs PyTorch, pip install 'topoflow[torch]' ({error})") from error
    trace = layers_of(module, example)
    settings = {"name": type(module).__name__.lower(), "dtype": trace.dtype, "batch_per_gpu": trace.batch, **settings}
    for sentence, count in trace.assumed.items():
        warnings.warn(f"{settings['name']}: {count} {sentence}", stacklevel=3)
    return LayerGraph(layers=_layers(trace), gpu=gpu, **settings)


def _layers(trace: ModuleTrace) -> tuple[Layer, ...]:
    layers = [_layer(traced, trace) for traced in trace.layers]
    blocks: dict[str, int] = {}
    for traced in trace.layers:
        block = BLOCK.match(traced.path)
        if traced.kind == "attention" and block:
            blocks.setdefault(block[1], len(blocks))
    if not blocks or any(traced.kind == "attention" and not BLOCK.match(traced.path) for traced in trace.layers):
        return tuple(layers)
    return tuple(
        replace(layer, sharding=_sharding(traced, blocks, trace))
        for layer, traced in zip(layers, trace.layers, strict=True)
    )


def _sharding(layer: ModuleLayer, blocks: dict[str, int], trace: ModuleTrace) -> Sharding:
    path = BLOCK.match(layer.path)
    block = None if path is None else blocks.get(path[1])
    if layer.kind == "attention":
        return Sharding(block, heads=1, positions=layer.shape[-1], key_values=layer.key_values // trace.batch)
    tied = layer.shares is not None and not layer.parameters
    return Sharding(block, shares=trace.layers[layer.shares].name if tied and layer.shares is not None else None)


def _layer(layer: ModuleLayer, trace: ModuleTrace) -> Layer:
    """Return a layer per sample. A norm reads its inputs twice, once for the statistics."""
    moved = sum(layer.read.values()) + layer.output * (2 if layer.kind == "norm" else 1)
    names = {"dense": "Dense_{0}_{1}", "conv": "Conv2D_{2}_{2}_{1}"}
    sizes = (*(layer.shape or (0, layer.channels)), layer.window)
    return Layer(
        name=layer.name,
        kind=layer.kind,
        parameters=layer.parameters,
        forward_flops=layer.flops / trace.batch,
        output_elements=round(layer.output / trace.batch),
        memory_elements=round(moved / trace.batch),
        after=tuple(trace.layers[at].name for at in sorted(layer.after)),
        sparse=layer.sparse,
        kernel=names.get(layer.kind, "").format(*sizes),
        shape=layer.shape if layer.kind in ("dense", "attention") else (),
        causal=layer.causal,
        elementwise=round(layer.elementwise / trace.batch),
    )
