"""Fast optical switches in plain Python: the oracle of ``csrc/slotted/protocols/ack_nack.h``. Written to be read.

A slot, at all servers at once:

    1. Tasks whose time has come queue at their servers. Those of a server take turns to put a packet into the buffer of
       a transceiver, as fast as its cable is.
    2. Every transceiver sends one packet, with its label.
    3. Where several meet at an output the switch accepts one (ACK). It refuses the others (NACK): they stay, and are
       sent again in the next slot.
    4. An accepted packet has arrived, or is stored and forwarded after a pause: the time of flight and buffering.

What the paper leaves open:

    - Priority: members of a switch take turns at each output, beginning after the one that was accepted last.
    - Which of two shortest paths a packet takes: each is as likely.
    - Which of several transceivers: that with the fewest packets in its buffer.
    - A buffer is first come, first served; packets of others, which take their second hop, go before the server's own.
    - A full buffer: a server keeps its own packets until there is room, and a packet that a server without room
      would have to forward is refused. One place of each buffer is kept for packets of others: these always drain, as
      the second hop is the last, so that no circle of full buffers waits for itself. Nothing is ever lost.
    - Or (``loss=drop``) what finds a full buffer is lost, at its own server and at the one that would forward it: "The
      packet loss comes from the overload of the electronic buffer in the server". No place is kept, and no switch
      refuses for lack of room, as it answers "based on the contention results". Nothing sends a lost packet again: the
      paper knows retransmission after a NACK alone, and fixed times of transmission. A message that lost a packet
      never finishes.

Shapes: N servers, T transceivers of each.
Source: FOSquare (Yan et al., Photonics 2021), 2.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.twins.slotted import Cell, Hop, Reference, Server
from topoflow.engine.random import below, philox
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.on_demand import Square

PATH = 2  # purpose of random numbers


@dataclass
class Transceiver:
    """One of a node, and the output for it at its switch."""

    kind: int  # 0: to the switch of the rack, 1: to that of the place
    cells: deque[Cell] = field(default_factory=deque)
    relayed: deque[tuple[int, Cell]] = field(default_factory=deque)  # (first slot in which it can be sent on, packet)
    turn: int = 0  # the member of the switch that comes first at the output
    claimed: int = 0  # places for packets that come in this slot

    @property
    def length(self) -> int:
        return len(self.cells) + len(self.relayed) + self.claimed

    def sends_relayed(self, slot: int) -> bool:
        return bool(self.relayed) and self.relayed[0][0] <= slot

    def offer(self, slot: int) -> Cell | None:
        if self.sends_relayed(slot):
            return self.relayed[0][1]
        return self.cells[0] if self.cells else None


class AckNackReference(Reference):
    """One world of fast optical switches; ``run`` simulates it to the end."""

    def __init__(self, cells: Cells, settings: SlottedSettings) -> None:
        super().__init__(cells, settings)
        square = cells.schedule
        assert isinstance(square, Square)
        self.square = square
        self.in_turns = False  # servers are nodes: nothing waits between them
        kinds = [0] * square.intra + [1] * square.inter
        self.transceivers = [[Transceiver(kind) for kind in kinds] for _ in range(square.nodes)]
        self.refused = [[0, 0] for _ in range(square.nodes)]
        self.sent = 0  # packets, those that were refused included
        self.drops = settings.loss == "drop"
        self.own_room = square.room - (not self.drops)
        self.lost = [0 for _ in range(cells.tasks)]  # packets

    def advance(self) -> None:
        """One slot."""
        self.begin_due(self.epoch * self.world.epoch)
        for number, server in enumerate(self.server):
            if server.queue:
                self.fill(int(self.world.node[number]), server)
        self.note_fullest()
        offers = self.offers()
        self.sent += sum(map(len, offers.values()))
        self.move(self.answers(offers))
        self.note_fullest()
        self.note_waiting()
        self.epoch += 1

    def fill(self, node: int, server: Server) -> None:
        server.surplus += self.world.epoch
        misses = 0
        while server.surplus >= 0 and server.queue and misses < len(self.transceivers[node]):
            task = server.queue.popleft()
            flow, target = self.flow[task], self.ends(task)[1]
            if self.accepts(node, Cell(task, flow.left, target, node)):
                flow.left += 1
                flow.unsent -= 1
                server.surplus -= self.world.pace
            else:
                misses += 1
            if flow.unsent:
                server.queue.append(task)
        server.surplus = min(server.surplus, 0)

    def accepts(self, node: int, cell: Cell) -> bool:
        """Take a packet of the node's own server if it is delivered, has room or is dropped; say if it was taken."""
        if cell.to == node:
            self.deliver(cell, self.epoch * self.world.epoch)
            return True
        at = self.shortest(node, self.first_kind(cell, node), self.own_room)
        if at is not None:
            at.cells.append(cell)
        elif self.drops:
            self.drop(cell)
        return at is not None or self.drops

    def drop(self, cell: Cell) -> None:
        self.lost[cell.task] += 1
        self.end_if_lost(cell.task)

    def deliver(self, cell: Cell, time: int) -> None:
        super().deliver(cell, time)
        self.end_if_lost(cell.task)

    def end_if_lost(self, task: int) -> None:
        """End a task whose cells have all come or are lost; a task that waits for it waits for ever."""
        if self.lost[task] and self.flow[task].delivered + self.lost[task] == self.world.cells[task]:
            self.left -= 1

    def first_kind(self, cell: Cell, node: int) -> int:
        kinds = first_kinds(self.square, node, cell.to)
        return kinds[below(philox((cell.number, cell.task, 0, PATH), self.key)[0], len(kinds))]

    def shortest(self, node: int, kind: int, most: int) -> Transceiver | None:
        """The transceiver of a kind with the fewest packets, if these are fewer than ``most``."""
        best = min(
            (transceiver for transceiver in self.transceivers[node] if transceiver.kind == kind),
            key=lambda transceiver: transceiver.length,
        )
        return best if best.length < most else None

    def offers(self) -> dict[tuple[int, int], list[int]]:
        """The senders at every output: (node, transceiver)."""
        senders: dict[tuple[int, int], list[int]] = {}
        for node, row in enumerate(self.transceivers):
            for t, transceiver in enumerate(row):
                cell = transceiver.offer(self.epoch)
                if cell is not None:
                    senders.setdefault((next_node(self.square, node, cell.to, transceiver.kind), t), []).append(node)
        return senders

    def answers(self, offers: dict[tuple[int, int], list[int]]) -> list[tuple[Hop, int, Transceiver | None]]:
        """Accepted packets: the hop, the number of both transceivers, and the one that forwards.

        None forwards a packet that arrives, or one that is lost there.
        """
        accepted = []
        for (node, t), senders in sorted(offers.items()):
            output = self.transceivers[node][t]
            members = self.square.servers_per_rack if output.kind == 0 else self.square.racks
            self.refused[node][output.kind] += len(senders)
            ranks = {sender: self.square.member(sender, output.kind) for sender in senders}
            for sender in sorted(senders, key=lambda sender: (ranks[sender] - output.turn) % members):
                cell, forwards = self.transceivers[sender][t].offer(self.epoch), None
                assert cell is not None
                if cell.to != node:
                    forwards = self.shortest(node, 1 - output.kind, self.square.room)
                    if forwards is not None:
                        forwards.claimed += 1
                    elif not self.drops:
                        continue  # no room to wait in
                self.refused[node][output.kind] -= 1
                accepted.append((Hop(self.epoch, sender, node, cell), t, forwards))
                output.turn = (ranks[sender] + 1) % members
                break
        return accepted

    def move(self, accepted: list[tuple[Hop, int, Transceiver | None]]) -> None:
        for hop, t, _ in accepted:
            sender = self.transceivers[hop.source][t]
            if sender.sends_relayed(self.epoch):
                sender.relayed.popleft()
            else:
                sender.cells.popleft()
        for hop, t, forwards in accepted:
            kind = self.transceivers[hop.target][t].kind
            self.hops.append(hop)
            if forwards is None and hop.target != hop.cell.to:
                self.drop(hop.cell)
            elif forwards is None:  # the cable to a server adds nothing but where several packets meet
                time = self.epoch * self.world.epoch + self.world.arrive[kind]
                self.deliver(hop.cell, time - self.world.pace)
            else:
                forwards.claimed -= 1
                forwards.relayed.append((self.epoch + self.world.pause[kind], hop.cell))

    def held(self) -> list[int]:
        return [sum(transceiver.length for transceiver in row) for row in self.transceivers]

    def is_empty(self) -> bool:
        waiting = any(transceiver.length for row in self.transceivers for transceiver in row)
        return not (waiting or any(server.queue for server in self.server))


def first_kinds(square: Square, source: int, target: int) -> tuple[int, ...]:
    """The kinds of the first transceivers on shortest paths: 0 to the rack's switch, 1 to that of the place."""
    rack, place = divmod(source, square.servers_per_rack)
    target_rack, target_place = divmod(target, square.servers_per_rack)
    return (0,) if rack == target_rack else (1,) if place == target_place else (0, 1)


def next_node(square: Square, node: int, target: int, kind: int) -> int:
    """The node that a packet for ``target`` reaches from ``node`` through a switch of this kind."""
    size = square.servers_per_rack
    (rack, place), (target_rack, target_place) = divmod(node, size), divmod(target, size)
    return rack * size + target_place if kind == 0 else target_rack * size + place
