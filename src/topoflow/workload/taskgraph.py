"""Task graph: one iteration of a job placed on servers, as published by TopoOpt's authors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topoflow.capture.formats import taskgraph
from topoflow.capture.load import load
from topoflow.capture.merge.parts import InputFile
from topoflow.files import read_bytes
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu


@dataclass(frozen=True)
class TaskGraph:
    """A FlatBuffers file of FlexFlow's task graph (``topoflow.capture.formats.taskgraph``).

    Compute times, transfers, all-reduces and dependencies are those of the file: the compute times were measured on
    servers of four A100, and FlexFlow chose the strategy for the network in the file's name. Servers of the file are
    servers here, so that only the network can be chosen. ``gpu`` is not used while every rank has its own server.
    """

    path: str
    gpu: Gpu

    def build(self) -> RecordedJob:
        """Return the job. Raises ``ValueError`` for a file that is no task graph, or a damaged one."""
        if not taskgraph.matches(InputFile(self.path, read_bytes(Path(self.path)))):
            raise ValueError(f"workload.path: must be a task graph (.fbuf), got {self.path}")
        return RecordedJob(load([Path(self.path)]), self.gpu)
