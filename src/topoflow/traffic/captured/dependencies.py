"""Dependencies of a recorded iteration: its events become steps of the whole job, in an order that can be run.

Where the record says what an event followed (``after``: recorder, task graphs), that holds. Of a rank's computes, the
one that is ready first runs first then, as on a GPU's stream and as on a device of TopoOpt's packet simulator
(FFTask::execute_compute). Elsewhere what an event followed is inferred from one rank's times, as a GPU runs one compute
stream in parallel to its communicators:

    compute        |== c0 ==|== c1 ==|           |== c2 ==|
    communicator         |---- A ----|--- B -----|
                         ^                       ^
      A waits for c0, the last compute done when it started; B for c1, and for A: a communicator works in order
      c1 waits for c0 only: A was still under way; c2 waits for c1 and for B, which ended in the gap before it

- a communication follows the last compute before it (that had ended, where times are known) and the previous
  communication of its communicator (send and recv: of the same pair);
- an event follows the communications that the record says it ``waits`` for;
- compute follows the compute before it and what ended in the gap between the two, unless the record says what waits for
  that. A collective's own duration contains waiting for the others, so it is never taken for compute;
- without times, compute follows all that was issued before it, a communication the last compute.

How long each takes after that: ``captured.time``.

Across ranks, the k-th operation on a communicator is the same one for all its members, and the k-th send from i to j is
the k-th receive of j from i with that tag. A transfer waits for its sender, and for its receiver where the record shows
that it did not end before the receive began (rendezvous, as NCCL's kernels do; an eager send may). Where the record has
no times, or says what an event followed, and where the clocks of ranks contradict each other, sends are taken as eager,
or of a limit (``workload.eager``) only those of up to as many bytes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import inf

from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.matching import channel, members_of
from topoflow.traffic.captured.iteration import Iteration, recorded_iteration
from topoflow.traffic.captured.time import Part, PartTimes
from topoflow.traffic.captured.united import Piece, stream

ROUNDING = 1e-6  # s: times of one rank come in whole microseconds in some formats


@dataclass(frozen=True)
class StepMember:
    """A rank's part in a step: ``seconds`` after the steps ``after``, its compute ends or it joins the others."""

    rank: int
    event: Event
    seconds: float
    after: tuple[int, ...]  # earlier steps


@dataclass(frozen=True)
class Step:
    """One compute span, one collective of all its members, or one transfer (its sender first)."""

    members: tuple[StepMember, ...]

    @property
    def after(self) -> tuple[int, ...]:
        """The steps that any member waits for."""
        return tuple(sorted({earlier for member in self.members for earlier in member.after}))


def replayed(trace: Trace, eager: float | None = None) -> tuple[Iteration, list[Step]]:
    """Return the iteration that stands for a recorded job, and its steps: what every use of a trace needs of it.

    Messages longer than ``eager``, B, wait for their receives where nothing else is known. Raises ``ValueError`` where
    an iteration is empty, or ranks contradict each other.
    """
    iteration = recorded_iteration(trace)
    return iteration, steps(iteration, eager)


def steps(iteration: Iteration, limit: float | None = None) -> list[Step]:
    """Return the steps of the whole job, each after those that it follows, the first in the record first.

    Longer messages than ``limit`` wait for their receives where nothing else is known. Raises ``ValueError`` where they
    then wait for each other in a circle.
    """
    groups = list(_together(iteration))
    owner = {member: number for number, members in enumerate(groups) for member in members}
    follows = {rank: _follows(events) for rank, events in iteration.ranks.items()}
    followed = {
        part: {owner[part[0], earlier] for earlier in follows[part[0]][part[1]]} - {number}
        for part, number in owner.items()
    }
    eager = _eager(iteration, groups, followed, inf if limit is None else limit)
    before = {part: earlier for part, earlier in followed.items() if part not in eager}
    times = PartTimes(iteration.ranks, follows, iteration.began)
    order = _order(iteration.number, groups, before)
    place = {number: place for place, number in enumerate(order)}
    seconds: dict[Part, float] = {}
    for number in order:
        holding = [part for part in groups[number] if part in before]
        seconds.update({part: times.seconds(part) for part in holding})
        times.conclude(groups[number], holding)

    def member(part: Part) -> StepMember:
        after = tuple(sorted(place[earlier] for earlier in before.get(part, ())))
        return StepMember(part[0], iteration.ranks[part[0]][part[1]], seconds.get(part, 0.0), after)

    return [Step(tuple(member(part) for part in groups[number])) for number in order]


def _eager(
    iteration: Iteration, groups: Sequence[tuple[Part, ...]], before: Mapping[Part, set[int]], limit: float
) -> set[Part]:
    """Return the receiving ends that do not hold up their transfer."""
    transfers = [members for members in groups if _event(iteration, members[-1], "recv") is not None]
    eager = {members[1] for members in transfers if not _met(iteration, members[0], members[1], limit)}
    if len(eager) < len(transfers):
        steps = {
            number: set().union(*(before[part] for part in members if part not in eager))
            for number, members in enumerate(groups)
        }
        try:
            TopologicalSorter(steps).prepare()
        except CycleError:
            if limit < inf:
                requirement = "longer messages must not wait for their receives in a circle"
                raise ValueError(f"workload.eager: {requirement}, got one with {limit:g}") from None
            return {members[1] for members in transfers}
    return eager


def _event(iteration: Iteration, part: Part, op: str) -> Communication | None:
    """The event of ``part`` if it is an ``op``."""
    event = iteration.ranks[part[0]][part[1]]
    return None if isinstance(event, ComputeSpan) or event.op != op else event


def _met(iteration: Iteration, sender: Part, receiver: Part, limit: float) -> bool:
    """Return whether a transfer was still under way when its receive began, by more than times are rounded.

    If the record does not say so, return whether it has more bytes than the ``limit`` of eager ones.
    """
    send, receive = _event(iteration, sender, "send"), _event(iteration, receiver, "recv")
    if send is None or receive is None:
        return False
    if send.after is not None or receive.after is not None:
        return send.bytes > limit
    return send.end is not None and receive.start is not None and send.end > receive.start + 2 * ROUNDING


def _together(iteration: Iteration) -> Iterator[tuple[tuple[int, int], ...]]:
    """The (rank, position) of the events that are one step, sender first."""
    queues: dict[Hashable, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, events in iteration.ranks.items():
        for position, event in events.items():
            if isinstance(event, ComputeSpan):
                yield ((rank, position),)
            else:
                queues[channel(rank, event)][rank].append(position)
    for matched_by, by_rank in queues.items():
        yield from _matched(iteration, matched_by, by_rank)


def _matched(
    iteration: Iteration, key: Hashable, by_rank: Mapping[int, list[int]]
) -> Iterator[tuple[tuple[int, int], ...]]:
    assert isinstance(key, tuple)
    members = members_of(key)  # of a transfer: sender, receiver
    counts = [len(by_rank.get(member, ())) for member in members]
    for member, count in zip(members, counts, strict=True):
        if count != counts[0]:
            what = f"group {key[0]!r} {list(key[1])}" + (f" from {members[0]} to {members[1]}" * (len(key) > 2))
            raise ValueError(
                f"iteration {iteration.number}, {what}: ranks must take part equally often, "
                f"got rank {members[0]} {counts[0]} times and rank {member} {count} times"
            )
    for turn in range(counts[0]):
        yield tuple((member, by_rank[member][turn]) for member in members)


def _follows(events: Mapping[int, Event]) -> dict[int, set[int]]:
    """The positions that each event of one rank follows."""
    follows: dict[int, set[int]] = {}
    seen = _Seen({earlier for event in events.values() for earlier in event.waits})
    for position, event in events.items():
        if event.after is not None:
            follows[position] = {earlier for earlier in event.after if earlier in events}
        elif isinstance(event, ComputeSpan):
            follows[position] = seen.before_compute(event)
        else:
            follows[position] = seen.before_communication(event)
        follows[position] |= {earlier for earlier in event.waits if earlier in events}
        seen.add(position, event)
    return follows


class _Seen:
    """The earlier events of one rank, as far as later ones may have waited for them.

    For the communications ``awaited`` the record says what waits, so that nothing is inferred from times.
    """

    def __init__(self, awaited: set[int]) -> None:
        self._awaited = awaited
        self._computes: list[tuple[int, ComputeSpan]] = []
        self._open: list[tuple[int, Communication]] = []  # communications that no compute has waited for yet
        self._newest: dict[Hashable, int] = {}  # per communicator

    def add(self, position: int, event: Event) -> None:
        if isinstance(event, ComputeSpan):
            self._computes.append((position, event))
        else:
            if position not in self._awaited:
                self._open.append((position, event))
            self._newest[stream(event)] = position

    def before_compute(self, event: ComputeSpan) -> set[int]:
        last = self._computes[-1:]
        if isinstance(event, Piece) and event.continues:
            return {position for position, _ in last}
        waited = [(position, other) for position, other in self._open if _ended(other, event.start)]
        busy_until = last[0][1].end if last else None
        in_gap = {
            position
            for position, other in waited
            if busy_until is None or other.end is None or other.end >= busy_until - ROUNDING
        }
        self._open = [(position, other) for position, other in self._open if not _ended(other, event.start)]
        return in_gap | {position for position, _ in last}

    def before_communication(self, event: Communication) -> set[int]:
        began = event.start if event.start is not None else event.issue
        before = {self._newest[stream(event)]} if stream(event) in self._newest else set()
        for position, compute in reversed(self._computes):
            if _ended(compute, began):
                return before | {position}
        return before | ({position for position, _ in self._open} if began is None else set())


def _ended(event: Event, moment: float | None) -> bool:
    """Return whether ``event`` was over at ``moment``; True if a time is unknown, since only order is known then."""
    return event.end is None or moment is None or event.end <= moment + ROUNDING


def _order(iteration: int, groups: Sequence[tuple[Part, ...]], before: Mapping[Part, set[int]]) -> list[int]:
    """Return the steps, each after those that it follows; of several, the one whose first part is recorded first."""
    awaited = [set[int]().union(*(before.get(part, ()) for part in members)) for members in groups]
    waiting = [len(earlier) for earlier in awaited]
    later: dict[int, list[int]] = defaultdict(list)
    for number, earlier in enumerate(awaited):
        for other in earlier:
            later[other].append(number)
    heap = [(members[0][::-1], number) for number, members in enumerate(groups) if waiting[number] == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        _, number = heapq.heappop(heap)
        order.append(number)
        for other in later[number]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(heap, (groups[other][0][::-1], other))
    if len(order) < len(groups):
        rank, position = groups[next(number for number in range(len(groups)) if waiting[number] > 0)][0]
        raise ValueError(
            f"iteration {iteration}: ranks must agree on an order, got a circle of waiting through rank {rank} "
            f"event {position}"
        )
    return order
