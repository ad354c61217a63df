"""Training throughput of an iteration, and its model FLOPs utilization (MFU)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from topoflow.workload.base import LayerGraph

PASSES = 3  # forward and backward FLOP over forward FLOP: backward has twice as many (topoflow.workload.base.Layer)


class Throughput(NamedTuple):
    """The throughput of a job; fields are None for a recorded job, messages, or layers without a sequence."""

    samples: float | None = None  # per s, of all servers
    tokens: float | None = None  # per s
    mfu: float | None = None  # model FLOP/s over the peak FLOP/s of all GPUs in the precision of each layer


@dataclass(frozen=True)
class TrainingWork:
    """The samples of an iteration on all servers, and the arithmetic of its forward and backward pass."""

    workload: LayerGraph
    servers: int
    samples: float
    tokens: float  # 0: layers without a sequence
    peak_seconds: float  # of one GPU at its peak in the precision of each layer

    @staticmethod
    def of(workload: LayerGraph, servers: int) -> TrainingWork:
        """Return the work of a job in which every GPU of ``servers`` trains on its batch."""
        samples = servers * workload.batch_per_server
        peaks = workload.gpu.flops  # a layer's is that of the rate that it computes at
        seconds = sum(
            PASSES * samples * layer.forward_flops / peaks[workload.rate(layer.kind)] for layer in workload.layers
        )
        sequence = max((layer.sharding.positions for layer in workload.layers if layer.sharding is not None), default=0)
        return TrainingWork(workload, servers, samples, samples * sequence, seconds)

    def throughput(self, seconds: float) -> Throughput:
        """Return the throughput of an iteration of ``seconds``.

        MFU is the model FLOPs utilization of PaLM (Chowdhery et al., 2022, appendix B): forward and backward pass,
        without recomputation. Raises ``ValueError`` if a file of measured times implies an MFU above 1.
        """
        if not seconds > 0:
            return Throughput()
        workload = self.workload
        mfu = self.peak_seconds / (seconds * self.servers * workload.gpus_per_server)
        if mfu > 1 and workload.kernels is not None:
            rule = f"must be times that a {workload.gpu.name} can reach"
            raise ValueError(f"{workload.kernels.name}: {rule}, got {mfu:.1%} of its peak arithmetic (MFU)")
        return Throughput(self.samples / seconds, self.tokens / seconds if self.tokens else None, mfu)
