"""Rotor switches in plain Python: the oracle of ``csrc/slotted/protocols/rotor.h``. Written to be read, not to be fast.

A slot, at all nodes at once; in it every link carries up to K cells from a node to the one that its switch joins it to:

    1. Tasks whose time has come queue at their servers; servers put cells into LOCAL, as fast as their cables are.
    2. A link sends cells that its node stores for the other node (their second hop), then cells of LOCAL for it.
    3. RotorLB: links with capacity left offer cells of LOCAL that are for other nodes. The other node accepts for each
       destination what its own next link to it can carry besides what it has for it: K less its LOCAL and its store.
    4. What was accepted follows on the link. Cells that came are stored, or are at the node of their target.

A node accepts nothing for one that it has no link to, as a part failed.

What is sent in a slot can be sent on in the next; a cell takes one detour at most, and none is stored for longer than a
cycle, as no more than K cells are stored for a destination.

What the paper leaves open, or our memory of it:

    - A node has several links at once, and offers each cell to one of them: backlogs are split evenly, and remainders
      go to other links in each cycle. (In each slot instead, a cell whose only detour is by a link that is always there
      in the others' turn would wait for ever.)
    - Fair shares at the node that accepts: links take turns for one cell each, beginning with another link in each
      slot, and each of them goes round the destinations, beginning after its own node, until nothing is left.
    - Offers and answers take no time; they are exchanged at the beginning of the slot.
    - Servers may have any number of cells in LOCAL (``slotted.credits`` is of other protocols).
    - Cells of a link follow each other: stored, own, accepted by destination. Cell k comes at one time on all.

Shapes: N nodes, U switches, K cells of a link in a slot.
Source: RotorNet (Mellette et al., SIGCOMM 2017), RotorLB: stored traffic first, then direct, then what is offered and
accepted. Cited from memory: the paper was not at hand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tests.twins.slotted import Cell, Hop, Reference
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.rotors import Rotors
from topoflow.fabric.circuits.schedule import EMPTY
from topoflow.fabric.circuits.staggered import Staggered

Sent = list[list[dict[int, Cell]]]  # [N, U] what a link sends in a slot, by the time (of K) at which it does


class RotorReference(Reference):
    """One world of rotor switches; ``run`` simulates it to the end."""

    def __init__(self, cells: Cells, settings: SlottedSettings) -> None:
        assert isinstance(cells.schedule, Rotors)
        super().__init__(cells, replace(settings, credits=None))
        self.rotors = cells.schedule
        self.limit = self.rotors.cells

    def advance(self) -> None:
        """One slot."""
        self.begin_due(self.epoch * self.world.epoch)
        self.inject()
        self.note_fullest()
        nodes, switches = range(self.rotors.nodes), range(self.rotors.switches)
        links = [[self.rotors.target(node, switch, self.epoch) for switch in switches] for node in nodes]
        sent: Sent = [[{} for _ in switches] for _ in nodes]
        self.send_first(sent)
        for node in nodes:
            for switch, target in enumerate(links[node]):
                self.send_own(node, switch, target, sent)
        backlog = [self.backlog(node) for node in nodes]
        accepted = [self.accept(node, links, sent, backlog) for node in nodes]
        for node in nodes:
            for switch, target in enumerate(links[node]):
                for to in nodes if target != EMPTY else ():
                    for _ in range(accepted[target][switch][to]):
                        self.send_cell(self.take(node, to, target), sent[node][switch])
        self.hand_over(links, sent)
        self.note_fullest()
        for server in self.server:
            self.serve(server, (self.epoch + 1) * self.world.epoch)
        self.note_waiting()
        self.epoch += 1

    def send_first(self, sent: Sent) -> None:
        """Send nothing before all else."""

    def send_own(self, node: int, switch: int, target: int, sent: Sent) -> None:
        """Send the cells that are stored for the node at the other end of a link, then those of LOCAL for it."""
        link = sent[node][switch]
        while target != EMPTY and self.capacity(node, switch, sent) and self.relayed[node][target]:
            self.send_cell(self.relayed[node][target].popleft(), link)
        while target != EMPTY and self.capacity(node, switch, sent) and self.local[node][target]:
            self.send_cell(self.take(node, target, target), link)

    def send_cell(self, cell: Cell, link: dict[int, Cell]) -> None:
        """Send a cell at the first free time of the slot."""
        link[next(time for time in range(self.limit) if time not in link)] = cell

    def capacity(self, node: int, switch: int, sent: Sent) -> int:
        """Cells that a link can still send in this slot."""
        return carries(self.rotors, switch, self.epoch) - len(sent[node][switch])

    def backlog(self, node: int) -> list[int]:
        """[N] cells of LOCAL by destination."""
        return [sum(self.flow[task].local for task in flows) for flows in self.local[node]]

    def accept(self, node: int, links: list[list[int]], sent: Sent, backlog: list[list[int]]) -> list[list[int]]:
        """[U, N] cells that a node accepts by each switch, for each destination."""
        nodes, switches = range(self.rotors.nodes), range(self.rotors.switches)
        accepted = [[0 for _ in nodes] for _ in switches]
        room = [self.rotors.stored - backlog[node][to] - len(self.relayed[node][to]) for to in nodes]
        room = [count if to != node and self.rotors.joins(node, to) else 0 for to, count in enumerate(room)]
        first = self.epoch % self.rotors.switches
        turns: deque[tuple[int, int, int, list[int]]] = deque()  # (switch, capacity, next destination, offer)
        for switch in (*switches[first:], *switches[:first]):
            source = next((sender for sender in nodes if links[sender][switch] == node), EMPTY)
            if source != EMPTY and (capacity := self.capacity(source, switch, sent)):
                offer = self.offer(source, switch, links, sent, backlog)
                turns.append((switch, capacity, (node + 1) % len(nodes), offer))
        while turns:
            switch, capacity, begin, offer = turns.popleft()
            ahead = (offset % len(nodes) for offset in range(begin, begin + len(nodes)))
            to = next((candidate for candidate in ahead if offer[candidate] and room[candidate] > 0), None)
            if to is None:
                continue  # nothing more by this link
            accepted[switch][to] += 1
            offer[to] -= 1
            room[to] -= 1
            if capacity > 1:
                turns.append((switch, capacity - 1, (to + 1) % len(nodes), offer))
        return accepted

    def offer(self, node: int, switch: int, links: list[list[int]], sent: Sent, backlog: list[list[int]]) -> list[int]:
        """[N] cells that a node offers to the other end of a link: its part of what is left for each destination."""
        free = [
            index
            for index in range(self.rotors.switches)
            if links[node][index] != EMPTY and self.capacity(node, index, sent)
        ]
        turn = free.index(switch) + self.epoch // self.rotors.cycle
        return [(cells + (turn + to) % len(free)) // len(free) for to, cells in enumerate(backlog[node])]

    def hand_over(self, links: list[list[int]], sent: Sent) -> None:
        """In the order in which cells come: those of time k of all links, by switch, then those of k + 1."""
        first, cell_time = self.world.arrive
        for number in range(self.limit):
            for switch in range(self.rotors.switches):
                for node, row in enumerate(sent):
                    if number in row[switch]:
                        target, cell = links[node][switch], row[switch][number]
                        self.hops.append(Hop(self.epoch, node, target, cell))
                        time = self.epoch * self.world.epoch + first + number * cell_time
                        self.store_or_deliver(target, cell, time)

    def store_or_deliver(self, node: int, cell: Cell, time: int) -> None:
        if cell.to == node:
            self.deliver(cell, time)
            return
        self.relayed[node][cell.to].append(cell)
        assert len(self.relayed[node][cell.to]) <= self.rotors.stored, "no more than its next link carries"

    def is_empty(self) -> bool:
        return super().is_empty() and not any(map(any, self.relayed))


def carries(rotors: Rotors, switch: int, slot: int) -> int:
    """The cells that a link of a switch carries in a slot."""
    return rotors.turning if isinstance(rotors, Staggered) and rotors.turns(switch, slot) else rotors.cells
