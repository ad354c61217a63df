"""The tasks of one iteration of a placement strategy as arrays: those of ``traffic.lower``, in its order.

Rows and parcels are those of ``parcels.py``: a parcel is sent forth as activations and back as gradients, unless both
ends are one server. Tasks are numbered

    forward    layer by layer: the parcels that are sent, then the rows
    backward   the last layer first: its rows, the parcels that are sent back, the bucket that it completes, if it does
    optimizer  server by server

Shapes: as there, and K tasks, D dependencies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.engine.base import Floats, Offsets
from topoflow.engine.lowering.messages import Parcels, Rows, Spread, distinct, edges_of, parcels_of, spread
from topoflow.strategy.base import Strategy
from topoflow.traffic.buckets import Bucket, gradient_buckets
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import Layer, Workload

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Iteration:
    """Transfers and buckets have bytes, the others have seconds."""

    seconds: Floats  # [K]
    bytes: Floats  # [K]
    after_offsets: Offsets  # [K+1]
    after: Offsets  # [D] tasks
    transfers: Offsets  # [2X] tasks
    source: Offsets  # [2X] servers
    target: Offsets  # [2X]
    buckets: dict[int, Bucket]  # task -> what it all-reduces

    def demand(self, servers: int) -> Demand:
        """What the network is asked for, as ``Traffic.demand`` says it."""
        groups: dict[tuple[int, ...], float] = {}
        for _, bucket in sorted(self.buckets.items()):
            if len(bucket.group) > 1:
                groups[bucket.group] = groups.get(bucket.group, 0.0) + bucket.bytes
        return Demand.from_pairs(servers, self.source, self.target, self.bytes[self.transfers], groups)


class StrategyTasks:
    """Makes the iterations of one workload on at most so many servers. Raises ``ValueError`` for a captured one."""

    def __init__(self, workload: Workload, servers: int) -> None:
        if workload.trace is not None:
            raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which was captured")
        self.workload = workload
        self.number = {layer.name: index for index, layer in enumerate(workload.layers)}
        self.edges = edges_of(workload, self.number)
        self.times = _Times(workload, servers)
        self.spreads: dict[tuple[int, tuple[int, ...]], Spread] = {}  # of the servers and holders there were

    def of(self, strategy: Strategy) -> Iteration:
        """Raises ``ValueError`` for a strategy with a grid, and for one that does not place a layer."""
        rows = self._rows(strategy)
        parcels = parcels_of(rows, self.edges)
        buckets = {self.number[each.layers[-1]]: each for each in gradient_buckets(self.workload, strategy)}
        numbers = _numbers(rows, parcels, list(buckets))
        reduced = {int(numbers.bucket[layer]): bucket for layer, bucket in buckets.items()}
        offsets, after = _after(rows, parcels, numbers, buckets)
        sent = parcels.sent
        bytes = np.zeros(numbers.tasks)
        bytes[numbers.forth[sent]] = bytes[numbers.back[sent]] = parcels.bytes[sent]
        bytes[list(reduced)] = [bucket.bytes for bucket in reduced.values()]
        return Iteration(
            seconds=self._seconds(rows, numbers),
            bytes=bytes,
            after_offsets=offsets,
            after=after,
            transfers=np.concatenate([numbers.forth[sent], numbers.back[sent]]),
            source=np.concatenate([parcels.source[sent], parcels.target[sent]]),
            target=np.concatenate([parcels.target[sent], parcels.source[sent]]),
            buckets=reduced,
        )

    def _rows(self, strategy: Strategy) -> Rows:
        if not strategy.only_places:
            field = "shards" if strategy.grid is None else "grid"
            raise ValueError(f"{strategy.name}.{field}: must be none for a placement of layers, got one")
        for name in self.number:
            if name not in strategy.placement:
                raise ValueError(f"strategy.placement: must place every layer of {self.workload.name}, got no {name!r}")
        spreads = [self._spread_of(strategy.servers, strategy.placement[name]) for name in self.number]
        count = np.array([len(spread.holder) for spread in spreads])
        first = np.concatenate([[0], np.cumsum(count)])
        return Rows(
            servers=strategy.servers,
            first=first,
            layer=np.repeat(np.arange(len(spreads)), count),
            server=np.concatenate([spread.holder for spread in spreads]),
            samples=np.concatenate([spread.samples for spread in spreads]),
            of=np.array([spread.place for spread in spreads]) + first[:-1, None],
        )

    def _spread_of(self, servers: int, holders: tuple[int, ...]) -> Spread:
        key = servers, holders
        if key not in self.spreads:
            self.spreads[key] = spread(servers, holders)
        return self.spreads[key]

    def _seconds(self, rows: Rows, numbers: _Numbers) -> Floats:
        replicated = np.diff(rows.first)[rows.layer] > 1
        times = self.times.of(rows.layer, rows.samples, replicated)
        seconds = np.zeros(numbers.tasks)
        seconds[numbers.forward], seconds[numbers.backward] = times[:, 0], times[:, 1]
        seconds[numbers.update] = np.bincount(rows.server, weights=times[:, 2])[numbers.servers]
        return seconds


class _Times:
    """Compute times, of layers that take the same time at once; each is worked out when it is first asked for."""

    def __init__(self, workload: Workload, servers: int) -> None:
        alike = [replace(layer, name="", after=(), sharding=None) for layer in workload.layers]
        self.workload = workload
        self.kinds: list[Layer] = list(dict.fromkeys(alike))
        self.kind = np.array([self.kinds.index(layer) for layer in alike])  # [Y]
        self.most = servers + 1
        self.seconds = np.full((len(self.kinds) * self.most * 2, 3), np.nan)  # by kind, samples, replicated

    def of(self, layer: Offsets, samples: Offsets, replicated: Mask) -> Floats:
        """[R, 3] s of the forward pass, the backward pass and the update; ``samples`` [R] in those of one server."""
        case = (self.kind[layer] * self.most + samples) * 2 + replicated
        for new in np.unique(case[np.isnan(self.seconds[case, 0])]).tolist():
            kind, servers = divmod(new // 2, self.most)
            self.seconds[new] = self._times(self.kinds[kind], servers, new % 2 == 1)
        found: Floats = self.seconds[case]
        return found

    def _times(self, layer: Layer, servers: int, replicated: bool) -> tuple[float, float, float]:
        samples = servers * self.workload.batch_per_server
        return (
            forward_seconds(self.workload, layer, samples),
            backward_seconds(self.workload, layer, samples),
            update_seconds(self.workload, layer, samples, replicated=replicated),
        )


class _Numbers(NamedTuple):
    """Tasks."""

    forth: Offsets  # [M] of a parcel that is sent; -1: none
    back: Offsets  # [M]
    forward: Offsets  # [R]
    backward: Offsets  # [R]
    bucket: Offsets  # [Y] the one that the layer completes, if it does
    servers: Offsets  # [U] that have an update
    update: Offsets  # [U]
    tasks: int  # K


def _numbers(rows: Rows, parcels: Parcels, completing: list[int]) -> _Numbers:
    """``completing`` are the layers that complete a bucket, one each."""
    computed = np.diff(rows.first)  # [Y]
    sent = parcels.sent_for(len(computed))
    completes = np.bincount(np.array(completing, np.int64), minlength=len(computed))
    forward = np.cumsum(sent + computed) - (sent + computed)  # [Y] where layers begin
    own = computed + sent + completes
    backward = (sent + computed).sum() + np.cumsum(own[::-1])[::-1] - own
    in_layer = np.arange(len(rows.layer)) - rows.first[rows.layer]
    rank = np.arange(len(parcels.sent)) - (np.cumsum(sent) - sent)[parcels.layer[parcels.sent]]
    forth, back = np.full(len(parcels.layer), -1), np.full(len(parcels.layer), -1)
    forth[parcels.sent] = forward[parcels.layer[parcels.sent]] + rank
    back[parcels.sent] = (backward + computed)[parcels.layer[parcels.sent]] + rank
    servers = np.unique(rows.server)
    before = int((sent + computed).sum() + own.sum())
    return _Numbers(
        forth=forth,
        back=back,
        forward=(forward + sent)[rows.layer] + in_layer,
        backward=backward[rows.layer] + in_layer,
        bucket=backward + computed + sent,
        servers=servers,
        update=before + np.arange(len(servers)),
        tasks=before + len(servers),
    )


def _after(rows: Rows, parcels: Parcels, numbers: _Numbers, buckets: dict[int, Bucket]) -> tuple[Offsets, Offsets]:
    """Offsets [K+1] and tasks [D]: what each waits for, ascending, and at last the compute before it on its server.

    The key of ``buckets`` is the layer that completes one.
    """
    tasks = numbers.tasks
    pairs = [*_passes(parcels, numbers), *_reductions(rows, numbers, buckets)]
    key = distinct(np.concatenate([task * tasks + earlier for task, earlier in pairs]))
    task, earlier = np.divmod(key, tasks)
    late, before = _in_order(rows, numbers)
    at = np.searchsorted(key, late * tasks + before)
    new = key[np.minimum(at, len(key) - 1)] != late * tasks + before
    late, before = late[new], before[new]
    own, more = np.bincount(task, minlength=tasks), np.bincount(late, minlength=tasks)
    offsets = np.concatenate([[0], np.cumsum(own + more)])
    after = np.zeros(offsets[-1], np.int64)
    after[np.arange(len(task)) + (np.cumsum(more) - more)[task]] = earlier
    after[offsets[late + 1] - 1] = before
    return offsets, after


def _passes(parcels: Parcels, numbers: _Numbers) -> list[tuple[Offsets, Offsets]]:
    """Tasks of the forward and the backward pass, and for each one that it waits for."""
    sent, (parcel, made) = parcels.sent, parcels.holds
    stays = numbers.forth[parcel] < 0  # [I]
    reads = parcels.row[parcel]  # [I]
    return [
        (numbers.forth[parcel[~stays]], numbers.forward[made[~stays]]),
        (numbers.forward[parcels.row[sent]], numbers.forth[sent]),
        (numbers.forward[reads[stays]], numbers.forward[made[stays]]),
        (numbers.backward, numbers.forward),
        (numbers.back[sent], numbers.backward[parcels.row[sent]]),
        (numbers.backward[made], np.where(stays, numbers.backward[reads], numbers.back[parcel])),
    ]


def _reductions(rows: Rows, numbers: _Numbers, buckets: dict[int, Bucket]) -> list[tuple[Offsets, Offsets]]:
    """Buckets and updates, and for each one task that it waits for."""
    _, first = np.unique(rows.server, return_index=True)
    update = np.full(rows.servers, -1)
    update[numbers.servers] = numbers.update
    pairs = [(numbers.update, numbers.backward[first])]  # layers go backward: the first row of a server is its last
    latest: dict[tuple[int, ...], int] = {}
    for layer, bucket in sorted(buckets.items(), reverse=True):
        task = int(numbers.bucket[layer])
        awaited = numbers.backward[rows.first[layer] : rows.first[layer + 1]]
        if bucket.group in latest:
            awaited = np.append(awaited, latest[bucket.group])
        latest[bucket.group] = task
        pairs.append((np.full(len(awaited), task), awaited))
    pairs += [(update[list(group)], np.full(len(group), task)) for group, task in latest.items()]
    return pairs


def _in_order(rows: Rows, numbers: _Numbers) -> tuple[Offsets, Offsets]:
    """Computes, and the one before each on its server."""
    task = np.concatenate([numbers.forward, numbers.backward, numbers.update])
    server = np.concatenate([rows.server, rows.server, numbers.servers])
    order = np.argsort(server * numbers.tasks + task)
    same = np.flatnonzero(np.diff(server[order]) == 0)
    return task[order[same + 1]], task[order[same]]
