"""What one pass of a microbatch through a run of layers costs the GPUs of a stage, and what they send.

b samples in a microbatch, t tensor ranks, c context ranks: a GPU computes as much of a layer as b / (t c) samples are
(``roofline.py``), since each rank has a part of the heads or columns, and of the positions. Between ranks, per pass:

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
from topoflow.strategy.memory import is_recomputed
from topoflow.traffic.roofline import Ranks, gpu_times
from topoflow.workload.base import Layer, LayerGraph, Sharding
from topoflow.workload.kernels import Times

# The collectives of a pass, in their order, and the ranks among which they are.
AMONG = {
    "all_gather": ("context",),
    "reduce_scatter": ("context",),
    "all_reduce": ("tensor",),
    "all_to_all": ("expert",),
}


@dataclass(frozen=True)
class Work:
    """A pass on one GPU: seconds, and the bytes of one member's buffer in all collectives of each kind (``AMONG``)."""

    seconds: float
    sent: Mapping[str, float]


def forward_work(workload: LayerGraph, grid: Grid, layers: Sequence[tuple[Layer, float]]) -> Work:
    """Return the work on ``layers``, each with the parameters (elements) that the GPU holds of it."""
    seconds = sum(_times(workload, grid, layer, parameters).forward for layer, parameters in layers)
    cuts = [layer.sharding for layer, _ in layers if layer.sharding is not None]
    reduced = sum(cut.reduced_forward for cut in cuts)
    return Work(seconds, _sent(workload, grid, cuts, reduced))


def backward_work(workload: LayerGraph, grid: Grid, layers: Sequence[tuple[Layer, float]]) -> Work:
    """Return the work of the gradients; what was gathered is gathered again and its gradients are scattered.

    What is recomputed runs forward again, with its collectives; keys and values are gathered for both at once.
    """
    seconds = sum(_times(workload, grid, layer, parameters).backward for layer, parameters in layers)
    cuts = [layer.sharding for layer, _ in layers if layer.sharding is not None]
    sent = _sent(workload, grid, cuts, sum(cut.reduced_backward for cut in cuts))
    again = forward_work(workload, grid, [each for each in layers if is_recomputed(each[0], grid.recompute)])
    for op in ("all_reduce", "all_to_all"):
        sent[op] += again.sent[op]
    sent = {"all_gather": sent["all_gather"], "reduce_scatter": sent["all_gather"], **sent}
    return Work(seconds + again.seconds, sent)


def _sent(workload: LayerGraph, grid: Grid, cuts: Sequence[Sharding], reduced: float) -> dict[str, float]:
    """Return the bytes of the collectives of a pass that reduces ``reduced`` elements per sample."""
    samples = grid.samples(workload) * workload.element_bytes
    return {
        "all_gather": samples / grid.tensor * sum(cut.key_values for cut in cuts),
        "all_reduce": samples / grid.context * reduced,
        "all_to_all": samples / grid.sharing * sum(cut.routed for cut in cuts),
    }


def _times(workload: LayerGraph, grid: Grid, layer: Layer, parameters: float) -> Times:
    if workload.kernels is not None:
        rule = "must be null where ranks share layers, as whole layers were measured"
        raise ValueError(f"workload.kernels: {rule}, got {workload.kernels.name}")
    ranks = Ranks(grid.tensor, grid.context, grid.expert)
    return gpu_times(workload, layer, grid.samples(workload) / grid.sharing, parameters, ranks)
