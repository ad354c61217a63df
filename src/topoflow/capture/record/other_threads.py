"""Communications of the threads that a script starts: they are counted, so that a trace without them says so.

They are not recorded: what such a thread does runs in parallel to the main thread, and belongs to no iteration.
"""

from __future__ import annotations

import threading
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from topoflow.capture.record.c10d import CALLS

_Thread: Any = threading.Thread  # its ``start`` is replaced


class OtherThreads:
    """``communications`` are those of the Python threads that were started between ``install`` and ``remove``."""

    def __init__(self) -> None:
        self.communications = 0
        self._counting = threading.Lock()

    def install(self) -> None:
        self._start = start = _Thread.start

        def start_watched(thread: Any) -> None:
            run = thread.run

            def run_watched() -> None:
                with _Watch(self):
                    run()

            thread.run = run_watched
            start(thread)

        _Thread.start = start_watched

    def remove(self) -> None:
        _Thread.start = self._start

    def count(self) -> None:
        """Count one more; any thread may call this."""
        with self._counting:
            self.communications += 1


class _Watch(TorchDispatchMode):
    """Sees the operators of the thread that enters it."""

    def __init__(self, counter: OtherThreads) -> None:
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in CALLS:
            self._counter.count()
        return func(*args, **(kwargs or {}))
