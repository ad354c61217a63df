"""An estimate of the iteration time that sees transfers hold each other up, for chains to walk by.

``bound`` gives every transfer its links for itself, so a layer that all servers send to at once looks cheap, and a walk
by it alone ends where ``fluid`` is slow. Here the transfers of one layer are a coflow: they begin together, and each
takes as long as the fullest of its links needs for all bytes of the coflow on it,

    alone       latency + bytes / bandwidth
    here        latency + max over its links of (bytes of the layer's transfers on the link / its capacity)

An all-reduce is a coflow too, and waits on every link for the all-reduces that other groups began there before it; a
transfer of gradients that meets all-reduces on a link gets half of it. What is computed when is as in ``lower``: layers
in order on every server, backward in reverse, buckets of a group one after another, then the optimizer.

Every all-reduce is estimated as ``hierarchical``: a ring between the servers. For the other algorithms this is
a worse guide, and they have no bound but ``ring`` (rank correlation with ``fluid``, a DLRM on 8 servers: hierarchical
0.99, ring 0.98, double_binary_tree 0.86, hierarchical_tree 0.77, halving_doubling 0.53 on a TopoOpt network).

This is no bound: transfers that do not begin together are quicker, others meet those of another layer. Its use is that
it orders strategies as ``fluid`` does; tests say how well.

Source: Chowdhury and Stoica, "Coflow: a networking abstraction for cluster applications", HotNets 2012; the time of a
coflow's bottleneck is that of Varys (Chowdhury, Zhong and Stoica, SIGCOMM 2014).

Shapes: C states, Y layers, I inputs of a layer, K choices, n servers, L links (and one that carries nothing), H hops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric
from topoflow.search.placements import Choices
from topoflow.search.problem import Problem
from topoflow.search.ways import Ring, ring, ways
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import Layer

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]
Integers = NDArray[np.int64]
KEPT = 2**28  # B of unit loads that are remembered


@dataclass
class Contention:
    """Estimates states of one problem on one fabric."""

    problem: Problem
    fabric: Fabric
    choices: Choices
    kept: dict[tuple[int, int], Any] = field(default_factory=dict)
    rings: dict[int, Ring] = field(default_factory=dict)

    def __post_init__(self) -> None:
        workload, n = self.problem.workload, self.problem.servers
        self.mp = ways(self.fabric, self.problem, "mp")
        self.slowness = np.append(1 / self.fabric.bandwidth, 0.0)  # [L + 1] s/B
        self.host = self.choices.host  # [K, n]
        self.member = self.choices.member.astype(bool)
        self.samples = np.stack([np.bincount(row, minlength=n) for row in self.host])  # [K, n] servers computed for
        number = {layer.name: y for y, layer in enumerate(workload.layers)}
        self.inputs = [np.array([number[name] for name in layer.after], np.int64) for layer in workload.layers]
        unit = workload.batch_per_server * workload.element_bytes
        self.size = np.array([unit * layer.output_elements for layer in workload.layers], np.float64)
        self.gradient = np.array([layer.parameters * workload.element_bytes for layer in workload.layers], np.float64)
        several = workload.gpus_per_server > 1
        self.inside = np.array([several and not layer.sparse for layer in workload.layers])
        self.seconds = np.stack([self._seconds(layer) for layer in workload.layers], axis=1)  # [4, Y, n + 1]

    def makespans(self, placement: Numbers) -> Floats:
        """[C] s of ``placement`` [C, Y]."""
        run = _Run(self, placement.astype(np.int64))
        for layer in range(placement.shape[1]):
            run.forward(layer)
        for layer in reversed(range(placement.shape[1])):
            run.backward(layer)
        return run.end()

    def _seconds(self, layer: Layer) -> Floats:
        """[4, n + 1] s of forward, backward, update alone and replicated, for the samples of 0 .. n servers."""
        workload = self.problem.workload
        counts = [servers * workload.batch_per_server for servers in range(self.problem.servers + 1)]
        rows = [
            [forward_seconds(workload, layer, count) for count in counts],
            [backward_seconds(workload, layer, count) for count in counts],
            [update_seconds(workload, layer, count, False) for count in counts],
            [update_seconds(workload, layer, count, True) for count in counts],
        ]
        return np.array(rows)

    def load(self, source: Integers, size: Floats, target: Integers, *, back: bool) -> Floats:
        """[C, L + 1] s of links as choices ``source`` [C, I] send ``size`` [I] B per server to ``target`` [C].

        Or ``back``: from ``target`` to ``source``.
        """
        rows = [
            size @ np.stack([self.unit(there, one) if back else self.unit(one, there) for one in ones])
            for ones, there in zip(source.tolist(), target.tolist(), strict=True)
        ]
        found: Floats = np.stack(rows) * self.slowness
        return found

    def unit(self, source: int, target: int) -> Floats:
        """[L + 1] B on every link if the samples of each server send 1 B from where one choice computes to another."""
        if (source, target) not in self.kept:
            if len(self.kept) * 8 * len(self.slowness) >= KEPT:
                self.kept.clear()
            pair = self.host[source] * self.problem.servers + self.host[target]
            links, weight = self.mp.links[:, pair].ravel(), self.mp.weight[:, pair].ravel()
            self.kept[source, target] = np.bincount(links, weight, minlength=self.fabric.links + 1)
        found: Floats = self.kept[source, target]
        return found

    def ring(self, choice: int) -> Ring:
        """An all-reduce among the holders."""
        if choice not in self.rings:
            self.rings[choice] = ring(self.fabric, self.problem, self.choices.holders[choice])
        return self.rings[choice]


class _Run:
    """The clocks of all servers, state by state."""

    def __init__(self, of: Contention, placement: Integers) -> None:
        self.of = of
        self.placement = placement
        states, layers = placement.shape
        n, choices = of.problem.servers, of.choices.count
        self.state = np.arange(states)
        self.base = self.state[:, None] * n  # of a state's servers in a flat array
        self.clock = np.zeros((states, n))
        self.done = np.zeros((layers, states * n))  # when each server has computed a layer
        self.awaited = np.zeros((layers, states * n))  # when its gradients have arrived
        self.update = np.zeros((states, n))
        self.free = np.zeros((states, of.fabric.links + 1))  # when every link has done with all-reduces so far
        self.bucket = np.zeros((states, choices))  # B that wait for more
        self.opened = np.zeros((states, choices), bool)
        self.reduced = np.zeros((states, choices))  # when the group's latest all-reduce is over
        self.reduces = (of.gradient > 0) & (of.inside | (of.choices.member.sum(1)[placement] > 1))  # [C, Y]
        self.last = np.full((states, choices), layers)
        for layer in range(layers):
            rows = self.state[self.reduces[:, layer]]
            chosen = placement[rows, layer]
            self.last[rows, chosen] = np.minimum(self.last[rows, chosen], layer)

    def forward(self, layer: int) -> None:
        chosen = self.placement[:, layer]
        held = self.of.member[chosen]
        inputs = self.of.inputs[layer]
        ready = np.zeros(self.clock.size)
        crossing = self.state[(self.placement[:, inputs] != chosen[:, None]).any(axis=1)]
        if len(crossing):
            source, target = self._ends(layer, crossing)
            travels = self._travels(layer, crossing, source, target, back=False)
            at = self.base[crossing, :, None].transpose(0, 2, 1)
            arrives = (self.done[inputs[None, :, None], source + at] + travels).max(axis=1)
            np.maximum.at(ready, (target + self.base[crossing]).ravel(), arrives.ravel())
        samples = self.of.samples[chosen]
        begins = np.maximum(self.clock, ready.reshape(self.clock.shape))
        self.clock = np.where(held, begins + self.of.seconds[0, layer][samples], self.clock)
        self.done[layer] = self.clock.ravel()
        several = held.sum(axis=1) > 1
        spent = np.where(several[:, None], self.of.seconds[3, layer][samples], self.of.seconds[2, layer][samples])
        self.update += np.where(held, spent, 0.0)

    def backward(self, layer: int) -> None:
        chosen = self.placement[:, layer]
        held = self.of.member[chosen]
        begins = np.maximum(self.clock, self.awaited[layer].reshape(self.clock.shape))
        seconds = self.of.seconds[1, layer][self.of.samples[chosen]]
        self.clock = np.where(held, begins + seconds, self.clock)
        inputs = self.of.inputs[layer]
        crossing = self.state[(self.placement[:, inputs] != chosen[:, None]).any(axis=1)]
        if len(crossing):
            source, target = self._ends(layer, crossing)
            travels = self._travels(layer, crossing, source, target, back=True)
            done = np.take_along_axis(self.clock[crossing], target, axis=1)
            at = source + self.base[crossing, :, None].transpose(0, 2, 1)
            of_layer = inputs[None, :, None] * self.clock.size
            np.maximum.at(self.awaited.reshape(-1), (at + of_layer).ravel(), (done[:, None] + travels).ravel())
        self._reduce(layer, chosen, held)

    def end(self) -> Floats:
        """[C] when every server has updated what it holds, after the all-reduces that it takes part in."""
        for layer in range(self.placement.shape[1]):
            chosen = self.placement[:, layer]
            awaited = np.maximum(self.clock, self.reduced[self.state, chosen][:, None])
            self.clock = np.where(self.of.member[chosen], awaited, self.clock)
        return cast("Floats", (self.clock + self.update).max(axis=1))

    def _ends(self, layer: int, states: Integers) -> tuple[Integers, Integers]:
        """[states, I, n] who computes the inputs for each server's samples, and [states, n] who the layer."""
        inputs = self.of.inputs[layer]
        return self.of.host[self.placement[states][:, inputs]], self.of.host[self.placement[states, layer]]

    def _travels(self, layer: int, states: Integers, source: Integers, target: Integers, *, back: bool) -> Floats:
        """[states, I, n] s of the activations of each server's samples, or of their gradients ``back``."""
        of, n = self.of, self.of.problem.servers
        inputs = of.inputs[layer]
        ones, there = self.placement[states][:, inputs], self.placement[states, layer]
        busy = of.load(ones, of.size[inputs], there, back=back)
        if back:
            began = self.clock[states].min(axis=1)[:, None]
            shared = np.where(self.free[states] > began, 2 * busy, busy)
            self.free[states] = np.where(busy > 0, np.maximum(self.free[states], began) + busy, self.free[states])
            busy = shared
        pair = target[:, None] * n + source if back else source * n + target[:, None]
        first = (np.arange(len(states)) * busy.shape[1])[:, None, None]
        longest = np.zeros(pair.shape)
        for hop in of.mp.links:
            np.maximum(longest, busy.ravel()[hop[pair] + first], out=longest)
        return cast("Floats", longest + of.mp.latency[pair])

    def _reduce(self, layer: int, chosen: Integers, held: NDArray[np.bool_]) -> None:
        """Fill the group's bucket; all-reduce it if it is full or the layer its last."""
        start = self.of.problem.start
        rows = self.state[self.reduces[:, layer]]
        group = chosen[rows]
        self.bucket[rows, group] += self.of.gradient[layer]
        cap = np.where(self.opened[rows, group], start.bucket_bytes, start.first_bucket_bytes)
        full = (self.bucket[rows, group] >= cap) | (self.last[rows, group] == layer)
        rows, group = rows[full], group[full]
        if not len(rows):
            return
        computed = np.where(held[rows], self.clock[rows], 0.0).max(axis=1)
        rings = [self.of.ring(choice) for choice in group.tolist()]
        sizes = self.bucket[rows, group]
        takes = np.array([ring.latency for ring in rings]) + np.array([ring.slowness for ring in rings]) * sizes
        ready = np.maximum(computed, self.reduced[rows, group])
        busy = np.stack([ring.busy for ring in rings]) * sizes[:, None]
        free = np.where(busy > 0, np.maximum(self.free[rows], ready[:, None]) + busy, self.free[rows])
        self.free[rows] = free
        self.reduced[rows, group] = np.maximum(ready + takes, np.where(busy > 0, free, 0.0).max(axis=1))
        self.bucket[rows, group] = 0.0
        self.opened[rows, group] = True
