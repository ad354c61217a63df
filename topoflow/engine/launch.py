"""Launch: a kernel runs in a thread of its own, so that progress is told and Ctrl-C is heard while it does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

MEMORY = 2**31  # B for the arrays of one launch, and as much again for the state of its teams
MOST_THREADS = 1024  # OpenMP gives up beyond some thousands
POLL = 0.1  # s between two calls of progress

Progress = Callable[[int], None]


def count_threads(threads: int | None) -> int:
    """As the kernels count: 0 for all. Raises ``ValueError`` for what is neither None nor a sensible number."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"threads: must be None or within 1..{MOST_THREADS}, got {threads!r}")
    return threads


def run(kernel: Callable[[], object], cancel: Any, poll: Callable[[], None] | None = None) -> None:
    """Call ``kernel``, and ``poll`` now and then until it returns. Whatever is raised meanwhile sets ``cancel``."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            running = pool.submit(kernel)
            while not wait([running], timeout=POLL).done:
                if poll is not None:
                    poll()
        except BaseException:
            cancel[0] = 1
            raise
    running.result()
