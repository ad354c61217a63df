"""Gpu: the roofline of one accelerator. The numbers, each with its source, are in ``configs/gpu``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoflow.units import check_positive, human

TF32 = "tfloat32"  # the rate of tensor cores that round float32 to 19 bits


@dataclass(frozen=True)
class Gpu:
    """Peak rates of one GPU.

    ``flops`` maps a dtype, or ``TF32``, to dense (not sparse) FLOP/s; ``memory_bandwidth`` and ``local_bandwidth`` (to
    the other GPUs of the same server, each direction) are B/s; ``memory`` is bytes. What a strategy is estimated to
    need (``topoflow.strategy.memory``) may take ``memory_share`` of it: that has no buffers and no fragmentation.
    """

    name: str
    flops: Mapping[str, float]
    memory_bandwidth: float
    local_bandwidth: float
    memory: float
    memory_share: float = 0.8

    def __post_init__(self) -> None:
        for dtype, rate in self.flops.items():
            check_positive(f"gpu.flops.{dtype}", rate)
        for field in ("memory_bandwidth", "local_bandwidth", "memory"):
            check_positive(f"gpu.{field}", getattr(self, field))
        if not 0 < self.memory_share <= 1:
            raise ValueError(f"gpu.memory_share: must be within 0 < share <= 1, got {self.memory_share}")

    @property
    def usable_memory(self) -> float:
        """B that a strategy may be estimated to need."""
        return self.memory * self.memory_share

    @property
    def room(self) -> str:
        """The same for a person: ``64 GB (80% of 80 GB)``."""
        share = "" if self.memory_share == 1 else f" ({self.memory_share:.0%} of {human(self.memory, 'B')})"
        return f"{human(self.usable_memory, 'B')}{share}"

    def seconds(self, flops: float, moved_bytes: float, rate: str) -> float:
        """Roofline (Williams et al., CACM 2009): the slower of arithmetic, at a rate of ``flops``, and memory, in s."""
        if rate not in self.flops:
            raise ValueError(f"gpu.flops: {self.name} has no rate for {rate!r}, only {', '.join(self.flops)}")
        return max(flops / self.flops[rate], moved_bytes / self.memory_bandwidth)
