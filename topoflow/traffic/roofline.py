"""Compute time of a layer on one server: the roofline of its GPUs, or what was measured of it (``workload.kernels``).

A server's GPUs split its samples evenly and work at the same time. Per GPU and forward pass a layer costs

    flops = samples / gpus * forward_flops
    bytes = (samples / gpus * memory_elements + streamed parameters) * element size

where the parameters are streamed once by every GPU, which holds a replica, unless the layer is a lookup (``table``,
``embedding``), which reads only the rows it gathers. The rows of a ``table`` are spread over the server's GPUs.
The backward pass makes two gradients of the forward pass's size, of the inputs and of the parameters: it costs
twice the forward pass (Kaplan et al., "Scaling laws", 2020, section 2.1). Launch overheads and imperfect kernels are
not modelled: these times are a lower bound. A layer computes at the rate of the workload's dtype, or at that which
``workload.precision`` names for its kind; what it moves is in dtype.
"""

from __future__ import annotations

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.kernels import Times
from topoflow.workload.optimizer import FLOPS, update_bytes

LOOKUPS = ("table", "embedding")


def forward_seconds(workload: LayerGraph, layer: Layer, samples: int) -> float:
    """Seconds a server needs for the forward pass of ``layer`` over ``samples``."""
    times = _measured(workload, layer, samples)
    if times is not None:
        return times.forward
    per_gpu = samples / workload.gpus_per_server
    streamed = 0 if layer.kind in LOOKUPS else layer.parameters
    moved = (per_gpu * layer.memory_elements + streamed) * workload.element_bytes
    return workload.gpu.seconds(per_gpu * layer.forward_flops, moved, workload.rate(layer.kind))


def backward_seconds(workload: LayerGraph, layer: Layer, samples: int) -> float:
    """Seconds a server needs for the backward pass of ``layer`` over ``samples``."""
    times = _measured(workload, layer, samples)
    return 2 * forward_seconds(workload, layer, samples) if times is None else times.backward


def _measured(workload: LayerGraph, layer: Layer, samples: int) -> Times | None:
    if workload.kernels is None or not workload.kernels.has(layer.kernel):
        return None
    return workload.kernels.times(layer.kernel, samples, workload.gpus_per_server)


def update_seconds(workload: LayerGraph, layer: Layer, samples: int, replicated: bool) -> float:
    """Seconds of the optimizer on ``layer``; SGD reads the weight and its gradient and writes the weight (2 FLOP).

    ``samples`` are those the server computed. A sparse layer that is held once updates only the rows it gathered; a
    replicated one was all-reduced densely and updates all. Either way a sparse layer's rows are spread over the GPUs.
    """
    elements: float = layer.parameters
    if layer.sparse:
        gathered = samples * (layer.memory_elements - layer.output_elements)
        elements = (elements if replicated else min(elements, gathered)) / workload.gpus_per_server
    return step_seconds(workload, elements)


def step_seconds(workload: LayerGraph, elements: float) -> float:
    """Seconds in which one GPU updates ``elements`` parameters."""
    moved = elements * update_bytes(workload.optimizer, workload.dtype)
    return workload.gpu.seconds(FLOPS[workload.optimizer] * elements, moved, workload.dtype)
