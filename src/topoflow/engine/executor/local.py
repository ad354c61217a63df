"""``executor=local``: this process, with the threads and the GPUs that ``threads`` and ``device`` say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Local:
    """An executor that runs work in this process, without workers."""

    def workers(self, device: str, threads: int | None, out: Path | None) -> None:
        """Return None: work is done where it is asked for."""
