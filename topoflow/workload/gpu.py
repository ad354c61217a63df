"""Gpu: the roofline of one accelerator. The numbers, each with its source, are in ``configs/gpu``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoflow.units import check_positive

TF32 = "tfloat32"  # the rate of tensor cores that round float32 to 19 bits


@dataclass(frozen=True)
class Gpu:
    """Peak rates of one GPU.

    ``flops`` maps a dtype, or ``TF32``, to dense (not sparse) FLOP/s; ``memory_bandwidth`` and ``local_bandwidth`` (to
    the other GPUs of the same server, each direction) are B/s; ``memory`` is bytes.
    """

    name: str
    flops: Mapping[str, float]
    memory_bandwidth: float
    local_bandwidth: float
    memory: float

    def __post_init__(self) -> None:
        for dtype, rate in self.flops.items():
            check_positive(f"gpu.flops.{dtype}", rate)
        for field in ("memory_bandwidth", "local_bandwidth", "memory"):
            check_positive(f"gpu.{field}", getattr(self, field))

    def seconds(self, flops: float, moved_bytes: float, rate: str) -> float:
        """Roofline (Williams et al., CACM 2009): the slower of arithmetic, at a rate of ``flops``, and memory, in s."""
        if rate not in self.flops:
            raise ValueError(f"gpu.flops: {self.name} has no rate for {rate!r}, only {', '.join(self.flops)}")
        return max(flops / self.flops[rate], moved_bytes / self.memory_bandwidth)
