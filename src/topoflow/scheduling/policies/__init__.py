"""Policies: the choice of servers for the machines of a request. A new policy is a module of this folder.

The module's name is a value of ``policy=``. It has one function,

    def order(room: Index, request: Request, cluster: Cluster) -> Index

``room`` [S] is how many machines of the request each server still holds. The function returns the servers in the order
in which they are filled, each as far as it has room, until all machines are placed. A policy does not deny requests:
the scheduler denies a request if all servers together have less room than it has machines.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from topoflow.scheduling.base import GroupedCluster, Index, Request
from topoflow.units import check_among


class Policy(Protocol):
    """The interface of a module of this folder."""

    def order(self, room: Index, request: Request, cluster: GroupedCluster) -> Index: ...


def policies() -> tuple[str, ...]:
    """Return the names of all policies, which are the modules of this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def policy_named(name: str) -> Policy:
    """Return the policy of this name. Raises ``ValueError`` where there is none."""
    check_among("policy", name, policies())
    return cast(Policy, import_module(f"{__name__}.{name}"))


def in_groups(groups: Index, cluster: GroupedCluster) -> Index:
    """Return the servers of ``groups`` [G], group by group."""
    servers: Index = (groups[:, None] * cluster.servers_per_group + np.arange(cluster.servers_per_group)).ravel()
    return servers


def room_of_groups(room: Index, cluster: GroupedCluster) -> Index:
    """Return the machines [groups] that each group still holds, given the ``room`` [S] of its servers."""
    total: Index = room.reshape(cluster.groups, cluster.servers_per_group).sum(axis=1)
    return total
