"""The packet model of the Structural Simulation Toolkit in plain Python, event by event: the oracle of ``model=sst``.

    a packet        is its head: after it was sent it is at the end of the link one latency later, however long it is;
                    its time counts only for what follows it on the link, and through the crossbar
    a NIC           has machines that send its messages one after the other, one of them gets (``GET`` B): each
                    waits for ``setup``, then puts packets into the buffer before the link while there is room
    an output       (of a NIC or a router) that has waited sends a flit later than what it waited for came, a packet or
                    a credit: one of the next virtual channel that has one with room for it at the end of the link
    an input        of a router has a buffer and a queue for each virtual channel. When a packet becomes the first of
                    its queue its route is decided
    the crossbar    has a clock, whose edges are multiples of the time of a flit on the router's fastest link. At an
                    edge the first packets of queues are looked at, that granted least recently first: one whose input
                    and output do not pass another, with room in the output's buffer, passes; for its flits both are
                    taken. Its room at the input is free; the credit takes the latency of the link and of routers
    a message       has arrived when the heads of all packets have, and its first one has been matched (``match``)

Routes are those of SST's dragonfly, the cable between groups is that of the number of the source: ``minimal``;
``valiant_group``: a middle group, or inside a group a middle router; ``adaptive_local``: the first router compares the
free room of its own outputs, that of two cables each, and takes the route around where its output has more than
``threshold`` times the room; the router by which the packet comes into a middle group looks at two cables, too.

Of one time, edges come first, then what tasks do, heads, credits, messages, machines and outputs.

Source: SST 16: merlin (hr_router.cc, portControl.cc, linkControl.cc, xbar_arb_lru.h, output_arb_basic.h,
topology/dragonfly.cc) and firefly (nic.cc, nicSendMachine.cc), whose names the docstrings of the parts give.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from tests.twins.packet import Answer, Packet, Port, Simulation
from topoflow.engine.base import World
from topoflow.engine.packet.addresses import AddressedLayout
from topoflow.engine.packet.draws import AT_SOURCE, draws
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import Numbers, PacketSettings, in_picoseconds
from topoflow.engine.random import below
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, UP

GET = 13  # B
EDGE, TASK, HEAD, CREDIT, MESSAGE, MACHINE, OUTPUT = range(-1, 6)  # of events at one time


@dataclass
class Head(Packet):
    """A packet and its route."""

    middle: int | None = None  # the group that it goes to first, or inside a group the router
    cable: int = 0  # between groups
    virtual: int = 0  # channel
    out: int = NONE  # port by which it leaves the router that it is at


@dataclass
class Output:
    """``PortControl`` or ``LinkControl``: what waits before a link, by virtual channel."""

    queues: list[deque[Head]]
    room: list[int]  # flits that are free before the link
    credits: list[int]  # and at its end
    turn: int = 0
    waits: bool = True
    has_packets: bool = False


@dataclass
class Router:
    """``hr_router``: inputs are the links that end here, in the order of its ports (``by_ports_of_routers``)."""

    inputs: list[int]
    flit: int  # ps
    order: list[tuple[int, int]]  # inputs and virtual channels, that granted least recently first
    queues: dict[tuple[int, int], deque[Head]]
    from_busy: dict[int, int] = field(default_factory=dict)  # ps, by input, and by output
    to_busy: dict[int, int] = field(default_factory=dict)
    runs: bool = False


class SstSimulation(Simulation):
    """One world; ``run`` once. ``layout`` is an ``AddressedLayout`` of a dragonfly."""

    def __init__(self, world: World, layout: AddressedLayout, numbers: Numbers, settings: PacketSettings) -> None:
        self.by, self.hops = layout, layout.next_hops
        super().__init__(world, layout, numbers, settings)
        self.level, self.end_of = self.hops.level.tolist(), self.hops.target.tolist()
        self.channels = layout.channels_needed
        self.flit = [numbers.time(port, settings.flit) for port in range(layout.ports)]
        self.depth = numbers.control.depth.tolist()
        self.outputs = [self.output(depth) for depth in self.depth]
        self.routers = [self.router(router) for router in range(self.hops.routers)]
        self.machines: list[tuple[deque[Message], deque[Message]]] = [(deque(), deque()) for _ in range(layout.ports)]
        self.blocked: set[tuple[int, int]] = set()  # ports and machines that wait for room
        self.arrived: dict[int, int] = {}  # ps, of what has arrived of a task

    def count_queues(self) -> int:
        return 0

    def queues_of(self, first: int, end: int) -> list[int]:
        return []

    def output(self, depth: int) -> Output:
        lanes = range(self.channels)
        return Output([deque() for _ in lanes], [depth for _ in lanes], [depth for _ in lanes])

    def router(self, number: int) -> Router:
        ports = range(self.by.ports)
        inputs = [port for port in ports if self.end_of[port] == number]
        inputs.sort(key=lambda port: int(self.by.first_seen[port]))
        router_ports = [*inputs, *(port for port in ports if self.hops.source[port] == number)]
        order = list(itertools.product(inputs, range(self.channels)))
        flit = min((self.flit[port] for port in router_ports), default=1)
        return Router(inputs, flit, order, {entry: deque() for entry in order})

    def run(self) -> Answer:
        answer = super().run()
        waiting = sum(len(queue) for router in self.routers for queue in router.queues.values())
        waiting += sum(len(queue) for output in self.outputs for queue in output.queues)
        answer.buffered = waiting
        return answer

    # Latencies: half of a router's is that of its inputs, the rest that of its outputs. NICs have none of both.

    def until_there(self, port: int) -> int:
        through = in_picoseconds(self.settings.switch_latency)
        link, inputs = int(self.numbers.latency[port]), through // 2
        if self.level[port] == UP:
            return link + inputs
        return link + through - inputs + (inputs if self.level[port] != DOWN else 0)

    def until_credited(self, port: int) -> int:
        credit, link = in_picoseconds(self.settings.credit_latency), int(self.numbers.latency[port])
        return link + (credit - credit // 2 if self.level[port] == UP else credit)

    # NICs

    def inject(self, task: int, time: int) -> None:
        port = int(self.layout.root_port[int(self.layout.path_roots[self.path[task]])])
        self.underway[task] = int(self.numbers.bytes[task])
        self.at(time, partial(self.take_message, port, task), port, MESSAGE)

    def take_message(self, port: int, task: int, now: int) -> None:
        size = int(self.numbers.bytes[task])
        which = int(size <= GET)
        messages = self.machines[port][which]
        messages.append(Message(task, -(-size // self.settings.size)))
        if len(messages) == 1:
            self.begin_message(port, which, now)

    def begin_message(self, port: int, which: int, now: int) -> None:
        setup = 0 if which else in_picoseconds(self.settings.setup)
        self.at(now + setup, partial(self.feed, port, which), 2 * port + which, MACHINE)

    def feed(self, port: int, which: int, now: int) -> None:
        messages, output = self.machines[port][which], self.outputs[port]
        self.blocked.discard((port, which))
        message = messages[0]
        while message.sent < message.packets:
            packet = self.packet(message.task, message.sent, port)
            if output.room[0] < packet.flits:
                self.blocked.add((port, which))
                return
            output.room[0] -= packet.flits
            output.queues[0].append(packet)
            if output.waits and not output.has_packets:
                self.wake_at(port, now + self.flit[port])
            message.sent += 1
        messages.popleft()
        if messages:
            self.begin_message(port, which, now)

    def packet(self, task: int, number: int, port: int) -> Head:
        size = min(int(self.numbers.bytes[task]) - number * self.settings.size, self.settings.size)
        return Head(task, number, -(-size // self.settings.flit), size, 0, port, NONE, NONE)

    # Outputs

    def wake_at(self, port: int, time: int) -> None:
        self.outputs[port].waits = False
        self.at(time, partial(self.wake, port), port, OUTPUT)

    def credit(self, port: int, virtual: int, flits: int, now: int) -> None:
        output = self.outputs[port]
        output.credits[virtual] += flits
        assert output.credits[virtual] <= self.depth[port], "a credit comes back once"
        self.see_depth(port, virtual, now)
        if output.waits:
            self.wake_at(port, now + self.flit[port])

    def wake(self, port: int, now: int) -> None:
        output, state = self.outputs[port], self.ports[port]
        output.has_packets = False
        for step in range(1, self.channels + 1):
            virtual = (output.turn + step) % self.channels
            if not output.queues[virtual]:
                continue
            output.has_packets = True
            if self.level[port] != DOWN and output.credits[virtual] < output.queues[virtual][0].flits:
                continue
            output.turn = virtual
            self.send_head(port, virtual, now)
            return
        output.waits = True
        if output.has_packets and state.stalled_since is None:
            state.stalled_since = now

    def send_head(self, port: int, virtual: int, now: int) -> None:
        output, state = self.outputs[port], self.ports[port]
        packet = output.queues[virtual].popleft()
        self.count_sent(state, packet, self.flit[port], now)
        output.room[virtual] += packet.flits
        self.wake_at(port, state.free)
        there = now + self.until_there(port)
        if self.level[port] == UP:
            packet.born = now
        if self.level[port] == DOWN:
            self.at(there, partial(self.deliver_head, packet), packet.task, TASK)
        else:
            output.credits[virtual] -= packet.flits
            assert output.credits[virtual] >= 0, "a packet without room in the next buffer must wait"
            self.see_depth(port, virtual, now)
            self.at(there, partial(self.come, packet, port, virtual), port, HEAD)
        if self.level[port] != UP:
            self.run_clock(self.routers[int(self.hops.source[port])], now)
            return
        for which in range(2):
            if (port, which) in self.blocked:
                self.feed(port, which, now)

    def count_sent(self, state: Port, packet: Head, flit: int, now: int) -> None:
        state.count_idle(now)
        state.free = now + packet.flits * flit
        state.active += packet.flits * flit
        state.bytes += packet.bytes
        state.packets += 1

    def see_depth(self, port: int, virtual: int, now: int) -> None:
        if virtual and self.level[port] == UP:
            return
        channel = int(self.by.tables.first_channel[port]) + virtual
        taken = self.depths[channel][now] = self.depth[port] - self.outputs[port].credits[virtual]
        self.fullest[channel] = max(self.fullest[channel], taken)

    def deliver_head(self, packet: Head, time: int) -> None:
        self.latencies.append(time - packet.born)
        matched = time + (in_picoseconds(self.settings.match) if packet.number == 0 else 0)
        task = packet.task
        self.arrived[task] = max(self.arrived.get(task, 0), matched)
        self.underway[task] -= packet.bytes
        if self.underway[task] == 0:
            done = self.arrived[task] + in_picoseconds(self.settings.nic_latency)
            self.at(done, lambda now: self.end(task, now), task)

    # Routers

    def come(self, packet: Head, port: int, virtual: int, now: int) -> None:
        router = self.routers[self.end_of[port]]
        queue = router.queues[port, virtual]
        queue.append(packet)
        if len(queue) == 1:
            self.decide(packet, port, virtual)
            self.run_clock(router, now)

    def run_clock(self, router: Router, now: int) -> None:
        """The next edge comes, unless it will anyway or there is nothing to do."""
        if not router.runs and any(router.queues.values()):
            router.runs = True
            edge = (now // router.flit + 1) * router.flit
            self.at(edge, partial(self.arbitrate, router), self.routers.index(router), EDGE)

    def arbitrate(self, router: Router, now: int) -> None:
        """Grant inputs in the order of ``router.order``; those that are granted move to its end, in reverse."""
        granted: list[tuple[int, int]] = []
        for port, virtual in router.order:
            queue = router.queues[port, virtual]
            if not queue or router.from_busy.get(port, 0) > now:
                continue
            packet = queue[0]
            is_free = router.to_busy.get(packet.out, 0) <= now
            if is_free and self.outputs[packet.out].room[packet.virtual] >= packet.flits:
                granted.append((port, virtual))
                router.from_busy[port] = router.to_busy[packet.out] = now + packet.flits * router.flit
        router.order = [entry for entry in router.order if entry not in granted] + granted[::-1]
        for port, virtual in sorted(granted, key=lambda entry: router.inputs.index(entry[0])):
            self.cross(router, port, virtual, now)
        router.runs = False
        self.run_clock(router, now)

    def cross(self, router: Router, port: int, virtual: int, now: int) -> None:
        queue = router.queues[port, virtual]
        packet = queue.popleft()
        if queue:
            self.decide(queue[0], port, virtual)
        back = now + self.until_credited(port)
        self.at(back, partial(self.credit, port, virtual, packet.flits), port, CREDIT)
        output = self.outputs[packet.out]
        output.room[packet.virtual] -= packet.flits
        assert output.room[packet.virtual] >= 0, "a packet without room in the next buffer must wait"
        output.queues[packet.virtual].append(packet)
        if output.waits:
            self.wake_at(packet.out, now + self.flit[packet.out])

    # Routes: topo_dragonfly

    def decide(self, packet: Head, port: int, virtual: int) -> None:
        """``route_packet``: by which port and virtual channel a packet leaves the router that it has come to."""
        router, size = self.end_of[port], self.hops.routers_per_group
        root = int(self.layout.path_roots[self.path[packet.task]])
        endpoint = int(self.layout.root_next[root])
        target = int(self.hops.router[endpoint])
        inside = router // size == target // size
        packet.virtual = virtual
        if self.level[port] == UP:
            packet.cable = int(self.layout.root_source[root]) % self.hops.cables
            self.first_route(packet, router, target)
        elif self.level[port] == GLOBAL:
            packet.virtual, packet.middle = virtual + 1, None
            if self.by.routing == "adaptive_local" and not inside:
                own_cable = int(self.layout.root_source[root]) % self.hops.cables
                packet.cable, _ = self.emptier(router, target // size, own_cable, virtual)
        elif inside:
            packet.middle = None
            packet.virtual = virtual + int(router != target)
        if router == target:
            packet.out = int(self.hops.down[endpoint])
        elif inside:
            packet.out = int(self.hops.inside[router, target % size if packet.middle is None else packet.middle])
        else:
            group = target // size if packet.middle is None else packet.middle
            packet.out = int(self.hops.outside[router, group, packet.cable])

    def first_route(self, packet: Head, router: int, target: int) -> None:
        """``process_input`` and, at a NIC's port, ``route_adaptive_local``."""
        hops, own_cable, threshold = self.hops, packet.cable, self.settings.threshold
        size, routing = hops.routers_per_group, self.by.routing
        packet.middle = None
        if router == target or routing == "minimal":
            return
        source_group, target_group = router // size, target // size
        word = draws(self.seed, packet.task, packet.number, AT_SOURCE)[1]
        if source_group == target_group:
            places = [place for place in range(size) if place != router % size]
            place = places[below(word, len(places))]
            direct, around = (self.free(int(hops.inside[router, index]), 0) for index in (target % size, place))
            is_better = routing == "valiant_group" or around > int(direct * threshold)
            packet.middle = place if is_better and place != target % size else None
            return
        groups = [group for group in range(hops.groups) if group not in (source_group, target_group)]
        middle = groups[below(word, len(groups))] if groups else None
        if routing == "valiant_group":
            packet.middle = middle
            return
        packet.cable, direct = self.emptier(router, target_group, own_cable, 0)
        if middle is None:
            return
        cable, around = self.emptier(router, middle, own_cable, 0)
        if around > int(direct * threshold):
            packet.middle, packet.cable = middle, cable

    def emptier(self, router: int, group: int, cable: int, virtual: int) -> tuple[int, int]:
        """The cable or, unless it has more room, the next one, and the flits that are free."""
        following = (cable + 1) % self.hops.cables
        one, two = (self.free(int(self.hops.outside[router, group, option]), virtual) for option in (cable, following))
        return (cable, one) if one > two else (following, two)

    def free(self, port: int, virtual: int) -> int:
        return self.outputs[port].room[virtual]


@dataclass
class Message:
    """A message that a machine sends."""

    task: int
    packets: int
    sent: int = 0
