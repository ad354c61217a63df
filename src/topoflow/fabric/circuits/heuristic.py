"""Greedy choice of circuits for a demand in networks that reconfigure, for n servers with d interfaces each.

A circuit is simplex: it uses a transmit port of one server and a receive port of another.

Source: TopoOpt (Wang et al., NSDI 2023), Appendix E.4, Algorithm 5 and Equation 1. It leaves three points open, which
are decided as follows:

- Among equal demands, the pair with the closest server numbers comes first (i to i + 1, then i + 2, ...). In order of
  server numbers, an even all-to-all would be wired into cliques that cannot reach each other.
- Interfaces without demand are wired in the same order: i to i + 1, i + 2, ..., one circuit per pair first.
- 2-EdgeReplacement (OWAN, Jin et al., SIGCOMM 2016): in two parts that cannot reach each other, the circuits with the
  least demand, a to b and c to d, become a to d and c to b.
"""

from __future__ import annotations

import numpy as np
import rustworkx
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Counts = NDArray[np.int64]


def choose_circuits(demand: Matrix, degree: int, discount: float) -> Counts:
    """Return the number of circuits [n, n] from server to server.

    The highest demand gets a circuit, and is then multiplied by ``discount``. ``demand`` [n, n] is not negative; its
    diagonal is ignored. With a discount of 1/2 (Equation 2), the next circuit of a pair has half the value of the
    previous one; with 1, the highest demand takes all interfaces of its servers.
    """
    servers = len(demand)
    source, target = _by_stride(servers)
    remaining = np.where(demand[source, target] > 0, demand[source, target], -np.inf)
    circuits = np.zeros((servers, servers), np.int64)
    sends, receives = np.full(servers, degree), np.full(servers, degree)
    while remaining.size and remaining[at := int(remaining.argmax())] > 0:
        i, j = int(source[at]), int(target[at])
        circuits[i, j] += 1
        remaining[at] *= discount
        sends[i] -= 1
        receives[j] -= 1
        if sends[i] == 0:
            remaining[source == i] = -np.inf
        if receives[j] == 0:
            remaining[target == j] = -np.inf
    _wire_free_ports(circuits, degree, sends, receives)
    return circuits


def connect(circuits: Counts, demand: Matrix) -> Counts:
    """Replace circuits so that every server reaches every other; servers keep their numbers of circuits.

    Every server sends on as many circuits as it receives on, so joined servers reach each other in both directions.
    """
    circuits = circuits.copy()
    while len(parts := _parts(circuits)) > 1:
        first, second = parts[0], parts[1]
        if len(second) == 1 and not circuits[second[0]].any():
            a, b = _least(circuits, demand, first)
            circuits[a, b] -= 1
            circuits[a, second[0]] += 1
            circuits[second[0], b] += 1
        else:
            (a, b), (c, d) = (_least(circuits, demand, part) for part in (first, second))
            circuits[[a, c], [b, d]] -= 1
            circuits[[a, c], [d, b]] += 1
    return circuits


def _by_stride(servers: int) -> tuple[Counts, Counts]:
    """Return sources and targets of all pairs [n (n - 1)], modulo n: i to i + 1 first, then i to i + 2, ..."""
    stride, source = np.divmod(np.arange(servers * (servers - 1)), servers)
    return source, (source + stride + 1) % servers


def _wire_free_ports(circuits: Counts, degree: int, sends: Counts, receives: Counts) -> None:
    servers = len(circuits)
    for parallel in range(degree):
        for stride in range(1, servers):
            source = np.flatnonzero(sends)
            if source.size == 0:
                return
            target = (source + stride) % servers
            free = (receives[target] > 0) & (circuits[source, target] <= parallel)
            circuits[source[free], target[free]] += 1
            sends[source[free]] -= 1
            receives[target[free]] -= 1


def _parts(circuits: Counts) -> list[list[int]]:
    """Return the connected components of servers, the largest first."""
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(len(circuits)))
    graph.add_edges_from_no_data([(int(i), int(j)) for i, j in np.argwhere(circuits)])
    return sorted((sorted(part) for part in rustworkx.weakly_connected_components(graph)), key=lambda p: (-len(p), p))


def _least(circuits: Counts, demand: Matrix, part: list[int]) -> tuple[int, int]:
    """Return the first of the circuits between servers of ``part`` that carry the least demand."""
    within = np.ix_(part, part)
    share = np.where(circuits[within] > 0, demand[within] / np.maximum(circuits[within], 1), np.inf)
    i, j = np.unravel_index(int(share.argmin()), share.shape)
    return part[int(i)], part[int(j)]
