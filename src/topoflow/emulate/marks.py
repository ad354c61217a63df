"""Marks: time stamps of a rank, with the bytes that each interface of its server has carried so far.

The module runs in the job's processes. It does not import torch, so that a rank can enter its namespace before torch
starts threads.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER = "TOPOFLOW_EMULATION"  # environment variable: the folder that ranks write to


def carried() -> dict[str, tuple[int, int]]:
    """Return the bytes received and sent, by interface of this process's namespace."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    rows = (line.replace(":", " ").split() for line in lines)
    return {row[0]: (int(row[1]), int(row[9])) for row in rows}


class Marks:
    """The marks of one rank, a line each in ``rank<R>.jsonl``; all processes share the clock (s)."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.file = (folder / f"rank{rank}.jsonl").open("a", buffering=1)

    @classmethod
    def of_environment(cls) -> Marks:
        """Return the marks of this process, which ``topoflow emulate`` has started."""
        return cls(Path(os.environ[FOLDER]), int(os.environ["RANK"]))

    def note(self, what: str, **more: Any) -> None:
        """Write a mark: the current time and the bytes that all interfaces have carried."""
        print(json.dumps({"what": what, "time": time.monotonic(), "carried": carried(), **more}), file=self.file)
