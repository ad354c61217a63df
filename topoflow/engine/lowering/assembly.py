"""Assembly: the tasks of a traffic as arrays, with blocks in place of collectives, become a graph.

Shapes: K traffic tasks, T tasks of the graph, D dependencies, P paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topoflow.engine.base import Floats, Graph, Ints, Offsets
from topoflow.engine.lowering.blocks import Block
from topoflow.engine.lowering.paths import NO_PATH, PathTable


@dataclass(frozen=True)
class Tasks:
    """A collective has no path and no delay of its own; ``bytes`` is what one share of its block is."""

    delay: Floats  # [K] s
    bytes: Floats  # [K] B
    release: Floats  # [K] s
    path: Ints  # [K]
    after_offsets: Offsets  # [K+1]
    after: Offsets  # [D] traffic tasks


def assemble(
    tasks: Tasks, blocks: Mapping[int, Block], table: PathTable, *, links: int, local_bandwidth: float
) -> Graph:
    """One traffic task behind the other: collectives are ``blocks``, the others one task each."""
    size = np.ones(len(tasks.bytes), np.int64)
    size[list(blocks)] = [block.tasks for block in blocks.values()]
    begin = np.concatenate([[0], np.cumsum(size)])  # [K+1]
    path, bytes, delay = _sends(tasks, blocks, begin, np.append(table.latency, 0.0), local_bandwidth)
    after_offsets, after = _after(tasks, blocks, begin)
    release = np.zeros(begin[-1])
    release[begin[:-1]] = tasks.release
    return Graph(
        delay=delay,
        bytes=bytes,
        release=release,
        path=path,
        after_offsets=after_offsets,
        after=after,
        path_offsets=table.offsets,
        path_links=table.links,
        owner=np.repeat(np.arange(len(size), dtype=np.int32), size),
        owners=len(size),
        links=links,
        path_weight=table.path_weight,
        path_limit=table.path_limit,
    )


def _sends(
    tasks: Tasks, blocks: Mapping[int, Block], begin: Offsets, latency: Floats, local_bandwidth: float
) -> tuple[Ints, Floats, Floats]:
    """[T] the path of every task, its bytes on the network, and its seconds of compute, inside a server, or waiting.

    ``latency`` [P+1] ends with that of ``NO_PATH``.
    """
    path, bytes, delay = np.full(begin[-1], NO_PATH, np.int32), np.zeros(begin[-1]), np.zeros(begin[-1])
    path[begin[:-1]] = tasks.path
    bytes[begin[:-1]] = np.where(tasks.path == NO_PATH, 0.0, tasks.bytes)
    delay[begin[:-1]] = tasks.delay
    for index, block in blocks.items():
        own, unit = slice(begin[index], begin[index + 1]), tasks.bytes[index]
        path[own] = block.path
        bytes[own] = block.share * unit
        delay[own] = block.local_share * unit / local_bandwidth + block.waits * latency[block.path]
    return path, bytes, delay


def _after(tasks: Tasks, blocks: Mapping[int, Block], begin: Offsets) -> tuple[Offsets, Ints]:
    """Offsets [T+1] and tasks [D]: the first task of each of K waits for the last of those that it waits for."""
    number = np.diff(tasks.after_offsets)
    count = np.zeros(begin[-1], np.int64)
    count[begin[:-1]] = number
    for index, block in blocks.items():
        count[begin[index] + 1 : begin[index + 1]] = block.after_count[1:]
    offsets = np.concatenate([[0], np.cumsum(count)])
    after = np.zeros(offsets[-1], np.int32)
    rank = np.arange(len(tasks.after)) - np.repeat(tasks.after_offsets[:-1], number)  # among what its task awaits
    after[np.repeat(offsets[begin[:-1]], number) + rank] = begin[tasks.after + 1] - 1
    for index, block in blocks.items():
        inside = offsets[begin[index] + 1]
        after[inside : inside + len(block.after)] = block.after + begin[index]
    return offsets, after
