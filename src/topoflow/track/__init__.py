"""Experiment trackers: a module for each, with a config group of its name, ``wandb=offline``."""

from __future__ import annotations

from functools import cache
from pkgutil import iter_modules


@cache
def trackers() -> tuple[str, ...]:
    """The names of the trackers, which are keys of verbs."""
    return tuple(sorted(module.name for module in iter_modules(__path__) if module.name != "base"))
