"""Shares of a step, compared with HolisticTraceAnalysis (Meta, MIT), which reads the same profiles.

    python benchmarks/captures/shares_hta.py hta=PYTHON PROFILE[,SIZES] ...

PYTHON is an interpreter with HolisticTraceAnalysis (pip), SIZES the execution trace of a profile that has no sizes.

topoflow finds the step that stands for the job. The device rows of the profile are then cut at the two ends of that
step, and HolisticTraceAnalysis gets these rows. It does not count copies in memory as compute, topoflow does. So both
are also given the profile without its copies. HolisticTraceAnalysis rounds to whole microseconds, so that it gets
nanoseconds in their place.

    PROFILE.NAME.topoflow, PROFILE.NAME.hta    NAME: busy, idle, compute, exposed (us), hidden (share of communication)
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topoflow.capture.load import load
from topoflow.capture.periods import representative
from topoflow.capture.shares import shared_operations, shares

COPIES = ("gpu_memcpy", "gpu_memset")
DEVICE = ("kernel", *COPIES)
HTA = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
parts = found.get_temporal_breakdown(visualize=False).iloc[0]
overlap = found.get_comm_comp_overlap(visualize=False).iloc[0]
busy = float(parts["kernel_time(us)"] - parts["idle_time(us)"])
compute = float(parts["compute_time(us)"])
print(json.dumps({"busy": busy, "idle": float(parts["idle_time(us)"]), "compute": compute, "exposed": busy - compute,
                  "hidden": float(overlap["comp_comm_overlap_pctg"]) / 100}))
"""


def document(file: Path) -> dict[str, Any]:
    """Return a profile, JSON or gzipped."""
    data = file.read_bytes()
    profile: dict[str, Any] = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return profile


def is_row(event: dict[str, Any]) -> bool:
    """Return whether an event is a row with a duration."""
    return event.get("ph") == "X" and "dur" in event


def cut(profile: dict[str, Any], begin: float, end: float) -> dict[str, Any]:
    """Return the device rows of a profile within a window of its own clock (us), with nanoseconds for microseconds."""
    rows = []
    for event in profile["traceEvents"]:
        if not is_row(event):
            rows.append(event)
        elif event.get("cat") in DEVICE:
            first, last = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
            if first < last:
                start, stop = (round((at - begin) * 1e3) for at in (first, last))
                rows.append({**event, "ts": start, "dur": stop - start})
    return {**profile, "traceEvents": rows}


def outside(profile: dict[str, Any], length: float) -> float:
    """Return the time of a step before its first device row and after its last, us: HolisticTraceAnalysis omits it."""
    rows = [event for event in profile["traceEvents"] if is_row(event)]
    return length - (max(row["ts"] + row["dur"] for row in rows) - min(row["ts"] for row in rows)) / 1e3


def measure(python: str, file: Path, sizes: Sequence[Path], copies: bool, folder: Path) -> None:
    """Print the numbers of both for one profile, with its copies in memory or without."""
    profile = document(file)
    if not copies:
        profile["traceEvents"] = [event for event in profile["traceEvents"] if event.get("cat") not in COPIES]
    (folder / "whole.json").write_text(json.dumps(profile))
    trace = load([folder / "whole.json", *sizes])
    period = representative(trace)
    (rank,) = trace.ranks
    (share,) = shares(trace, period, shared_operations(trace))
    if period.begin is None or period.end is None or share.iteration_time is None or share.compute is None:
        raise ValueError(f"{file}: has no times")
    first_row = min(event["ts"] for event in profile["traceEvents"] if is_row(event) and event.get("cat") in DEVICE)
    origin = first_row - min(event.start for event in trace.ranks[rank] if event.start is not None) * 1e6
    rows = cut(profile, origin + period.begin * 1e6, origin + period.end * 1e6)
    (folder / "cut.json").write_text(json.dumps(rows))
    length = share.iteration_time * 1e6
    exposed, hidden, ran = (getattr(share, name) or 0.0 for name in ("exposed", "hidden", "communication"))
    ours = {
        "busy": (share.compute + exposed) * length,
        "idle": (share.host_idle or 0.0) * length - outside(rows, length),
    }
    theirs = json.loads(
        subprocess.run(
            [python, "-c", HTA, str(folder / "cut.json")], check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
    )
    if not copies:
        ours |= {"compute": share.compute * length, "exposed": exposed * length, "hidden": hidden / ran if ran else 0.0}
    kind = "with_copies" if copies else "without_copies"
    theirs = {name: value if name == "hidden" else value / 1e3 for name, value in theirs.items()}
    for name, value in ours.items():
        print(f"{file.name.split('.')[0]}.rank{rank}.{kind}.{name}.topoflow {value:.4f}")
        print(f"{file.name.split('.')[0]}.rank{rank}.{kind}.{name}.hta {theirs[name]:.4f}")


def main() -> None:
    python, jobs = sys.argv[1].removeprefix("hta="), sys.argv[2:]
    for job in jobs:
        file, *sizes = map(Path, job.split(","))
        for copies in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                measure(python, file, sizes, copies, Path(folder))


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].startswith("hta="):
        sys.exit(__doc__)
    main()
