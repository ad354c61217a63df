"""Task graph: one iteration of a job as TopoOpt's authors published it, already placed on servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topoflow.capture.formats import taskgraph
from topoflow.capture.load import load
from topoflow.capture.merge.parts import Source
from topoflow.files import read_bytes
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu


@dataclass(frozen=True)
class TaskGraph:
    """``path`` is a FlatBuffers file of FlexFlow's task graph (``topoflow.capture.formats.taskgraph``).

    Compute times, transfers, all-reduces and what waits for what are those of the file: the compute times were
    measured on servers of four A100, the strategy is what FlexFlow found for the network in the file's name. A
    server of the file is a server here, so that only the network is open. Of ``gpu`` nothing counts while no two of
    them share one.
    """

    path: str
    gpu: Gpu

    def build(self) -> RecordedJob:
        """Raises ``ValueError`` for a file that is no task graph, or a damaged one."""
        if not taskgraph.matches(Source(self.path, read_bytes(Path(self.path)))):
            raise ValueError(f"workload.path: must be a task graph (.fbuf), got {self.path}")
        return RecordedJob(load([Path(self.path)]), self.gpu)
