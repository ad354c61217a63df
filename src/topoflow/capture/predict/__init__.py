"""Predict what a PyTorch script will do on many GPUs, before there are any: no memory for weights, no communication.

One process runs the script as one rank of the job, on shapes (``predict.shapes``), with PyTorch's fake process group.
Rank 0 shows the mesh of the job. Along each axis of it, the second and the last rank are run and compared with rank 0:
if they do the same, rank 0 stands for the axis, else a rank runs at each of its positions, as for pipeline stages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from topoflow.capture.base import POINT_TO_POINT, ComputeSpan, Trace
from topoflow.capture.formats import recording
from topoflow.capture.layout import MeshLayout
from topoflow.capture.merge import merge
from topoflow.capture.merge.parts import InputFile, RankRecord, RecordedOperation, without
from topoflow.capture.mirrors import Mirrors
from topoflow.capture.predict.axes import layout_of
from topoflow.capture.predict.mailbox import WANTED
from topoflow.capture.predict.rank import ScriptJob, start
from topoflow.capture.record.script import Script

POLL = 0.005  # s


@dataclass(frozen=True)
class TracePrediction:
    """The trace of a job that has not run, and the bytes that a GPU needs for it: rank -> what -> bytes, and peak."""

    trace: Trace
    memory: dict[int, dict[str, int]]


def predict(
    script: Script,
    arguments: Sequence[str],
    world_size: int,
    ranks_per_node: int = 8,
    iterations: int = 4,
    progress: Callable[[str], None] = lambda line: None,
) -> TracePrediction:
    """Return what ``script`` would do on ``world_size`` GPUs in a steady iteration; ValueError.

    It ends after an iteration that communicates as the one before, or after ``iterations``.
    """
    with TemporaryDirectory() as folder:
        job = ScriptJob(script, tuple(arguments), world_size, ranks_per_node, iterations, Path(folder))
        return _Runs(job, progress).prediction()


class _Runs:
    """The ranks that have run so far."""

    def __init__(self, job: ScriptJob, progress: Callable[[str], None]) -> None:
        self._job = job
        self._progress = progress
        self.parts: dict[int, RankRecord] = {}
        self._about: dict[int, dict[str, Any]] = {}

    def prediction(self) -> TracePrediction:
        """Run as many ranks as it takes, and merge them."""
        self._run([0])
        layout = self._layout()
        classes = [self._positions(layout, axis) for axis in range(len(layout.sizes))]
        ranks = layout.box(classes)
        self._run(ranks)
        parts = [self.parts[rank] for rank in ranks]
        trace = replace(merge(parts, self._job.script.title), layout=layout, memory=self._memory(ranks))
        Mirrors(layout, trace.ranks)
        memory = {rank: {**self._about[rank]["held"], "peak": self._about[rank]["memory"]} for rank in ranks}
        return TracePrediction(replace(trace, notes=(*self._notes(ranks), *trace.notes)), memory)

    def _memory(self, ranks: Iterable[int]) -> float | None:
        return float(max(self._about[rank]["memory"] for rank in ranks)) or None

    def _notes(self, ranks: Sequence[int]) -> list[str]:
        """Say what is no measurement."""
        of = f"{len(ranks)} of {self._job.world_size} ranks"
        notes = [f"a prediction: {of} ran, on shapes without values; compute times are estimates for the chosen gpu"]
        notes.append("streams and events are those of the script: the host launches work before it can run")
        assumed: dict[str, int] = {}
        for rank in ranks:
            for sentence, count in self._about[rank]["assumed"].items():
                assumed[sentence] = assumed.get(sentence, 0) + count
        return [*notes, *(f"{count} {sentence}" for sentence, count in sorted(assumed.items()))]

    def _layout(self) -> MeshLayout:
        """Return the mesh that the groups of the ranks that ran span."""
        groups = {group for part in self.parts.values() for group in part.groups.values()}
        distances = [
            event.peer - rank
            for rank, part in self.parts.items()
            for event in part.events
            if isinstance(event, RecordedOperation) and event.op in POINT_TO_POINT
            if event.peer is not None and len(event.group or ()) == part.world_size
        ]
        return layout_of(self._job.world_size, groups, distances, self._about[0]["purposes"])

    def _positions(self, layout: MeshLayout, axis: int) -> set[int]:
        """Return the positions along an axis that do something of their own: 0 alone, or all."""
        size = layout.sizes[axis]
        everywhere = [layout.strides[axis] * at for at in range(size)]
        probes = {everywhere[0], everywhere[min(1, size - 1)], everywhere[-1]}
        self._run(probes, lambda rank: rank - layout.strides[axis] * layout.position(rank)[axis])
        if all(self._alike(layout, rank) for rank in probes):
            return {0}
        return set(range(size))

    def _alike(self, layout: MeshLayout, rank: int) -> bool:
        """Return whether a rank did the same as rank 0, at its own position."""
        reference, compared = (_iteration_work(layout, self.parts[number], number) for number in (0, rank))
        return reference == compared

    def _run(self, ranks: Iterable[int], stands_for: Callable[[int], int] = lambda rank: rank) -> None:
        """Run the ranks that have not run, and those whose values they wait for."""
        pending = [rank for rank in sorted(ranks) if rank not in self.parts]
        running: dict[int, int] = {}
        done: list[int] = []
        max_processes = max(1, os.cpu_count() or 1)
        while pending or running:
            requested_ranks = [int(path.name.rpartition("-")[2]) for path in self._job.folder.glob(f"{WANTED}-*")]
            awaited = [rank for rank in requested_ranks if rank not in (*running, *done, *self.parts)]
            while pending and len(running) < max_processes and not awaited:
                awaited.append(pending.pop(0))
            for rank in awaited:
                self._progress(f"running rank {rank} of {self._job.world_size}")
                running[rank] = start(self._job, rank, stands_for)
                pending = [pending_rank for pending_rank in pending if pending_rank != rank]
            for rank, process in list(running.items()):
                if os.waitpid(process, os.WNOHANG)[0]:
                    del running[rank]
                    done.append(rank)
            time.sleep(POLL)
        for rank in done:
            self._read(rank)

    def _read(self, rank: int) -> None:
        about = self._job.about(rank)
        self._about[rank] = (
            orjson.loads(about.read_bytes()) if about.exists() else {"error": "nothing: its process ended"}
        )
        if "error" in self._about[rank]:
            raise ValueError(f"{self._job.script.name}: must run as rank {rank}, got {self._about[rank]['error']}")
        path = self._job.rows(rank)
        (part,) = recording.parse(InputFile(path.name, path.read_bytes()))
        source = f"prediction (torch {self._about[rank]['torch']})"
        self.parts[rank] = replace(_last(part), source=source, epoch_ns=None)


def _last(part: RankRecord) -> RankRecord:
    """Return the part with its set-up and its last iteration alone, without times."""
    last = part.iterations - 1
    events = without(part.events, {at for at, event in enumerate(part.events) if event.iteration not in (-1, last)})
    return replace(part, events=tuple(map(_timeless, events)), iterations=1, steps=())


def _timeless(event: ComputeSpan | RecordedOperation) -> ComputeSpan | RecordedOperation:
    event = replace(event, start=None, end=None, iteration=min(event.iteration, 0))
    return event if isinstance(event, ComputeSpan) else replace(event, issue=None)


def _iteration_work(layout: MeshLayout, part: RankRecord, rank: int) -> list[tuple[Any, ...]]:
    """Return the operations of a rank in the iteration, relative to its position, with the FLOPs before each."""
    operations: list[tuple[Any, ...]] = []
    flops = 0.0
    for event in part.events:
        if event.iteration < 0:
            continue
        if isinstance(event, ComputeSpan):
            flops += sum(work.flops for work in event.work or ())
            continue
        group = layout.moved_group(event.group or (rank,), 0)
        sizes = {"gather": event.bytes_in, "scatter": event.bytes_out}
        size = sizes.get(event.op, (event.bytes_in, event.bytes_out))
        peer = None if event.peer is None else layout.moved_peer(event.peer, rank, 0)
        root = None if event.root is None else (event.group or ()).index(event.root)
        splits = (event.splits_in, event.splits_out)
        operations.append((flops, event.op, group, event.dtype, size, splits, peer, root, event.tag))
        flops = 0.0
    return [*operations, (flops,)]
