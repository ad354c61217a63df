"""The packet model in plain Python where routers forward by address: what ``reference`` leaves to the layout's steps.

    minimal          the router of the source draws one of the cables between both groups
    valiant_group    it draws a group first (inside a group: a router) and a cable to it, the router that the packet
                     comes to there a cable from it on
    adaptive_local   it draws both, and compares what is occupied at its two ports: the buffer at the end of the link
                     as it knows it from credits, and what waits for the port; going around must be ``threshold``
                     times better
    ugal             the same, with the hops of both routes in place of the threshold

Where several links are equally good (``next_hops.LinkSets``), a router draws one for each packet. Both adaptive
routings look at two cables, or two links of a set, that lie next to each other and take the less occupied. They decide
when the head of a packet has come to a router, after all credits and before all ports of that moment.

Source: as the modules of ``topoflow.engine.lowering.routing`` say.
"""

from __future__ import annotations

import itertools
from functools import partial

from tests.twins.packet import ARRIVE, Packet, Simulation
from topoflow.engine.base import World
from topoflow.engine.packet.addresses import AddressedLayout
from topoflow.engine.packet.draws import AT_MIDDLE, AT_SOURCE, draws
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import Numbers, PacketSettings, in_picoseconds
from topoflow.engine.random import below
from topoflow.fabric.routing.next_hops import DOWN, UP


class Route:
    """The cable between groups that a packet takes next, and the intermediate group or router that it is routed to."""

    def __init__(self, cable: int, group: int | None = None, router: int | None = None) -> None:
        self.cable, self.group, self.router = cable, group, router

    def other_cable(self, cables: int) -> Route:
        return Route((self.cable + 1) % cables, self.group, self.router)


class AddressedSimulation(Simulation):
    """One world; ``run`` once. ``layout`` is an ``AddressedLayout``."""

    def __init__(self, world: World, layout: AddressedLayout, numbers: Numbers, settings: PacketSettings) -> None:
        self.by, self.hops = layout, layout.next_hops
        self.adapts = self.by.routing in ("adaptive_local", "ugal")
        super().__init__(world, layout, numbers, settings)
        self.target = [int(layout.root_next[path]) if path >= 0 else NONE for path in self.path]
        self.routes: dict[tuple[int, int], Route] = {}  # of packets, by task and number
        self.lies = dict(self.pairs())
        self.coming: dict[int, list[Packet]] = {}  # by port, those that it cannot send yet without a gap
        # (link, virtual channel) that packets have crossed, by task and number
        self.paths: dict[tuple[int, int], list[tuple[int, int]]] = {}

    # Queues: one for each channel that ends at a router and each link that leaves it

    def count_queues(self) -> int:
        return int(self.by.port_queues[-1])

    def queues_of(self, first: int, end: int) -> list[int]:
        return list(range(first, end))

    def pairs(self) -> list[tuple[int, int]]:
        pairs = []
        for channel, port in enumerate(self.by.channel_port.tolist()):
            for out in range(self.by.ports):
                if self.hops.source[out] == self.hops.target[port]:
                    pairs.append((self.queue(channel, out), channel))
        return pairs

    def queue(self, channel: int, out: int) -> int:
        return int(self.by.port_queues[out]) + int(self.by.tables.place[channel])

    def channel_of(self, queue: int) -> int:
        return self.lies[queue]

    # Packets on their way

    def pass_on(self, packet: Packet, port: int, now: int, taken: int) -> None:
        key = (packet.task, packet.number)
        virtual_channel = packet.channel - int(self.by.tables.first_channel[port])
        self.paths.setdefault(key, []).append((int(self.by.port_link[port]), virtual_channel))
        if not self.adapts:
            super().pass_on(packet, port, now, taken)
            return
        head = self.numbers.time(port, self.settings.flit) if self.settings.cut_through else taken
        come = now + head + int(self.numbers.latency[port]) + in_picoseconds(self.settings.switch_latency)
        place = int(self.by.tables.place[packet.channel])
        self.at(come, partial(self.come, packet, port, head, taken), place, ARRIVE)

    def come(self, packet: Packet, port: int, head: int, taken: int, time: int) -> None:
        queue = self.route(packet)
        ready = time - head + self.head_time(packet, port, taken)
        if ready == time:
            self.arrive(packet, queue, time)
        else:
            self.coming.setdefault(packet.port, []).append(packet)
            self.at(ready, partial(self.come_later, packet, queue), port)

    def come_later(self, packet: Packet, queue: int, time: int) -> None:
        self.coming[packet.port].remove(packet)
        self.arrive(packet, queue, time)

    def route(self, packet: Packet) -> int:
        lies, port = packet.channel, packet.port
        router, key = int(self.hops.target[port]), (packet.task, packet.number)
        if self.hops.level[port] == UP:
            self.routes[key] = self.first(packet, router)
        elif self.has_come(router, self.routes[key]):
            cable = below(self.words(packet, AT_MIDDLE)[0], self.hops.cables)
            self.routes[key] = self.emptier(packet, router, Route(cable))
        out = self.next(packet, router, self.routes[key])
        packet.port, packet.channel = out, self.channel_after(lies, port, out)
        return self.queue(lies, out)

    def words(self, packet: Packet, branch: int) -> tuple[int, int, int, int]:
        return draws(self.seed, packet.task, packet.number % self.settings.numbers_drawn, branch)

    def channel_after(self, lies: int, port: int, out: int) -> int:
        """One virtual channel higher wherever the level does not rise."""
        level, first = self.hops.level, self.by.tables.first_channel
        if level[out] == DOWN:
            return NONE
        if level[port] == UP:
            return int(first[out])
        return int(first[out]) + lies - int(first[port]) + int(level[out] <= level[port])

    # Routes

    def next(self, packet: Packet, router: int, route: Route) -> int:
        """The link by which ``router`` sends."""
        links = self.links(router, self.target[packet.task], route)
        if len(links) == 1:
            return links[0]
        place = below(self.words(packet, router)[0], len(links))
        one, two = links[place], links[(place + 1) % len(links)]
        is_emptier = self.adapts and self.occupied(packet, two)[0] < self.occupied(packet, one)[0]
        return two if is_emptier else one

    def links(self, router: int, endpoint: int, route: Route) -> list[int]:
        """Return the links among which ``router`` chooses."""
        entry = self.entry(router, endpoint, route)
        if entry >= 0:
            return [entry]
        begin, links = self.hops.sets
        members: list[int] = links[begin[-2 - entry] : begin[-1 - entry]].tolist()
        return members

    def entry(self, router: int, endpoint: int, route: Route) -> int:
        """Return the entry in the tables of ``router``."""
        hops, target = self.hops, int(self.hops.router[endpoint])
        size = hops.routers_per_group
        if route.router is not None:
            return int(hops.inside[router, route.router % size])
        if route.group is not None:
            return int(hops.outside[router, route.group, route.cable])
        if router == target:
            return int(hops.down[endpoint])
        if hops.group[router] == target // size:
            return int(hops.inside[router, target % size])
        return int(hops.outside[router, target // size, route.cable])

    def has_come(self, router: int, route: Route) -> bool:
        return router == route.router or (route.group is not None and self.hops.group[router] == route.group)

    def length(self, router: int, endpoint: int, route: Route) -> int:
        """Links between routers on the way."""
        count = 0
        while True:
            if self.has_come(router, route):
                route = Route(route.cable)
            out = self.links(router, endpoint, route)[0]
            if self.hops.level[out] == DOWN:
                return count
            router, count = int(self.hops.target[out]), count + 1

    def first(self, packet: Packet, router: int) -> Route:
        """Choose the route at the router of the source."""
        words, target = self.words(packet, AT_SOURCE), int(self.hops.router[self.target[packet.task]])
        direct = Route(below(words[0], self.hops.cables))
        if self.by.routing == "minimal" or router == target:
            return direct
        around = self.around(router, target, words)
        if not self.adapts:
            return around or direct
        direct = self.emptier(packet, router, direct)
        if around is None:
            return direct
        around = self.emptier(packet, router, around)
        return around if self.goes_around(packet, router, direct, around) else direct

    def around(self, router: int, target: int, words: tuple[int, int, int, int]) -> Route | None:
        size, cable = self.hops.routers_per_group, below(words[2], self.hops.cables)
        source_group, target_group = router // size, target // size
        if source_group != target_group:
            others = [group for group in range(self.hops.groups) if group not in (source_group, target_group)]
            return Route(cable, group=others[below(words[1], len(others))]) if others else None
        routers = [
            candidate
            for candidate in range(source_group * size, (source_group + 1) * size)
            if candidate not in (router, target)
        ]
        return Route(cable, router=routers[below(words[1], len(routers))]) if routers else None

    def goes_around(self, packet: Packet, router: int, direct: Route, around: Route) -> bool:
        endpoint = self.target[packet.task]
        outs = [self.next(packet, router, route) for route in (direct, around)]
        (one, one_buffer), (two, two_buffer) = (self.occupied(packet, out) for out in outs)
        if self.by.routing == "ugal":
            return one * self.length(router, endpoint, direct) > two * self.length(router, endpoint, around)
        if self.settings.by_free:
            return max(two_buffer - two, 0) > self.settings.threshold * max(one_buffer - one, 0)
        return one > self.settings.threshold * two

    def emptier(self, packet: Packet, router: int, route: Route) -> Route:
        """The same, or by the next cable if less is occupied there."""
        if not self.adapts:
            return route
        other = route.other_cable(self.hops.cables)
        one, two = (self.next(packet, router, candidate) for candidate in (route, other))
        return other if one != two and self.occupied(packet, two)[0] < self.occupied(packet, one)[0] else route

    def occupied(self, packet: Packet, out: int) -> tuple[int, int]:
        """Flits that are in the buffer after ``out`` or wait for it, and those of the buffer."""
        queues = self.queues[int(self.by.port_queues[out]) : int(self.by.port_queues[out + 1])]
        waiting = sum(queued.flits for queued in itertools.chain(*queues, self.coming.get(out, ())))
        channel = self.channel_after(packet.channel, packet.port, out)
        if channel == NONE:
            return waiting, 0
        buffer = int(self.numbers.buffer[channel])
        return waiting + buffer - self.room[channel], buffer
