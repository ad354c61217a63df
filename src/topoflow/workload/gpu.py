"""Gpu: the rates of one accelerator. ``configs/gpu`` has the numbers with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from topoflow.units import check_positive, check_rate, human
from topoflow.workload.efficiency import ROOFLINE, Efficiency, load_efficiency

TF32 = "tfloat32"  # the rate of tensor cores that round float32 to 19 bits


@dataclass(frozen=True)
class Gpu:
    """The peak rates of one GPU.

    ``flops`` maps a dtype, or ``TF32``, to dense (not sparse) FLOP/s; ``memory_bandwidth`` and ``local_bandwidth`` (to
    the other GPUs of the same server, each direction) are B/s; ``memory`` is bytes. The estimated need of a strategy
    (``topoflow.strategy.memory``) may take ``memory_share`` of it; the estimate has no buffers and no fragmentation.
    ``efficiency`` is the source of the fraction of these rates that kernels reach: 1 (``roofline``), the shipped
    measurements of this GPU (``measured``), or the path of a file.
    """

    name: str
    flops: Mapping[str, float]
    memory_bandwidth: float
    local_bandwidth: float
    memory: float
    memory_share: float = 0.8
    efficiency: str = ROOFLINE

    def __post_init__(self) -> None:
        for dtype, rate in self.flops.items():
            check_rate(f"gpu.flops.{dtype}", rate)
        for field in ("memory_bandwidth", "local_bandwidth"):
            check_rate(f"gpu.{field}", getattr(self, field))
        check_positive("gpu.memory", self.memory)
        if not 0 < self.memory_share <= 1:
            raise ValueError(f"gpu.memory_share: must be within 0 < share <= 1, got {self.memory_share}")
        _ = self.measured  # raises here for an error in the file

    @cached_property
    def measured(self) -> Efficiency | None:
        """Return the measured efficiencies of kernels; None for the peak rates."""
        return load_efficiency(self.efficiency, self.name)

    @property
    def exchange_bandwidth(self) -> float:
        """Return the B/s that collectives among the GPUs of a server reach."""
        return self.local_bandwidth * (1.0 if self.measured is None else self.measured.links)

    @property
    def usable_memory(self) -> float:
        """Return the bytes that the estimated need of a strategy may take."""
        return self.memory * self.memory_share

    @property
    def room(self) -> str:
        """Return the usable memory as text: ``64 GB (80% of 80 GB)``."""
        share = "" if self.memory_share == 1 else f" ({self.memory_share:.0%} of {human(self.memory, 'B')})"
        return f"{human(self.usable_memory, 'B')}{share}"

    def seconds(self, flops: float, moved_bytes: float, rate: str) -> float:
        """Return the larger of the arithmetic time, at the named ``rate``, and the memory time (s).

        Source: the roofline of Williams et al., CACM 2009, with the measured share of the memory bandwidth.
        """
        if rate not in self.flops:
            raise ValueError(f"gpu.flops: {self.name} has no rate for {rate!r}, only {', '.join(self.flops)}")
        reached = 1.0 if self.measured is None else self.measured.memory
        return max(flops / self.flops[rate], moved_bytes / (self.memory_bandwidth * reached))
