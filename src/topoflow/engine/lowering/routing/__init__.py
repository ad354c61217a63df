"""Routings: how a connection uses the paths that a network offers. A new one is a module of this folder.

Its name is a value of ``routing=`` wherever that is a key. It has one function,

    def split(choices: Index, connections: Connections, seed: int) -> Split

which says which paths each connection takes, and with which share of its bytes. ``choices`` [F, B] are the alternatives
at every branch of a connection's paths; their product is the number of paths, and the number of a path is written in
these digits, the first branch first (``fabric.routing.base.Routes``). One that takes other paths than the network
offers (``valiant``) also has ``paths`` (``OwnPaths``). The answer for a connection must not depend on
others in the arrays, as connections come in any portions.

Shapes: F connections, B branches, S paths taken.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import Links
from topoflow.units import check_among

Index = NDArray[np.int64]


class Connections(NamedTuple):
    """Connections from one server to another; several between the same two differ in their channel."""

    source: Index  # [F] server
    target: Index  # [F] server
    channel: Index  # [F]


class Split(NamedTuple):
    """Paths that are taken, connection by connection; the shares of a connection sum to 1."""

    connection: Index  # [S] ascending
    number: Index  # [S] of the path among those of the connection
    share: NDArray[np.float64]  # [S]


class Routing(Protocol):
    """A routing: the interface of a module of this folder."""

    def split(self, choices: Index, connections: Connections, seed: int) -> Split: ...


@runtime_checkable
class OwnPaths(Protocol):
    """A routing whose paths are others than those that the network offers."""

    def paths(self, fabric: Fabric, connections: Connections, seed: int) -> tuple[Links, Split]:
        """[S, H] the links of every path that is taken, ``NO_LINK`` where there is no hop, and whose it is."""
        ...


def one_path(number: Index) -> Split:
    """Every connection keeps one path, that with its ``number`` [F]."""
    return Split(np.arange(len(number)), number, np.ones(len(number)))


@cache
def routings() -> tuple[str, ...]:
    """The names of all routings, found by looking into this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def check_routing(name: object) -> None:
    """Raise ``ValueError`` unless ``name`` is that of a routing."""
    check_among("routing", name, routings())


def routing_named(name: str) -> Routing:
    """Raises ``ValueError`` where there is no such routing."""
    check_routing(name)
    return cast(Routing, import_module(f"{__name__}.{name}"))
