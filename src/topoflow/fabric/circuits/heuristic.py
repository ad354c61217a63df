"""Which circuits serve a demand best: the greedy heuristic of networks that reconfigure. n servers, d interfaces each.

A circuit is simplex: it takes a transmit port at one server and a receive port at another.

Source: TopoOpt (Wang et al., NSDI 2023), Appendix E.4, Algorithm 5 and Equation 1. What it leaves open is decided so:

- Of equal demands, the one whose servers are closest in number comes first (i to i + 1, then i + 2, ...). Were it the
  lowest number, an even all-to-all would be wired into cliques that cannot reach each other.
- Interfaces that no demand asks for are wired in the same order: i to i + 1, i + 2, ..., one circuit per pair first.
- 2-EdgeReplacement (OWAN, Jin et al., SIGCOMM 2016): of two parts that cannot reach each other, the circuits with the
  least demand, a to b and c to d, become a to d and c to b.
"""

from __future__ import annotations

import numpy as np
import rustworkx
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Counts = NDArray[np.int64]


def choose_circuits(demand: Matrix, degree: int, discount: float) -> Counts:
    """How many circuits [n, n] lead from server to server: the highest demand gets one, then counts ``discount`` times.

    ``demand`` [n, n] is not negative, its diagonal is ignored. A discount of 1/2 is that of Equation 2, the next
    circuit of a pair is worth half of the one before; of 1, the highest demand takes all interfaces of its servers.
    """
    servers = len(demand)
    source, target = _by_stride(servers)
    left = np.where(demand[source, target] > 0, demand[source, target], -np.inf)
    circuits = np.zeros((servers, servers), np.int64)
    sends, receives = np.full(servers, degree), np.full(servers, degree)
    while left.size and left[at := int(left.argmax())] > 0:
        i, j = int(source[at]), int(target[at])
        circuits[i, j] += 1
        left[at] *= discount
        sends[i] -= 1
        receives[j] -= 1
        if sends[i] == 0:
            left[source == i] = -np.inf
        if receives[j] == 0:
            left[target == j] = -np.inf
    _wire_the_rest(circuits, degree, sends, receives)
    return circuits


def connect(circuits: Counts, demand: Matrix) -> Counts:
    """The same number of circuits per server, so that every server reaches every other.

    Every server sends on as many circuits as it receives on, so two servers that are joined at all reach each other.
    """
    circuits = circuits.copy()
    while len(parts := _parts(circuits)) > 1:
        one, other = parts[0], parts[1]
        if len(other) == 1 and not circuits[other[0]].any():
            a, b = _least(circuits, demand, one)
            circuits[a, b] -= 1
            circuits[a, other[0]] += 1
            circuits[other[0], b] += 1
        else:
            (a, b), (c, d) = (_least(circuits, demand, part) for part in (one, other))
            circuits[[a, c], [b, d]] -= 1
            circuits[[a, c], [d, b]] += 1
    return circuits


def _by_stride(servers: int) -> tuple[Counts, Counts]:
    """Sources and targets of all pairs [n (n - 1)], i to i + 1 first, then i to i + 2, ..., modulo n."""
    stride, source = np.divmod(np.arange(servers * (servers - 1)), servers)
    return source, (source + stride + 1) % servers


def _wire_the_rest(circuits: Counts, degree: int, sends: Counts, receives: Counts) -> None:
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
    """Servers that are joined, those with the most first."""
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(len(circuits)))
    graph.add_edges_from_no_data([(int(i), int(j)) for i, j in np.argwhere(circuits)])
    return sorted((sorted(part) for part in rustworkx.weakly_connected_components(graph)), key=lambda p: (-len(p), p))


def _least(circuits: Counts, demand: Matrix, part: list[int]) -> tuple[int, int]:
    """The circuit between servers of ``part`` that carries the least demand; of several the first."""
    within = np.ix_(part, part)
    share = np.where(circuits[within] > 0, demand[within] / np.maximum(circuits[within], 1), np.inf)
    i, j = np.unravel_index(int(share.argmin()), share.shape)
    return part[int(i)], part[int(j)]
