"""The packet model in plain Python, event by event: the oracle of the tests, written for the reader.

    a port sends        when it is free, a packet in one of its queues is ready, and the buffer at its end has
                        room for all of it; of several such queues the next one in turn (round robin), that with the
                        packet that left its NIC first (age), or that whose packet came first (arrival)
    a packet            occupies the link for its flits, and the room in the buffer that it left until its last flit
                        has gone; the room's credit then takes the latency of the link to come back
    the packet's head   is ready at the next port after one flit (cut-through; all of it with store-and-forward), the
                        latency of the link and that of the switch, and no earlier than the packet can be sent from
                        there without a gap
    a NIC               gives the messages of a link turns, one packet each, in the order in which they came, or
                        sends each to its end before the next
    a packet            that may take several paths draws one at each branch, when it is sent there; or those of a
                        message take the edges of a branch in turn, in an order that is shuffled for each turn
    a message           has arrived when all its packets have, completely

Nothing here is quick. ``topoflow.engine.packet`` does the same by windows of time (``csrc/packet``); tests compare
them exactly. All times are whole picoseconds.

Source: Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapters 13 (cut-through,
credits), 16 and 17 (input-queued switches, virtual output queues), 18 (round robin).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from topoflow.engine.base import World
from topoflow.engine.packet.draws import AT_NIC, draw, shuffled
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE, Bounds
from topoflow.engine.packet.settings import MICROSECOND, MILLISECOND, Numbers, PacketSettings, in_picoseconds

STATE, ARRIVE, SEND = 0, 1, 2  # of two events at one time, what changes the state comes before who decides by it


@dataclass
class Packet:
    """One packet, which waits for ``port``."""

    task: int
    number: int  # among those of its message
    flits: int
    bytes: int
    born: int  # ps, when it began to leave the NIC
    port: int
    channel: int  # where it will lie afterwards
    next: int  # what follows (``PortLayout``)
    came: int = 0  # ps, when it came to the port; in a NIC: since when its message waits


@dataclass
class Message:
    """The packets that a task has left to send by one of the roots of its path."""

    task: int
    root: int
    unsent: list[int]  # the numbers of its packets, the next one last
    time: int = 0  # ps, since when it waits for its turn


@dataclass
class Port:
    """A link and its scheduler. ``turn``: 0 for the NIC, 1 + position of a queue for the others."""

    free: int = 0  # ps
    turn: int = 0
    messages: deque[Message] = field(default_factory=deque)  # of the NIC
    active: int = 0  # ps
    stalled: int = 0  # ps
    stalled_since: int | None = None
    bytes: int = 0
    packets: int = 0
    idle_intervals: int = 0  # how often it was idle, until it last began to send
    idle_1us: int = 0  # and for longer than that
    idle_1ms: int = 0

    def count_idle(self, now: int) -> None:
        """The port begins to send at ``now`` (ps): until then it was idle since it was free, and perhaps stalled."""
        idle = (now if self.stalled_since is None else self.stalled_since) - self.free
        self.idle_intervals += idle > 0
        self.idle_1us += idle > MICROSECOND
        self.idle_1ms += idle > MILLISECOND
        if self.stalled_since is not None:
            self.stalled += now - self.stalled_since
            self.stalled_since = None


@dataclass
class Answer:
    """Start and finish of tasks (ps; None: never), and the activity of ports and buffers."""

    start: list[int | None]
    finish: list[int | None]
    ports: list[Port]
    fullest: list[int]  # [C] flits, the most that were taken of each buffer
    latencies: list[int]  # ps, of every packet, in any order
    buffered: int  # packets that lie in buffers at the end: a deadlock unless 0


class Simulation:
    """One world; ``run`` once."""

    def __init__(self, world: World, layout: PortLayout, numbers: Numbers, settings: PacketSettings) -> None:
        graph = world.graph
        self.layout, self.numbers, self.settings = layout, numbers, settings
        self.path, self.seed = graph.path.tolist(), world.seed
        self.after = [graph.after[a:b].tolist() for a, b in itertools.pairwise(graph.after_offsets.tolist())]
        self.followers: list[list[int]] = [[] for _ in self.after]
        for task, awaited in enumerate(self.after):
            for earlier in awaited:
                self.followers[earlier].append(task)
        self.pending = [len(awaited) for awaited in self.after]
        self.start: list[int | None] = [None] * graph.tasks
        self.finish: list[int | None] = [None] * graph.tasks
        self.ports = [Port() for _ in range(layout.ports)]
        self.queues: list[deque[Packet]] = [deque() for _ in range(self.count_queues())]
        self.sent_from = [self.queues_of(a, b) for a, b in itertools.pairwise(layout.port_queues.tolist())]
        self.room = numbers.buffer.tolist()
        self.fullest = [0] * layout.channels
        # [N] packets lost, packets marked, and flits that waited at most (``reference_transport``)
        self.lost, self.marked, self.most = ([0] * layout.ports for _ in range(3))
        # Flits that are in each queue as ``depths`` of the kernel has it, after each change, by when it was (ps)
        self.depths: list[dict[int, int]] = [{} for _ in self.columns()]
        self.underway: dict[int, int] = {}  # B that have not arrived, by task
        self.latencies: list[int] = []
        self.events: list[tuple[int, int, int, int, Callable[[int], None]]] = []
        self.count = itertools.count()

    def columns(self) -> range:
        """Return the rows that have a depth: each channel."""
        return range(self.layout.channels)

    def count_queues(self) -> int:
        return len(self.layout.queue_channel)

    def queues_of(self, first: int, end: int) -> list[int]:
        """The queues of a port, by its row."""
        queues: list[int] = self.layout.queues[first:end].tolist()
        return queues

    def run(self) -> Answer:
        for task, pending in enumerate(self.pending):
            if pending == 0:
                self.begin(task, 0)
        while self.events:
            time, _, _, _, happen = heapq.heappop(self.events)
            happen(time)
        buffered = sum(map(len, self.queues))
        return Answer(self.start, self.finish, self.ports, self.fullest, self.latencies, buffered)

    def at(self, time: int, what: Callable[[int], None], number: float, rank: int = STATE) -> None:
        """Events of one time and rank happen in the order of their numbers: of tasks or of ports."""
        heapq.heappush(self.events, (time, rank, number, next(self.count), what))

    # Tasks

    def begin(self, task: int, time: int) -> None:
        ready = max(time, int(self.numbers.release[task]))
        self.start[task] = ready
        waited = ready + int(self.numbers.delay[task])
        if self.numbers.bytes[task]:
            self.at(waited + in_picoseconds(self.settings.nic_latency), lambda now: self.inject(task, now), task)
        else:
            self.at(waited, lambda now: self.end(task, now), task)

    def end(self, task: int, time: int) -> None:
        self.finish[task] = time
        for follower in self.followers[task]:
            self.pending[follower] -= 1
            if self.pending[follower] == 0:
                self.begin(follower, time)

    # NICs

    def inject(self, task: int, time: int) -> None:
        size, path, layout = int(self.numbers.bytes[task]), self.path[task], self.layout
        self.underway[task] = size
        roots = range(int(layout.path_roots[path]), int(layout.path_roots[path + 1]))
        messages = {root: Message(task, root, []) for root in roots}
        for number in reversed(range(-(-size // self.settings.size))):
            root = roots[0] if len(roots) == 1 else self.drawn(layout.root_bound, roots, task, number, AT_NIC)
            messages[root].unsent.append(number)
        for message in messages.values():
            if message.unsent:
                pace = int(self.numbers.pace[task])
                self.at(time + pace * message.unsent[-1], partial(self.offer, message), task)

    def drawn(self, bounds: Bounds, rows: range, task: int, number: int, branch: int) -> int:
        """The one of ``rows`` that a packet draws."""
        draws = draw(self.seed, task, number % self.settings.numbers_drawn, branch)
        return next(row for row in rows if draws <= bounds[row])

    def offer(self, message: Message, time: int) -> None:
        port = int(self.layout.root_port[message.root])
        message.time = time
        self.ports[port].messages.append(message)
        self.try_later(port, time)

    def next_packet(self, port: int, now: int) -> Packet | None:
        """The packet that the NIC would send next."""
        if not self.ports[port].messages:
            return None
        message, layout = self.ports[port].messages[0], self.layout
        number, root = message.unsent[-1], message.root
        size = min(int(self.numbers.bytes[message.task]) - number * self.settings.size, self.settings.size)
        flits, step = -(-size // self.settings.flit), (int(layout.root_channel[root]), int(layout.root_next[root]))
        return Packet(message.task, number, flits, size, now, port, *step)

    def leave_nic(self, port: int, packet: Packet, now: int) -> None:
        message = self.ports[port].messages.popleft()
        message.unsent.pop()
        pace = int(self.numbers.pace[message.task])
        if message.unsent and pace:
            later = now + pace * (message.unsent[-1] - packet.number)
            self.at(later, partial(self.offer, message), message.task)
        elif message.unsent:
            self.wait(port, message, now)

    def wait(self, port: int, message: Message, now: int) -> None:
        """The rest of a message waits for its turn; where it is sent to its end, it has waited since it came."""
        if self.settings.in_order:
            self.ports[port].messages.appendleft(message)
        else:
            message.time = now
            self.ports[port].messages.append(message)

    # Ports

    def try_later(self, port: int, time: int) -> None:
        self.at(time, lambda now: self.try_to_send(port, now), port, SEND)

    def try_to_send(self, port: int, now: int) -> None:
        state = self.ports[port]
        if now < state.free:
            return  # it tries again when it is free
        waiting = self.waiting(port, now)
        ready = {turn: packet for turn, packet in waiting.items() if self.has_room(packet)}
        if not ready:
            if waiting and state.stalled_since is None:
                state.stalled_since = now
            return
        turns = 1 + len(self.sent_from[port])
        if self.settings.by_age:
            turn = min(ready, key=lambda turn: (ready[turn].born, turn))
        elif self.settings.by_arrival:
            turn = min(ready, key=lambda turn: (ready[turn].came, turn))
        else:
            turn = min(ready, key=lambda turn: (turn - state.turn) % turns)
        state.count_idle(now)
        state.turn = (turn + 1) % turns
        self.send(port, turn, ready[turn], now)

    def waiting(self, port: int, now: int) -> dict[int, Packet]:
        """The packet at the head of each queue that wants to leave by this port, by the queue's turn."""
        heads: dict[int, Packet] = {}
        injected = self.next_packet(port, now)
        if injected is not None:
            injected.came = self.ports[port].messages[0].time
            heads[0] = injected
        for position, queue in enumerate(self.sent_from[port]):
            if self.queues[queue] and self.queues[queue][0].port == port:
                heads[position + 1] = self.queues[queue][0]
        return heads

    def has_room(self, packet: Packet) -> bool:
        return packet.channel == NONE or self.room[packet.channel] >= packet.flits

    def send(self, port: int, turn: int, packet: Packet, now: int) -> None:
        state = self.ports[port]
        taken = self.numbers.time(port, packet.flits * self.settings.flit)
        state.free = now + taken
        state.active += taken
        state.bytes += packet.bytes
        state.packets += 1
        self.try_later(port, state.free)
        if turn == 0:
            self.leave_nic(port, packet, now)
        else:
            self.leave_queue(self.sent_from[port][turn - 1], packet, state.free, now)
        if packet.channel == NONE:
            arrival = state.free + int(self.numbers.latency[port])
            self.at(arrival, lambda time: self.deliver(packet, time), packet.task)
            return
        self.take(packet.channel, packet.flits, now)
        self.pass_on(packet, port, now, taken)

    def pass_on(self, packet: Packet, port: int, now: int, taken: int) -> None:
        """The packet is on its way to the next port; ``port`` needs ``taken`` for it."""
        queue = self.route(packet)
        arrival = now + int(self.numbers.latency[port]) + in_picoseconds(self.settings.switch_latency)
        arrival += self.head_time(packet, port, taken)
        self.at(arrival, lambda time: self.arrive(packet, queue, time), port)

    def route(self, packet: Packet) -> int:
        """The step that follows is that of the packet; returns the queue in which it waits for it."""
        edge, layout = packet.next, self.layout
        if edge < NONE:
            branch = -2 - edge
            edges = range(int(layout.branches[branch]), int(layout.branches[branch + 1]))
            stride = int(layout.branch_stride[branch])
            if self.settings.in_turn and stride:
                cycle, place = divmod(packet.number // stride, len(edges))
                edge = edges[shuffled(self.seed, packet.task, cycle, branch, len(edges))[place]]
            else:
                edge = self.drawn(layout.edge_bound, edges, packet.task, packet.number, branch)
        packet.port, packet.channel = int(layout.edge_port[edge]), int(layout.edge_channel[edge])
        packet.next = int(layout.edge_next[edge])
        return int(layout.edge_queue[edge])

    def head_time(self, packet: Packet, port: int, taken: int) -> int:
        """ps from when ``port`` begins to send a packet until the next port could, were there no latencies."""
        if not self.settings.cut_through:
            return taken
        without_gap = taken - self.numbers.time(packet.port, packet.flits * self.settings.flit)
        return max(self.numbers.time(port, self.settings.flit), without_gap)

    def leave_queue(self, queue: int, packet: Packet, gone: int, now: int) -> None:
        assert self.queues[queue].popleft() is packet
        channel = self.channel_of(queue)
        port, flits = int(self.layout.channel_port[channel]), packet.flits
        back = gone + int(self.numbers.latency[port]) + in_picoseconds(self.settings.credit_latency)
        self.at(back, lambda time: self.give_back(channel, flits, time), port)
        if self.queues[queue]:
            self.try_later(self.queues[queue][0].port, now)

    def channel_of(self, queue: int) -> int:
        """Whose buffer the queue takes room in."""
        return int(self.layout.queue_channel[queue])

    def arrive(self, packet: Packet, queue: int, time: int) -> None:
        packet.came = time
        self.queues[queue].append(packet)
        if self.queues[queue][0] is packet:
            self.try_later(packet.port, time)

    def deliver(self, packet: Packet, time: int) -> None:
        self.latencies.append(time - packet.born)
        self.underway[packet.task] -= packet.bytes
        if self.underway[packet.task] == 0:
            self.at(
                time + in_picoseconds(self.settings.nic_latency), lambda now: self.end(packet.task, now), packet.task
            )

    # Buffers

    def take(self, channel: int, flits: int, now: int) -> None:
        self.room[channel] -= flits
        assert self.room[channel] >= 0, "a packet without room in the next buffer must wait"
        taken = self.depths[channel][now] = int(self.numbers.buffer[channel]) - self.room[channel]
        self.fullest[channel] = max(self.fullest[channel], taken)

    def give_back(self, channel: int, flits: int, time: int) -> None:
        self.room[channel] += flits
        self.depths[channel][time] = int(self.numbers.buffer[channel]) - self.room[channel]
        assert self.room[channel] <= self.numbers.buffer[channel], "a credit comes back once"
        self.try_later(int(self.layout.channel_port[channel]), time)


def most_of_intervals(depths: Mapping[int, int], interval: int, count: int) -> list[int]:
    """The most in each of ``count`` intervals (ps) of what is ``depths`` from each of these times on, and 0 before."""
    peaks = [0] * count
    times = [*sorted(depths), interval * count]
    for begin, end in itertools.pairwise(times):
        for place in range(begin // interval, min(-(-end // interval), count)):
            peaks[place] = max(peaks[place], depths[begin])
    return peaks
