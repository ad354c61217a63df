"""World: one traffic on one fabric. Fidelity: what simulates worlds. Timeline: when every task ran.

Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links, K traffic tasks. Seconds, bytes,
bytes per second. The first five arrays say everything about a task: it becomes *ready* when all tasks in
``after`` have finished and ``release`` has passed; then it waits ``delay`` plus the latency of its path; then its
``bytes`` share the links of the path until they are gone. A compute task is a delay without bytes, a join is
neither.

A task may occupy a resource, such as the stream of a GPU, for its ``delay``. Tasks of a resource run one at a time. The
task that was ready first runs first; of tasks that were ready at one time, that with the lowest number.

A flow over several paths is one flow on the union of their links. Hop h carries the share ``path_weight[h]`` of its
bytes: for k equal paths, as packet spraying takes them, the part of the k that cross the link. It has one rate r,
puts weight * r on each link, and waits the latency of its average byte, the sum of weight * latency. ``path_limit`` is
the most that one flow of a path gets. Rates r are max-min fair:

    on every link      sum of weight * r <= capacity
    of every flow      r <= limit
    and none can get more without another, which has no more than it, getting less

which holds if and only if every flow is at its limit, or crosses a full link on which no r is greater than its own.

Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2, where every weight is 1; the same proof holds for others,
and a limit is a link of the flow's own. With weights: Radunovic and Le Boudec, "A unified framework for max-min and
min-max fairness with applications", IEEE/ACM Transactions on Networking 15(5), 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.alternatives import Alternatives
from topoflow.engine.checks import check_graph, check_world
from topoflow.engine.device import DeviceCache, DeviceMemory
from topoflow.engine.launch import count_threads
from topoflow.engine.observer import Observer, Silent
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.next_hops import NextHops
from topoflow.fields import with_fields
from topoflow.printable import html_table
from topoflow.units import human

if TYPE_CHECKING:
    from topoflow.engine.executor.base import Workers

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]

SAME = 1e-12  # two instants, or two rates, whose relative difference is at most this are equal up to rounding
AUTO = "auto"  # a setting that the size of the job decides


@dataclass(frozen=True)
class LoweredGraph:
    """Tasks, dependencies and paths: what worlds that differ only in their links' numbers share.

    Laws: ``after`` names other tasks, ``path`` is -1 (no network) or a path, a task with bytes has a path, hops are
    links, each at most once on a path, weights are positive and at most 1, limits are positive and at most 1e18 B/s, or
    inf, as they are for a path without links. A resource has a number below that of tasks; a task that occupies one has
    a delay but no path, and runs in one round. ``carried`` are tasks, and there are none where there is one round. The
    laws are checked once, when a graph is built (``topoflow.engine.checks``): do not write to its arrays afterwards.

    A task of a round also waits for itself in the round before. A timeline has the start of each task in the first
    round, and when it has finished in the last.
    """

    delay: Floats  # [T] s, fixed
    bytes: Floats  # [T] B
    release: Floats  # [T] s, not before
    path: Ints  # [T] path, -1: none
    after_offsets: Offsets  # [T+1]
    after: Ints  # [D] tasks
    path_offsets: Offsets  # [P+1]
    path_links: Ints  # [H] links
    owner: Ints  # [T] the traffic task that this task is part of
    owners: int  # K
    links: int  # L
    path_weight: Floats | None = None  # [H] share of the flow's bytes that crosses the hop; None: all of them
    path_limit: Floats | None = None  # [P] B/s, the most that one flow on the path gets, inf: any; None: inf
    resource: Ints | None = None  # [T] what the task occupies, -1: nothing; None: none occupies anything
    alternatives: Alternatives | None = None  # the single paths of each path; None: it is one, or they are not known
    next_hops: NextHops | None = None  # routers forward by address: a path is its first and its last link only
    rounds: int = 1  # times that every task runs, one after the other; in ``carried``, what waits for the round before
    carried: Ints | None = None  # [2, C] tasks, and those that they wait for, but in the first round; None: none does
    ends: Ints | None = None  # [3, T] source, target and channel; None: the graph was not placed on a fabric
    named: Callable[[int], str] | None = None  # an owner in an error message; None: they have numbers only

    def __post_init__(self) -> None:
        check_graph(self)

    @property
    def tasks(self) -> int:
        return len(self.delay)

    @property
    def source(self) -> Ints:
        """[T] the server that sends; -1 where nothing is sent."""
        return self._end(0)

    @property
    def target(self) -> Ints:
        """[T] the server that receives; -1 where nothing is sent."""
        return self._end(1)

    @property
    def channel(self) -> Ints:
        """[T] which of the connections between them is used; -1 where nothing is sent."""
        return self._end(2)

    @cached_property
    def path_bytes(self) -> Floats:
        """[P] B that all tasks send over each path."""
        return self.sent_on_paths(self.bytes)

    def sent_on_paths(self, sent: Floats) -> Floats:
        """Return the bytes on each path [P] where each task has sent ``sent`` [T] B of its bytes."""
        on_path = np.bincount(self.path + 1, sent, len(self.path_offsets)).astype(np.float64)
        return on_path[1:]  # the first entry is of tasks without a path

    @cached_property
    def taxes(self) -> dict[str, float]:
        """The bandwidth taxes that were computed, by the wiring of the network (``case.rows.bandwidth_tax``)."""
        return {}

    @cached_property
    def last_server(self) -> int:
        """The largest number of a server that sends or receives; -1 if none does, or the graph was not placed."""
        return -1 if self.ends is None else int(self.ends[:2].max(initial=-1))

    def where(self, task: int) -> str:
        """A task in an error message: the traffic's task that it is part of, by its name if it has one."""
        return self.where_owner(int(self.owner[task]))

    def where_owner(self, owner: int) -> str:
        """A task of the traffic in an error message."""
        return f"task {owner}" if self.named is None else self.named(owner)

    def _end(self, row: int) -> Ints:
        assert self.ends is not None, "only a graph that was placed knows who sends"
        end: Ints = self.ends[row]
        return end


class Unfinished(ValueError):
    """A world that breaks no law has no end: what its message says is known only once it has run."""


@dataclass(frozen=True)
class World:
    """A graph on links with these capacities and latencies.

    ``fabric`` says what the links are: their ends, the nodes, how circuits change. Worlds share it by reference. A
    world that knows links only, as tests and sweeps make them, has none. Where circuits change, connections choose
    among the paths over the new circuits by ``routing`` and ``seed``, as they did when the world was placed.

    Laws: capacities are at most 1e18 B/s, 0 for a link that carries nothing; latencies are finite and not negative.
    They are checked once, when a world is built.
    """

    name: str
    graph: LoweredGraph
    capacity: Floats  # [L] B/s
    latency: Floats  # [L] s
    fabric: Fabric | None = None
    routing: str = "ecmp"  # of several equal paths one, by a hash keyed with the seed; "spray": all
    seed: int = 0
    until: float = np.inf  # s; what would finish later need not be simulated, and then finishes at inf

    def __post_init__(self) -> None:
        check_world(self)

    def __repr__(self) -> str:
        return f"<world {self.name}: {len(self.graph.delay):,} tasks on {len(self.capacity):,} links>"

    def on(self, fabric: Fabric, name: str) -> World:
        """Return the world of that ``name`` on a network of the same wiring, which has checked its speeds."""
        return with_fields(self, name=name, capacity=fabric.bandwidth, latency=fabric.latency, fabric=fabric)

    @property
    def changes_circuits(self) -> bool:
        """Return whether circuits follow the demand while the job runs."""
        return self.fabric is not None and not self.fabric.is_static

    def where_link(self, link: int) -> str:
        """A link in an error message: by its ends, where they are known."""
        return f"link {link}" if self.fabric is None else self.fabric.link_name(link)


@dataclass(frozen=True)
class Histogram:
    """The number of values in each of B ranges that do not overlap, ascending; empty ranges are left out."""

    low: Floats  # [B]
    high: Floats  # [B]
    count: Offsets  # [B]
    total: float  # the sum of all values
    largest: float  # 0 if there are none

    @property
    def mean(self) -> float:
        """Return the mean of all values; 0 if there are none."""
        return self.total / max(int(self.count.sum()), 1)

    def quantile(self, share: float) -> float:
        """The least value that this ``share`` of all do not exceed; 0 if there are none.

        It is the end of its range, or the largest value where that is less: never below the exact one, and at most the
        width of the range above.
        """
        if not len(self.count):
            return 0.0
        rank = np.cumsum(self.count)
        index = min(int(np.searchsorted(rank, share * rank[-1])), len(rank) - 1)
        return min(float(self.high[index]), self.largest)


@dataclass(frozen=True)
class Queues:
    """The largest depth of queues in each interval of time, counted as ``Ports.fullest`` counts it.

    K ports, the fullest first, and I intervals of one length, from 0 on; the world ends in the last.
    """

    link: Ints  # [K] whose port it is
    interval: float  # s, how long each is
    depth: Floats  # [K, I] B


@dataclass(frozen=True)
class PacketCounts:
    """The packets of messages where some may be lost: sent = delivered + lost once a message has ended.

    A packet that was lost is sent again, and counts again. Packets, and the bytes of messages in them.
    """

    sent: Offsets  # [T] that left their NIC
    sent_bytes: Offsets  # [T] B
    delivered: Offsets  # [T]
    delivered_bytes: Offsets  # [T] B
    lost: Offsets  # [T] that ports dropped or trimmed
    lost_bytes: Offsets  # [T] B


@dataclass(frozen=True)
class Ports:
    """Counters of the ports of a world that was simulated packet by packet; the port of a link sends on it.

    A port is idle while it is neither active nor stalled.
    """

    active: Floats  # [L] s that it sent
    stalled: Floats  # [L] s that packets waited, and all of them for room in the next buffer
    packets: Offsets  # [L] sent
    idle_intervals: Offsets  # [L] how often it was idle
    idle_1us: Offsets  # [L] and for more than 1 us at a time
    idle_1ms: Offsets  # [L] and for more than 1 ms
    fullest: Floats  # [L] B, the most ever taken of the buffer at the end of the link; of the port's own if it may lose
    lost: Offsets  # [L] packets that the port dropped or trimmed
    marked: Offsets  # [L] packets that it marked (ECN)
    latency: Histogram  # s, of packets from when they begin to leave a NIC until they have arrived
    message_latency: Histogram  # s, of messages from when they are ready to be sent until they have arrived
    queues: Queues | None = None  # None: not written down
    flows: PacketCounts | None = None  # None: nothing can be lost, and nothing is controlled

    def latencies(self) -> tuple[tuple[str, Histogram], tuple[str, Histogram]]:
        """Return (name, histogram) for packets and for messages."""
        return ("packet", self.latency), ("message", self.message_latency)


@dataclass(frozen=True)
class Slots:
    """Counters of a world that was simulated slot by slot, in whole cells.

    Shapes: T tasks, N nodes of the schedule, K samples.
    """

    received: float  # B that servers got until the end, or the world's ``until``; what only fills cells is not counted
    fullest: Floats  # [N] B, the most that waited for slots at a node
    reorder: Floats  # [T] B, the most that waited at the target for what was sent earlier
    dropped: Floats  # [T] B, lost as buffers were full; a task that lost some never finishes
    hops: int  # cells that were sent, once for each hop
    refused: Ints  # [N, 2] packets that switches refused (NACK) on the way to each node: in its rack, and between racks
    epochs: int
    sampled: Floats  # [K] s, after some epochs, evenly spread
    waiting: Floats  # [K, 2] B that waited for slots then: at all nodes, and the most at one


@dataclass(frozen=True)
class TaskTimes:
    """The times of every task of a world."""

    start: Floats  # [T] s, when the task was ready
    finish: Floats  # [T] s


@dataclass(frozen=True)
class Timeline:
    """The start and the end of every task of one world, and the bytes that every link carried.

    ``world`` is the world that was simulated. Where circuits change while it runs, it is the same tasks on all links
    that ever existed (``topoflow.engine.dynamic.reconfigure``).
    """

    world: World
    times: TaskTimes | Callable[[World], TaskTimes]  # a function computes them of ``world`` when they are first read
    makespan: float  # s, until the last task has finished: the iteration time
    link_bytes: Floats  # [L] B
    ports: Ports | None = None  # None: the fidelity has no packets
    slots: Slots | None = None  # None: the fidelity has no slots

    def __repr__(self) -> str:
        return f"<timeline of {self.name}: {len(self.task_start):,} tasks in {human(self.makespan, 's')}>"

    def _repr_html_(self) -> str:
        rows = [("makespan", human(self.makespan, "s")), ("tasks", f"{len(self.task_start):,}")]
        if len(self.link_bytes) and self.makespan > 0:
            load = self.link_bytes / np.maximum(self.world.capacity * self.makespan, np.finfo(float).tiny)
            busiest = int(load.argmax())
            carried = f"{human(float(self.link_bytes[busiest]), 'B')}, {load[busiest]:.1%} of what it could"
            rows += [("busiest link", self.world.where_link(busiest)), ("it carried", carried)]
        return html_table(f"timeline of {self.name}", rows)

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def start(self) -> Floats:
        """[T] s, when each task was ready."""
        return self._times.start

    @property
    def finish(self) -> Floats:
        """[T] s, when each task finished."""
        return self._times.finish

    @cached_property
    def task_start(self) -> Floats:
        """[K] s, the first start of the parts of each task of the traffic; 0 for one without parts."""
        first = np.full(self.world.graph.owners, np.inf)
        np.minimum.at(first, *self._of_owners(np.minimum, self.start))
        return np.where(np.isinf(first), 0.0, first)

    @cached_property
    def task_finish(self) -> Floats:
        """[K] s, the last end of the parts of each task of the traffic; 0 for one without parts."""
        last = np.zeros(self.world.graph.owners)
        np.maximum.at(last, *self._of_owners(np.maximum, self.finish))
        return last

    @cached_property
    def _times(self) -> TaskTimes:
        return self.times(self.world) if callable(self.times) else self.times

    def _of_owners(self, smallest_or_largest: np.ufunc, values: Floats) -> tuple[Ints, Floats]:
        """Return the owner of each run of parts that follow each other, and the extreme of the ``values`` [T] of it."""
        owner = self.world.graph.owner
        runs = np.flatnonzero(np.diff(owner, prepend=-1))
        return owner[runs], smallest_or_largest.reduceat(values, runs) if runs.size else values[:0]


@dataclass(frozen=True)
class Run:
    """The device on which worlds are simulated, the ``threads`` of the CPU (None: all), and the observer.

    ``workers`` simulate in place of this process, on a device of their own. No answer depends on them; those of a CPU
    and of a GPU agree to 1e-9. What is known of graphs stays on the device between the launches of one run (``cache``).
    """

    device: DeviceMemory = DeviceMemory()
    threads: int | None = None
    observer: Observer = Silent()
    workers: Workers | None = None
    cache: DeviceCache = field(default_factory=DeviceCache, compare=False, repr=False)

    def __post_init__(self) -> None:
        count_threads(self.threads)


class Fidelity(Protocol):
    """A model that simulates worlds: a frozen dataclass in ``engine/NAME`` and ``configs/fidelity/NAME.yaml``.

    The fields of the dataclass are the keys ``NAME.FIELD`` of every command. Worlds of equal fidelities are a batch.
    """

    @property
    def name(self) -> str:
        """Name of the package."""
        ...

    @property
    def lower_bound_of(self) -> str:
        """The fidelity whose exact makespans its own never exceed; empty: there is none. Reports name it."""
        ...

    def refuses(self, world: World) -> str | None:
        """Return why the model cannot express ``world``, in one line: field, law, value. None: it can."""
        ...

    def keeps_bound(self, world: World) -> bool:
        """Return whether the makespan of ``world`` is never below that of ``bound``, so that a search may prune by it.

        Up to rounding. False where ``bound`` refuses the world, and where nobody has shown it.
        """
        ...

    def simulate(self, worlds: Sequence[World], run: Run = ...) -> list[Timeline]:
        """The timelines of ``worlds``, in their order; they do not influence each other.

        ``run.observer`` is informed how many of the worlds are done. Raises ``ValueError`` for a world that it refuses,
        and one that names the worlds in which a flow has no bandwidth or a task waits forever.
        """
        ...


@runtime_checkable
class SizedFidelity(Protocol):
    """A fidelity with settings that can be left to the size of a job, as ``AUTO``; the default of each is exact."""

    @property
    def name(self) -> str:
        """Name of the package."""
        ...

    def decided(self, sends: int) -> Fidelity:
        """Return the same with these settings decided for a job with this number of concurrent sends."""
        ...


@runtime_checkable
class ChoosingFidelity(Protocol):
    """A fidelity that simulates each world in one of several others."""

    @property
    def name(self) -> str:
        """Name of the package."""
        ...

    def chosen(self, world: World) -> Fidelity:
        """The one that ``world`` is simulated in."""
        ...


@dataclass(frozen=True)
class Pause:
    """One world at the time ``until``: what has finished, what has begun, what is left to send."""

    until: float  # s
    start: Floats  # [T] s, when the task was ready; inf: it is not
    finish: Floats  # [T] s; inf: it has not finished
    left: Floats  # [T] B; all of its bytes until a task has waited its delay and latency
    slots: Slots | None = None  # None: the fidelity has no slots

    @property
    def has_finished(self) -> bool:
        """Return whether every task had finished by then."""
        return bool(np.isfinite(self.finish).all())


@runtime_checkable
class PausingFidelity(Protocol):
    """A fidelity that can say how far a world is at some time."""

    @property
    def name(self) -> str:
        """Name of the package."""
        ...

    def pause(self, world: World, until: float, run: Run = ...) -> Pause:
        """Return the state of ``world`` at ``until`` (s). Raises ``ValueError`` as ``simulate`` does."""
        ...
