"""``executor=processes``: a pool of processes on this machine."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from topoflow.engine.executor.base import Workers
from topoflow.units import check_count


@dataclass(frozen=True)
class Processes:
    """Worker processes: ``count`` of them, or as many as processors can give each its ``threads``."""

    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            check_count("executor.count", self.count)

    def workers(self, device: str, threads: int | None, out: Path | None) -> Workers:
        count = self.count or max(1, (os.cpu_count() or 1) // (threads or 1))
        return Workers(lambda: Pool(count), device, threads or 1)


class Pool(ProcessPoolExecutor):
    """Processes that end at once when this one ends, whatever ends it, or when ``shutdown`` is called.

    They are not forked: OpenMP hangs in a copy of a process that has used it.
    """

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        other_end, self._alive = context.Pipe(duplex=False)
        super().__init__(count, context, _watch, (other_end,))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._alive.close()
        super().shutdown(wait, cancel_futures=cancel_futures)


def _watch(alive: Connection) -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes, and end when the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(alive,), daemon=True).start()


def _end_with(alive: Connection) -> None:
    alive.poll(None)
    os._exit(1)
