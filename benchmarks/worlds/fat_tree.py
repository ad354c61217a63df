"""A k-ary fat-tree of 100 Gb/s links as arrays, and the paths of many flows through it at once.

Wiring and numbering of Al-Fares et al., "A scalable, commodity data center network architecture", SIGCOMM 2008,
section 3: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k/2 hosts under each edge switch. Every
cable is two links, up and down. Shapes: F flows, L links, H hops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.engine.base import Ints, Offsets

Flows = Offsets  # [F] a number per flow


@dataclass(frozen=True)
class FatTree:
    """Links 0..3n-1 lead up, in three layers of n = k^3/4 (host, edge, aggregation); link l + 3n is the way back down.

    Nodes: hosts, edge switches, aggregation switches, cores.
    """

    radix: int  # k, even

    @property
    def half(self) -> int:
        """k/2: ports of a switch that look up, and as many that look down."""
        return self.radix // 2

    @property
    def hosts(self) -> int:
        return self.radix**3 // 4

    @property
    def links(self) -> int:
        return 6 * self.hosts

    def ends(self) -> tuple[Ints, Ints]:
        """[L] source and [L] target nodes."""
        half, hosts = self.half, self.hosts
        port = np.arange(hosts)
        switch, up = port // half, port % half
        edge, aggregation, core = hosts, hosts + self.radix * half, hosts + 2 * self.radix * half
        pod = switch // half
        below = np.concatenate([port, edge + switch, aggregation + switch])
        above = np.concatenate([edge + switch, aggregation + pod * half + up, core + switch % half * half + up])
        source, target = np.concatenate([below, above]), np.concatenate([above, below])
        return source.astype(np.int32), target.astype(np.int32)

    def destination_mod_k(self, target: Flows) -> tuple[Flows, Flows]:
        """[F] up port at the edge and [F] at the aggregation switch: the digits of the destination.

        Hosts of one edge switch share no downward link but those into that switch, one each: a permutation or an
        all-to-all loads every link of a layer alike.

        Source: Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat
        trees", CCIT report 776, Technion, 2010.
        """
        return target % self.half, target // self.half % self.half

    def ecmp(self, flows: int, seed: int) -> tuple[Flows, Flows]:
        """[F] up ports drawn evenly, per flow and layer."""
        random = np.random.default_rng(seed)
        return random.integers(self.half, size=flows), random.integers(self.half, size=flows)

    def paths(self, source: Flows, target: Flows, ports: tuple[Flows, Flows]) -> tuple[Offsets, Ints]:
        """Offsets [F+1] and links [H] of shortest paths: 2 hops under one edge switch, 4 in a pod, 6 between pods."""
        half, hosts = self.half, self.hosts
        at_edge, at_aggregation = ports
        edge, far_edge = source // half, target // half
        pod, far_pod = edge // half, far_edge // half
        down = 3 * hosts
        hops = np.stack(
            [
                source,
                hosts + edge * half + at_edge,
                2 * hosts + (pod * half + at_edge) * half + at_aggregation,
                down + 2 * hosts + (far_pod * half + at_edge) * half + at_aggregation,
                down + hosts + far_edge * half + at_edge,
                down + target,
            ],
            axis=1,
        )
        climbs, crosses = edge != far_edge, pod != far_pod
        always = np.ones(len(source), bool)
        taken = np.stack([always, climbs, crosses, crosses, climbs, always], axis=1)
        offsets = np.concatenate([[0], np.cumsum(taken.sum(axis=1))])
        return offsets.astype(np.int64), hops[taken].astype(np.int32)
