"""Jobs of ``jobs/parallel.py``: recorded with real ranks over gloo, and predicted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from topoflow.capture.base import ComputeSpan, Event, Trace
from topoflow.capture.load import load

SCRIPT = Path(__file__).resolve().parent / "jobs" / "parallel.py"
ITERATION = 2  # one in which DDP has built its buckets anew


def of_iteration(trace: Trace, rank: int) -> list[Event]:
    """Return what a rank did in the iteration."""
    return [event for event in trace.ranks[rank] if event.iteration == ITERATION]


def run(*command: object) -> str:
    done = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(folder: Path, kind: str, ranks: int) -> Trace:
    """Return what real ranks did."""
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", ranks)
    run(*torchrun, "-m", "topoflow.capture", "run", "--out", folder / f"{kind}{ranks}", SCRIPT, kind)
    return load([folder / f"{kind}{ranks}"])


def predicted(folder: Path, kind: str, ranks: int) -> Trace:
    """Return what ranks on shapes did."""
    out = folder / f"{kind}{ranks}.jsonl.gz"
    run("topoflow", "capture", "predict", "--world-size", ranks, "--out", out, SCRIPT, kind)
    return load([out])


def sent(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Return the communications of a rank, in order, without names and times."""
    return [
        (
            *(event.op, event.group, event.dtype, event.bytes_in, event.bytes_out),
            *(event.splits_in, event.splits_out, event.peer, event.tag, event.root),
        )
        for event in events
        if not isinstance(event, ComputeSpan)
    ]


def flops(events: Iterable[Event]) -> float:
    return sum(work.flops for event in events if isinstance(event, ComputeSpan) for work in event.work or ())
