"""Blocks: one traffic task as tasks of a world, per byte. Collectives that differ in bytes only share theirs.

A compute or a transfer is a block of one task. A collective is a join that waits for all it depends on, the sends of
its algorithm, and a join that the next tasks wait for. Shapes: B tasks, D dependencies of a block, F sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from topoflow.engine import collectives
from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.collectives.schedule import Schedule
from topoflow.engine.paths import NO_PATH, Paths
from topoflow.fabric.base import Path
from topoflow.traffic.base import Collective, Compute, Task, Transfer


@dataclass(frozen=True)
class Block:
    """The first task waits for what the traffic task waits for, the last is what others wait for.

    ``after`` counts from the first task of the block, which has none here.
    """

    share: Floats  # [B] bytes on the network per byte of the traffic task
    local_share: Floats  # [B] bytes inside a server per byte of the traffic task
    path: Ints  # [B]
    after_count: Offsets  # [B]
    after: Offsets  # [D]

    @property
    def tasks(self) -> int:
        return len(self.share)


JOIN = Block(np.zeros(1), np.zeros(1), np.full(1, NO_PATH, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64))
# Nothing to send: the first join and the last.
JOINS = Block(np.zeros(2), np.zeros(2), np.full(2, NO_PATH, np.int32), np.array([0, 1]), np.zeros(1, np.int64))
# The inside part of a hierarchical collective, before and behind the part between servers: reduce-scatter, all-gather.
INSIDE = {"all_reduce": (1, 1), "reduce_scatter": (1, 0), "all_gather": (0, 1)}


@dataclass
class Blocks:
    """Makes blocks on the paths of one fabric."""

    paths: Paths
    all_reduce: str  # the algorithm of all-reduces that do not name theirs
    made: dict[tuple[object, ...], Block] = field(default_factory=dict)

    def of(self, task: Task, where: str) -> Block:
        """The block of ``task``; ``where`` names it in errors."""
        if isinstance(task, Compute):
            return JOIN
        if isinstance(task, Transfer):
            return self._transfer(task, where)
        algorithm = self._algorithm(task, where)
        if task.bytes == 0 and task.splits is None:
            return JOINS
        chunks = collectives.chunks(algorithm, task.bytes)
        key = (task.op, algorithm, task.group, task.local, task.root, task.splits, chunks)
        if key not in self.made:
            self.made[key] = self._collective(task, algorithm, chunks, where)
        return self.made[key]

    def _algorithm(self, task: Collective, where: str) -> str:
        if task.local < 1:
            raise ValueError(f"{where}.local: must be positive, got {task.local}")
        if task.splits is not None and (task.op != "all_to_all" or task.local > 1):
            got = f"{task.op} with local={task.local}"
            raise ValueError(f"{where}.splits: must belong to an all_to_all of one member per server, got {got}")
        default = self.all_reduce if task.op == "all_reduce" else collectives.ALGORITHMS[task.op][0]
        algorithm = default if task.algorithm is None else task.algorithm
        collectives.check_algorithm(f"{where}.algorithm", task.op, algorithm)
        return algorithm

    def _transfer(self, task: Transfer, where: str) -> Block:
        key = ("transfer", task.source, task.target, task.subflows, task.limit)
        if key not in self.made:
            for subflow in task.subflows:
                self._check_path(task, subflow.links, where)
            subflows = task.subflows or self.paths.subflows(task.source, task.target, 0, "mp")
            path = self.paths.number(subflows, task.limit)
            share = np.full(1, 0.0 if path == NO_PATH else 1.0)
            self.made[key] = replace(JOIN, share=share, path=np.full(1, path, np.int32))
        return self.made[key]

    def _check_path(self, task: Transfer, path: Path, where: str) -> None:
        """A path is links, each of which begins where the one before ends, from source to target, each once."""
        fabric = self.paths.fabric
        if any(not 0 <= link < fabric.links for link in path):
            raise ValueError(f"{where}.subflows: must be links within 0..{fabric.links - 1}, got {list(path)}")
        nodes = [task.source, *(int(fabric.target[link]) for link in path)]
        if [int(fabric.source[link]) for link in path] != nodes[:-1] or nodes[-1] != task.target:
            ends = f"{fabric.nodes[task.source]!r} to {fabric.nodes[task.target]!r}"
            raise ValueError(f"{where}.subflows: must lead from {ends} without a gap, got {list(path)}")
        if len(set(path)) != len(path):
            raise ValueError(f"{where}.subflows: must cross a link at most once, got {list(path)}")

    def _collective(self, task: Collective, algorithm: str, chunks: int, where: str) -> Block:
        """Ranks are the members: ``local`` on each server of the group, or one for all of them if hierarchical."""
        local = 1 if algorithm == "hierarchical" else task.local
        rings = self._rings(task.group)
        collectives.check_size(where, algorithm, len(task.group) * local, len(rings))
        root = None if task.root is None else task.group.index(task.root) * local
        sends = collectives.schedule(task.op, algorithm, _ranks(task.group, rings, local), root, chunks)
        server = np.repeat(np.array(task.group, np.int64), local)  # [ranks]
        kind = "all_reduce" if task.op == "all_reduce" else "mp"
        path = self.paths.connections(server[sends.source], server[sends.target], sends.channel, kind)
        share = sends.share if task.splits is None else np.array(task.splits)[sends.source, sends.target]
        inside = path == NO_PATH
        if algorithm == "direct":  # what a rank sends to others on its server shares its local port
            local_share = share * np.bincount(sends.source[inside], minlength=len(server))[sends.source]
        else:  # channels run at the same time
            local_share = share * (1 + sends.channel.max(initial=0))
        block = _between_joins(
            sends,
            share=np.where(inside, 0.0, share),
            local_share=np.where(inside, local_share, 0.0),
            path=np.where(share > 0, path, NO_PATH).astype(np.int32),  # a split of no bytes is not sent
        )
        if algorithm == "hierarchical":
            before, behind = INSIDE[task.op]
            block.local_share[[0, -1]] = np.array([before, behind]) * (task.local - 1) / task.local
        return block

    def _rings(self, group: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The servers along each ring: the rings that were built for the group, or its own order."""
        fabric = self.paths.fabric
        rings = fabric.rings.get(group, (group,))
        for ring in rings:
            if sorted(ring) != sorted(group):
                raise ValueError(f"{fabric.name}.rings: must order {list(group)}, got {list(ring)}")
        return rings


def _ranks(group: tuple[int, ...], rings: tuple[tuple[int, ...], ...], local: int) -> Offsets:
    """[R, n] the ranks along each ring of servers, ``local`` consecutive ones on each."""
    position = {server: index for index, server in enumerate(group)}
    places = np.array([[position[server] for server in ring] for ring in rings], np.int64)
    return (places[:, :, None] * local + np.arange(local)).reshape(len(rings), -1)


def _between_joins(sends: Schedule, *, share: Floats, local_share: Floats, path: Ints) -> Block:
    """The first sends wait for the join before them; the join behind them for the sends nobody waits for."""
    awaited = np.diff(sends.after_offsets)
    last = np.setdiff1d(np.arange(sends.sends), sends.after)
    count = np.maximum(awaited, 1)
    after = np.zeros(int(count.sum()), np.int64)  # task 0, the first join, where a send waits for no other
    after[np.repeat(awaited > 0, count)] = sends.after + 1
    return Block(
        share=np.pad(share, 1),
        local_share=np.pad(local_share, 1),
        path=np.pad(path, 1, constant_values=NO_PATH),
        after_count=np.concatenate([[0], count, [max(len(last), 1)]]),
        after=np.concatenate([after, last + 1 if len(last) else [0]]),
    )
