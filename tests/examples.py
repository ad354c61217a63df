"""How many examples a law is tried on: ``TOPOFLOW_EXAMPLES`` times as many as in a usual run; ten times every night."""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("TOPOFLOW_EXAMPLES", "1"))


def examples(count: int) -> int:
    """Return the number of examples where a usual run has ``count``."""
    return max(1, round(count * FACTOR))
