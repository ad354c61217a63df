"""Checks of free memory before a step that allocates much of it."""

from __future__ import annotations

import os
import re
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
