"""Blocks: one collective as tasks of a world, per byte. Collectives that differ in bytes only share theirs.

A collective is a join that waits for all it depends on, the sends of its algorithm, and a join that the next tasks wait
for. Shapes: B tasks, D dependencies of a block, F sends, R orders, n ranks.

``rings`` says what the sends of an algorithm that follows rings are: "steps" that wait for each other, 2 (n-1) per pair
of neighbours for an all-reduce, or "flows", one per pair, which waits the latency of all its steps and carries the
bytes of all (``collectives.ring`` says when both take the same time). A ring among n servers is 2 n (n-1) tasks, or n:
a DLRM on 128 servers is millions of tasks in steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.lowering.algorithms import Algorithm, Call, algorithms, check_algorithm, check_size, name_for
from topoflow.engine.lowering.local_ports import slowdowns
from topoflow.engine.lowering.paths import NO_PATH, Paths
from topoflow.engine.lowering.schedule import Schedule, Streams
from topoflow.operations import INSIDE_AFTER, INSIDE_BEFORE, bus_factor
from topoflow.traffic.base import Collective

Orders = tuple[tuple[int, ...], ...]  # [R] each all servers of a group


@dataclass(frozen=True)
class Block:
    """The first task waits for what the collective waits for, the last is what others wait for.

    ``after`` counts from the first task of the block, which has none here.
    """

    share: Floats  # [B] bytes on the network per byte of the collective
    local_share: Floats  # [B] bytes inside a server per byte of the collective
    path: Ints  # [B]
    ends: Ints  # [3, B] source, target and channel of what is sent; -1 where nothing is
    waits: Floats  # [B] how often the latency of the path is waited for, in addition to the flow's own
    after_count: Offsets  # [B]
    after: Offsets  # [D]
    between: tuple[int, int] | None = None  # the tasks that begin and end the phase between servers, where others are

    @property
    def tasks(self) -> int:
        return len(self.share)


RINGS = ("steps", "flows")
# Nothing to send: the first join and the last.
JOINS = Block(
    share=np.zeros(2),
    local_share=np.zeros(2),
    path=np.full(2, NO_PATH, np.int32),
    ends=np.full((3, 2), -1, np.int32),
    waits=np.zeros(2),
    after_count=np.array([0, 1]),
    after=np.zeros(1, np.int64),
)


@dataclass
class Blocks:
    """Makes blocks on the paths of one fabric."""

    paths: Paths
    all_reduce: str  # the algorithm of all-reduces that do not name theirs
    rings: str  # one of RINGS
    made: dict[tuple[object, ...], Block] = field(default_factory=dict)

    def of(self, task: Collective, where: str) -> Block:
        """The block of ``task``; ``where`` names it in errors."""
        name = self._algorithm(task, where)
        if task.bytes == 0 and task.splits is None:
            return JOINS
        algorithm = algorithms()[name]
        orders = self._orders(task.group, algorithm)
        phased = algorithm.phased(task)
        bytes = task.bytes / (task.local * task.side_by_side) if phased else task.bytes  # of each rank between servers
        chunks = algorithm.chunks(bytes, len(orders))
        key = (task.op, name, task.group, task.local, task.side_by_side, task.root, task.splits, chunks)
        if key not in self.made:
            local = 1 if phased else task.local
            root = None if task.root is None else task.group.index(task.root) * local
            call = Call(task.op, _ranks(task.group, orders, local), root, chunks)
            self.made[key] = self._collective(task, algorithm, call, self._sends(name, call, where))
        return self.made[key]

    def _algorithm(self, task: Collective, where: str) -> str:
        for name in ("local", "side_by_side"):
            if getattr(task, name) < 1:
                raise ValueError(f"{where}.{name}: must be positive, got {getattr(task, name)}")
        if task.splits is not None and (task.op != "all_to_all" or task.local > 1):
            got = f"{task.op} with local={task.local}"
            raise ValueError(f"{where}.splits: must belong to an all_to_all of one member per server, got {got}")
        name = name_for(task.op, task.algorithm, self.all_reduce)
        check_algorithm(f"{where}.algorithm", task.op, name)
        return name

    def _sends(self, name: str, call: Call, where: str) -> Schedule | Streams:
        algorithm = algorithms()[name]
        if self.rings == "flows" and algorithm.streams is not None:
            return algorithm.streams(call)
        check_size(where, name, call)
        return algorithm.schedule(call)

    def _collective(self, task: Collective, algorithm: Algorithm, call: Call, sends: Schedule | Streams) -> Block:
        """Ranks are the members: ``local`` on each server of the group, or one for all of them if hierarchical."""
        server = np.repeat(np.array(task.group, np.int64), call.ranks // len(task.group))  # [n]
        kind = "all_reduce" if task.op == "all_reduce" else "mp"
        ends = np.stack([server[sends.source], server[sends.target], sends.channel])
        path = self.paths.connections(ends[0], ends[1], ends[2], kind)
        share = sends.share if task.splits is None else np.array(task.splits)[sends.source, sends.target]
        inside = path == NO_PATH
        local_share = share * slowdowns(sends, inside)
        steps = sends.steps if isinstance(sends, Streams) else 1
        sent = np.where(share > 0, path, NO_PATH).astype(np.int32)  # a split of no bytes is not
        block = _between_joins(
            sends,
            share=np.where(inside, 0.0, share),
            local_share=np.where(inside, local_share, 0.0),
            path=sent,
            ends=np.where(sent == NO_PATH, -1, ends).astype(np.int32),
            waits=np.where(inside, 0.0, steps - 1),
        )
        if algorithm.phased(task):
            for join, phases in ((0, INSIDE_BEFORE), (-1, INSIDE_AFTER)):
                if task.op in phases:
                    block.local_share[join] = bus_factor(phases[task.op], task.local) / task.side_by_side
            if task.local > 1 and block.tasks > 2:
                return _with_phases(block)
        return block

    def _orders(self, group: tuple[int, ...], algorithm: Algorithm) -> Orders:
        """The rings, or the pairs of trees, that were built for the group; its own order where there are none."""
        fabric = self.paths.fabric
        if algorithm.orders is None:
            return (group,)
        orders: Orders = getattr(fabric.channels, algorithm.orders).get(group, (group,))
        for order in orders:
            if sorted(order) != sorted(group):
                raise ValueError(f"{fabric.name}.{algorithm.orders}: must order {list(group)}, got {list(order)}")
        return orders


def _with_phases(block: Block) -> Block:
    """``block`` with a join more on either side of its sends: these begin and end the phase between servers."""
    ends = block.tasks - 1  # the last join, before which the new one is
    wider = {name: np.insert(getattr(block, name), [1, ends], 0.0) for name in ("share", "local_share", "waits")}
    return replace(
        block,
        **wider,
        path=np.insert(block.path, [1, ends], NO_PATH),
        ends=np.insert(block.ends, [1, ends], -1, axis=1),
        after_count=np.concatenate([[0, 1], block.after_count[1:], [1]]),
        after=np.concatenate([[0], block.after + 1, [ends + 1]]),
        between=(1, ends + 1),
    )


def _ranks(group: tuple[int, ...], orders: Orders, local: int) -> Offsets:
    """[R, n] the ranks in each order of servers, ``local`` consecutive ones on each."""
    position = {server: index for index, server in enumerate(group)}
    places = np.array([[position[server] for server in order] for order in orders], np.int64)
    return (places[:, :, None] * local + np.arange(local)).reshape(len(orders), -1)


def _between_joins(
    sends: Schedule | Streams, *, share: Floats, local_share: Floats, path: Ints, ends: Ints, waits: Floats
) -> Block:
    """The first sends wait for the join before them; the join after them for the sends that no other waits for."""
    earlier = sends.after if isinstance(sends, Schedule) else np.zeros(0, np.int64)
    awaited = np.diff(sends.after_offsets) if isinstance(sends, Schedule) else np.zeros(len(path), np.int64)
    last = np.setdiff1d(np.arange(len(path)), earlier)
    count = np.maximum(awaited, 1)
    after = np.zeros(int(count.sum()), np.int64)  # task 0, the first join, where a send waits for no other
    after[np.repeat(awaited > 0, count)] = earlier + 1
    return Block(
        share=np.pad(share, 1),
        local_share=np.pad(local_share, 1),
        path=np.pad(path, 1, constant_values=NO_PATH),
        ends=np.pad(ends, ((0, 0), (1, 1)), constant_values=-1),
        waits=np.pad(waits, 1),
        after_count=np.concatenate([[0], count, [max(len(last), 1)]]),
        after=np.concatenate([after, last + 1 if len(last) else [0]]),
    )
