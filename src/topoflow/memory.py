"""Memory of this machine: a step that needs much of it says so before it takes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from topoflow.units import human

MEMINFO = Path("/proc/meminfo")
UNASKED = 2**26  # B, taken without looking


def free_memory() -> int:
    """B that can be taken without swapping; where the system does not say, all that the machine has."""
    if MEMINFO.exists() and (found := re.search(r"MemAvailable: *(\d+) kB", MEMINFO.read_text())):
        return 1024 * int(found[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(field: str, what: str, needed: float) -> None:
    """Raise ``ValueError`` unless ``needed`` B are free for ``what``, e.g. "1000000 tasks"."""
    if needed > UNASKED and needed > (free := free_memory()):
        raise ValueError(
            f"{field}: must fit in the {human(free, 'B')} of memory that are free, got {what} ({human(needed, 'B')})"
        )
