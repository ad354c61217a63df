"""Renumbering of a job's servers to those of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoflow.traffic.base import Operation, Traffic
from topoflow.traffic.tasks import NONE


def on_servers(traffic: Traffic, servers: Sequence[int], cluster: int) -> Traffic:
    """Return ``traffic`` in a cluster of ``cluster`` servers, where ``servers[s]`` replaces server s."""
    if len(servers) != traffic.servers or len(set(servers)) != len(servers):
        raise ValueError(f"{traffic.name}: must be given {traffic.servers} servers, each once, got {list(servers)}")
    for task in traffic.subflows:
        raise ValueError(f"{traffic.where(task)}.subflows: must not be given, paths are those of the cluster")
    moved = np.append(np.array(servers, np.int32), np.int32(NONE))  # index NONE (-1) maps to NONE
    return replace(
        traffic,
        servers=cluster,
        server=moved[traffic.server],
        source=moved[traffic.source],
        target=moved[traffic.target],
        idle={servers[server]: seconds for server, seconds in traffic.idle.items()},
        operations=tuple(_on(operation, servers) for operation in traffic.operations),
    )


def _on(operation: Operation, servers: Sequence[int]) -> Operation:
    root = None if operation.root is None else servers[operation.root]
    return replace(operation, group=tuple(servers[member] for member in operation.group), root=root)
