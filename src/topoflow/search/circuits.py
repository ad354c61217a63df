"""Circuits: the assignment of a fabric's links to ports of optical switches.

A server has ``degree`` interfaces, the i-th at optical switch i. A circuit uses a transmit port of one server and a
receive port of another, so every switch holds a partial permutation of the servers:

    0 -> 1 -> 2 -> 0 and 0 <-> 1     switch 0: 0 to 1, 1 to 2, 2 to 0    [1, 2, 0]
                                     switch 1: 0 to 1, 1 to 0            [1, 0, None]

The circuits are a bipartite multigraph of transmitters and receivers with at most ``degree`` edges at each, so it
decomposes into ``degree`` matchings (König, 1916), which rustworkx finds (Alon, "A simple algorithm for edge-coloring
bipartite multigraphs", Information Processing Letters 85, 2003).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import rustworkx

from topoflow.fabric.base import Fabric
from topoflow.search.base import Switch


def circuits(fabric: Fabric) -> list[tuple[int, int]]:
    """Return the simplex circuits (source, target) of a fabric without switches; parallel ones are repeated.

    Raises ``ValueError`` where a link is no whole number of interfaces.
    """
    if fabric.has_switches:
        return []
    count = fabric.bandwidth / fabric.interface_bandwidth
    parallel = np.rint(count).astype(int)
    if not np.allclose(parallel, count, rtol=1e-9, atol=0) or np.any(parallel < 1):
        raise ValueError(f"{fabric.name}.bandwidth: must be whole interfaces of {fabric.interface_bandwidth} B/s")
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), parallel.tolist(), strict=True)
    return [(source, target) for source, target, repeats in ends for _ in range(repeats)]


def cross_connects(servers: int, degree: int, circuits: Sequence[tuple[int, int]]) -> tuple[Switch, ...]:
    """Return the permutations of ``degree`` optical switches. Raises ``ValueError`` where a server lacks ports."""
    graph = rustworkx.PyGraph(multigraph=True)
    graph.add_nodes_from(range(2 * servers))  # transmitters, receivers
    graph.add_edges_from([(source, servers + target, None) for source, target in circuits])
    for port in range(2 * servers):
        if graph.degree(port) > degree:
            side = "transmit" if port < servers else "receive"
            raise ValueError(
                f"circuits: a server has {degree} {side} ports, got {graph.degree(port)} circuits at {port % servers}"
            )
    colour = rustworkx.graph_bipartite_edge_color(graph)
    switches: list[list[int | None]] = [[None] * servers for _ in range(degree)]
    for edge, (source, target) in enumerate(circuits):
        switches[colour[edge]][source] = target
    return tuple(tuple(switch) for switch in switches)
