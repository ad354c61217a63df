"""A recorded job becomes traffic: one iteration, with measured compute times and recorded sizes.

    trace of 4 ranks, 2 per server        ranks 0 1 | 2 3      servers 0 | 1
      all_reduce of S in [0, 1, 2, 3]  ->  all_reduce of S in [0, 1], local=2
      all_reduce of S in [0, 2]        ->  all_reduce of S in [0, 1]
      all_reduce of S in [0, 1]        ->  a delay of 2 * 1/2 * S / local_bandwidth
      send 1 -> 2                      ->  transfer 0 -> 1

Which iteration: ``captured.iteration``; what waits for what: ``captured.dependencies``. Compute of the busiest rank of
a server occupies the server; the other ranks have GPUs of their own and compute at the same time. The time of a span in
which no kernel ran, since its host had launched none, is a delay before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from topoflow.capture.base import Communication, ComputeSpan
from topoflow.operations import ROOTED, bus_factor
from topoflow.strategy.as_captured import Recorded
from topoflow.traffic import base
from topoflow.traffic.captured.dependencies import Step, StepMember, replayed
from topoflow.workload.base import RecordedJob, Workload


def lower_captured(workload: Workload, strategy: Recorded) -> base.Traffic:
    """The traffic of the trace's representative iteration on ``strategy.servers`` servers.

    ValueError when the trace's ranks do not fill the servers, some were not recorded and cannot be distinguished from
    the others, or the ranks contradict each other.
    """
    if not isinstance(workload, RecordedJob):
        raise ValueError(f"workload: must be captured, got {workload.name}")
    trace = workload.trace
    per_server = strategy.ranks_per_server
    if strategy.servers * per_server != trace.world_size:
        raise ValueError(
            f"strategy.servers: the trace has {trace.world_size} ranks, {per_server} per server, "
            f"so {trace.world_size / per_server:g} servers, got {strategy.servers} (strategy=as_captured finds it)"
        )
    iteration, job = replayed(trace, workload.eager)
    lowering = _Lowering(
        per_server, _busiest_ranks(job, per_server), _ranks_by_readiness(job), workload.gpu.exchange_bandwidth
    )
    for step in job:
        lowering.add(step)
    name = f"{workload.name} {strategy.name} iteration {iteration.number}"
    if iteration.mirrored:
        name += f" ({iteration.mirrored} of {trace.world_size} ranks do the same as others)"
    bandwidth = workload.gpu.exchange_bandwidth
    return base.Traffic.from_tasks(name, strategy.servers, lowering.tasks, bandwidth, lowering.idle)


class _Lowering:
    """The tasks so far; ``_finish[s]`` are the tasks that end step s."""

    def __init__(self, per_server: int, busiest: set[int], by_readiness: set[int], local_bandwidth: float) -> None:
        self.tasks: list[base.Task] = []
        self.idle = defaultdict[int, float](float)  # by server, of its busiest rank
        self._per_server = per_server
        self._local_bandwidth = local_bandwidth
        self._busiest = busiest
        self._by_readiness = by_readiness
        self._finish: list[tuple[int, ...]] = []

    def add(self, step: Step) -> None:
        member = step.members[0]
        if isinstance(member.event, ComputeSpan):
            first = len(self.tasks)
            self._compute(member, member.event)
        else:
            after = tuple(sorted({task for member in step.members for task in self._joined(member)}))
            first = len(self.tasks)
            self._communication(step, after)
        self._finish.append(tuple(range(first, len(self.tasks))))

    def _communication(self, step: Step, after: tuple[int, ...]) -> None:
        members = {m.rank: m.event for m in step.members if isinstance(m.event, Communication)}
        rank, event = next(iter(members.items()))
        if event.op == "send":
            self._transfer(rank, event, after)
        else:
            self._collective(members, after)

    def _awaited(self, member: StepMember) -> tuple[int, ...]:
        return tuple(sorted({task for earlier in member.after for task in self._finish[earlier]}))

    def _joined(self, member: StepMember) -> tuple[int, ...]:
        """The tasks after which ``member`` takes part in a communication: a late host, or work inside, is a delay."""
        awaited = self._awaited(member)
        if member.seconds == 0:
            return awaited
        what = "inside the server of" if isinstance(member.event, Communication) and member.event.delay else "host"
        self._delay(member.seconds, awaited, f"{what} rank {member.rank}")
        return (len(self.tasks) - 1,)

    def _server(self, rank: int) -> int:
        return rank // self._per_server

    def _delay(self, seconds: float, after: tuple[int, ...], name: str) -> None:
        self.tasks.append(base.Compute(seconds, None, after, name))

    def _compute(self, member: StepMember, event: ComputeSpan) -> None:
        """Compute occupies the server; communication without a size does not, but its rank does nothing else then."""
        rank = member.rank
        server = self._server(rank) if rank in self._busiest and not event.communicates else None
        resource = rank if rank in self._by_readiness else None
        after, busy = self._awaited(member), _busy_seconds(member)
        if busy < member.seconds:
            self._delay(member.seconds - busy, after, f"host rank {rank}")
            after = (len(self.tasks) - 1,)
            if server is not None:
                self.idle[server] += member.seconds - busy
        self.tasks.append(base.Compute(busy, server, after, f"{event.name} rank {rank}", resource=resource))

    def _transfer(self, rank: int, event: Communication, after: tuple[int, ...]) -> None:
        assert event.peer is not None
        source, target = self._server(rank), self._server(event.peer)
        name = f"send {rank}->{event.peer}"
        if source == target:
            self._delay(event.bytes / self._local_bandwidth, after, name)
        else:
            self.tasks.append(base.Transfer(event.bytes, source, target, after, name))

    def _collective(self, members: dict[int, Communication], after: tuple[int, ...]) -> None:
        event = next(iter(members.values()))
        name = f"{event.op} {event.group_name}".rstrip()
        ranks = Counter(map(self._server, event.group))  # server -> ranks of the group; servers in the group's order
        uneven = event.op in ("gather", "scatter") and len(set(ranks.values())) > 1
        size = buffer_bytes(members)
        if event.op == "barrier":
            self._delay(0.0, after, name)
        elif event.op == "all_to_all" or uneven:
            self._direct(direct_bytes(members), tuple(ranks), after, name)
        elif len(ranks) == 1:
            self._delay(bus_factor(event.op, len(event.group)) * size / self._local_bandwidth, after, name)
        else:
            root = self._server(root_of(event)) if event.op in ROOTED else None
            local = max(ranks.values())
            self.tasks.append(base.Collective(event.op, size, tuple(ranks), after, name, root=root, local=local))

    def _direct(
        self, sends: Mapping[tuple[int, int], float], servers: tuple[int, ...], after: tuple[int, ...], name: str
    ) -> None:
        """Add ``sends``, bytes by source and target rank, that begin at the same time.

        Between servers they are an uneven all-to-all. At the same time, those inside a server take the bytes of its
        busiest rank, which sends and receives at once, over ``local_bandwidth``.
        """
        place = {server: place for place, server in enumerate(servers)}
        splits = [[0.0] * len(servers) for _ in servers]
        sent, received = defaultdict[int, float](float), defaultdict[int, float](float)  # by each rank in its server
        for (rank, peer), size in sends.items():
            source, target = self._server(rank), self._server(peer)
            splits[place[source]][place[target]] += size
            if source == target and rank != peer:
                sent[rank] += size
                received[peer] += size
        if len(servers) > 1:
            size = sum(map(sum, splits)) / len(servers)
            even = len(set(splits[0])) == 1 and all(row == splits[0] for row in splits)
            table = None if even else tuple(map(tuple, splits))
            self.tasks.append(base.Collective("all_to_all", size, servers, after, name, splits=table))
        inside = max((*sent.values(), *received.values()), default=0.0)
        if len(servers) == 1:
            self._delay(inside / self._local_bandwidth, after, name)
        elif inside:
            self._delay(inside / self._local_bandwidth, after, f"{name} inside servers")


def root_of(event: Communication) -> int:
    """Return the root of a rooted collective: the first rank of the group where the trace does not say.

    Kineto before 2026 does not record it; PyTorch's scripts, and DDP, mostly use the first rank.
    """
    return event.group[0] if event.root is None else event.root


def direct_bytes(members: Mapping[int, Communication]) -> dict[tuple[int, int], float]:
    """Return the bytes that each member of an all-to-all, a gather or a scatter hands to each: (source, target)."""
    event = next(iter(members.values()))
    if event.op == "all_to_all":
        return {
            (rank, peer): size
            for rank, communication in members.items()
            for peer, size in zip(communication.group, sent_bytes(communication), strict=True)
        }
    root, share = root_of(event), buffer_bytes(members) / len(event.group)
    return {(rank, root) if event.op == "gather" else (root, rank): share for rank in event.group}


def buffer_bytes(members: Mapping[int, Communication]) -> float:
    """Bytes of a collective as Traffic counts them (``base.Collective``), from what its members recorded."""
    event = next(iter(members.values()))
    if event.op == "gather":  # the root's buffer: one tensor from each
        return len(event.group) * max(event.bytes_in for event in members.values())
    if event.op == "scatter":
        return len(event.group) * max(event.bytes_out for event in members.values())
    return max(event.bytes for event in members.values())


def sent_bytes(event: Communication) -> list[float]:
    """Bytes that one member of an all-to-all sends to each member, in group order."""
    shares = event.splits_in or (1,) * len(event.group)
    return [event.bytes_in * share / max(sum(shares), 1) for share in shares]


def _busy_seconds(member: StepMember) -> float:
    """Return the time of a compute span in which kernels ran."""
    assert isinstance(member.event, ComputeSpan)
    return min(member.event.seconds, member.seconds)


def _ranks_by_readiness(job: Sequence[Step]) -> set[int]:
    """Return the ranks whose record says what a compute followed: what is ready first runs first there.

    The computes of other ranks follow each other.
    """
    members = (step.members[0] for step in job)
    return {m.rank for m in members if isinstance(m.event, ComputeSpan) and m.event.after is not None}


def _busiest_ranks(job: Sequence[Step], per_server: int) -> set[int]:
    """Return the rank of each server that computes longest (the first among equals)."""
    seconds: dict[int, float] = defaultdict(float)
    for member in (step.members[0] for step in job):
        if isinstance(member.event, ComputeSpan):
            seconds[member.rank] += _busy_seconds(member)
    ranks: dict[int, list[int]] = defaultdict(list)
    for rank in sorted(seconds):
        ranks[rank // per_server].append(rank)
    return {max(members, key=seconds.__getitem__) for members in ranks.values()}
