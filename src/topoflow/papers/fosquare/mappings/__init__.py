"""Mappings of the processes of a job to the available cores. A new mapping is a module of this folder.

The module's name is a value of ``experiment.mappings``. The module has one function,

    def place(packets: Index, rack: Index, seed: int) -> Index

``packets`` [M, M] are the packets that each process sends to each other process; ``rack`` [Q] is the rack of each
available core. The result [M] is a different core for each process. There are at least as many cores as processes.

Shapes: M processes, Q available cores.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


class Mapping(Protocol):
    """A module of this folder."""

    def place(self, packets: Index, rack: Index, seed: int) -> Index: ...


def mappings() -> tuple[str, ...]:
    """Return the names of all mappings, the modules of this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def place(name: str, packets: Index, rack: Index, seed: int = 0) -> Index:
    """Return the core [M] of each process by the mapping ``name``. Raises ``ValueError``."""
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
    """Count the packets between processes of the same rack, where ``core`` [M] is the core of each process."""
    rack_of_process = rack[core]
    return int(packets[rack_of_process[:, None] == rack_of_process[None, :]].sum())


def between(packets: Index) -> Index:
    """Return the packets [M, M] of each pair, the sum of both directions; the diagonal is 0."""
    sums: Index = packets + packets.T
    np.fill_diagonal(sums, 0)
    return sums


def by_room(rack: Index) -> list[Index]:
    """Return the cores of each rack, racks with the most cores first, and equal racks by number."""
    numbers, counts = np.unique(rack, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [np.flatnonzero(rack == number) for number in numbers[order]]
