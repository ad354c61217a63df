"""Run a script as one rank of a job, on shapes, in a process of its own, and write what it would do."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch
from torch.distributed import ProcessGroup
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_iter

from topoflow.capture.predict.mailbox import Mailbox
from topoflow.capture.predict.memory import Memory, held_by
from topoflow.capture.predict.shapes import Shapes
from topoflow.capture.predict.streams import StreamRecording, gpu_streams
from topoflow.capture.predict.world import one_rank
from topoflow.capture.record import c10d
from topoflow.capture.record.file import FORMAT, VERSION, Event, Row, describe
from topoflow.capture.record.operators import work_of
from topoflow.capture.record.recorder import Recorder
from topoflow.capture.record.script import Script


@dataclass(frozen=True)
class ScriptJob:
    """A script with its arguments, and the job that it runs in. Its ranks write to ``folder``."""

    script: Script
    arguments: tuple[str, ...]
    world_size: int
    ranks_per_node: int
    iterations: int
    folder: Path

    def rows(self, rank: int) -> Path:
        """Return the file with what a rank would record."""
        return self.folder / f"rank{rank}.jsonl"

    def about(self, rank: int) -> Path:
        """Return the file with everything else about a rank, or its error."""
        return self.folder / f"rank{rank}.json"


class Enough(BaseException):
    """The script has run as many iterations as are needed."""


@dataclass
class MemoryRows:
    """Rows in memory, in place of the recorder's file."""

    rows: list[Row | Event] = field(default_factory=list)
    path: str = "prediction"
    is_stuck: bool = False

    def append(self, row: Row | Event) -> None:
        """Keep a row."""
        self.rows.append(row)

    def sent(self) -> list[Row]:
        """Return the communications of the newest iteration, without their order to other events."""
        marks = [at for at, row in enumerate(self.rows) if isinstance(row, dict) and row["kind"] in ("begin", "step")]
        first = marks[-2] if len(marks) > 1 else 0
        events = (row.row for row in self.rows[first:] if isinstance(row, Event))
        rows = (row for row in events if row["kind"] == "communication")
        return [{name: value for name, value in row.items() if name not in ("issue", "end")} for row in rows]

    def start(self, source: object, failed: object) -> None:
        """Start nothing: no thread writes."""

    def wake(self) -> None:
        """Wake nothing."""


class Predictor(Recorder):
    """A recorder of a rank that runs on shapes.

    Nothing takes time. The script ends after an iteration that communicates as the one before, or after ``iterations``.
    """

    def __init__(self, rows: MemoryRows, shapes: Shapes, mailbox: Mailbox, memory: Memory, iterations: int) -> None:
        super().__init__(rows)  # type: ignore[arg-type]
        self._recording: StreamRecording = StreamRecording(rows.append)
        self._shapes = shapes
        self._mailbox = mailbox
        self._memory = memory
        self._iterations = iterations
        self._rows = rows
        self._sent_before: list[Row] | None = None  # in the iteration before
        self.purposes: dict[str, tuple[int, ...]] = {}  # of a group, as PyTorch describes it -> its ranks

    def _group(self, group: ProcessGroup) -> c10d.Group:
        known = super()._group(group)
        self.purposes[group.group_desc] = known.ranks
        return known

    @property
    def recording(self) -> StreamRecording:
        """Return the events so far."""
        return self._recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        sends = func.namespace in c10d.NAMESPACES and not self._asks_for_shapes(types, args)
        if sends and not any(kind.__module__.startswith("torch.distributed") for kind in types):
            return self._communicate(func, func, args, kwargs or {})
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _kernel_called(self, func: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return call(*args, **kwargs)  # recorded before, where it has the script's tensors

    def _switch_counting(self) -> None:
        """Count in all iterations, as nothing takes time."""

    def _asks_for_shapes(self, types: Any, args: Any) -> bool:
        tensors = (leaf for leaf in tree_iter(args) if isinstance(leaf, torch.Tensor))
        return bool(types) and not all(map(self._shapes.owns, tensors))

    def _failed(self, error: Exception) -> None:
        raise error  # which ends the prediction

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        work = work_of(func, args, kwargs, result)
        if work is not None:
            self._recording.work.operator(work)

    def _before_wait(self) -> None:
        super()._before_wait()
        with _disable_current_modes():
            self._mailbox.wait()

    def after_step(self, ends_iteration: bool) -> None:
        """End the script where it has run enough iterations."""
        super().after_step(ends_iteration)
        if not ends_iteration:
            return
        sent = self._rows.sent()
        self._iterations -= 1
        if self._iterations == 0 or sent == self._sent_before:
            raise Enough
        self._sent_before = sent
        self._memory.begin()


def start(job: ScriptJob, rank: int, stands_for: Callable[[int], int]) -> int:
    """Start a process that runs the script as ``rank``; return its id. ``stands_for``: see ``Mailbox``."""
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    process = os.fork()
    if process:
        return process
    try:
        result = _run(job, rank, stands_for)
    except BaseException as error:  # whatever the script raised: the process ends here
        result = {"error": _error_line(job, error)}
    with suppress(OSError):
        job.about(rank).write_bytes(orjson.dumps(result))
    os._exit(0)


def _error_line(job: ScriptJob, error: BaseException) -> str:
    """Return an error in one line, with the line of the script that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    script_frames = [frame for frame in frames if frame.filename == job.script.file]
    if not script_frames:
        return describe(error)
    return f"{type(error).__name__}: {error} ({Path(script_frames[-1].filename).name}:{script_frames[-1].lineno})"


def _run(job: ScriptJob, rank: int, stands_for: Callable[[int], int]) -> dict[str, Any]:
    """Run the script, write its rows, and return what else there is to say."""
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # the numbers that the script prints mean nothing
    if rank != 0:
        os.dup2(nowhere, 2)  # warnings are said once
    memory, rows = Memory(), MemoryRows()
    mailbox = Mailbox(job.folder, rank, stands_for)
    shapes = Shapes(mailbox, memory)
    predictor = Predictor(rows, shapes, mailbox, memory, job.iterations)
    optimizers: dict[int, torch.optim.Optimizer] = {}
    held: dict[str, int] = {}

    def stepped(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        optimizers[id(optimizer)] = optimizer
        held.update(held_by(list(optimizers.values())))

    register_optimizer_step_post_hook(stepped)
    streams = gpu_streams(predictor.recording)
    with one_rank(rank, job.world_size, job.ranks_per_node), streams, memory, shapes, predictor:
        try:
            job.script.run(list(job.arguments))
        except Enough:
            pass
        except SystemExit as exit_:
            if exit_.code not in (None, 0):
                raise ValueError(f"the script ended with status {exit_.code}") from None
        predictor.recording.pause()
    header = {"format": FORMAT, "version": VERSION, "name": job.script.title, "world_size": job.world_size}
    header |= {"host": "", "start": 0, "epoch": 0, "rank": rank, "restart": 0}
    lines = [
        header,
        *(row.row if isinstance(row, Event) else row for row in rows.rows),
        predictor.state(),
        {"kind": "ended"},
    ]
    job.rows(rank).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    about = {"memory": memory.peak, "held": held, "assumed": dict(shapes.assumed), "purposes": predictor.purposes}
    return {**about, "torch": torch.__version__}
