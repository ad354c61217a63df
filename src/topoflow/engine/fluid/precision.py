"""Refuse worlds whose capacities and limits differ by more than the kernel of fluid rates can represent.

Rates are sums in fixed point (``csrc/fluid/link.h``, ``Unit``): the largest capacity or limit is 2^55 units, or the
smallest is 2^30, whichever unit is larger, and 2^-30 of a unit is kept. So a rate that is 1 / r of the largest is known
to r / 2^85 of itself: 3e-14 where r is ``SPREAD``, 3e-8 for 1 B/s and 1e18 B/s in one world, where a limit of
1e-9 B/s would be 0. With the rounding on the way, rates agree with ``reference`` to some 1e-12 up to ``SPREAD``, and to
3e-6 at 1e18. Weights are kept to 2^-60: ``SMALLEST_WEIGHT`` to 1e-12 of itself.

Shapes: W worlds, G graphs, L links of all worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from topoflow.arrays import Floats, Mask, Offsets
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.device import DeviceMemory

SPREAD = 1e12  # the largest capacity or limit of a world / the smallest that is not 0
SMALLEST_WEIGHT = 1e-6  # the share of a flow that crosses a link
BLOCK = 2**20  # numbers that are looked at together


def check_precision(
    worlds: Sequence[World], graphs: Sequence[LoweredGraph], graph_of: Sequence[int], capacity: Floats, begin: Offsets
) -> None:
    """Raise ``ValueError`` for the first world whose numbers are too far apart.

    ``graph_of`` [W] are positions in ``graphs`` [G]. ``capacity`` [L] are those of links that paths cross, of a world
    from ``begin`` [W+1] on.
    """
    for number, graph in enumerate(graphs):
        if _has_small_weights(graph):
            raise ValueError(f"{worlds[graph_of.index(number)].name}: {_small_weights(graph)}")
    least, most = np.array([_limits(graph) for graph in graphs]).reshape(-1, 2)[list(graph_of)].T.copy()
    (nonempty,) = np.nonzero(np.diff(begin))  # a world without links has no capacities
    if len(nonempty):
        least[nonempty] = np.minimum(least[nonempty], np.minimum.reduceat(_or_infinite(capacity), begin[nonempty]))
        most[nonempty] = np.maximum(most[nonempty], np.maximum.reduceat(capacity, begin[nonempty]))
    wide = np.flatnonzero(least * SPREAD < most)
    if wide.size:
        world, slowest = worlds[wide[0]], float(least[wide[0]])
        got = f"{slowest:g} B/s{_of_task(world.graph, world.capacity[world.graph.path_links] == slowest, slowest)}"
        raise ValueError(f"{world.name}: {_requirement(most[wide[0]])}, got {got}")


def check_world_precision(world: World) -> None:
    """Raise ``ValueError`` where the numbers of one ``world`` are too far apart, whatever links its paths cross."""
    check_precision([world], [world.graph], [0], world.capacity, np.array([0, len(world.capacity)]))


def check_rows(graph: LoweredGraph, capacity: Any, device: DeviceMemory) -> None:
    """Raise ``ValueError`` for the first row of ``capacity`` [W, L], which lies on ``device``, that is too wide."""
    if _has_small_weights(graph):
        raise ValueError(f"graph: {_small_weights(graph)}")
    least, most = _limits(graph)
    if 0 in capacity.shape or min(least, float(capacity.min())) * SPREAD >= max(most, float(capacity.max())):
        return
    step = max(1, BLOCK // graph.links)
    for first in range(0, len(capacity), step):
        rows = device.numpy(capacity[first : first + step])
        low, high = np.minimum(_or_infinite(rows).min(1), least), np.maximum(rows.max(1), most)
        wide = np.flatnonzero(low * SPREAD < high)
        if wide.size:
            raise ValueError(f"capacity[{first + wide[0]}]: {_requirement(high[wide[0]])}, got {low[wide[0]]:g} B/s")


def _has_small_weights(graph: LoweredGraph) -> bool:
    return graph.path_weight is not None and bool(graph.path_weight.min(initial=1.0) < SMALLEST_WEIGHT)


def _small_weights(graph: LoweredGraph) -> str:
    """Describe the smallest weight and the requirement that it breaks."""
    weight = graph.path_weight
    assert weight is not None
    requirement = f"the share of a flow on a link must be at least {SMALLEST_WEIGHT:g} with fidelity=fluid"
    return f"{requirement}, got {weight.min():g}{_of_task(graph, weight < SMALLEST_WEIGHT)}"


def _or_infinite(capacity: Floats) -> Floats:
    """Return ``capacity`` with inf for links that carry nothing, which the kernel leaves out."""
    return np.where(capacity > 0, capacity, np.inf)


def _limits(graph: LoweredGraph) -> tuple[float, float]:
    """Return the smallest and the largest limit; inf and 0 if there are none."""
    if graph.path_limit is None:
        return np.inf, 0.0
    limits = graph.path_limit[np.isfinite(graph.path_limit)]
    return float(limits.min(initial=np.inf)), float(limits.max(initial=0.0))


def _of_task(graph: LoweredGraph, hops: Mask, limit: float = np.inf) -> str:
    """Name the first task with one of these ``hops``, or with this ``limit``."""
    path = np.repeat(np.arange(len(graph.path_offsets) - 1), np.diff(graph.path_offsets))[hops]
    if graph.path_limit is not None and limit < np.inf:
        path = np.append(path, np.flatnonzero(graph.path_limit == limit))
    tasks = np.flatnonzero(np.isin(graph.path, path))
    return f" for {graph.where(int(tasks[0]))}" if tasks.size else ""


def _requirement(largest: float) -> str:
    return f"capacities and limits must be at least 1 / {SPREAD:g} of the largest, {largest:g} B/s, with fidelity=fluid"
