"""Algorithms of NCCL: a module each.

    OPERATIONS          the collectives that it runs
    work(run, rails)    what a rank sends inside its node, what a node sends, and the steps that these wait for
    edges(nodes)        the pairs of nodes, each with its share of what a node sends at most

``tuning_tables`` has the constants by which NCCL estimates each.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

Edge = tuple[int, int, float]  # two nodes, and the share of a node's bytes that goes from one to the other


@cache
def named(name: str) -> Any:
    """Return the module of an algorithm."""
    return import_module(f"{__name__}.{name}")
