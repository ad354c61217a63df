"""Launch: a kernel runs in a thread of its own, so that progress is shown and Ctrl-C works meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

MEMORY = 2**31  # B for the arrays of one launch, and as much again for the state of its teams
MAX_THREADS = 1024  # OpenMP gives up beyond some thousands
POLL_INTERVAL = 0.1  # s


def count_threads(threads: int | None) -> int:
    """What a kernel takes: 0 for all. Raises ``ValueError`` unless ``threads`` is None or within 1..MAX_THREADS."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads: must be None or within 1..{MAX_THREADS}, got {threads!r}")
    return threads


def launch(kernel: Callable[[], object], cancel: Any, poll: Callable[[], None] | None = None) -> None:
    """Call ``kernel``, and ``poll`` repeatedly until it returns. What is raised meanwhile sets ``cancel``."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            running = pool.submit(kernel)
            while not wait([running], timeout=POLL_INTERVAL).done:
                if poll is not None:
                    poll()
        except BaseException:
            cancel[0] = 1
            raise
    running.result()
