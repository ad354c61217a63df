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

Of what is computed again in the backward pass, only the input is kept: of whole blocks (``recompute=full``), the output
of the block before, and the activations of one block while it goes backward; of attention that writes its scores
(``selective``), no scores, which are 5 bytes each otherwise (softmax, mask and output of dropout, section 4.1).

A stage of a pipeline keeps the activations of as many microbatches as it has begun and not finished: under 1F1B, p - i
in stage i of p, or all of them if there are fewer (Narayanan et al., SC 2021, section 2.2.1). Tensor and context ranks
have a part each of the activations (sequence parallelism, Korthikanti et al., section 4.2.2).

Not counted: what a server receives from others (as long as it is used), buffers of NCCL and cuDNN, fragmentation. So
this is the least memory that a strategy can do with; ``Gpu.memory_share`` leaves room for the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.optimizer import state_bytes

RECOMPUTE = ("none", "selective", "full")
KEPT_SCORES = 2.5  # elements of 16 bits for each score


def check_recompute(recompute: object) -> None:
    """Raise ``ValueError`` for a name that is none."""
    if recompute not in RECOMPUTE:
        raise ValueError(f"strategy.recompute: must be one of {', '.join(RECOMPUTE)}, got {recompute!r}")


def is_recomputed(layer: Layer, recompute: str) -> bool:
    """Return whether the forward pass of ``layer`` runs again in the backward pass."""
    if recompute == "full":
        return layer.sharding is not None and layer.sharding.block is not None
    return recompute == "selective" and layer.scores > 0


def activation_elements(layers: Sequence[Layer], recompute: str) -> tuple[float, float]:
    """Return elements per sample that are kept of ``layers``, and those of one block that goes backward."""
    kept, blocks, ends = 0.0, defaultdict[int, float](float), dict[int, float]()
    for layer in layers:
        scores = 0.0 if recompute == "selective" else KEPT_SCORES * layer.scores
        block = None if layer.sharding is None else layer.sharding.block
        if recompute == "full" and block is not None:
            blocks[block] += layer.output_elements + scores
            ends[block] = layer.output_elements
        else:
            kept += layer.output_elements + scores
    return kept + sum(ends.values()), max(blocks.values(), default=0.0)


def layer_bytes_per_gpu(workload: LayerGraph, layer: Layer, holders: int, servers: int) -> float:
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


def staged_bytes(
    workload: LayerGraph,
    pipeline: int,
    microbatches: int,
    samples: float,
    parameters: NDArray[np.float64],
    outputs: NDArray[np.float64],
    working: float = 0.0,
) -> NDArray[np.float64]:
    """Bytes [pipeline] on each GPU of every pipeline rank under 1F1B, interleaved where ranks have several stages.

    A GPU computes ``samples`` of each of the ``microbatches``; of a stage it holds ``parameters`` [stages] elements,
    and keeps ``outputs`` [stages] elements per sample until their backward pass, and ``working`` elements during one.
    """
    per_parameter = 2 * workload.element_bytes + state_bytes(workload.optimizer, workload.dtype)
    begun = begun_microbatches(pipeline, len(parameters) // pipeline, microbatches)
    needed = parameters * per_parameter + begun * samples * outputs * workload.element_bytes
    summed: NDArray[np.float64] = needed.reshape(-1, pipeline).sum(axis=0)
    return summed + samples * working * workload.element_bytes


def begun_microbatches(pipeline: int, virtual: int, microbatches: int) -> NDArray[np.int64]:
    """[stages] microbatches whose activations a stage keeps when its rank begins its first backward pass.

    Under 1F1B that is p - i in stage i of p, the most that there ever are; interleaved, the rank has begun
    2 (p - 1 - i) + (v - 1) p + 1 passes, in groups of p through its v stages (Narayanan et al., SC 2021, section 2.2).
    """
    rank = np.arange(pipeline)
    if virtual == 1:
        return np.minimum(pipeline - rank, microbatches)
    passes = np.minimum(2 * (pipeline - 1 - rank) + (virtual - 1) * pipeline + 1, microbatches * virtual)  # [pipeline]
    rounds, rest = np.divmod(passes, pipeline * virtual)
    chunk = np.arange(virtual)[:, None]
    return (rounds * pipeline + np.clip(rest - chunk * pipeline, 0, pipeline)).ravel()
