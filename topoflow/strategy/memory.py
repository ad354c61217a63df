"""Memory: what a strategy needs on one GPU, so that a search only proposes what can run.

A layer that k of n servers hold needs on each GPU of a holder

    weights        parameters * element size; a table's rows are spread over the server's GPUs
    gradients      as much; a table that is held once has gradients of the rows it gathered only (``sparse=True`` of
                   PyTorch's EmbeddingBag), a replicated one is all-reduced densely
    optimizer      state per parameter, by ``workload.optimizer``
    activations    the output of every layer for the samples that the GPU computes, kept for its backward pass

Source: Rajbhandari et al., "ZeRO", SC 2020, section 3.1, for the first three. Activations: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", 2022, section 4.1, count 34 s b h bytes per block of
16-bit numbers (with attention that keeps no scores); the outputs of our layers are 24 of these: the others are the
masks of dropout, which we do not model (2), and the output of the GELU (8), which is made again from its input.

A stage of a pipeline keeps the activations of as many microbatches as it has begun and not finished: under 1F1B, p - i
in stage i of p, or all of them if there are fewer (Narayanan et al., SC 2021, section 2.2.1). Tensor and context ranks
have a part each of the activations (sequence parallelism, Korthikanti et al., section 4.2.2).

Shards (ZeRO, FSDP) divide the first three among GPUs; what a GPU has gathered, or not reduced yet, comes on top.

Not counted: what a server receives from others (as long as it is used), buffers of NCCL and cuDNN, fragmentation. So
this is the least memory that a strategy can do with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.strategy.shards import Shards, model_state_bytes, working_bytes
from topoflow.workload.base import Layer, Workload
from topoflow.workload.optimizer import state_bytes


def memory_per_gpu(workload: Workload, strategy: Strategy) -> float | None:
    """Bytes on the fullest GPU; None of a recorded job, whose layers are not known."""
    return None if workload.trace is not None else float(bytes_per_gpu(workload, strategy).max())


def bytes_per_gpu(workload: Workload, strategy: Strategy) -> NDArray[np.float64]:
    """Bytes [servers] on each GPU of every server: the sum over the layers it holds."""
    if strategy.grid is not None:
        return np.repeat(stage_bytes_per_gpu(workload, strategy.grid), strategy.grid.servers_per_stage)
    if strategy.shards is not None:
        return np.full(strategy.servers, sharded_bytes(workload, strategy.shards))
    needed = np.zeros(strategy.servers)
    for layer in workload.layers:
        holders = strategy.placement[layer.name]
        needed[list(holders)] += layer_bytes_per_gpu(workload, layer, len(holders), strategy.servers)
    return needed


def layer_bytes_per_gpu(workload: Workload, layer: Layer, holders: int, servers: int) -> float:
    """Bytes on each GPU of a server that holds ``layer``, as ``holders`` of ``servers`` do.

    Where the holders do not divide the servers, of the one that computes for most others.
    """
    samples = -(-servers // holders) * workload.batch_per_gpu  # of one GPU
    parameters, gradients = float(layer.parameters), float(layer.parameters)
    if layer.sparse:
        gathered = samples * workload.gpus_per_server * (layer.memory_elements - layer.output_elements)
        gradients = gradients if holders > 1 else min(gradients, gathered)
        parameters, gradients = parameters / workload.gpus_per_server, gradients / workload.gpus_per_server
    elements = parameters + gradients + samples * layer.output_elements
    return elements * workload.element_bytes + parameters * state_bytes(workload.optimizer, workload.dtype)


def sharded_bytes(workload: Workload, shards: Shards) -> float:
    """Bytes on each GPU: its part of the state, what it works on whole, and the activations of its own samples."""
    states = model_state_bytes(
        workload.parameters,
        weight=workload.element_bytes,
        gradient=workload.element_bytes,
        optimizer=state_bytes(workload.optimizer, workload.dtype),
        stage=shards.stage,
        ranks=shards.servers * workload.gpus_per_server,
    )
    activations = workload.batch_per_gpu * sum(layer.output_elements for layer in workload.layers)
    return states + working_bytes(workload, shards) + activations * workload.element_bytes


def stage_bytes_per_gpu(workload: Workload, grid: Grid) -> NDArray[np.float64]:
    """Bytes [pipeline] on each GPU of every stage."""
    held = np.array([sum(parameters.values()) for parameters in grid.rank_parameters(workload)])
    return staged_bytes(workload, grid, held, output_elements(workload, grid))


def output_elements(workload: Workload, grid: Grid) -> NDArray[np.float64]:
    """Elements [pipeline] that the layers of a stage hand on, per sample."""
    outputs = {layer.name: layer.output_elements for layer in workload.layers}
    return np.array([sum(outputs[name] for name in stage) for stage in grid.stages], np.float64)


def staged_bytes(
    workload: Workload, grid: Grid, held: NDArray[np.float64], outputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bytes [pipeline], of ``held`` parameters of a rank and of ``outputs``, elements per sample."""
    per_parameter = 2 * workload.element_bytes + state_bytes(workload.optimizer, workload.dtype)
    begun = np.minimum(grid.pipeline - np.arange(grid.pipeline), grid.microbatches)
    samples = grid.samples(workload) / grid.ways
    return held * per_parameter + begun * samples * outputs * workload.element_bytes
