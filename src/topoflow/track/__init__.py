"""Experiment trackers: a module each, and a config group of the same name (``wandb=offline``)."""

from __future__ import annotations

from functools import cache
from pkgutil import iter_modules


@cache
def trackers() -> tuple[str, ...]:
    """Return the names of the trackers, which are keys of the verbs."""
    return tuple(sorted(module.name for module in iter_modules(__path__) if module.name != "base"))
