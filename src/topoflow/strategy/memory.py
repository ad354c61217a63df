"""Memory that a strategy needs on one GPU, which limits the proposals of a search.

A layer that k of n servers hold needs on each GPU of a holder

    weights        parameters * element size; a table's rows are spread over the server's GPUs
    gradients      the same; a table that is held once has gradients only for the gathered rows (``sparse=True`` of
                   PyTorch's EmbeddingBag), while a replicated table is all-reduced densely
    optimizer      state per parameter, by ``workload.optimizer``
    activations    the output of every layer for the samples that the GPU computes, kept for its backward pass

Source: Rajbhandari et al., "ZeRO", SC 2020, section 3.1, for the first three. Activations: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", 2022, section 4.1, count 34 s b h bytes per block of
16-bit numbers (with attention that keeps no scores). The outputs of our layers and of the GELU are 32 of these; the
other 2 are the masks of dropout, which we do not model.

If a part of the forward pass is recomputed, only its input is kept. With ``recompute=full``, that is the output of the
previous block, plus the activations of one block during its backward pass. With ``recompute=selective``, attention
keeps no scores, which otherwise take 5 bytes each (softmax, mask and output of dropout, section 4.1). With
``recompute=selective_op``, the outputs of attention and of every second matrix are kept too.

A stage of a pipeline keeps the activations of all microbatches that it has begun but not finished: those that its
schedule says (``strategy.schedules``). Tensor and context ranks divide the activations. Without sequence parallelism
each tensor rank keeps the outputs of norms and of layers cut by rows whole: 8 s b h bytes per block, with the masks 10
(Korthikanti et al., sections 4.2.1 and 4.2.2).

Received tensors in use, buffers of NCCL and cuDNN, and fragmentation are not counted. The result is therefore a lower
bound of the memory; ``Gpu.memory_share`` leaves room for the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from topoflow.units import check_among
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.optimizer import state_bytes

RECOMPUTE = ("none", "selective", "selective_op", "full")
ELEMENTS_PER_SCORE = 2.5  # kept elements of 16 bits for each attention score


def check_recompute(recompute: object) -> None:
    """Raise ``ValueError`` for an unknown kind of recomputation."""
    check_among("strategy.recompute", recompute, RECOMPUTE)


def recomputed_part(layer: Layer, recompute: str) -> tuple[float, float]:
    """Return the parts of the main kernel of ``layer``, and of its element-wise functions, that run again.

    ``selective_op`` keeps the outputs of attention and of every second matrix of a block, as torchtitan's per-operator
    selective activation checkpointing does (torchtitan/parallelisms/parallelize_llama.py, ``_save_list``, 2024).
    """
    in_block = layer.sharding is not None and layer.sharding.block is not None
    if recompute == "selective":
        return (1.0, 1.0) if layer.scores else (0.0, 0.0)
    if recompute == "none" or not in_block:
        return 0.0, 0.0
    if recompute == "full" or not layer.forward_flops:
        return 1.0, 1.0
    if layer.kind == "attention":
        return 0.0, 0.0
    matrices = layer.matrices or layer.shape[1:]
    again = sum(outputs for number, outputs in enumerate(matrices, layer.matrix) if number % 2)
    return again / sum(matrices), 1.0


def activation_elements(layers: Sequence[Layer], recompute: str) -> tuple[float, float]:
    """Return the kept elements per sample of ``layers``, and those of one block during its backward pass."""
    kept_elements, blocks, ends = 0.0, defaultdict[int, float](float), dict[int, float]()
    for layer in layers:
        scores = 0.0 if recompute == "selective" else ELEMENTS_PER_SCORE * layer.scores
        block = None if layer.sharding is None else layer.sharding.block
        if recompute in ("full", "selective_op") and block is not None:
            blocks[block] += layer.output_elements + layer.activation + scores
            ends[block] = layer.output_elements
            kept_elements += (1 - recomputed_part(layer, recompute)[0]) * layer.output_elements
        else:
            kept_elements += layer.output_elements + layer.activation + scores
    temporary = max((layer.temporary for layer in layers), default=0)
    return kept_elements + sum(ends.values()), max([temporary, *blocks.values()])


def layer_bytes_per_gpu(workload: LayerGraph, layer: Layer, holders: int, servers: int) -> float:
    """Return the bytes on each GPU of a server that holds ``layer``, if ``holders`` of ``servers`` hold it.

    If the number of holders does not divide the servers, this is the holder that computes for the most servers.
    """
    samples = -(-servers // holders) * workload.batch_per_gpu  # of one GPU
    parameters, gradients = float(layer.parameters), float(layer.parameters)
    if layer.sparse:
        gathered = samples * workload.gpus_per_server * (layer.memory_elements - layer.output_elements)
        gradients = gradients if holders > 1 else min(gradients, gathered)
        parameters, gradients = parameters / workload.gpus_per_server, gradients / workload.gpus_per_server
    elements = parameters + gradients + samples * (layer.output_elements + layer.activation)
    return elements * workload.element_bytes + parameters * state_bytes(workload.optimizer, workload.dtype)


def state_bytes_per_gpu(workload: LayerGraph, elements: float, zero: int, ranks: int, gradient: int) -> float:
    """Return the bytes of ``elements`` parameters with their gradients and optimizer state.

    ZeRO divides the state among ``ranks``. An element of a gradient has ``gradient`` bytes. With ZeRO 3 and gradients
    in float32, the weights are the optimizer's float32 copy (Zhao et al., VLDB 2023, section 4.4).
    """
    weight, optimizer = workload.element_bytes, state_bytes(workload.optimizer, workload.dtype)
    if zero == 3 and gradient > weight:
        gradient = weight
    return model_state_bytes(elements, weight=weight, gradient=gradient, optimizer=optimizer, stage=zero, ranks=ranks)


def model_state_bytes(
    parameters: float, *, weight: float, gradient: float, optimizer: float, stage: int, ranks: int
) -> float:
    """Return the bytes on each of ``ranks`` GPUs; ``weight``, ``gradient``, ``optimizer`` are bytes per parameter.

    Source: Rajbhandari et al., SC 2020, figure 1 and section 5: (2 + 2 + K) P in all. Stage 1 divides K P of them,
    stage 2 (2 + K) P, stage 3 all.
    """
    divided = sum([optimizer, gradient, weight][:stage])
    return parameters * (weight + gradient + optimizer - divided + divided / ranks)
