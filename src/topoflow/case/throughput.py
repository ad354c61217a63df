"""What an iteration trains per second, and how much of the GPUs' arithmetic it uses, where the workload knows."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.workload.base import LayerGraph

PASSES = 3  # of the FLOP of a forward pass: the backward pass has twice as many (topoflow.workload.base.Layer)


@dataclass(frozen=True)
class Throughput:
    """None where the workload has no such number: a recorded job, messages, or layers without a sequence."""

    samples: float | None = None  # per s, of all servers
    tokens: float | None = None  # per s
    mfu: float | None = None  # FLOP of the model per s, of the peak of all GPUs at the rates that its layers have


def throughput(workload: object, servers: int, seconds: float) -> Throughput:
    """Of an iteration of this many ``seconds`` in which every GPU of the ``servers`` trains on its batch.

    MFU is the model FLOPs utilization of PaLM (Chowdhery et al., 2022, appendix B): forward and backward pass, without
    what is computed twice to save memory. Raise ``ValueError`` where it is above 1 as a file of times is impossible.
    """
    if not isinstance(workload, LayerGraph) or not seconds > 0:
        return Throughput()
    samples = servers * workload.batch_per_server
    peaks = workload.gpu.flops  # a layer's is that of the rate that it computes at
    computing = sum(
        PASSES * samples * layer.forward_flops / peaks[workload.rate(layer.kind)] for layer in workload.layers
    )
    mfu = computing / (seconds * servers * workload.gpus_per_server)
    if mfu > 1 and workload.kernels is not None:
        law = f"must be times that a {workload.gpu.name} can reach"
        raise ValueError(f"{workload.kernels.name}: {law}, got {mfu:.1%} of its peak arithmetic (MFU)")
    sequence = max((layer.sharding.positions for layer in workload.layers if layer.sharding is not None), default=0)
    return Throughput(
        samples / seconds,
        samples * sequence / seconds if sequence else None,
        mfu,
    )
