"""Mappings: which of the available cores each process of a job gets. A new one is a module of this folder.

Its name is a value of ``mapping=``. It has one function,

    def place(packets: Index, rack: Index, seed: int) -> Index

``packets`` [M, M] is how many packets each process sends to each other one, ``rack`` [Q] the rack of each available
core. The answer [M] is the core of each process, all of them different. There are at least as many cores as processes.

Shapes: M processes, Q available cores.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from topoflow.cluster.base import Index


class Mapping(Protocol):
    """What a module of this folder is."""

    def place(self, packets: Index, rack: Index, seed: int) -> Index: ...


def mappings() -> tuple[str, ...]:
    """The names of all mappings, found by looking into this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def place(name: str, packets: Index, rack: Index, seed: int = 0) -> Index:
    """[M] the core of each process by the mapping ``name``. Raises ``ValueError`` in one line."""
    if name not in mappings():
        raise ValueError(f"mapping: must be one of {', '.join(mappings())}, got {name!r}")
    if packets.ndim != 2 or packets.shape[0] != packets.shape[1]:
        raise ValueError(f"mapping.packets: expected [M, M], got {list(packets.shape)}")
    if (packets < 0).any():
        raise ValueError(f"mapping.packets: must not be negative, got {packets.min()}")
    if len(packets) > len(rack):
        raise ValueError(f"mapping.processes: must be at most the {len(rack)} available cores, got {len(packets)}")
    return cast(Mapping, import_module(f"{__name__}.{name}")).place(packets, rack, seed)


def within(packets: Index, rack: Index, core: Index) -> int:
    """Packets between processes in one rack, of those that are mapped to ``core`` [M]."""
    where = rack[core]
    return int(packets[where[:, None] == where[None, :]].sum())


def between(packets: Index) -> Index:
    """[M, M] the packets of each pair, both directions together; none of a process to itself."""
    both: Index = packets + packets.T
    np.fill_diagonal(both, 0)
    return both


def by_room(rack: Index) -> list[Index]:
    """The cores of each rack, the rack with the most of them first, of equal ones the lowest."""
    numbers, counts = np.unique(rack, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [np.flatnonzero(rack == number) for number in numbers[order]]
