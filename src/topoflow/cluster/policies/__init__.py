"""Policies: where the machines of a request go. A new one is a module of this folder.

Its name is a value of ``policy=``. It has one function,

    def order(room: Index, request: Request, cluster: Cluster) -> Index

``room`` [S] is how many machines of the request each server still holds. The answer is the servers in the order in
which they are filled, each as far as it has room, until all machines are placed. Whether a request is denied is not
for a policy to say: it is exactly if all servers together have less room than it has machines.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from topoflow.cluster.base import Cluster, Index, Request


class Policy(Protocol):
    """What a module of this folder is."""

    def order(self, room: Index, request: Request, cluster: Cluster) -> Index: ...


def policies() -> tuple[str, ...]:
    """The names of all policies, found by looking into this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def policy_named(name: str) -> Policy:
    """Raises ``ValueError`` where there is no such policy."""
    if name not in policies():
        raise ValueError(f"policy: must be one of {', '.join(policies())}, got {name!r}")
    return cast(Policy, import_module(f"{__name__}.{name}"))


def in_groups(groups: Index, cluster: Cluster) -> Index:
    """The servers of ``groups`` [G], group by group."""
    found: Index = (groups[:, None] * cluster.servers_per_group + np.arange(cluster.servers_per_group)).ravel()
    return found


def room_of_groups(room: Index, cluster: Cluster) -> Index:
    """[groups] of ``room`` [S]."""
    found: Index = room.reshape(cluster.groups, cluster.servers_per_group).sum(axis=1)
    return found
