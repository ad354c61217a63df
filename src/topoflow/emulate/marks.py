"""What a rank notes while a job runs: the time, and the bytes that each interface of its server has carried.

Runs in the processes of the job; without torch, so that a rank can enter its namespace before torch starts threads.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER = "TOPOFLOW_EMULATION"  # environment: where ranks write


def carried() -> dict[str, tuple[int, int]]:
    """Bytes received and sent, by interface of this process's namespace."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    rows = (line.replace(":", " ").split() for line in lines)
    return {row[0]: (int(row[1]), int(row[9])) for row in rows}


class Marks:
    """The notes of one rank, one a line in ``rank<R>.jsonl``; times are of a clock that all processes share (s)."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.file = (folder / f"rank{rank}.jsonl").open("a", buffering=1)

    @classmethod
    def of_environment(cls) -> Marks:
        """Those of this process, started by ``topoflow emulate``."""
        return cls(Path(os.environ[FOLDER]), int(os.environ["RANK"]))

    def note(self, what: str, **more: Any) -> None:
        """Now, and what all interfaces have carried until now."""
        print(json.dumps({"what": what, "time": time.monotonic(), "carried": carried(), **more}), file=self.file)
