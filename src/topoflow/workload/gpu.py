"""Gpu: the rates of one accelerator. The numbers, each with its source, are in ``configs/gpu``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from topoflow.units import check_positive, check_rate, human
from topoflow.workload.efficiency import ROOFLINE, Efficiency, load_efficiency

TF32 = "tfloat32"  # the rate of tensor cores that round float32 to 19 bits


@dataclass(frozen=True)
class Gpu:
    """Peak rates of one GPU.

    ``flops`` maps a dtype, or ``TF32``, to dense (not sparse) FLOP/s; ``memory_bandwidth`` and ``local_bandwidth`` (to
    the other GPUs of the same server, each direction) are B/s; ``memory`` is bytes. What a strategy is estimated to
    need (``topoflow.strategy.memory``) may take ``memory_share`` of it: that has no buffers and no fragmentation.
    ``efficiency`` says which part of these rates kernels reach: all of it (``roofline``), what was measured of this GPU
    (``measured``), or what a file says.
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
        _ = self.measured  # so that what is wrong with the file is said here

    @cached_property
    def measured(self) -> Efficiency | None:
        """What kernels reach; None: the peak."""
        return load_efficiency(self.efficiency, self.name)

    @property
    def exchange_bandwidth(self) -> float:
        """B/s that collectives among the GPUs of a server reach."""
        return self.local_bandwidth * (1.0 if self.measured is None else self.measured.links)

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
        """Return the seconds of the slower of arithmetic, at a rate of ``flops``, and memory.

        Source: the roofline of Williams et al., CACM 2009; of the memory bandwidth, what was measured.
        """
        if rate not in self.flops:
            raise ValueError(f"gpu.flops: {self.name} has no rate for {rate!r}, only {', '.join(self.flops)}")
        reached = 1.0 if self.measured is None else self.measured.memory
        return max(flops / self.flops[rate], moved_bytes / (self.memory_bandwidth * reached))
