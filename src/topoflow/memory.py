"""Checks of free memory before a step that allocates much of it, and the switch of the garbage collector."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topoflow.units import human

MEMINFO = Path("/proc/meminfo")
UNCHECKED_BYTES = 2**26  # smaller allocations are not checked


def free_memory() -> int:
    """Return the bytes that can be allocated without swapping; the total memory where the system does not say."""
    if MEMINFO.exists() and (available := re.search(r"MemAvailable: *(\d+) kB", MEMINFO.read_text())):
        return 1024 * int(available[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(field: str, what: str, needed: float) -> None:
    """Raise ``ValueError`` unless ``needed`` B are free for ``what``, e.g. "1000000 tasks"."""
    if needed > UNCHECKED_BYTES and needed > (free := free_memory()):
        raise ValueError(
            f"{field}: must fit in the {human(free, 'B')} of memory that are free, got {what} ({human(needed, 'B')})"
        )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch the collector off: it would search a growing structure for cycles again and again, and there are none.

    That takes half of the time of a large trace, and a tenth of that of a large traffic.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
