"""The time of day as one process measures it: it goes on evenly when somebody, or NTP, sets the machine's clock."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the epoch, by the machine's clock of when this was imported; never less than before."""
    return _BEGAN + time.monotonic()
