"""Fast optical switches in plain Python: the oracle of ``csrc/slotted/protocols/ack_nack.h``. Written to be read.

A slot, at all servers at once:

    1. Tasks whose time has come queue at their servers. Those of a server take turns to put a packet into the buffer of
       a transceiver, as fast as its cable is.
    2. Every transceiver sends one packet, with its label.
    3. Where several meet at an output one gets through (ACK). The switch refuses the others (NACK): they stay, and are
       sent again in the next slot.
    4. What got through has arrived, or is stored to be sent on after a pause: the time of flight and buffering.

What the paper leaves open:

    - Priority: members of a switch take turns at each output, from the one after that which got through last on.
    - Which of two shortest paths a packet takes: each is as likely.
    - Which of several transceivers: that with the fewest packets in its buffer.
    - A buffer is first come, first served; packets of others, which take their second hop, go before the server's own.
    - A full buffer: a server keeps its own packets until there is room, and a packet that would go on from a server
      without room is refused. One place of each buffer is kept for packets of others: these always drain, as the
      second hop is the last, so that no circle of full buffers waits for itself. Nothing is ever lost.

Shapes: N servers, T transceivers of each.
Source: FOSquare (Yan et al., Photonics 2021), 2.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from topoflow.engine.random import below, philox
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.reference import Cell, Hop, Reference, Server
from topoflow.engine.slotted.settings import Settings
from topoflow.fabric.circuits.on_demand import Square

PATH = 2  # purpose of random numbers


@dataclass
class Transceiver:
    """One of a node, and the output for it at its switch."""

    kind: int  # 0: to the switch of the rack, 1: to that of the place
    own: deque[Cell] = field(default_factory=deque)
    others: deque[tuple[int, Cell]] = field(default_factory=deque)  # (first slot in which it can be sent on, packet)
    turn: int = 0  # the member of the switch that comes first at the output

    @property
    def length(self) -> int:
        return len(self.own) + len(self.others)

    def sends_others(self, slot: int) -> bool:
        return bool(self.others) and self.others[0][0] <= slot

    def offer(self, slot: int) -> Cell | None:
        if self.sends_others(slot):
            return self.others[0][1]
        return self.own[0] if self.own else None


class AckNackReference(Reference):
    """One world of fast optical switches; ``run`` simulates it to the end."""

    def __init__(self, cells: Cells, settings: Settings) -> None:
        super().__init__(cells, settings)
        square = cells.schedule
        assert isinstance(square, Square)
        self.square = square
        self.in_turns = False  # servers are nodes: nothing waits between them
        kinds = [0] * square.intra + [1] * square.inter
        self.transceivers = [[Transceiver(kind) for kind in kinds] for _ in range(square.nodes)]
        self.refused = [[0, 0] for _ in range(square.nodes)]
        self.sent = 0  # packets, those that were refused included

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
        self.epoch += 1

    def fill(self, node: int, server: Server) -> None:
        server.surplus += self.world.epoch
        misses = 0
        while server.surplus >= 0 and server.queue and misses < len(self.transceivers[node]):
            task = server.queue.popleft()
            flow, target = self.flow[task], self.ends(task)[1]
            cell = Cell(task, flow.left, target, node)
            at = None if target == node else self.shortest(node, self.first_kind(cell, node), self.square.room - 1)
            if target == node:
                self.deliver(cell, self.epoch * self.world.epoch)
            elif at is not None:
                at.own.append(cell)
            else:
                misses += 1
            if target == node or at is not None:
                flow.left, flow.unsent, server.surplus = (
                    flow.left + 1,
                    flow.unsent - 1,
                    server.surplus - self.world.pace,
                )
            if flow.unsent:
                server.queue.append(task)
        server.surplus = min(server.surplus, 0)

    def first_kind(self, cell: Cell, node: int) -> int:
        kinds = self.square.first_kinds(node, cell.to)
        return kinds[below(philox((cell.number, cell.task, 0, PATH), self.key)[0], len(kinds))]

    def shortest(self, node: int, kind: int, most: int, claimed: dict[int, int] | None = None) -> Transceiver | None:
        """Of the transceivers of a kind, that with the fewest packets, if these are fewer than ``most``."""

        def length(each: Transceiver) -> int:
            return each.length + (claimed or {}).get(id(each), 0)

        best = min((each for each in self.transceivers[node] if each.kind == kind), key=length)
        return best if length(best) < most else None

    def offers(self) -> dict[tuple[int, int], list[int]]:
        """The senders at every output: (node, transceiver)."""
        found: dict[tuple[int, int], list[int]] = {}
        for node, row in enumerate(self.transceivers):
            for t, each in enumerate(row):
                cell = each.offer(self.epoch)
                if cell is not None:
                    found.setdefault((self.square.next_node(node, cell.to, each.kind), t), []).append(node)
        return found

    def answers(self, offers: dict[tuple[int, int], list[int]]) -> list[tuple[Hop, int, Transceiver | None]]:
        """What gets through: the hop, the transceiver that sends, that which it goes on by; None: it has arrived."""
        through = []
        claimed: dict[int, int] = {}  # places for packets that come in this slot
        for (node, t), senders in sorted(offers.items()):
            output = self.transceivers[node][t]
            members = self.square.servers_per_rack if output.kind == 0 else self.square.racks
            self.refused[node][output.kind] += len(senders)
            ranks = {sender: self.square.member(sender, output.kind) for sender in senders}
            for sender in sorted(senders, key=lambda sender: (ranks[sender] - output.turn) % members):
                cell, by = self.transceivers[sender][t].offer(self.epoch), None
                assert cell is not None
                if cell.to != node:
                    by = self.shortest(node, 1 - output.kind, self.square.room, claimed)
                    if by is None:
                        continue  # no room to wait in
                    claimed[id(by)] = claimed.get(id(by), 0) + 1
                self.refused[node][output.kind] -= 1
                through.append((Hop(self.epoch, sender, node, cell), t, by))
                output.turn = (ranks[sender] + 1) % members
                break
        return through

    def move(self, through: list[tuple[Hop, int, Transceiver | None]]) -> None:
        for hop, t, _ in through:
            sender = self.transceivers[hop.source][t]
            if sender.sends_others(self.epoch):
                sender.others.popleft()
            else:
                sender.own.popleft()
        for hop, t, by in through:
            kind = self.transceivers[hop.target][t].kind
            self.hops.append(hop)
            if by is None:  # the cable to a server adds nothing but where several packets meet
                time = self.epoch * self.world.epoch + self.world.arrive[kind]
                self.deliver(hop.cell, time - self.world.pace)
            else:
                by.others.append((self.epoch + self.world.pause[kind], hop.cell))

    def note_fullest(self) -> None:
        for node, row in enumerate(self.transceivers):
            self.fullest[node] = max(self.fullest[node], sum(each.length for each in row))

    def is_empty(self) -> bool:
        waiting = any(each.length for row in self.transceivers for each in row)
        return not (waiting or any(server.queue for server in self.server))
