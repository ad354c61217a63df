"""Job: how the ranks of one job bring their records together, by files in one folder that all of them see.

    rank0.started   rank1.started       each rank, when it begins; its content is the time
    .rank0.recorded.gz ...              each rank, when its script has ended well
    rank2.failed                        instead, when it has not, with the reason
    rank0.jsonl.gz ... trace.jsonl.gz   rank 0, when all have arrived and agree; trace.jsonl.gz comes last

So nothing incomplete has a name that a reader would take for a trace. The script's process group is not used: it
may be gone by then.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from topoflow.capture import jsonl
from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.capture.record.clock import now
from topoflow.files import write_atomically

TRACE = "trace.jsonl.gz"
RECORDED = "recorded.gz"  # its file is hidden: readers of a folder pass over it
PATIENCE = 600.0  # s that a rank waits for the others after its own script has ended
QUIET = 10.0  # s after which it says what it waits for


@dataclass(frozen=True)
class Job:
    """One rank's view of the folder ``out``; ``name`` is what the trace will be called."""

    name: str
    out: Path
    rank: int
    world_size: int
    patience: float = PATIENCE
    process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"RANK: must be within 0..{self.world_size - 1} (WORLD_SIZE), got {self.rank}")

    def start(self) -> None:
        """Claim the folder; ValueError when it holds anything but this job's own files."""
        if self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out: must be a folder, got the file {self.out}")
        self.out.mkdir(parents=True, exist_ok=True)
        own = {
            self._file(rank, kind).name for rank in range(self.world_size) for kind in ("started", RECORDED, "failed")
        }
        if foreign := sorted({entry.name for entry in self.out.iterdir() if not entry.name.endswith(".part")} - own):
            raise ValueError(f"--out: must be empty, got {self.out} with {foreign[0]} in it")
        try:
            with self._file(self.rank, "started").open("x") as file:
                file.write(repr(now()))
        except FileExistsError:
            raise ValueError(
                f"--out: must be empty, got {self.out} with another capture's {self._file(self.rank, 'started').name}"
            ) from None

    @property
    def is_ours(self) -> bool:
        """Whether this process is the rank, not one that its script has forked, such as a data loader's."""
        return os.getpid() == self.process

    def fail(self, error: BaseException) -> None:
        """This rank, or its script, has ended with ``error``: there will be no trace."""
        if not self.is_ours:
            return
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        write_atomically(self._file(self.rank, "failed"), reason.encode())

    def finish(self, record: Callable[[float], Trace]) -> Trace | None:
        """Publish ``record(origin)``, whose times count from the start of the first rank.

        Rank 0 then waits for all and returns the merged trace; the others return None at once.
        """
        self._wait_for("started", "has not started")
        starts = [self._file(rank, "started") for rank in range(self.world_size)]
        origin = min(float(start.read_text()) for start in starts)
        jsonl.write(record(origin), self._file(self.rank, RECORDED))
        if self.rank != 0:
            return None
        self._wait_for(RECORDED, "has not finished")
        records = [self._file(rank, RECORDED) for rank in range(self.world_size)]
        trace = replace(load(records), name=self.name)
        for rank, recorded in enumerate(records):
            if self.world_size > 1:
                recorded.rename(self._file(rank, "jsonl.gz"))
            else:  # the trace says the same
                recorded.unlink()
        jsonl.write(trace, self.out / TRACE)
        for start in starts:
            start.unlink()
        return trace

    def _file(self, rank: int, kind: str) -> Path:
        return self.out / f"{'.' if kind == RECORDED else ''}rank{rank}.{kind}"

    def _wait_for(self, kind: str, complaint: str) -> None:
        """Until every rank has a file of ``kind``; ValueError when one has failed or takes too long."""
        began = time.monotonic()
        reported = False
        for rank in range(self.world_size):
            while not _is_written(self._file(rank, kind)):
                self._check_failures()
                waited = time.monotonic() - began
                if waited > self.patience:
                    raise ValueError(f"rank {rank}: {complaint} after {self.patience:g} s, so there is no trace")
                if waited > QUIET and not reported:
                    reported = True
                    news = f"rank {rank} {complaint}, waiting up to {self.patience:g} s for it"
                    print(f"topoflow.capture: {news}", file=sys.stderr, flush=True)
                time.sleep(0.02)

    def _check_failures(self) -> None:
        for rank in range(self.world_size):
            failed = self._file(rank, "failed")
            if failed.exists():
                raise ValueError(f"rank {rank}: must end well, got {failed.read_text()}")


def _is_written(path: Path) -> bool:
    """Whether the file is there and no longer the empty one that its rank has just created."""
    return path.exists() and path.stat().st_size > 0
