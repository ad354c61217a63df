"""Compute time of a layer on one GPU: at the peak rates, at measured efficiencies, or as measured.

The forward pass on a GPU that has s samples of a layer and p of its parameters takes

    flops = s * forward_flops
    bytes = (s * memory_elements + p) * element size

where a lookup (``table``, ``embedding``) reads only the rows that it gathers, and not p. A server's GPUs split its
samples evenly and work concurrently; the rows of a ``table`` are spread over them. A layer computes at the rate of the
workload's dtype, or at that of ``workload.precision`` for its kind; it moves elements of dtype.

    roofline        max(flops / peak, bytes / memory bandwidth); the backward pass makes two gradients of the forward
                    pass's size, of the inputs and of the parameters, and takes twice as long (Kaplan et al., "Scaling
                    laws", 2020, section 2.1). Launches and imperfect kernels cost nothing: this is a lower bound.
    gpu.efficiency  flops / (peak * efficiency), by the shape of the matrix multiplication or of attention. A kernel
                    that only moves memory, as element-wise functions do, takes its launch time and bytes / (memory
                    bandwidth * efficiency). Causal attention computes half of its scores; its backward pass has five
                    matrix multiplications, its forward pass two (Dao et al., FlashAttention, NeurIPS 2022).
    kernels         the measured time of the whole layer (``workload.kernels``)
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.efficiency import Efficiency
from topoflow.workload.kernels import KernelTimes
from topoflow.workload.optimizer import FLOPS, update_bytes

LOOKUPS = ("table", "embedding")
ATTENTION_BACKWARD = 2.5  # backward over forward matrix multiplications


@dataclass(frozen=True)
class SharingDegrees:
    """Degrees by which the ranks of a stage share its layers."""

    tensor: int = 1
    context: int = 1
    expert: int = 1


WHOLE = SharingDegrees()


def gpu_times(
    workload: LayerGraph, layer: Layer, samples: float, parameters: float, ranks: SharingDegrees = WHOLE
) -> KernelTimes:
    """Return the seconds of both passes on a GPU that computes the equivalent of ``samples`` of the whole layer.

    The GPU holds ``parameters`` (elements) of the layer, and is one of ``ranks`` that share it.
    """
    gpu = workload.gpu
    flops = samples * layer.forward_flops
    streamed = 0.0 if layer.kind in LOOKUPS else parameters
    moved = (samples * layer.memory_elements + streamed) * workload.element_bytes
    rate = workload.rate(layer.kind)
    if gpu.measured is None:
        least = gpu.seconds(flops, moved, rate)
        return KernelTimes(least, 2 * least, least if layer.parameters else 0.0)
    times = _kernel_times(workload, gpu.measured, layer, samples, gpu.seconds(0.0, moved, rate), ranks)
    elementwise = elementwise_seconds(workload, layer, samples)
    return KernelTimes(times.forward + elementwise, times.backward + 2 * elementwise, times.weights)


def elementwise_seconds(workload: LayerGraph, layer: Layer, samples: float) -> float:
    """Return the seconds of the layer's element-wise functions in the forward pass, beside its main kernel."""
    measured = workload.gpu.measured
    if measured is None or not layer.elementwise:
        return 0.0
    bytes = samples * layer.elementwise * workload.element_bytes
    return measured.launch + workload.gpu.seconds(0.0, bytes, workload.dtype)


def _kernel_times(
    workload: LayerGraph, measured: Efficiency, layer: Layer, samples: float, moving: float, ranks: SharingDegrees
) -> KernelTimes:
    """Return the seconds of the layer's main kernel, which needs ``moving`` seconds for its memory."""
    rate = workload.rate(layer.kind)
    if layer.kind in LOOKUPS or not layer.forward_flops:
        return KernelTimes(measured.launch + moving, measured.launch + 2 * moving)
    if not layer.shape:
        rule = "must be roofline, as no kernels of such layers were measured"
        raise ValueError(f"gpu.efficiency: {rule}, got {workload.gpu.efficiency!r} for a {layer.kind}")
    peak = samples * layer.forward_flops / workload.gpu.flops[rate]
    if layer.scores:
        heads, size, sequence = layer.shape
        rows = max(samples * heads * sequence, 1.0)
        products = ((rows, size, sequence), (rows, sequence, size))  # of queries and keys, of scores and values
        forward = sum(peak / 2 / measured.reached("matmul", rate, *shape) for shape in products)
        backward = sum(forward / measured.backward[gradient] for gradient in ("inputs", "parameters"))
    elif layer.kind == "attention":
        heads, size, sequence = layer.shape
        computed = peak * (0.5 if layer.causal else 1.0)
        reached = measured.attention(layer.attention_kernel, rate, size, sequence, max(samples * heads, 1.0))
        forward, backward = computed / reached[0], ATTENTION_BACKWARD * computed / reached[1]
    else:
        forward = peak / measured.reached("matmul", rate, *_multiplied(layer, samples, ranks))
        inputs, weights = (forward / measured.backward[gradient] for gradient in ("inputs", "parameters"))
        longer = max(1.0, 2 * moving / (inputs + weights))
        return KernelTimes(max(forward, moving), max(inputs + weights, 2 * moving), weights * longer)
    return KernelTimes(max(forward, moving), max(backward, 2 * moving))


def _multiplied(layer: Layer, samples: float, ranks: SharingDegrees) -> tuple[float, float, float]:
    """Return rows, inputs and outputs of the matrix multiplication of one GPU; for experts, those of each expert.

    Each tensor rank has a part of the columns (gradients of the inputs are reduced) or of the rows of a matrix, and all
    positions; for uncut layers it has a part of the positions. The router is balanced.
    """
    inputs, outputs = layer.shape
    rows = samples * layer.forward_flops / (2 * inputs * outputs)
    cut = layer.sharding
    if cut is None or not cut.tensor:
        return max(rows, 1.0), inputs, outputs
    rows *= ranks.tensor * (ranks.expert / cut.experts if cut.experts > 1 else 1)
    if cut.reduced_backward:
        return max(rows, 1.0), inputs, max(outputs / ranks.tensor, 1.0)
    return max(rows, 1.0), max(inputs / ranks.tensor, 1.0), outputs


def forward_seconds(workload: LayerGraph, layer: Layer, samples: float) -> float:
    """Return the seconds that a server needs for the forward pass of ``layer`` over ``samples``."""
    return _server_times(workload, layer, samples).forward


def backward_seconds(workload: LayerGraph, layer: Layer, samples: float) -> float:
    """Return the seconds that a server needs for the backward pass of ``layer`` over ``samples``."""
    return _server_times(workload, layer, samples).backward


def _server_times(workload: LayerGraph, layer: Layer, samples: float) -> KernelTimes:
    if workload.kernels is not None and workload.kernels.has(layer.kernel):
        return workload.kernels.times(layer.kernel, samples, workload.gpus_per_server)
    return gpu_times(workload, layer, samples / workload.gpus_per_server, layer.parameters)


def update_seconds(workload: LayerGraph, layer: Layer, samples: float, replicated: bool) -> float:
    """Return the seconds of the optimizer on ``layer``; SGD reads the weight and its gradient and writes the weight.

    ``samples`` are those that the server computed. A sparse layer that is held once updates only the gathered rows; a
    replicated one was all-reduced densely and updates all rows. In both cases the rows are spread over the GPUs.
    """
    elements: float = layer.parameters
    if layer.sparse:
        gathered = samples * (layer.memory_elements - layer.output_elements)
        elements = (elements if replicated else min(elements, gathered)) / workload.gpus_per_server
    return step_seconds(workload, elements)


def step_seconds(workload: LayerGraph, elements: float) -> float:
    """Return the seconds in which one GPU updates ``elements`` parameters."""
    moved = elements * update_bytes(workload.optimizer, workload.dtype)
    return workload.gpu.seconds(FLOPS[workload.optimizer] * elements, moved, workload.dtype)
