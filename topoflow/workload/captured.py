"""Captured: a job that was recorded. The measured times are its compute, the recorded sizes its communication."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topoflow.capture.load import load
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu


@dataclass(frozen=True)
class Captured:
    """``trace`` is a file or folder of any format that ``topoflow capture import`` reads.

    Of ``gpu`` only ``local_bandwidth`` counts, where ranks share a server: the compute times are those of the GPU (or
    CPU) that was recorded.
    """

    trace: str
    gpu: Gpu

    def build(self) -> RecordedJob:
        return RecordedJob(load([Path(self.trace)]), self.gpu)
