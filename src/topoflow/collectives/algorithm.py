"""Algorithms of collectives: found by looking into ``topoflow.collectives.algorithms``, one module each.

A rank is one member of the collective: the group's servers in order, ``local`` consecutive ranks on each.
Shapes: n ranks, R orders.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from topoflow.collectives import algorithms as modules
from topoflow.collectives.nccl import OPERATIONS
from topoflow.collectives.schedule import Index, SendSchedule, SteadyStreams
from topoflow.memory import check_memory
from topoflow.operations import ring_passes, sent_by_all

NCCL = "nccl"  # the algorithm that NCCL chooses, on GPUs of nodes
BYTES_PER_SEND = 256  # while a send is made, placed and simulated; measured: rings of 512, 1,024 and 2,048 ranks


@dataclass(frozen=True)
class CollectiveCall:
    """One collective, as its algorithm sees it."""

    op: str
    orders: Index  # [R, n] ranks: see ``Algorithm.orders``
    root: int | None = None  # rank, of a rooted operation
    chunks: int = 0  # see ``Algorithm.chunks``

    @property
    def ranks(self) -> int:
        return int(self.orders.shape[1])


def _not_pipelined(bytes: float, orders: int) -> int:
    return 0


@dataclass(frozen=True)
class Algorithm:
    """A collective algorithm: its schedule, its traffic and its needs."""

    ops: tuple[str, ...]  # the operations that it runs
    schedule: Callable[[CollectiveCall], SendSchedule]
    most_sends: Callable[[int], int]  # n -> sends of a schedule of one order, at most
    # Which orders of a fabric it follows: ranks along each ring, or at the positions of each pair of trees. None: it
    # needs nothing, and is called with the group's own order.
    orders: Literal["rings", "trees"] | None = None
    default: bool = False  # whether its operations run it where no algorithm is named
    hierarchical: bool = False  # always ``phased``
    at_once: bool = False  # no send waits for another
    streams: Callable[[CollectiveCall], SteadyStreams] | None = (
        None  # the same as one flow per connection, if it can be said so
    )
    chunks: Callable[[float, int], int] = _not_pipelined  # (bytes, R) -> pieces of one tree that follow each other
    sent: Callable[[str, int], float] = sent_by_all  # (op, n) -> bytes that all ranks send per byte of the buffer

    def phased(self, op: str, servers: int, local: int, ranks_per_server: int | None) -> bool:
        """Return whether the algorithm runs between servers only, between the phases inside of ``hierarchical``.

        It always does where servers have ``ranks_per_server``, unless one all-reduce is among all ranks of several.
        """
        if self.hierarchical or ranks_per_server is None or not ring_passes(op):
            return self.hierarchical
        return op != "all_reduce" or servers == 1 or local < ranks_per_server


@cache
def algorithms() -> Mapping[str, Algorithm]:
    """Return the algorithm of every module of ``topoflow.collectives.algorithms`` by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(modules.__path__))
    candidates = {name: getattr(modules.named(name), "ALGORITHM", None) for name in names}
    return MappingProxyType({name: algorithm for name, algorithm in candidates.items() if algorithm is not None})


@cache
def names(op: str) -> tuple[str, ...]:
    """The algorithms that ``op`` may run; the first is the default."""
    return _default_first(lambda algorithm: op in algorithm.ops)


@cache
def following(orders: str) -> tuple[str, ...]:
    """The algorithms that follow ``orders`` of a fabric ("rings" or "trees"), the default first."""
    return _default_first(lambda algorithm: algorithm.orders == orders)


def _default_first(able: Callable[[Algorithm], bool]) -> tuple[str, ...]:
    able_names = [name for name, algorithm in algorithms().items() if able(algorithm)]
    return tuple(sorted(able_names, key=lambda name: not algorithms()[name].default))


def name_for(op: str, named: str | None, all_reduce: str) -> str:
    """Return the algorithm of ``op``: the one ``named`` for it, else ``all_reduce`` if it is one, else the default.

    With ``NCCL`` for all-reduces, NCCL also chooses for the other operations that it has.
    """
    if all_reduce == NCCL and op in OPERATIONS and named is None:
        return NCCL
    if named is not None:
        return named
    return all_reduce if op == "all_reduce" else names(op)[0]


def check_algorithm(field: str, op: str, name: str) -> None:
    """Raise ``ValueError`` unless ``op`` may run the algorithm ``name``."""
    if name not in names(op) and not (name == NCCL and op in OPERATIONS):
        raise ValueError(f"{field}: {op} must run one of {', '.join(names(op))}, got {name!r}")


def check_size(field: str, name: str, call: CollectiveCall) -> None:
    """Raise ``ValueError`` where the schedule of the algorithm ``name`` would not fit in memory."""
    sends = len(call.orders) * algorithms()[name].most_sends(call.ranks)
    check_memory(field, f"{sends} sends of a {name} of {call.ranks} ranks", sends * BYTES_PER_SEND)


def circuits_for(all_reduce: str) -> str:
    """Return the collective that circuits are built for (``TopoOpt.collective``): trees if it has trees."""
    return "double_binary_tree" if all_reduce in following("trees") else "ring"
