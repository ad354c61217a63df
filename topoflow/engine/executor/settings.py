"""Laws of the settings that every cluster has."""

from __future__ import annotations

from math import isfinite
from typing import Any

from topoflow.engine.launch import MAX_THREADS


def check_settings(cluster: Any) -> None:
    """Raise ``ValueError`` with field, law and value unless they can be."""
    for key, least, most in (("cpus", 1, MAX_THREADS), ("retries", 0, 1000)):
        value = getattr(cluster, key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"executor.{key}: must be a whole number within {least}..{most}, got {value!r}")
    for key, optional in (("seconds", False), ("gpus", True)):
        value = getattr(cluster, key)
        if (value is None and optional) or key not in cluster.__dataclass_fields__:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not number or value < 0 or (value == 0 and not optional):
            raise ValueError(f"executor.{key}: must be finite and positive, got {value!r}")
