"""The packet model in plain Python where routers forward by address and ports lose or mark packets.

Each half is as it is alone. Between them:

    a router that adapts   decides about all packets whose heads come to it at a time, then each of them comes to its
                           port, where it waits, is marked or is lost. Where packets are lost there are no credits: it
                           compares what waits for a port, with the packet that the port sends until that has gone
    a trimmed packet       goes on by the links that it draws, as if no router looked at its queues

Source: ``packet_addresses``, ``packet_transport``.
"""

from __future__ import annotations

import itertools
from functools import partial

from tests.twins.packet import Packet
from tests.twins.packet_addresses import AddressedSimulation, Route
from tests.twins.packet_transport import TransportSimulation
from topoflow.engine.packet.draws import AT_MIDDLE
from topoflow.engine.packet.settings import in_picoseconds
from topoflow.engine.random import below
from topoflow.fabric.routing.next_hops import DOWN

ADMIT = 1.5  # after all decisions of a time (``packet.ARRIVE``), before ports send (``packet.SEND``)


class AddressedTransportSimulation(AddressedSimulation, TransportSimulation):
    """One world; ``run`` once. ``layout`` is an ``AddressedLayout``."""

    now = 0  # ps, of the decision of a router

    def come(self, packet: Packet, port: int, head: int, taken: int, time: int) -> None:
        self.now = time
        queue = self.route(packet)
        self.coming.setdefault(packet.port, []).append(packet)
        ready = time - head + self.head_time(packet, port, taken)
        self.at(ready, partial(self.come_later, packet, queue), queue, ADMIT)

    def occupied(self, packet: Packet, out: int) -> tuple[int, int]:
        if not self.settings.loses:
            return super().occupied(packet, out)
        coming = sum(queued.flits for queued in self.coming.get(out, ()))
        return self.depth(out, self.now) + coming, int(self.numbers.control.depth[out])

    def rest(self, packet: Packet) -> int:
        out, route, total = packet.port, self.routes[packet.task, packet.number], 0
        for hop in itertools.count():
            total += self.numbers.time(out, self.settings.flit) + int(self.numbers.latency[out])
            if self.hops.level[out] == DOWN:
                return total + hop * in_picoseconds(self.settings.switch_latency)
            router = int(self.hops.target[out])
            if self.has_come(router, route):
                route = Route(below(self.words(packet, AT_MIDDLE)[0], self.hops.cables))
            links = self.links(router, self.target[packet.task], route)
            out = links[below(self.words(packet, router)[0], len(links))]
        raise AssertionError("every route ends at a server")
