"""The work of one pass of a microbatch through layers of a stage: compute time and sent bytes of a GPU.

With b samples in a microbatch, t tensor ranks and c context ranks, a GPU computes the equivalent of b / (t c) samples
of a layer (``roofline.py``), since each rank has a part of the heads or columns, and of the positions. Between ranks,
per pass:

    gather_inputs   tensor ranks, each of which has a part of the positions between its layers (sequence parallelism):
    scatter_outputs the inputs of layers cut by columns are all-gathered, the outputs of those cut by rows are
                    reduce-scattered, b / c * hidden * sequence each, two of both per block; backward the gradients of
                    outputs are all-gathered, those of inputs reduce-scattered (Korthikanti et al., 2022, 4.2.2). The
                    gather of the inputs for the gradients of the weights is hidden by a multiplication there
    all_reduce      the same without sequence parallelism: outputs, and backward the gradients of inputs, are summed,
                    and each tensor rank does all norms, dropouts and residual additions (Shoeybi et al., 2019)
    all_gather      context ranks: keys and values of all positions, b / t * 2 * width * sequence per block; repeated
    reduce_scatter  in the backward pass, where their gradients are reduce-scattered (Dubey et al., "The Llama 3 Herd
                    of Models", 2024, 3.3.2; TransformerEngine, AttnFuncWithCPAndKVAllGather)
    all_to_all      expert ranks: top_k * hidden of each token that the rank has, b / (t c) * sequence of them, to the
                    experts and back (Lepikhin et al., "GShard", 2020)
    to_nodes        the same where a token's experts are on at most M of the N nodes of the expert ranks: to a rank on
    in_nodes        each of these nodes, min(M, N, top_k) * hidden, and at the same time, from there, to the experts,
                    top_k * hidden (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, sections 2.1.2 and 3.2.2)

With ``async_tensor`` and ``async_expert``, ``hidden_part`` of these overlaps with the compute of the pass.

The router is assumed to be balanced: all experts get equally many tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from topoflow.strategy.grid import ParallelGrid, RankGroup
from topoflow.strategy.memory import recomputed_part
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.roofline import SharingDegrees, elementwise_seconds, gpu_times
from topoflow.workload.base import Layer, LayerGraph, Sharding
from topoflow.workload.kernels import KernelTimes
from topoflow.workload.sharding import repeated

# The collectives of a pass, in their order, and the axes of their ranks.
GATHER_INPUTS, SCATTER_OUTPUTS = "gather_inputs", "scatter_outputs"
AMONG = {
    "all_gather": ("context",),
    "reduce_scatter": ("context",),
    GATHER_INPUTS: ("tensor",),
    SCATTER_OUTPUTS: ("tensor",),
    "all_reduce": ("tensor",),
    "all_to_all": ("expert",),
}
TO_NODES, IN_NODES = "to_nodes", "in_nodes"
HIDDEN = {  # fields of a strategy -> the kinds of collectives that they hide
    "async_tensor": (GATHER_INPUTS, SCATTER_OUTPUTS),
    "async_expert": ("all_to_all", TO_NODES, IN_NODES),
}
OPERATION = {  # kinds that are no operations -> these
    GATHER_INPUTS: "all_gather",
    SCATTER_OUTPUTS: "reduce_scatter",
    TO_NODES: "all_to_all",
    IN_NODES: "all_to_all",
}


Calls = Counter[float]  # collectives of one kind in a pass: bytes of one member's buffer -> how many there are


@dataclass(frozen=True)
class PassWork:
    """A pass on one GPU: its seconds, and its collectives by kind (``AMONG``).

    The host launches the kernels of both in ``launch`` seconds: no pass takes less.
    """

    seconds: float
    sent: Mapping[str, Calls]
    launch: float = 0.0


def forward_work(workload: LayerGraph, grid: ParallelGrid, layers: Sequence[tuple[Layer, float]]) -> PassWork:
    """Return the work on ``layers``, each with the parameters (elements) that the GPU holds of it."""
    cuts = [layer.sharding for layer, _ in layers if layer.sharding is not None]
    return PassWork(
        forward_seconds(workload, grid, layers), _sent(workload, grid, cuts), _launch_seconds(workload, layers)
    )


def backward_work(workload: LayerGraph, grid: ParallelGrid, layers: Sequence[tuple[Layer, float]]) -> PassWork:
    """Return the work of the backward pass; keys and values are gathered again, and their gradients scattered.

    Recomputed layers run forward again; where whole blocks are, so do their collectives, except that one gather of keys
    and values serves both passes. ``selective_op`` keeps what is reduced, and gathers inputs again (torchtitan's
    ``_save_list`` has ``reduce_scatter_tensor``).
    """
    cuts = [layer.sharding for layer, _ in layers if layer.sharding is not None]
    sent = _sent(workload, grid, [_backward(cut) for cut in cuts])
    launch = _launch_seconds(workload, layers) * (3 if grid.recompute == "full" else 2)
    if grid.recompute in ("full", "selective_op"):
        again = _sent(workload, grid, [cut for cut in cuts if cut.block is not None])
        del again["all_gather"]
        for kind in again if grid.recompute == "full" else (GATHER_INPUTS,):
            sent[kind] = sent[kind] + again[kind]
    sent = {"all_gather": sent["all_gather"], "reduce_scatter": sent["all_gather"], **sent}
    return PassWork(backward_seconds(workload, grid, layers), sent, launch)


def forward_seconds(workload: LayerGraph, grid: ParallelGrid, layers: Sequence[tuple[Layer, float]]) -> float:
    """Return the compute time of ``forward_work``."""
    return sum(_times(workload, grid, layer, parameters).forward for layer, parameters in layers)


def backward_seconds(workload: LayerGraph, grid: ParallelGrid, layers: Sequence[tuple[Layer, float]]) -> float:
    """Return the compute time of ``backward_work``."""
    seconds = sum(_times(workload, grid, layer, parameters).backward for layer, parameters in layers)
    return seconds + sum(_recomputed_seconds(workload, grid, layer, parameters) for layer, parameters in layers)


def split_backward_work(
    workload: LayerGraph, grid: ParallelGrid, layers: Sequence[tuple[Layer, float]]
) -> tuple[PassWork, PassWork]:
    """Return the work of the backward pass in two parts: of the gradients of inputs, and of those of weights.

    Collectives and recomputation belong to the first.
    """
    whole = backward_work(workload, grid, layers)
    weights = sum(_times(workload, grid, layer, parameters).weights for layer, parameters in layers)
    launch = _launch_seconds(workload, layers)
    return PassWork(whole.seconds - weights, whole.sent, whole.launch - launch), PassWork(weights, {}, launch)


def _launch_seconds(workload: LayerGraph, layers: Sequence[tuple[Layer, float]]) -> float:
    """Return the seconds in which the host launches the forward kernels of the blocks of ``layers``."""
    return workload.block_launch * sum(layer.kind == "attention" for layer, _ in layers)


def _recomputed_seconds(workload: LayerGraph, grid: ParallelGrid, layer: Layer, parameters: float) -> float:
    kernel, elementwise = recomputed_part(layer, grid.recompute)
    if kernel == elementwise:
        return kernel * _times(workload, grid, layer, parameters).forward
    on_rank = repeated(layer, grid.repeats)
    elementwise_time = elementwise_seconds(workload, on_rank, grid.samples(workload) / grid.sharing)
    return (
        kernel * (_times(workload, grid, layer, parameters).forward - elementwise_time) + elementwise * elementwise_time
    )


def _backward(cut: Sharding) -> Sharding:
    """Return what the backward pass sends: the gradients of outputs are gathered, those of inputs reduced."""
    return replace(cut, reduced_forward=cut.reduced_backward, reduced_backward=cut.reduced_forward)


def _sent(workload: LayerGraph, grid: ParallelGrid, cuts: Sequence[Sharding]) -> dict[str, Calls]:
    """Return the collectives of a forward pass."""
    samples = grid.samples(workload) * workload.element_bytes
    divided, summed = (cuts, ()) if grid.sequence_parallel else ((), cuts)
    nodes = nodes_of_experts(workload, grid, cuts)
    limited = [cut for cut in cuts if cut.node_limit and nodes > 1]
    others = [cut for cut in cuts if not (cut.node_limit and nodes > 1)]
    sizes = {
        "all_gather": (samples / grid.tensor * cut.key_values for cut in cuts),
        GATHER_INPUTS: (samples / grid.context * cut.reduced_backward for cut in divided),
        SCATTER_OUTPUTS: (samples / grid.context * cut.reduced_forward for cut in divided),
        "all_reduce": (samples / grid.context * cut.reduced_forward for cut in summed),
        "all_to_all": (samples / grid.sharing * cut.routed for cut in others),
        TO_NODES: (
            samples / grid.sharing * cut.routed / cut.top_k * min(cut.node_limit, nodes, cut.top_k) for cut in limited
        ),
        IN_NODES: (samples / grid.sharing * cut.routed for cut in limited),
    }
    return {kind: Counter(filter(None, bytes)) for kind, bytes in sizes.items()}


def hidden_part(workload: LayerGraph, strategy: ParallelGrid | Parallel, kind: str) -> float:
    """Return the part of the collectives of a ``kind`` that overlaps with the compute of their pass.

    With ``async_tensor``, each is cut into the parts of single ranks, which are sent while others are multiplied
    (TransformerEngine's userbuffers; PyTorch's asynchronous tensor parallelism, ``torch.ops.symm_mem``). With
    ``async_expert``, tokens of a microbatch are sent while another one computes (Megatron-LM's
    ``--overlap-moe-expert-parallel-comm``; DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1). As
    collectives of data ranks, both leave multiplications ``Efficiency.overlap`` of their speed.
    """
    if not any(kind in kinds and getattr(strategy, field) for field, kinds in HIDDEN.items()):
        return 0.0
    return 1.0 if workload.gpu.measured is None else workload.gpu.measured.overlap


def all_bytes(calls: Calls) -> float:
    """Return the bytes of all calls."""
    return sum(size * number for size, number in calls.items())


def nodes_of_experts(workload: LayerGraph, grid: ParallelGrid, cuts: Iterable[Sharding | None]) -> int:
    """Return the nodes of a group of expert ranks where some of ``cuts`` limits those of a token; 1: none does."""
    if grid.expert == 1 or not any(cut.node_limit for cut in cuts if cut is not None):
        return 1
    return grid.expert // grid.experts_on_node(workload)


def pass_groups(workload: LayerGraph, grid: ParallelGrid, stage: int) -> dict[str, list[RankGroup]]:
    """Return the groups of ranks of each kind of collective of a pass."""
    groups = {kind: grid.groups(stage, axes) for kind, axes in AMONG.items() if grid.members(axes) > 1}
    if nodes_of_experts(workload, grid, (layer.sharding for layer in workload.layers)) > 1:
        on_node = grid.experts_on_node(workload)
        across, inside = grid.expert_groups(stage, on_node)
        groups |= {TO_NODES: across} | ({IN_NODES: inside} if on_node > 1 else {})
    return groups


def _times(workload: LayerGraph, grid: ParallelGrid, layer: Layer, parameters: float) -> KernelTimes:
    if workload.kernels is not None:
        if grid.sharing * grid.expert > 1:
            rule = "must be null where ranks share layers, as whole layers were measured"
            raise ValueError(f"workload.kernels: {rule}, got {workload.kernels.name}")
        if workload.kernels.has(layer.kernel):
            samples = grid.samples(workload) * workload.gpus_per_server
            return workload.kernels.times(layer.kernel, samples, workload.gpus_per_server)
    samples = grid.samples(workload) / grid.sharing
    degrees = grid.tensor, grid.context, grid.expert
    key = (workload.alike[layer.name], samples, parameters, *degrees, grid.repeats)
    if key not in workload.known_times:
        on_rank = repeated(layer, grid.repeats)
        workload.known_times[key] = gpu_times(workload, on_rank, samples, parameters, SharingDegrees(*degrees))
    return workload.known_times[key]
