"""What one pass of a microbatch through a run of layers costs the GPUs of a stage, and what they send.

b samples in a microbatch, t tensor ranks, c context ranks; per GPU and forward pass a layer costs

    flops = b / (t c) * forward_flops
    bytes = (b / (t c) * memory_elements + the rank's part of the parameters) * element size

as each rank has a part of the heads or columns, and of the positions. Between ranks, per pass:

    all_reduce      tensor ranks: the outputs (forward) or the gradients of the inputs (backward) of a context rank's
                    positions, b / c * hidden * sequence each, two per block (Narayanan et al., SC 2021, 3.2)
    all_gather      context ranks: keys and values of all positions, b / t * 2 * width * sequence per block; in the
    reduce_scatter  backward pass again, and their gradients are scattered (Dubey et al., "The Llama 3 Herd of Models",
                    2024, 3.3.2; TransformerEngine, AttnFuncWithCPAndKVAllGather)
    all_to_all      expert ranks: top_k * hidden of each token that the rank has, b / (t c) * sequence of them, to the
                    experts and back (Lepikhin et al., "GShard", 2020)

The router is taken as balanced: every expert gets as many tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.strategy.grid import Grid
from topoflow.traffic.roofline import LOOKUPS
from topoflow.workload.base import Layer, LayerGraph

# The collectives of a pass, in their order, and the ranks among which they are.
AMONG = {
    "all_gather": ("context",),
    "reduce_scatter": ("context",),
    "all_reduce": ("tensor",),
    "all_to_all": ("expert",),
}


@dataclass(frozen=True)
class Work:
    """Of one GPU: seconds, and the bytes of one member's buffer in all collectives of each kind (of ``AMONG``)."""

    seconds: float
    sent: Mapping[str, float]


def forward_work(workload: LayerGraph, grid: Grid, layers: Sequence[tuple[Layer, float]]) -> Work:
    """``layers`` with the parameters (elements) that the GPU holds of each."""
    samples = grid.samples(workload) * workload.element_bytes
    seconds = sum(_seconds(workload, grid, layer, parameters) for layer, parameters in layers)
    cuts = [layer.sharding for layer, _ in layers if layer.sharding is not None]
    sent = {
        "all_gather": samples / grid.tensor * sum(cut.key_values for cut in cuts),
        "all_reduce": samples / grid.context * sum(cut.reduced_forward for cut in cuts),
        "all_to_all": samples / grid.sharing * sum(cut.routed for cut in cuts),
    }
    return Work(seconds, sent)


def backward_work(workload: LayerGraph, grid: Grid, layers: Sequence[tuple[Layer, float]]) -> Work:
    """Twice the arithmetic (``roofline.py``), and what was gathered is gathered again and its gradients scattered."""
    forward = forward_work(workload, grid, layers)
    samples = grid.samples(workload) * workload.element_bytes
    reduced = sum(layer.sharding.reduced_backward for layer, _ in layers if layer.sharding is not None)
    sent = {
        "all_gather": forward.sent["all_gather"],
        "reduce_scatter": forward.sent["all_gather"],
        "all_reduce": samples / grid.context * reduced,
        "all_to_all": forward.sent["all_to_all"],
    }
    return Work(2 * forward.seconds, sent)


def _seconds(workload: LayerGraph, grid: Grid, layer: Layer, parameters: float) -> float:
    if workload.kernels is not None:
        law = "must be null where ranks share layers, as whole layers were measured"
        raise ValueError(f"workload.kernels: {law}, got {workload.kernels.name}")
    samples = grid.samples(workload) / grid.sharing
    streamed = 0.0 if layer.kind in LOOKUPS else parameters
    moved = (samples * layer.memory_elements + streamed) * workload.element_bytes
    return workload.gpu.seconds(samples * layer.forward_flops, moved, workload.rate(layer.kind))
