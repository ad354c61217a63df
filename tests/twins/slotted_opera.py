"""Rotor switches that turn one after another, in plain Python: the oracle of ``csrc/slotted/protocols/opera.h``.

A slot is the time from when a switch turns until the next one does: a topology slice. In it every link has times for K
cells, one after the other; a link of the switch that turns at its end has fewer, and none for cells of low latency:

    1. Tasks whose time has come queue at their servers; servers put cells into LOCAL, as fast as their cables are.
    2. Cells of low latency: each takes a shortest path of this slot, and on each link of it the first time that is free
       after it came from the link before. Where a link of the path has none left, the cell stays in LOCAL.
    3. Bulk: RotorLB, as ``reference_rotor`` has it, with the times that are left.

So a cell of low latency is at its target within the slot in which it leaves, several links from its source, and has
strict priority. Bulk takes one detour at most; where cells of low latency take its link, a stored cell may wait longer
than a cycle. A node stores for each other one what its link to it carries while the switch holds the matching.

What is open, or our memory of it:

    - A slot is much longer than a hop, so that paths of several hops fit into it. What servers make during a slot
      leaves from the next one on: a message of low latency waits for half a slot on average. In shorter slots it waits
      less, but long paths do not fit.
    - A path is taken as a whole, or not at all: cells wait at their source. (In Opera racks have short queues, what
      does not fit is cut to its header, and the source sends it again, by NDP.) There are no losses, and no requests.
    - Nodes take turns for a cell each, beginning with another one in each slot; at a node flows do, and a flow whose
      path is full has none until the next slot.
    - A message is bulk or of low latency by its bytes, which the application knows.

Shapes: N nodes, U switches, K cells of a link in a slot.
Source: Opera (Mellette et al., NSDI 2020), cited from memory: the paper was not at hand. What the authors' simulator
(github.com/TritonNetworking/opera-sim) says is in ``fabric/circuits/staggered.py``.
"""

from __future__ import annotations

from collections import deque

from tests.twins.slotted import Cell
from tests.twins.slotted_rotor import RotorReference, Sent
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.staggered import NO_SWITCH, Staggered

Path = list[tuple[int, int, int]]  # (node, switch, time) of each hop


class OperaReference(RotorReference):
    """One world of rotor switches that turn one after another; ``run`` simulates it to the end."""

    def __init__(self, cells: Cells, settings: SlottedSettings) -> None:
        assert isinstance(cells.schedule, Staggered)
        assert cells.low_latency is not None
        super().__init__(cells, settings)
        self.staggered = cells.schedule
        self.low_latency = cells.low_latency
        self.prompt = [deque[int]() for _ in range(self.rotors.nodes)]  # flows of low latency with cells in LOCAL

    def turns(self, task: int) -> deque[int]:
        return self.prompt[self.ends(task)[0]] if self.low_latency[task] else super().turns(task)

    def send_first(self, sent: Sent) -> None:
        """Cells of low latency: nodes take turns, until no flow has a path on which a cell fits."""
        nodes = self.rotors.nodes
        blocked = [deque[int]() for _ in range(nodes)]
        while any(self.prompt):
            for node in ((self.epoch + turn) % nodes for turn in range(nodes)):
                flows = self.prompt[node]
                while flows and not (path := self.path(node, self.ends(flows[0])[1], sent)):
                    blocked[node].append(flows.popleft())
                if flows:
                    cell = self.take_next(flows, node, node)
                    for at, switch, time in path:
                        sent[at][switch][time] = cell
        self.prompt = blocked

    def path(self, node: int, target: int, sent: Sent) -> Path:
        """A shortest path, and a time of the slot on each of its links; empty: there is none with a time left."""
        links: Path = []
        routes = self.staggered.routes[self.epoch % self.rotors.cycle]
        time, hop = 0, self.world.pause[0]
        while node != target:
            switch = int(routes[node, target])
            link = {} if switch == NO_SWITCH else sent[node][switch]
            free = [slot_time for slot_time in range(time, self.limit) if slot_time not in link]
            if switch == NO_SWITCH or not free:
                return []
            links.append((node, switch, free[0]))
            time = free[0] + hop
            node = self.rotors.target(node, switch, self.epoch)
        return links

    def store_or_deliver(self, node: int, cell: Cell, time: int) -> None:
        if cell.to == node or not self.low_latency[cell.task]:  # else it has been sent on
            super().store_or_deliver(node, cell, time)
