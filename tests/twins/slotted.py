"""The slotted model in plain Python: the oracle of ``csrc/slotted``. Written to be read, not to be fast.

An epoch at the nodes, in this order:

    1. Tasks whose time has come queue at their servers; servers put cells into LOCAL, as fast as their cables are.
    2. The protocol: which cells leave LOCAL, and for where.
    3. E slots. In each, every uplink sends one cell to the node that it is joined to, if one waits for that node; what
       is sent in a slot can be sent on in the next.
    4. Grants that found no cell are known to the node that gave them, cells that left LOCAL to their servers (credits).

What comes to the node of its target waits there for the cable of its server; flows take turns on it, or (``arrival``)
cells go in the order in which they came. A cell goes at once if the cable is free and nothing waits.

Protocols:

    request_grant   Sirius (4.3, Figure 15): requests of an epoch are answered in the next, and a cell that is granted
                    leaves in the one after. The intermediate node has room for the cell from the grant on
    ideal           the same without a wait: requests are answered and used at once (7, "Sirius (Ideal)": back-pressure)
    direct          no detour: a cell waits for the slot of its own destination

What the paper leaves open:

    - Which cell for D leaves LOCAL: flows for D take turns.
    - How a request is drawn: its flow and its node come from one random word (``two_below``).
    - In which order a node looks at the requests that it got: by source, beginning with a random one.
    - Where a cell that was granted and one that is to be sent on wait for the same slot, the former goes: it is "to be
      transmitted in the next epoch" (4.3). So no more than one waits at its source for each slot.
    - In which order a source looks at the grants that it got: by the places of the nodes in their groups.
    - A grant that finds no cell (it was requested in two epochs) is given back with the next cell.
    - A node that was drawn and has no slot for the cell's destination, as a part failed, is not asked in this epoch.
    - Cells fly for no time; the node of the source and of the target may be among the intermediate ones: the target is
      (the cell then takes one hop, and is granted by the same rule), the source is not, it has no slot to itself.

Shapes: N nodes, T tasks, Q reservations of a node for each destination.
Source: Sirius (Ballani et al., SIGCOMM 2020), 4.2, 4.3 and Figure 15.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from topoflow.engine.random import WORD, below, philox
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.on_demand import Square
from topoflow.fabric.circuits.schedule import EMPTY, CircuitSchedule

PATIENCE = 2000  # epochs for each node without a hop, after which there will be none
REQUEST, GRANT = 0, 1  # purposes of random numbers


@dataclass(frozen=True)
class Cell:
    """Cell ``number`` of a task, on the way to the node ``to`` through the node ``through``."""

    task: int
    number: int
    to: int
    through: int


@dataclass(frozen=True)
class Hop:
    """A cell was sent in a slot, counted from the beginning."""

    slot: int
    source: int
    target: int
    cell: Cell


@dataclass
class Flow:
    """Cells of one task."""

    unsent: int  # at the server
    local: int = 0  # in LOCAL
    left: int = 0  # LOCAL: their number is that of the next
    arrived: set[int] = field(default_factory=set)
    expected: int = 0  # the first cell that has not arrived
    reorder: int = 0  # the most that ever waited for an earlier one
    delivered: int = 0  # to the node
    brought: int = 0  # to the server


@dataclass
class Server:
    queue: deque[int] = field(default_factory=deque)  # tasks that take turns, one each epoch
    surplus: int = 0  # ps of sending that it has not used
    local: int = 0  # cells in LOCAL
    cable: deque[int] = field(default_factory=deque)  # tasks whose cells wait for the cable from the node
    free: int = 0  # ps, when its cable has delivered all that it got


class Reference:
    """One world; ``run`` simulates it to the end."""

    def __init__(self, cells: Cells, settings: SlottedSettings) -> None:
        self.world, self.settings, self.limit = cells, settings, settings.queue
        self.credits = settings.credits if cells.credited else None
        self.in_turns = settings.cable == "turns"
        self.key = settings.seed, cells.seed
        nodes = range(cells.schedule.nodes)
        self.flow = [Flow(int(count)) for count in cells.cells]
        self.server = [Server() for _ in cells.node]
        self.active: list[list[int]] = [[] for _ in nodes]  # flows with cells in LOCAL, in no order that matters
        self.candidates = [[j for j in nodes if j != i and self.joins(i, j)] for i in nodes]  # in no order that matters
        self.local = [[deque[int]() for _ in nodes] for _ in nodes]  # the same by destination; they take turns
        self.granted: list[dict[int, Cell]] = [{} for _ in nodes]  # at each source: node that granted -> cell
        self.relayed = [[deque[Cell]() for _ in nodes] for _ in nodes]  # [i][d] cells at i that go on to d
        self.reserved = [[0 for _ in nodes] for _ in nodes]  # [i][d] room at i for cells to d: granted, or there
        self.requests: list[dict[int, int]] = [{} for _ in nodes]  # at each node: source -> destination
        self.grants: list[dict[int, int]] = [{} for _ in nodes]  # at each source: node that grants -> destination
        self.unused: list[tuple[int, int]] = []  # (node that granted, destination)
        self.pending = [int(n) for n in cells.after_offsets[1:] - cells.after_offsets[:-1]]
        self.followers: list[list[int]] = [[] for _ in range(cells.tasks)]
        for task in range(cells.tasks):
            for earlier in cells.after[cells.after_offsets[task] : cells.after_offsets[task + 1]]:
                self.followers[int(earlier)].append(task)
        self.ready = [int(time) for time in cells.release]
        self.start: list[int | None] = [None] * cells.tasks
        self.finish: list[int | None] = [None] * cells.tasks
        self.events: list[tuple[int, int]] = []  # (ps, task) whose delay ends
        self.left = cells.tasks
        self.epoch = 0
        self.hops: list[Hop] = []
        self.fullest = [0 for _ in nodes]
        self.received = 0  # cells that servers got in the window
        self.waiting: dict[int, tuple[int, int]] = {}  # after each epoch: cells at all nodes, and the most at one

    def run(self) -> None:
        for task, pending in enumerate(self.pending):
            if not pending:
                self.begin(task)
        sent, since = 0, 0  # hops, and the epoch of the last
        while self.left:
            if self.is_empty():  # nothing is in the network: the next epoch is that after the next event
                if not self.events:
                    raise ValueError("tasks wait for each other")
                self.epoch = max(self.epoch, -(-self.events[0][0] // self.world.epoch))
                since = self.epoch
            if self.epoch * self.world.epoch >= self.world.until:
                break
            self.advance()
            if len(self.hops) > sent:
                sent, since = len(self.hops), self.epoch
            elif self.epoch - since > PATIENCE * self.world.schedule.nodes:
                raise ValueError("cells wait that nothing sends")

    def advance(self) -> None:
        """One epoch."""
        self.begin_due(self.epoch * self.world.epoch)
        self.inject()
        {"request_grant": self.request_grant, "ideal": self.ideal, "direct": self.direct}[self.settings.protocol]()
        self.note_fullest()
        for slot in range(self.world.schedule.slots):
            self.send(slot)
            self.note_fullest()
        for server in self.server:
            self.serve(server, (self.epoch + 1) * self.world.epoch)
        for node, destination in self.unused:
            self.reserved[node][destination] -= 1
        self.unused = []
        self.note_waiting()
        self.epoch += 1

    # Tasks

    def begin(self, task: int) -> None:
        self.start[task] = self.ready[task]
        heapq.heappush(self.events, (self.ready[task] + int(self.world.delay[task]), task))

    def begin_due(self, now: int) -> None:
        while self.events and self.events[0][0] <= now:
            time, task = heapq.heappop(self.events)
            if not self.world.cells[task]:
                self.end(task, time)
                continue
            server = self.server[self.world.source[task]]
            if not server.queue:
                server.surplus = now - time - self.world.epoch  # it has sent since then
            server.queue.append(task)

    def end(self, task: int, time: int) -> None:
        self.finish[task] = time
        self.left -= 1
        for follower in self.followers[task]:
            self.ready[follower] = max(self.ready[follower], time)
            self.pending[follower] -= 1
            if not self.pending[follower]:
                self.begin(follower)

    # Servers

    def inject(self) -> None:
        """Every server has sent for an epoch: flows take turns, and one that is empty gives the rest to the next.

        A server has no more than ``credits`` cells in LOCAL; its cable waits while the flow whose turn it is has none.
        Credits are of the hop between a server and its node: servers that are nodes have none (``credited``).
        """
        for server in self.server:
            if not server.queue:
                continue
            server.surplus += self.world.epoch
            cells = server.surplus // self.world.pace
            server.surplus -= cells * self.world.pace
            while cells and server.queue:
                task = server.queue[0]
                number = min(cells, self.flow[task].unsent)
                source, target = self.ends(task)
                if source != target and self.credits is not None:
                    number = min(number, self.credits - server.local)
                if not number:
                    break  # the cable waits: the flow whose turn it is has no credit
                server.queue.popleft()
                self.flow[task].unsent -= number
                cells -= number
                self.put(task, number)
                if self.flow[task].unsent:
                    server.queue.append(task)

    def put(self, task: int, number: int) -> None:
        """Cells come to LOCAL, or to the server next to it."""
        source, target = self.ends(task)
        flow = self.flow[task]
        if source == target:
            for _ in range(number):
                flow.left += 1
                self.deliver(Cell(task, flow.left - 1, target, source), self.epoch * self.world.epoch)
            return
        if not flow.local:
            self.active[source].append(task)
            self.turns(task).append(task)
        flow.local += number
        self.server[self.world.source[task]].local += number

    def turns(self, task: int) -> deque[int]:
        """The flows with cells in LOCAL among which it takes turns."""
        source, target = self.ends(task)
        return self.local[source][target]

    def take(self, source: int, destination: int, through: int) -> Cell:
        """A cell leaves LOCAL."""
        return self.take_next(self.local[source][destination], source, through)

    def take_next(self, flows: deque[int], source: int, through: int) -> Cell:
        """A cell of the flow whose turn it is among these leaves LOCAL."""
        task = flows.popleft()
        flow = self.flow[task]
        flow.local -= 1
        self.server[self.world.source[task]].local -= 1
        flow.left += 1
        if flow.local:
            flows.append(task)
        else:
            active = self.active[source]
            swap(active, active.index(task), len(active) - 1)
            active.pop()
        return Cell(task, flow.left - 1, self.ends(task)[1], through)

    def ends(self, task: int) -> tuple[int, int]:
        """The nodes of a task's servers."""
        return int(self.world.node[self.world.source[task]]), int(self.world.node[self.world.target[task]])

    def joins(self, source: int, target: int) -> bool:
        """Say if the schedule has a slot from a node to another; switches that grant requests have one for all."""
        schedule = self.world.schedule
        return isinstance(schedule, Square) or schedule.joins(source, target)

    # Protocols

    def request_grant(self) -> None:
        self.receive_grants()
        self.compute_grants()
        self.requests = self.compute_requests()

    def ideal(self) -> None:
        self.requests = self.compute_requests()
        self.compute_grants()
        self.receive_grants()

    def direct(self) -> None:
        """Every cell waits at its source, as if that were its intermediate node."""
        nodes = range(self.world.schedule.nodes)
        for source in nodes:
            for destination in nodes:
                if not self.joins(source, destination):
                    continue
                if self.local[source][destination] and not self.reserved[source][destination]:
                    self.reserved[source][destination] += 1
                    self.relayed[source][destination].append(self.take(source, destination, source))

    def compute_requests(self) -> list[dict[int, int]]:
        """For random cells of LOCAL, a request to a random node for each (Figure 15, lines 1 to 12)."""
        nodes = self.world.schedule.nodes
        requests: list[dict[int, int]] = [{} for _ in range(nodes)]
        for source in range(nodes):
            flows = self.active[source]
            remaining, count = {task: self.flow[task].local for task in flows}, len(flows)
            candidates = self.candidates[source]
            for number in range(len(candidates)):
                if not count:
                    break
                rest = len(candidates) - number
                word = philox((number // 4, source, self.epoch, REQUEST), self.key)[number % 4]
                place, drawn = two_below(word, count, rest)
                task = flows[place]
                swap(candidates, drawn, rest - 1)  # the candidates are those before
                node, destination = candidates[rest - 1], self.ends(task)[1]
                if node == destination or self.joins(node, destination):
                    requests[node][source] = destination
                remaining[task] -= 1
                if not remaining[task]:
                    count -= 1
                    swap(flows, place, count)  # the set of flows is those before
        return requests

    def compute_grants(self) -> None:
        """Requests are granted as long as there is room (Figure 15, lines 14 to 22)."""
        nodes = self.world.schedule.nodes
        self.grants = [{} for _ in range(nodes)]
        for node in range(nodes):
            first = below(philox((0, node, self.epoch, GRANT), self.key)[0], nodes)
            for source in sorted(self.requests[node], key=lambda source: (source - first) % nodes):
                destination = self.requests[node][source]
                if self.reserved[node][destination] < self.limit:
                    self.reserved[node][destination] += 1
                    self.grants[source][node] = destination
        self.requests = [{} for _ in range(nodes)]

    def receive_grants(self) -> None:
        """A cell that is granted leaves LOCAL for the queue of the node that granted it."""
        for source, grants in enumerate(self.grants):
            for node in sorted(grants, key=lambda node: (node % self.world.schedule.slots, node)):
                if self.local[source][grants[node]]:
                    assert node not in self.granted[source], "what is granted is sent in the next epoch"
                    self.granted[source][node] = self.take(source, grants[node], node)
                else:
                    self.unused.append((node, grants[node]))
        self.grants = [{} for _ in self.grants]

    # Slots

    def send(self, slot: int) -> None:
        """All nodes send at once."""
        schedule, sent = self.world.schedule, []
        assert isinstance(schedule, CircuitSchedule)
        for node in range(schedule.nodes):
            for uplink in range(schedule.groups):
                target = schedule.target(node, uplink, slot)
                if target == EMPTY:
                    continue
                if target in self.granted[node]:
                    cell = self.granted[node].pop(target)
                elif self.relayed[node][target]:
                    cell = self.relayed[node][target].popleft()
                else:
                    continue
                sent.append(Hop(self.epoch * schedule.slots + slot, node, target, cell))
        self.hops += sent
        for hop in sorted(sent, key=lambda hop: (hop.target, hop.source)):
            self.arrive(hop)

    def arrive(self, hop: Hop) -> None:
        cell = hop.cell
        if hop.target == cell.to:
            self.reserved[cell.through][cell.to] -= 1
            self.deliver(cell, (hop.slot + 1) * self.world.slot)
        else:
            assert hop.target == cell.through, "a cell takes one detour at most"
            self.relayed[cell.through][cell.to].append(cell)
            assert len(self.relayed[cell.through][cell.to]) <= self.limit, "a queue is never longer than Q"

    def deliver(self, cell: Cell, time: int) -> None:
        """From the node to the server."""
        flow, server = self.flow[cell.task], self.server[self.world.target[cell.task]]
        if self.in_turns:
            self.serve(server, time)
        flow.delivered += 1
        flow.arrived.add(cell.number)
        while flow.expected in flow.arrived:
            flow.arrived.remove(flow.expected)
            flow.expected += 1
        flow.reorder = max(flow.reorder, len(flow.arrived))
        if not self.in_turns or (not server.cable and server.free <= time):
            server.free = max(server.free, time)
            self.bring(cell.task, server)
        elif cell.task not in server.cable:
            server.cable.append(cell.task)

    def serve(self, server: Server, until: int) -> None:
        """Its cable brings cells that wait at the node, unless they would not begin by ``until``."""
        while server.cable and server.free <= until:
            task = server.cable.popleft()
            self.bring(task, server)
            if self.flow[task].brought < self.flow[task].delivered:
                server.cable.append(task)

    def bring(self, task: int, server: Server) -> None:
        server.free += self.world.pace
        self.received += server.free <= self.world.window
        self.flow[task].brought += 1
        if self.flow[task].brought == self.world.cells[task]:
            self.end(task, server.free)

    def note_fullest(self) -> None:
        self.fullest = list(map(max, self.fullest, self.held()))

    def note_waiting(self) -> None:
        self.waiting[self.epoch] = sum(self.held()), max(self.held())

    def held(self) -> list[int]:
        """[N] cells that wait for a slot."""
        return [
            len(granted) + sum(map(len, queues)) for granted, queues in zip(self.granted, self.relayed, strict=True)
        ]

    def is_empty(self) -> bool:
        at_servers = any(server.queue or server.cable for server in self.server)
        reserved = any(map(any, self.reserved))
        return not (at_servers or any(self.active) or reserved or any(self.requests) or any(self.grants))


def swap(items: list[int], one: int, other: int) -> None:
    items[one], items[other] = items[other], items[one]


def two_below(word: int, n: int, m: int) -> tuple[int, int]:
    """Numbers below ``n`` and below ``m`` from one word, each pair equally likely to n m / 2^32.

    The whole part of word n / 2^32, and of m times what is left of it.
    """
    first, remainder = divmod(word * n, WORD)
    return first, below(remainder, m)
