"""Algorithms of collectives: a module each. A new algorithm is a new file here, and nothing else.

The name of the file is the name of the algorithm, in ``all_reduce=`` of every command and in ``algorithm`` of a world
file. Such an algorithm has an

    ALGORITHM = Algorithm(ops=("all_reduce",), schedule=..., most_sends=..)

with its operations, what it needs (ring orders, trees, nothing), who sends which part of the buffer to whom after what,
the largest number of sends, the number of chunks, the bytes that all ranks send where they are not the least possible,
and whether it runs inside each server first: ``topoflow.collectives.algorithm`` has the fields.
``tests/engine/test_collective_contract.py`` runs each on real arrays.

An algorithm that NCCL chooses (``topoflow.collectives.nccl``) has

    OPERATIONS          the collectives that it runs
    work(run, rails)    what a rank sends inside its node, what a node sends, and the steps that these wait for
    edges(nodes)        the pairs of nodes, each with its share of what a node sends at most

and in ``tuning_tables`` the constants by which NCCL estimates it.
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
