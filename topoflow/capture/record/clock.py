"""The time of day as one process measures it: steady when the machine's clock is set, by a user or by NTP."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the epoch, by the machine's clock at import; never decreases."""
    return _BEGAN + time.monotonic()
